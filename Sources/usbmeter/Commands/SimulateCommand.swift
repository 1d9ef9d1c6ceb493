import LinuxIO
import MeterCore
import MeterSim

enum SimulateCommand: Command {
    static let syntax = CommandSyntax(
        name: "simulate", summary: "Puts a simulated meter on a pseudo-terminal",
        operands: "MODEL", operandCount: 1...1,
        options: [
            .init(
                "--pty", "PATH",
                "where clients find it: a link that is made, and removed at the end"),
            .init("--profile", "NAME", "what it measures (default phone; list below)"),
            .init("--fault", "SPEC", "something that goes wrong (list below)", repeatable: true),
            .init("--seed", "N", "another noise, and other chances of faults (default 1)"),
        ],
        notes: [
            "MODEL is \(MeterModel.list). Runs until SIGTERM or SIGINT, then says what really\n"
                + "flowed. Read it with: usbmeter read PATH",
            "Profiles:\n" + profileList,
            "Faults, with times since the start; more than one may be given:\n" + faultList,
        ])

    private static var profileList: String {
        LoadProfile.names.compactMap { name in
            LoadProfile.named(name).map {
                "  " + name + String(repeating: " ", count: max(1, 13 - name.count)) + $0.summary
            }
        }.joined(separator: "\n")
    }

    private static var faultList: String {
        let width = (Fault.forms.map(\.form.count).max() ?? 0) + 2
        return Fault.forms.map { form, summary in
            "  " + form + String(repeating: " ", count: width - form.count) + summary
        }.joined(separator: "\n")
    }

    static func run(_ arguments: Arguments) async throws -> Int32 {
        guard let model = MeterModel(name: arguments.operands[0]) else {
            throw UsageError(
                "there is no model \"\(arguments.operands[0])\": known are \(MeterModel.list)")
        }
        guard let path = arguments.value("--pty") else { throw UsageError("--pty PATH is missing") }
        let seed = try arguments.integer("--seed", in: 0...Int(Int32.max), default: 1)
        let name = arguments.value("--profile") ?? "phone"
        guard let profile = LoadProfile.named(name, seed: UInt64(seed)) else {
            throw UsageError(
                "there is no profile \"\(name)\": known are "
                    + LoadProfile.names.joined(separator: ", "))
        }
        var faults: [Fault] = []
        for text in arguments.all("--fault") {
            do throws(FaultSyntaxError) { faults.append(try Fault(text)) } catch {
                throw UsageError("--fault \(text): \(error)")
            }
        }
        let clock = SystemTimekeeper()
        let meter = SimulatedMeter(
            model, dialect: .usb, profile: profile, faults: faults, seed: UInt64(seed),
            start: clock.now)
        let device = SimulatedDevice(meter, clock: clock)
        try await Reactor.withReactor { reactor in
            try await withStopRequest(on: reactor) { untilStopped in
                try await PseudoTerminal.withPseudoTerminal(linkedAt: path, on: reactor) {
                    terminal in
                    try say("\(model.name) at \(path), profile \(name); ends with Ctrl-C")
                    try await serve(device, at: terminal, until: untilStopped)
                }
            }
        }
        let end = clock.now
        let energy = meter.trueEnergy(from: meter.start, to: end)
        let charge = meter.trueCharge(from: meter.start, to: end)
        let counts = await device.state.faultCounts.sorted { $0.key < $1.key }
            .map { ", \($0.value) × \($0.key)" }.joined()
        try say(
            "true: \(Show.wattHours(energy)) Wh, \(Show.milliampereHours(charge)) mAh in "
                + "\(Show.duration((end - meter.start).milliseconds))\(counts)")
        return ExitCode.success
    }

    private static func serve(
        _ device: SimulatedDevice, at terminal: PseudoTerminal,
        until stop: @escaping @Sendable () async -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                await stop()
                return true
            }
            group.addTask {
                try await device.run()
                return false
            }
            group.addTask {
                while true { await device.received(try await terminal.read()) }
            }
            group.addTask {
                while true {
                    switch try await device.next() {
                    case .bytes(let bytes): try await terminal.write(bytes)
                    case .lost: try terminal.unplug()
                    case .returned: try terminal.plugIn()
                    }
                }
            }
            while let isOver = try await group.next() {
                if isOver { break }
            }
            group.cancelAll()
            // what the others were waiting for ends with their cancellation, which is no error
            while (try? await group.next()) ?? nil != nil {}
        }
    }
}
