package import LinuxIO
package import MeterCore

/// All adapters of this machine: finds them, keeps them usable, and gives out the turns to connect.
///
/// Whatever is missing, from the kernel's support to the permission, is a state that `facts` tells and
/// that is tried again; it never ends the pool.
package actor AdapterPool: RadioAccess {
    private let settings: RadioSettings
    private let reactor: Reactor
    private let clock: any Timekeeper
    private let log: Log
    private let hardware: any AdapterHardware
    private let openSocket: @Sendable () throws(LinkError) -> Int32
    private let keys: KeyStore?
    private let neighbourhood = Neighbourhood()
    private let modeBell = Bell()

    private var adapters: [MeterAddress: Adapter] = [:]
    private var present: [UInt16: (adapter: Adapter, id: Int)] = [:]
    /// Those that cannot be used: not configured, or with another's address.
    private var oddities: [UInt16: AdapterFacts] = [:]
    private var lastAppearance = 0
    private var client: ManagementClient?
    private var version: ManagementVersion?
    private var features: ManagementFeatures?
    private var unavailable: LinkError?
    private var daemon: Int?
    private var mode = AdapterMode.observer
    private var hasLooked = false
    private var lookWaiters: [Promise<Void>] = []
    private var listeners: [Int: AsyncStream<Sighting>.Continuation] = [:]
    private var lastListener = 0

    private typealias Job = @Sendable () async -> Void

    private init(
        _ settings: RadioSettings, _ reactor: Reactor, _ clock: any Timekeeper, _ log: Log,
        _ hardware: any AdapterHardware,
        _ openSocket: @escaping @Sendable () throws(LinkError) -> Int32
    ) {
        self.settings = settings
        self.reactor = reactor
        self.clock = clock
        self.log = log
        self.hardware = hardware
        self.openSocket = openSocket
        keys = settings.keyFile.map { KeyStore(path: $0) }
    }

    /// Looks after the adapters while `body` runs. It begins at once; what needs an adapter waits
    /// for the first look at them.
    ///
    /// At the end scans are stopped and our entries in the kernel's lists removed, within three
    /// seconds, also when the task is cancelled. Links are others' to close, and before.
    /// - Parameters:
    ///   - hardware: what is known of adapters besides; tests bring their own.
    ///   - openSocket: makes the management socket, whose descriptor the pool closes.
    /// - Throws: what `body` throws.
    package static func withPool<Result: Sendable>(
        _ settings: RadioSettings, reactor: Reactor, clock: any Timekeeper, log: Log,
        hardware: any AdapterHardware = LinuxHardware(),
        openSocket: @escaping @Sendable () throws(LinkError) -> Int32 = ManagementSocket.open,
        _ body: @Sendable (AdapterPool) async throws -> Result
    ) async throws -> Result {
        let pool = AdapterPool(settings, reactor, clock, log, hardware, openSocket)
        // The pool must outlive a cancelled body, to clean up; so it is ended by hand.
        let stop = Promise<Void>()
        return try await withThrowingTaskGroup(of: Void.self, returning: Result.self) { group in
            group.addTask {
                await withoutCancellation { await pool.run(until: stop) }
            }
            let result: Swift.Result<Result, any Error>
            do {
                result = .success(try await body(pool))
            } catch {
                result = .failure(error)
            }
            stop.keep(())
            try await group.waitForAll()
            return try result.get()
        }
    }

    // MARK: - Turns

    package func withTurn<R: Sendable>(
        for peer: PeerAddress,
        _ body: @escaping @Sendable (_ adapter: MeterAddress) async throws -> R
    ) async throws -> R {
        try await adapter(for: peer).withTurn(for: peer, body)
    }

    /// Like `withTurn(for:_:)`, ahead of those that nobody waits for at a screen.
    package func withPersonsTurn<R: Sendable>(
        for peer: PeerAddress,
        _ body: @escaping @Sendable (_ adapter: MeterAddress) async throws -> R
    ) async throws -> R {
        try await adapter(for: peer).withTurn(for: peer, isPersons: true, body)
    }

    private func adapter(for peer: PeerAddress) async throws(LinkError) -> Adapter {
        await firstLook()
        if Task.isCancelled { throw .cancelled }
        var candidates: [AdapterCandidate] = []
        for adapter in adapters.values { candidates.append(await adapter.candidate(for: peer)) }
        let assigned = neighbourhood.known(peer)?.adapter
        let choice = chooseAdapter(
            among: candidates, assigned: assigned, last: neighbourhood.lastAdapter(of: peer))
        if let choice, let adapter = adapters[choice] { return adapter }
        if let assigned, unavailable == nil {
            throw LinkError(
                .adapter, "the Bluetooth adapter \(assigned) for \(peer) is not there",
                advice: "plug it in, or correct the configuration; usbmeter doctor lists adapters")
        }
        throw await facts().problem
            ?? LinkError(.adapter, "no Bluetooth adapter can be used")
    }

    package func connectionEnded(
        _ peer: PeerAddress, on adapter: MeterAddress, _ error: LinkError?
    ) async {
        await adapters[adapter]?.connectionEnded(peer, error)
    }

    package func disconnectReason(
        _ peer: PeerAddress, on adapter: MeterAddress
    ) async -> DisconnectReason? {
        await adapters[adapter]?.disconnectReason(peer)
    }

    package func sign(
        of peer: PeerAddress, since: MonotonicInstant, afterSilence silence: Duration,
        until deadline: MonotonicInstant
    ) async -> Bool {
        await neighbourhood.sign(
            of: peer, since: since, afterSilence: silence, until: deadline, by: clock)
    }

    package func advertisedName(of peer: PeerAddress) -> String? { neighbourhood.name(of: peer) }

    /// The signal of a connected meter in dBm; `nil` where it cannot be told.
    package func signal(of peer: PeerAddress) async -> Int? {
        guard let address = neighbourhood.lastAdapter(of: peer) else { return nil }
        return await adapters[address]?.signal(of: peer)
    }

    // MARK: - Meters

    /// Sets the meters that are to be connected, in place of those of the last time. While a
    /// Bluetooth LE one is not, the adapters listen for it.
    package func setKnown(_ peers: [KnownPeer]) async {
        neighbourhood.known = Dictionary(
            peers.map { ($0.peer, $0) }, uniquingKeysWith: { first, _ in first })
        ringAll()
    }

    /// All that is heard from now on, strangers included, until the consumer ends. Any number of
    /// consumers.
    package func sightings() -> AsyncStream<Sighting> {
        // A consumer that is late wants to know who is here now; the next report repeats the rest.
        let (stream, continuation) = AsyncStream.makeStream(
            of: Sighting.self, bufferingPolicy: .bufferingNewest(256))
        lastListener += 1
        let id = lastListener
        listeners[id] = continuation
        return stream
    }

    /// Scans actively on all adapters for as long as `duration`, and then returns; the last ten
    /// seconds and up to six more, in which they tell their names, are for Classic devices. Of less
    /// than fifteen seconds they get half, and stay nameless. Who wants to connect meanwhile goes
    /// first.
    /// - Throws: `LinkError` at once, when no adapter can scan.
    package func find(for duration: Duration, includingClassic: Bool) async throws {
        await firstLook()
        let deadline = clock.now + .seconds(20)
        var ends: [Promise<Void>] = []
        for adapter in adapters.values {
            guard await adapter.settled(until: deadline) == .ready,
                await adapter.mode != .observer
            else { continue }
            guard await adapter.isPrivileged != false else {
                throw ManagementStatus.permissionDenied.error("scanning")
            }
            ends.append(await adapter.look(for: duration, includingClassic: includingClassic))
        }
        try Task.checkCancellation()
        guard !ends.isEmpty else {
            throw await facts().problem
                ?? LinkError(.adapter, "no Bluetooth adapter can scan")
        }
        let latest = clock.now + duration + ScanPolicy.names + .seconds(1)
        for end in ends { _ = await end.value(until: latest, by: clock) }
        try Task.checkCancellation()
    }

    /// Pairs a meter and keeps the key.
    /// - Parameter code: `nil` for the meter's own, or the usual one.
    /// - Throws: `LinkError`: pairing when the meter refuses the code, or bluetoothd runs.
    package func pair(_ peer: PeerAddress, code: String? = nil) async throws {
        let adapter = try await adapter(for: peer)
        guard await adapter.settled(until: clock.now + .seconds(20)) == .ready else {
            throw await adapter.unavailable
        }
        let code = code ?? neighbourhood.known(peer)?.code ?? PairingRules.usualCode
        guard (1...16).contains(code.utf8.count) else {
            throw LinkError(
                .configuration, "a pairing code has 1 to 16 digits", advice: "give another one")
        }
        try await adapter.pair(peer, code: code)
    }

    /// Removes a meter's pairings on all adapters.
    /// - Throws: `LinkError`, `SystemError`.
    package func unpair(_ peer: PeerAddress) async throws {
        await firstLook()
        for adapter in adapters.values { try await adapter.unpair(peer) }
    }

    // MARK: - Facts

    /// What is known now; waits for the first look at the adapters only.
    package func facts() async -> RadioFacts {
        await firstLook()
        var facts = RadioFacts()
        facts.unavailable = unavailable
        facts.managementVersion = version.map { "\($0.version).\($0.revision)" }
        facts.bluetoothDaemon = daemon
        for adapter in adapters.values.sorted(by: { $0.address < $1.address }) {
            facts.adapters.append(await adapter.facts())
            let isPrivileged = await adapter.isPrivileged
            facts.isPrivileged = facts.isPrivileged ?? isPrivileged
        }
        facts.adapters += oddities.sorted { $0.key < $1.key }.map(\.value)
        return facts
    }

    /// Waits until each adapter is ready or has a reason not to be.
    package func settled(within limit: Duration) async {
        await firstLook()
        let deadline = clock.now + limit
        for adapter in adapters.values { _ = await adapter.settled(until: deadline) }
    }

    /// How many requests to the kernel wait for their answer.
    var unanswered: Int {
        get async { await client?.unanswered ?? 0 }
    }

    private func firstLook() async {
        guard !hasLooked else { return }
        let promise = Promise<Void>()
        lookWaiters.append(promise)
        _ = await promise.value()
    }

    private func looked() {
        hasLooked = true
        for waiter in lookWaiters { waiter.keep(()) }
        lookWaiters = []
    }

    // MARK: - The channel

    private func run(until stop: Promise<Void>) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.keepOpen() }
            _ = await stop.value()
            await leave()
            group.cancelAll()
        }
        for listener in listeners.values { listener.finish() }
        listeners = [:]
        looked()
    }

    private func leave() async {
        let deadline = clock.now + .seconds(3)
        let done = Promise<Void>()
        let present = adapters.values
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for adapter in present { await adapter.leave() }
                done.keep(())
            }
            _ = await done.value(until: deadline, by: clock)
            group.cancelAll()
        }
    }

    private func keepOpen() async {
        while !Task.isCancelled {
            do {
                let descriptor = try openSocket()
                try await ManagementClient.withClient(
                    adopting: descriptor, reactor: reactor, clock: clock
                ) { client in await self.serve(client) }
            } catch {
                let error = error as? LinkError ?? LinkError(.transient, "\(error)")
                if error != unavailable { log.notice("\(error)") }
                unavailable = error
                looked()
            }
            guard !Task.isCancelled else { return }
            try? await clock.sleep(for: .seconds(unavailable == nil ? 1 : 30))
        }
    }

    private func serve(_ client: ManagementClient) async {
        self.client = client
        await checkMode()
        version = (try? await client.send(.readVersion)).flatMap { ManagementVersion($0) }
        features = (try? await client.send(.readCommands)).flatMap { ManagementFeatures($0) }
        let entries = await listAdapters(client)
        unavailable = nil
        // Bounded by what adapters do: one for each that appears, and for each question that the
        // kernel asks, which it does one at a time.
        let (jobs, feed) = AsyncStream.makeStream(of: Job.self)
        await withDiscardingTaskGroup { group in
            group.addTask {
                await self.takeEvents(of: client, feed)
                feed.finish()
            }
            group.addTask { await self.watchMode() }
            for entry in entries { await appear(entry, client, feed) }
            looked()
            for await job in jobs { group.addTask { await job() } }
            group.cancelAll()
        }
        for index in Array(present.keys) { await disappear(index) }
        self.client = nil
    }

    private func listAdapters(_ client: ManagementClient) async -> [ControllerEntry] {
        if let reply = try? await client.send(.readExtendedIndexList),
            let entries = ControllerEntry.list(extended: reply)
        {
            return entries
        }
        do {
            return ControllerEntry.list(try await client.send(.readIndexList)) ?? []
        } catch {
            log.warning("\(error.error("listing the adapters"))")
            return []
        }
    }

    private func takeEvents(
        of client: ManagementClient, _ feed: AsyncStream<Job>.Continuation
    ) async {
        while let (packets, hasOverflowed) = await client.nextEvents() {
            for packet in packets { await take(packet, client, feed) }
            if hasOverflowed { for (adapter, _) in present.values { await adapter.lookAgain() } }
        }
    }

    private func take(
        _ packet: ManagementPacket, _ client: ManagementClient,
        _ feed: AsyncStream<Job>.Continuation
    ) async {
        let index = packet.index
        switch packet.event {
        case .indexAdded(let isConfigured, let bus):
            guard present[index] == nil else { return }
            oddities[index] = nil
            let entry = ControllerEntry(index: index, isConfigured: isConfigured, bus: bus)
            feed.yield { await self.appear(entry, client, feed) }
            return
        case .indexRemoved:
            oddities[index] = nil
            await disappear(index)
            return
        case .deviceFound(let device):
            guard let adapter = present[index]?.adapter else { return }
            let isActive = await adapter.isDiscovering
            let sighting = neighbourhood.heard(
                device, by: adapter.address, isActive: isActive, at: clock.now)
            await adapter.take(packet.event)
            listeners = listeners.filter { _, listener in
                if case .terminated = listener.yield(sighting) { false } else { true }
            }
            return
        default: break
        }
        await present[index]?.adapter.take(packet.event)
        switch packet.event {
        case .newSettings:
            modeBell.ring()
            ringAll()
        case .deviceConnected, .deviceDisconnected: ringAll()
        default: break
        }
    }

    /// Who is missing concerns all of them.
    private func ringAll() {
        for adapter in adapters.values { adapter.bell.ring() }
    }

    // MARK: - Adapters

    /// Finds out which adapter this is, and has it looked after.
    private func appear(
        _ entry: ControllerEntry, _ client: ManagementClient,
        _ feed: AsyncStream<Job>.Continuation
    ) async {
        guard entry.isConfigured else {
            var facts = AdapterFacts()
            facts.index = entry.index
            facts.state = .unconfigured
            facts.lastError = LinkError(
                .adapter, "the adapter hci\(entry.index) is not set up",
                advice: "it lacks firmware or an address: dmesg | grep -i bluetooth")
            oddities[entry.index] = facts
            return
        }
        guard present[entry.index] == nil, let info = await identify(entry, client) else { return }
        guard present[entry.index] == nil, settings.adapters?.contains(info.address) ?? true else {
            return
        }
        if present.values.contains(where: { $0.adapter.address == info.address }) {
            oddities[entry.index] = duplicate(entry, info)
            return
        }
        let adapter =
            adapters[info.address]
            ?? Adapter(
                info.address, bus: entry.bus, settings: settings, neighbourhood: neighbourhood,
                hardware: hardware, keys: keys, clock: clock, log: log)
        adapters[info.address] = adapter
        lastAppearance += 1
        let appearance = Adapter.Appearance(
            id: lastAppearance, client: client, index: entry.index, bus: entry.bus,
            version: version, features: features, beside: { job in feed.yield(job) })
        present[entry.index] = (adapter, lastAppearance)
        let mode = mode
        await adapter.arrive(appearance, info, mode: mode)
        feed.yield { await adapter.tend(appearance.id) }
    }

    private func identify(
        _ entry: ControllerEntry, _ client: ManagementClient
    ) async -> ControllerInfo? {
        do {
            let info = ControllerInfo(try await client.send(.readInfo(entry.index)))
            // A controller without an address of its own cannot be told from others.
            guard let info, info.address.littleEndianBytes.contains(where: { $0 != 0 }) else {
                throw ManagementFailure.senseless(.readInfo)
            }
            return info
        } catch {
            let failure = error as? ManagementFailure ?? .cancelled
            let error = failure.error("looking at the adapter hci\(entry.index)")
            guard error.category != .cancelled else { return nil }
            log.warning("hci\(entry.index): \(error)")
            var facts = AdapterFacts()
            facts.index = entry.index
            facts.lastError = error
            oddities[entry.index] = facts
            return nil
        }
    }

    /// The kernel finds an adapter for a socket by address, so the second one is never found.
    private func duplicate(_ entry: ControllerEntry, _ info: ControllerInfo) -> AdapterFacts {
        var facts = AdapterFacts()
        facts.address = info.address
        facts.index = entry.index
        facts.name = info.name
        facts.manufacturer = info.manufacturer
        facts.maker = ControllerInfo.maker(info.manufacturer)
        facts.isDuplicate = true
        facts.lastError = LinkError(
            .adapter, "hci\(entry.index) has the same address as another adapter, \(info.address)",
            advice: "use only one of the two")
        log.warning("\(facts.lastError?.description ?? "")")
        return facts
    }

    private func disappear(_ index: UInt16) async {
        guard let (adapter, id) = present.removeValue(forKey: index) else { return }
        await adapter.vanish(id)
        ringAll()
    }

    // MARK: - Owner or guest

    private func watchMode() async {
        while !Task.isCancelled {
            await modeBell.wait(until: clock.now + .seconds(30), by: clock)
            guard !Task.isCancelled else { return }
            await checkMode()
        }
    }

    private func checkMode() async {
        let last = daemon
        daemon = await hardware.bluetoothDaemon()
        mode =
            switch settings.conduct {
            case .automatic: daemon == nil ? .owner : .guest
            case .owner: .owner
            case .guest: .guest
            case .observer: .observer
            }
        let isNewDaemon = daemon != nil && daemon != last
        for (adapter, _) in present.values {
            await adapter.setMode(mode, isNewDaemon: isNewDaemon)
        }
    }
}
