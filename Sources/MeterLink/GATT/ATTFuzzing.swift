import MeterCore

/// Plays `bytes` as what a hostile GATT server sends while its services are looked for, a profile is
/// chosen and a command is written. For fuzzing: it traps when a rule of ours is broken, and returns
/// whatever the server does.
///
/// Each packet has a byte before it: the low 6 bits are its length, bit 6 gives it the opcode of the
/// response that is waited for, bit 7 lets a minute pass first.
package func exerciseAttributes(with bytes: [UInt8]) {
    var machine = ATTMachine()
    var discovery = GATTDiscovery(wanted: GATTProfile.services)
    var isFinished = false
    var now = MonotonicInstant(nanoseconds: 0)
    var rest = bytes[...]

    func check(_ actions: [ATTMachine.Action]) {
        for case .send(let packet) in actions {
            precondition(!packet.isEmpty && packet.count <= machine.mtu, "a packet is too long")
        }
        precondition(actions.count <= 2, "one packet led to many actions")
    }
    func request() -> ATTRequest? {
        if let next = discovery.next { return next }
        guard !isFinished else { return nil }
        isFinished = true
        precondition(discovery.table.services.count <= GATTDiscovery.mostServices, "too many")
        guard
            let plan = try? GATTProfile.choose(from: discovery.table, name: nil),
            let target = plan.target
        else { return nil }
        var forms = CommandForms(plan)
        return forms.write([0xf0]).map { .write(target, $0.bytes) }
    }

    var outstanding: ATTRequest?
    while let control = rest.popFirst(), machine.fault == nil {
        if !machine.isBusy, let request = request() {
            outstanding = request
            check([machine.begin(request, at: now)])
        }
        if control & 0x80 != 0 {
            now = now + .seconds(60)
            check(machine.timePassed(to: now))
        }
        var packet = Array(rest.prefix(Int(control & 0x3f)))
        rest = rest.dropFirst(packet.count)
        if control & 0x40 != 0, let outstanding, !packet.isEmpty {
            packet[0] = outstanding.opcode + 1
        }
        let actions = machine.received(packet)
        check(actions)
        for case .completed(let response) in actions {
            outstanding = nil
            do { try discovery.take(response) } catch { return }
        }
    }
    precondition(machine.fault == nil || !machine.isBusy, "a request outlives its link")
}
