import LinuxIO
package import MeterCore

/// Reaches a meter over Bluetooth LE.
package struct GATTTransport: Transport {
    package let peer: PeerAddress
    private let profile: GATTProfile?
    private let radio: any RadioAccess
    private let sockets: any BluetoothSockets
    private let clock: any Timekeeper
    private let forms = KnownForms()
    private let reopening: Reopening

    /// - Parameter profile: from the configuration; `nil` to find it out by the meter's services.
    package init(
        _ peer: PeerAddress, profile: GATTProfile? = nil, radio: any RadioAccess,
        sockets: any BluetoothSockets, clock: any Timekeeper
    ) {
        precondition(peer.isLowEnergy, "GATT is spoken over LE here")
        self.peer = peer
        self.profile = profile
        self.radio = radio
        self.sockets = sockets
        self.clock = clock
        reopening = Reopening(of: peer, clock: clock)
    }

    package var name: String { "\(peer)" }
    package var dialect: CommandDialect { .bluetooth }
    package func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool {
        await radio.sign(of: peer, since: since, afterSilence: silence, until: deadline)
    }

    package func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await withLink(progress: { _ in }, body)
    }

    /// Connects when it has a turn, finds the meter's services, turns its notifications on and lends
    /// the link.
    /// - Throws: `LinkError`; `incompatible` when it lacks a meter's characteristics; whatever `body`
    ///   throws.
    package func withLink<Result: Sendable>(
        progress: @escaping @Sendable (ConnectionState) -> Void,
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        let faults = SocketFaults(peer)
        return try await withSocket(
            to: peer, radio, reopening,
            connect: { adapter throws(LinkError) in
                let descriptor = try await faults.connect(by: clock) {
                    [sockets, peer] () throws(Errno) in
                    try await sockets.connectAttributes(from: adapter, to: peer)
                }
                return OpenSocket(descriptor: descriptor, adapter: adapter, channel: nil)
            },
            { socket in try await talk(over: socket, faults, progress, body) })
    }

    private func talk<Result: Sendable>(
        over socket: OpenSocket, _ faults: SocketFaults,
        _ progress: @escaping @Sendable (ConnectionState) -> Void,
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        progress(.connected)
        let client = GATTClient(
            over: socket.descriptor, to: peer, sockets: sockets, clock: clock)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [radio, peer, reopening] in
                await client.run { error in
                    reopening.fell()
                    let reason = await radio.disconnectReason(peer, on: socket.adapter)
                    return faults.lost(error, reason)
                }
            }
            defer { group.cancelAll() }
            let setup = GATTSetup(
                client: client, clock: clock, peer: peer,
                name: await radio.advertisedName(of: peer), profile: profile)
            let plan = try await setup.run(progress: progress)
            forms.use(plan)
            return try await body(
                GATTLink(client: client, plan: plan, forms: forms, peer: peer))
        }
    }
}
