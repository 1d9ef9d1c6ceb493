import MeterCore

// One connection attempt at a time: who waits, who may go, how it went.

extension Adapter {
    /// How long a request waits for an adapter that is coming up.
    private static let patience: Duration = .seconds(30)
    /// Who was heard in this time is there.
    private static let justNow: Duration = .seconds(3)
    /// How long the last link of the same device may take to go.
    private static let linger: Duration = .seconds(5)

    /// Waits for a turn and lends it.
    func withTurn<Result: Sendable>(
        for peer: PeerAddress, isPersons: Bool = false,
        _ body: @escaping @Sendable (MeterAddress) async throws -> Result
    ) async throws -> Result {
        let id = try await turn(for: peer, isPersons: isPersons)
        let giveWay = Promise<Void>()
        self.giveWay = giveWay
        bell.ring()
        do {
            let address = address
            let result = try await withThrowingTaskGroup(of: Result?.self) { group in
                group.addTask { try await body(address) }
                group.addTask {
                    guard await giveWay.value() != nil else { return nil }
                    throw LinkError(.absent, "\(peer) does not answer, and others wait")
                }
                defer { group.cancelAll() }
                while let result = try await group.next() {
                    if let result { return result }
                }
                throw CancellationError()
            }
            connected(peer)
            end(id)
            return result
        } catch {
            end(id)
            throw error
        }
    }

    private func turn(for peer: PeerAddress, isPersons: Bool) async throws(LinkError) -> Int {
        guard !rules.isParked(peer, at: clock.now) || isPersons else {
            throw LinkError(
                .pairing, "\(peer) refused its pairing code twice",
                advice: "find its code and give it: usbmeter pair \(peer) --pin PIN")
        }
        guard state == .ready || isUnderWay || (state == .off && willSwitchOn && wasReady) else {
            throw unavailable
        }
        let isHeard = neighbourhood.wasHeard(
            peer, by: address, within: Self.justNow, before: clock.now)
        let request = queue.enter(peer, isPersons: isPersons, isHeard: isHeard, at: clock.now)
        let ticket = Promise<Result<MeterAddress, LinkError>>()
        tickets[request.id] = ticket
        bell.ring()
        let answer = await ticket.value()
        tickets[request.id] = nil
        guard let answer else {
            queue.withdraw(request.id)
            bell.ring()
            throw .cancelled
        }
        _ = try answer.get()
        return request.id
    }

    private func end(_ id: Int) {
        queue.end(id, at: clock.now)
        giveWay = nil
        bell.ring()
    }

    /// A link was made.
    private func connected(_ peer: PeerAddress) {
        ours.insert(peer)
        // Without privilege no event tells of it.
        if isPrivileged == false { links.insert(peer) }
        neighbourhood.connected(peer, by: address)
        suspicion.cleared()
        proven()
        queue.succeeded(peer)
    }

    func connectionEnded(_ peer: PeerAddress, _ error: LinkError?) {
        let wasConnected = ours.remove(peer) != nil || lastReasons[peer] != nil
        if isPrivileged == false { links.remove(peer) }
        defer { bell.ring() }
        guard let error else { return queue.succeeded(peer) }
        let now = clock.now
        switch error.category {
        case .noSlot:
            slots.refused(holding: links.subtracting([peer]).count, at: now)
            log.notice("has no room for a link beside \(links.count)")
            return
        case .adapter:
            lastError = error
            suspicion.failed(at: now)
        case .absent, .transient:
            let isHere = neighbourhood.wasHeard(
                peer, by: address, within: .seconds(10), before: now)
            if !wasConnected, isHere { suspicion.failed(at: now) }
        // The kernel tells of no disconnection where the meter hung up before the link was whole.
        case .pairing:
            if pairing?.peer != peer, codeGiven.remove(peer) != nil { codeRefused(by: peer) }
        case .cancelled: return
        default: break
        }
        if pairing?.peer != peer { codeGiven.remove(peer) }
        queue.failed(peer, at: now)
    }

    /// Lets the next one go, if there is one and all is prepared for it.
    /// - Returns: whether somebody went or was refused, so that there may be more to do.
    func giveTurn() async -> Bool {
        let now = clock.now
        guard let request = queue.next(at: now, mayGo: { mayGo($0, at: now) }) else {
            return false
        }
        let others = links.subtracting([request.peer]).count
        guard slots.hasRoom(beside: others, at: now) else {
            refuse(
                request,
                LinkError(
                    .noSlot, "the Bluetooth adapter holds \(others) links and has no slot free",
                    advice:
                        "it goes on when one becomes free; a second adapter serves more, and bluetooth.slots "
                        + "in the configuration raises the limit"))
            return true
        }
        await stopDiscovery()
        if links.contains(request.peer) { await dropOldLink(of: request.peer) }
        if request.peer.isLowEnergy {
            await listenBeforeConnecting(request.peer)
            await loadParameters(for: request.peer)
        }
        // Much may have happened since; the next look decides again.
        guard state == .ready, let ticket = tickets[request.id] else { return true }
        guard queue.next(at: clock.now, mayGo: { $0.id == request.id }) != nil else { return true }
        queue.begin(request, at: clock.now)
        if !ticket.keep(.success(address)) { queue.end(request.id, at: clock.now) }
        return true
    }

    /// Not while its last link is going: a connection in that time would land on the old one.
    private func mayGo(_ request: ConnectQueue.Request, at now: MonotonicInstant) -> Bool {
        !links.contains(request.peer) || isPrivileged == false
            || now - request.since >= Self.linger
    }

    /// When the first of those may go who wait for their last link to end.
    var nextPatienceEnd: MonotonicInstant? {
        let now = clock.now
        return queue.waiting.filter { !mayGo($0, at: now) }.map { $0.since + Self.linger }.min()
    }

    /// A guest ends only links that it made; an owner also one that a crash left behind.
    private func dropOldLink(of peer: PeerAddress) async {
        guard isPrivileged == true, let index = appearance?.index,
            mode == .owner || ours.contains(peer)
        else { return }
        do throws(ManagementFailure) {
            try await send(.disconnect(index, peer))
        } catch  where error.status == .notConnected {
            return
        } catch {
            note(error, "ending an old link to \(peer)")
        }
    }

    // MARK: - Refusals

    private func refuse(_ request: ConnectQueue.Request, _ error: LinkError) {
        queue.withdraw(request.id)
        tickets.removeValue(forKey: request.id)?.keep(.failure(error))
    }

    /// Nobody gets a turn; who has one finds out by the link.
    func refuseAll(_ error: LinkError) {
        for request in queue.clear() { refuse(request, error) }
    }

    func refuseWhoWaitedTooLong() {
        guard state != .ready else { return }
        let now = clock.now
        for request in queue.waiting where now - request.since >= Self.patience {
            refuse(request, unavailable)
        }
    }

    var oldestWaitEnds: MonotonicInstant? {
        guard state != .ready else { return nil }
        return queue.waiting.map { $0.since + Self.patience }.min()
    }

    // MARK: - Connection parameters

    /// Has the kernel connect with parameters that suit a meter.
    private func loadParameters(for peer: PeerAddress) async {
        guard isPrivileged == true, mode != .observer, let index = appearance?.index,
            !parametersLoaded.contains(peer)
        else { return }
        let meters = neighbourhood.lowEnergyMeters(for: address)
        // From revision 23 on one entry alone leaves the others as they are. Before, whatever is
        // not named is dropped, so all are named, and bluetoothd's are not ours to drop.
        let isSelective = (appearance?.version).map { $0 >= Self.selective } ?? false
        guard isSelective || mode == .owner else { return }
        let peers = isSelective ? [peer] : Array(Set(meters + [peer]))
        let entries = peers.map {
            ConnectionParameters(for: $0, amongMeters: max(meters.count, links.count + 1))
        }
        do throws(ManagementFailure) {
            let before = generation
            try await send(.loadConnectionParameters(index, entries))
            guard generation == before else { return }
            if !isSelective { parametersLoaded = [] }
            parametersLoaded.formUnion(peers)
        } catch {
            note(error, "setting connection parameters")
        }
    }
    private static let selective = ManagementVersion(version: 1, revision: 23)
}
