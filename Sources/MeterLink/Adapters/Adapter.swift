import LinuxIO
import MeterCore

/// One adapter, known by its address and looked after for as long as the program runs: it may go and
/// come back under another number.
///
/// `tend` is the only one that changes anything about it in the kernel, one thing after the other,
/// and looks again whenever something has happened; events only change what is known, and ring.
/// Answers to the kernel's own questions are the exception.
actor Adapter {
    /// One stay of the adapter in the kernel.
    struct Appearance: Sendable {
        let id: Int
        let client: ManagementClient
        let index: UInt16
        let bus: ControllerEntry.Bus?
        let version: ManagementVersion?
        let features: ManagementFeatures?
        /// Runs something beside the caller, until the channel ends.
        let beside: @Sendable (@escaping @Sendable () async -> Void) -> Void
    }
    /// An active discovery that we started.
    struct Discovery {
        let kind: ScanPolicy.Kind
        let since: MonotonicInstant
        /// What was on the air when it began, to tell silence from reports.
        let reports: Int
    }
    struct Pairing {
        let peer: PeerAddress
        let code: String
        /// Kept when its key has been written down, or could not be.
        let kept: Promise<LinkError?>
    }

    nonisolated let address: MeterAddress
    let settings: RadioSettings
    let neighbourhood: Neighbourhood
    let hardware: any AdapterHardware
    let keys: KeyStore?
    let clock: any Timekeeper
    let log: Log
    let bell = Bell()

    // What is known of it.
    var appearance: Appearance?
    var state = AdapterState.absent
    var info: ControllerInfo?
    var current: ControllerSettings = []
    var mode = AdapterMode.observer
    var isPrivileged: Bool?
    var links: Set<PeerAddress> = []
    /// Links that a turn of ours made.
    var ours: Set<PeerAddress> = []
    var lastError: LinkError?
    var lastReasons: [PeerAddress: (reason: DisconnectReason, when: MonotonicInstant)] = [:]
    var reasonWaiters: [PeerAddress: [Promise<DisconnectReason>]] = [:]
    var settledWaiters: [Promise<AdapterState>] = []

    // Turns.
    var queue: ConnectQueue
    var tickets: [Int: Promise<Result<MeterAddress, LinkError>>] = [:]
    var slots: SlotAccount
    /// Kept when the one whose turn it is has to give it back.
    var giveWay: Promise<Void>?

    // Scanning.
    var policy: ScanPolicy
    var lookWaiters: [Promise<Void>] = []
    var discovery: Discovery?
    /// Discoveries that we stopped, the news of whose end is still to come.
    var endsToCome = 0
    /// Whether any program's discovery runs.
    var isDiscovering = false
    /// Another program's runs; ours is not tried before this.
    var discoveryNotBefore: MonotonicInstant?
    var reports = 0
    var silentRuns = 0
    var listening: Set<PeerAddress> = []
    /// Counts how often the kernel has lost our entries, so that an answer from before is not
    /// taken for one about now.
    var generation = 0
    var unlistenable: Set<PeerAddress> = []
    var monitor: UInt16?
    var monitorRefused = false
    var parametersLoaded: Set<PeerAddress> = []

    // Power and health.
    var retryAt: MonotonicInstant?
    var refreshAt: MonotonicInstant?
    var wasReady = false
    var isLeaving = false
    var wasSwitchedOnByUs = false
    var suspicion = AdapterSuspicion()
    var ladder = RecoveryLadder()

    // Pairing.
    var pairing: Pairing?
    var rules = PairingRules()
    /// Peers whom we answered with a code that has not been refused or accepted yet.
    var codeGiven: Set<PeerAddress> = []

    static let powerLimit: Duration = .seconds(10)
    static let grace: Duration = .seconds(5)
    static let refreshEvery: Duration = .seconds(60)

    init(
        _ address: MeterAddress, bus: ControllerEntry.Bus?, settings: RadioSettings,
        neighbourhood: Neighbourhood, hardware: any AdapterHardware, keys: KeyStore?,
        clock: any Timekeeper, log: Log
    ) {
        self.address = address
        self.settings = settings
        self.neighbourhood = neighbourhood
        self.hardware = hardware
        self.keys = keys
        self.clock = clock
        self.log = log.about("adapter \(address)")
        let usual = bus == .serial ? SlotAccount.serialLine : SlotAccount.ordinary
        slots = SlotAccount(limit: settings.slots ?? usual)
        // On a serial line the first exchanges of a link and the next connect are too much together.
        queue = ConnectQueue(pause: bus == .serial ? .seconds(2) : .zero)
        policy = ScanPolicy(looksAround: settings.looksAround, at: clock.now)
    }

    // MARK: - A stay in the kernel

    /// The kernel has it, from now on under this number.
    func arrive(_ appearance: Appearance, _ info: ControllerInfo, mode: AdapterMode) {
        self.appearance = appearance
        self.mode = mode
        take(info)
        wasReady = false
        isPrivileged = nil
        retryAt = nil
        suspicion = AdapterSuspicion()
        ladder.proven()
        become(.poweringOn)
        log.info("found as hci\(appearance.index)")
    }

    /// Looks after the adapter until this stay ends, the channel fails, or the task is cancelled.
    func tend(_ id: Int) async {
        while !Task.isCancelled, appearance?.id == id {
            let next = await attend()
            guard !Task.isCancelled, appearance?.id == id else { break }
            await bell.wait(until: next, by: clock)
        }
        // It may have come back in the meantime, and this was its ring.
        bell.ring()
    }

    /// The adapter is gone from the kernel: its links are too.
    func vanish(_ id: Int) {
        guard appearance?.id == id else { return }
        if !Task.isCancelled { log.warning("hci\(appearance?.index ?? 0) is gone") }
        appearance = nil
        current = []
        forgetKernelState()
        lastError = LinkError(
            .adapter, "the Bluetooth adapter \(address) is gone", advice: "plug it in again")
        become(.absent)
        refuseAll(unavailable)
        bell.ring()
    }

    /// What the kernel keeps for an adapter only while it is there and on.
    func forgetKernelState() {
        for peer in links { ended(peer, .localHost) }
        links = []
        neighbourhood.setLinks([], of: address)
        discovery = nil
        endsToCome = 0
        isDiscovering = false
        discoveryNotBefore = nil
        forgetEntries()
    }

    /// The entries that we made in the kernel's lists are no longer there.
    func forgetEntries() {
        generation += 1
        listening = []
        unlistenable = []
        monitor = nil
        monitorRefused = false
        parametersLoaded = []
    }

    func become(_ next: AdapterState) {
        state = next
        guard !isUnderWay else { return }
        for waiter in settledWaiters { waiter.keep(next) }
        settledWaiters = []
    }

    /// The state changes by itself soon.
    var isUnderWay: Bool { state == .poweringOn || state == .recovering }

    /// Waits until it is known whether the adapter can be used.
    func settled(until deadline: MonotonicInstant) async -> AdapterState {
        guard isUnderWay else { return state }
        let promise = Promise<AdapterState>()
        settledWaiters.append(promise)
        return await promise.value(until: deadline, by: clock) ?? state
    }

    /// Does what is most urgent.
    /// - Returns: when to look again if nothing happens.
    private func attend() async -> MonotonicInstant? {
        refuseWhoWaitedTooLong()
        switch state {
        case .absent, .unconfigured, .recovering: return nil
        case .poweringOn:
            if suspicion.isConvicted(at: clock.now), mayClimb { await climb() }
            if let retryAt, clock.now < retryAt { break }
            await boot()
            if state == .ready { return await serve() }
        case .off, .blocked, .failed:
            if let retryAt, clock.now < retryAt { break }
            await reconsider()
            if state == .poweringOn { return clock.now }
        case .ready: return await serve()
        }
        return [retryAt, oldestWaitEnds].compactMap(\.self).min()
    }

    /// Does one thing for an adapter that works.
    private func serve() async -> MonotonicInstant? {
        if suspicion.isConvicted(at: clock.now), mayClimb {
            await climb()
            return clock.now
        }
        // While a connection is being made the kernel keeps other requests waiting for it.
        guard queue.inFlight == nil, !isLeaving else {
            guard let end = queue.givesWayAt, clock.now >= end else { return queue.givesWayAt }
            giveWay?.keep(())
            return nil
        }
        if let refreshAt, clock.now >= refreshAt {
            await refresh()
            guard state == .ready else { return clock.now }
        }
        if await giveTurn() { return clock.now }
        guard state == .ready, queue.inFlight == nil else { return clock.now }
        await scan()
        let now = clock.now
        return [
            refreshAt, policy.nextChange(after: now), queue.pauseEnd(after: now),
            nextPatienceEnd, discoveryNotBefore, oldestWaitEnds,
        ].compactMap(\.self).filter { $0 > now }.min()
    }

    /// Reads anew what events may have failed to tell.
    private func refresh() async {
        refreshAt = clock.now + Self.refreshEvery
        do throws(ManagementFailure) {
            try await readInfo()
            try await readLinks()
        } catch {
            note(error, "looking at the adapter")
        }
        bell.ring()
    }

    func readInfo() async throws(ManagementFailure) {
        guard let index = appearance?.index else { return }
        let reply = try await send(.readInfo(index))
        guard let info = ControllerInfo(reply) else { throw .senseless(.readInfo) }
        take(info)
    }

    private func take(_ info: ControllerInfo) {
        self.info = info
        take(info.current)
    }

    /// Reads who is connected, which also tells whether we are privileged.
    func readLinks() async throws(ManagementFailure) {
        guard let index = appearance?.index, isPrivileged != false else { return }
        do throws(ManagementFailure) {
            let reply = try await send(.getConnections(index))
            guard let peers = ManagementCommand.connections(reply) else {
                throw .senseless(.getConnections)
            }
            isPrivileged = true
            for peer in links.subtracting(peers) { ended(peer, .unspecified) }
            links = Set(peers)
            neighbourhood.setLinks(links, of: address)
        } catch {
            switch error.status {
            case .permissionDenied: isPrivileged = false
            case .notPowered, .invalidIndex: isPrivileged = true
            default: throw error
            }
        }
    }

    /// Sends a request about this adapter, and learns from how that went.
    @discardableResult
    func send(
        _ command: ManagementCommand, within limit: Duration = .seconds(5)
    ) async throws(ManagementFailure) -> [UInt8] {
        guard let appearance else { throw .status(.invalidIndex, command.opcode) }
        // A connection attempt keeps the kernel's queue for the adapter for up to 20 s.
        let allowance: Duration = queue.inFlight == nil ? .zero : .seconds(20)
        do throws(ManagementFailure) {
            let reply = try await appearance.client.send(command, within: limit + allowance)
            // It may have gone and come back since: what was answered concerns its last stay.
            guard self.appearance?.id == appearance.id else { throw .cancelled }
            suspicion.answered()
            return reply
        } catch {
            if error.isUnanswered {
                suspicion.leftUnanswered(at: clock.now)
            } else if error.status != nil {
                suspicion.answered()
            }
            throw error
        }
    }

    /// Remembers a failure for the doctor.
    func note(_ failure: ManagementFailure, _ what: String) {
        let error = failure.error(what)
        guard error.category != .cancelled else { return }
        if error != lastError { log.warning("\(error)") }
        lastError = error
    }

    // MARK: - What has happened

    /// Takes an event in. Returns at once: what needs an answer from the kernel runs beside.
    func take(_ event: ManagementEvent) async {
        switch event {
        case .newSettings(let settings): take(settings)
        case .deviceConnected(let peer, _, _):
            links.insert(peer)
            neighbourhood.setLinks(links, of: address)
            lastReasons[peer] = nil
        case .deviceDisconnected(let peer, let reason):
            links.remove(peer)
            neighbourhood.setLinks(links, of: address)
            ended(peer, reason)
        case .deviceFound(let device):
            reports += 1
            // It can hear and yet be unable to connect, which is then for a person.
            if !ladder.hasGivenUp { proven() }
            confirmName(of: device)
        case .discovering(_, let isOn): discovering(isOn)
        case .newLinkKey, .newLongTermKey: await keep(event)
        case .pinRequest, .confirmationRequest, .passkeyRequest, .authenticationFailed:
            pairingEvent(event)
        case .deviceRemoved(let peer):
            listening.remove(peer)
            parametersLoaded.remove(peer)
        case .monitorRemoved(let handle): if handle == monitor { monitor = nil }
        case .controllerError(let code):
            lastError = LinkError(.adapter, "the Bluetooth adapter reported hardware error \(code)")
            suspicion.failed(at: clock.now)
        case .controllerResumed: refreshAt = clock.now
        default: return
        }
        bell.ring()
    }

    /// Everything may have changed: events were lost.
    func lookAgain() {
        refreshAt = clock.now
        bell.ring()
    }

    private func take(_ settings: ControllerSettings) {
        let wasPowered = current.contains(.powered)
        current = settings
        let isPowered = settings.contains(.powered)
        guard wasPowered != isPowered else { return }
        if !isPowered {
            forgetKernelState()
            // A step of recovery switches it off itself.
            guard state == .ready else { return }
            lastError = LinkError(
                .adapter, "the Bluetooth adapter \(address) was switched off",
                advice: "switch it on: bluetoothctl power on, or rfkill unblock bluetooth")
            log.warning("switched off by another program or by a switch")
            // bluetoothd is perhaps being restarted.
            retryAt = clock.now + Self.grace
            become(.off)
            if !willSwitchOn { refuseAll(unavailable) }
        } else if state == .off || state == .blocked || state == .failed {
            ladder.proven()
            retryAt = nil
            become(.poweringOn)
        }
    }

    private func ended(_ peer: PeerAddress, _ reason: DisconnectReason) {
        let now = clock.now
        lastReasons = lastReasons.filter { now - $0.value.when < .seconds(10) }
        lastReasons[peer] = (reason, now)
        ours.remove(peer)
        // A meter that asked for its code itself just hangs up when it does not like the answer.
        if reason != .supervisionTimeout, reason != .localHost, pairing?.peer != peer,
            codeGiven.remove(peer) != nil
        {
            codeRefused(by: peer)
        }
        for waiter in reasonWaiters.removeValue(forKey: peer) ?? [] { waiter.keep(reason) }
    }

    /// The kernel's reason for the drop of a link that the socket has told of, or will in a moment.
    func disconnectReason(_ peer: PeerAddress) async -> DisconnectReason? {
        let now = clock.now
        if let last = lastReasons[peer], now - last.when < .seconds(2) { return last.reason }
        guard isPrivileged == true else { return nil }
        let promise = Promise<DisconnectReason>()
        reasonWaiters[peer, default: []].append(promise)
        let reason = await promise.value(until: now + .milliseconds(500), by: clock)
        reasonWaiters[peer]?.removeAll { $0 === promise }
        if reasonWaiters[peer]?.isEmpty == true { reasonWaiters[peer] = nil }
        return reason
    }

    func setMode(_ next: AdapterMode, isNewDaemon: Bool) {
        // A bluetoothd that starts removes everybody's entries.
        if isNewDaemon || next != mode { forgetEntries() }
        if next != mode {
            mode = next
            log.notice(
                next == .owner
                    ? "no bluetoothd runs: the adapter is ours"
                    : "bluetoothd runs: its settings and pairings are left alone")
            if appearance != nil {
                retryAt = nil
                become(.poweringOn)
            }
        }
        bell.ring()
    }

    /// The signal of a connected device, in dBm.
    func signal(of peer: PeerAddress) async -> Int? {
        guard let index = appearance?.index, isPrivileged == true, links.contains(peer),
            let reply = try? await send(.getConnectionInfo(index, peer))
        else { return nil }
        return ManagementCommand.signal(reply)
    }

    // MARK: - For people

    /// Why no link can be made now.
    var unavailable: LinkError {
        if let lastError, state != .ready { return lastError }
        return LinkError(
            .adapter, "the Bluetooth adapter \(address) is \(state.rawValue)",
            advice: "usbmeter doctor says why")
    }

    func candidate(for peer: PeerAddress) -> AdapterCandidate {
        let now = clock.now
        let speaks = peer.isLowEnergy ? ControllerSettings.lowEnergy : .classic
        let isCapable = info?.supported.contains(speaks) ?? false
        let others = links.subtracting([peer]).count + (queue.inFlight == nil ? 0 : 1)
        return AdapterCandidate(
            address: address, isUsable: isCapable && (state == .ready || isUnderWay),
            hasRoom: slots.hasRoom(beside: others, at: now), links: links.count + queue.count,
            rssi: neighbourhood.signal(of: peer, at: address, before: now))
    }

    func facts() async -> AdapterFacts {
        var facts = AdapterFacts()
        if let index = appearance?.index {
            let block = await hardware.block(of: index)
            facts.isBlockedBySoftware = block.bySoftware
            facts.isBlockedBySwitch = block.bySwitch
        }
        let now = clock.now
        facts.address = address
        facts.index = appearance?.index
        facts.name = info?.name ?? ""
        facts.manufacturer = info?.manufacturer ?? 0
        facts.maker = ControllerInfo.maker(facts.manufacturer)
        facts.isUSB = appearance?.bus == .usb
        facts.isSerialLine = appearance?.bus == .serial
        facts.state = state
        facts.isPowered = current.contains(.powered)
        facts.speaksLowEnergy = info?.supported.contains(.lowEnergy) ?? false
        facts.speaksClassic = info?.supported.contains(.classic) ?? false
        facts.mode = mode
        facts.links = links.sorted { $0.address < $1.address }
        facts.slots = slots.limit(at: now)
        facts.queueLength = queue.count
        facts.isScanning = isDiscovering || !listening.isEmpty || monitor != nil
        facts.suspicion = suspicion.score(at: now)
        facts.recoveries = ladder.taken
        facts.lastError = lastError
        return facts
    }
}
