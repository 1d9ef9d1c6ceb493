import MeterCore

// Listening for missing meters in the background, and active discovery.

extension Adapter {
    /// - Returns: kept when that is over, and perhaps never, as when the adapter goes.
    func look(for duration: Duration, includingClassic: Bool) -> Promise<Void> {
        policy.look(
            for: duration, includingClassic: includingClassic && current.contains(.classic),
            at: clock.now)
        let isOver = Promise<Void>()
        lookWaiters.append(isOver)
        bell.ring()
        return isOver
    }

    private func tellWhetherLookIsOver() {
        guard !policy.isLooking(at: clock.now) else { return }
        for waiter in lookWaiters { waiter.keep(()) }
        lookWaiters = []
    }

    private var situation: ScanPolicy.Situation {
        ScanPolicy.Situation(
            isConnecting: queue.count > 0, hasLinks: !links.isEmpty,
            speaksLowEnergy: current.contains(.lowEnergy),
            speaksClassic: current.contains(.classic))
    }

    /// Brings what the kernel does in line with what is wanted.
    func scan() async {
        guard isPrivileged == true, mode != .observer else { return }
        tellWhetherLookIsOver()
        await listen()
        let now = clock.now
        let wanted = policy.discovery(at: now, situation)
        if let discovery, discovery.kind != wanted {
            // One that is past its time ends by itself soon, and others may profit.
            await stopDiscovery()
        }
        guard let wanted, discovery == nil else { return }
        if let discoveryNotBefore, now < discoveryNotBefore { return }
        await start(wanted)
    }

    private func start(_ kind: ScanPolicy.Kind) async {
        guard let index = appearance?.index, queue.count == 0 else { return }
        discoveryNotBefore = nil
        discovery = Discovery(kind: kind, since: clock.now, reports: reports)
        do throws(ManagementFailure) {
            try await send(.startDiscovery(index, kind))
        } catch {
            discovery = nil
            // Another program's, whose reports we get, too; or the kernel has not ended the last.
            let isBusy = error.status == .busy
            if !isBusy { note(error, "scanning") }
            discoveryNotBefore = clock.now + (isBusy ? .seconds(2) : .seconds(10))
        }
    }

    func stopDiscovery() async {
        guard let running = discovery, let index = appearance?.index else { return }
        discovery = nil
        endsToCome += 1
        do throws(ManagementFailure) {
            try await send(.stopDiscovery(index, running.kind))
        } catch {
            endsToCome = max(0, endsToCome - 1)
            // With a status it has ended in the meantime.
            if error.status == nil { note(error, "ending a scan") }
        }
        // An inquiry that was cut short has brought no names.
        let enough =
            running.kind == .classic ? ScanPolicy.run + ScanPolicy.names : ScanPolicy.run / 2
        if clock.now - running.since >= enough { policy.ended(running.kind, at: clock.now) }
        tellWhetherLookIsOver()
    }

    /// The kernel began or ended a discovery, ours or another program's.
    func discovering(_ isOn: Bool) {
        isDiscovering = isOn
        guard !isOn else { return }
        discoveryNotBefore = nil
        guard endsToCome == 0 else {
            endsToCome -= 1
            return
        }
        guard let ended = discovery else { return }
        discovery = nil
        policy.ended(ended.kind, at: clock.now)
        tellWhetherLookIsOver()
        // Nine runs are a minute and a half. One that never heard anything may be alone.
        guard ended.kind == .lowEnergy else { return }
        silentRuns = reports == ended.reports ? silentRuns + 1 : 0
        if silentRuns >= 9, reports > 0 {
            silentRuns = 0
            suspicion.failed(at: clock.now)
        }
    }

    // MARK: - In the background

    private func listen() async {
        guard let index = appearance?.index else { return }
        let missing = neighbourhood.missing(for: address)
        let wanted = missing.filter { $0.isLasting && !unlistenable.contains($0) }
        for peer in listening.subtracting(wanted) {
            guard mayGoOn else { return }
            await stopListening(for: peer, index)
        }
        for peer in wanted.subtracting(listening) {
            guard mayGoOn else { return }
            await startListening(for: peer, index)
        }
        // Those with addresses that the kernel does not listen for by themselves.
        let needsMonitor = !missing.subtracting(listening).isEmpty
        if needsMonitor, monitor == nil, !monitorRefused {
            await addMonitor(index)
        } else if !needsMonitor, let handle = monitor {
            await removeMonitor(handle, index)
        }
    }

    /// Somebody who wants to connect does not wait for the list to be complete.
    private var mayGoOn: Bool { state == .ready && queue.waiting.isEmpty }

    /// Has the kernel listen for a meter that is about to be connected for the first time, and for one
    /// that is connected only once, until its turn is over.
    ///
    /// A device that a socket connects without an entry in the kernel's list gets one that says
    /// "to be connected", and keeps it. When it is put on the list later, to be reported, the
    /// kernel connects it as soon as it hears it, and holds that link although nobody asked for it
    /// (`hci_conn_params_set` with `explicit_connect` in net/bluetooth; seen with 6.1 and 6.12).
    func listenBeforeConnecting(_ peer: PeerAddress) async {
        guard isPrivileged == true, mode != .observer, let index = appearance?.index,
            peer.isLowEnergy, peer.isLasting, !listening.contains(peer),
            !unlistenable.contains(peer)
        else { return }
        await startListening(for: peer, index)
    }

    private func startListening(for peer: PeerAddress, _ index: UInt16) async {
        let before = generation
        // Noted first, so that an end that comes meanwhile takes it back.
        listening.insert(peer)
        parametersLoaded.remove(peer)
        do throws(ManagementFailure) {
            try await send(.addDevice(index, peer))
            // Another program's connection may have left such an entry, which cannot be removed as
            // it is. It can be once it is ours, and the new one is as new. bluetoothd's are not touched.
            if mode == .owner {
                try await send(.removeDevice(index, peer))
                guard generation == before, listening.contains(peer) else { return }
                try await send(.addDevice(index, peer))
            }
        } catch {
            note(error, "listening for \(peer)")
            guard generation == before else { return }
            listening.remove(peer)
            if error.status != nil { unlistenable.insert(peer) }
        }
    }

    private func stopListening(for peer: PeerAddress, _ index: UInt16) async {
        listening.remove(peer)
        // Its connection parameters go with the entry.
        parametersLoaded.remove(peer)
        do throws(ManagementFailure) {
            try await send(.removeDevice(index, peer))
        } catch  where error.status == .invalidParameters {
            // Another program has removed it.
        } catch {
            note(error, "ceasing to listen for \(peer)")
        }
    }

    private func addMonitor(_ index: UInt16) async {
        guard appearance?.features?.has(.addPatternMonitor) ?? false else { return }
        do throws(ManagementFailure) {
            let before = generation
            let reply = try await send(.addFlagsMonitor(index))
            guard generation == before else { return }
            monitor = ManagementCommand.monitorHandle(reply).flatMap { $0 == 0 ? nil : $0 }
        } catch {
            note(error, "listening in the background")
        }
        monitorRefused = monitor == nil
        if isLeaving, let handle = monitor { await removeMonitor(handle, index) }
    }

    private func removeMonitor(_ handle: UInt16, _ index: UInt16) async {
        monitor = nil
        do throws(ManagementFailure) {
            try await send(.removeMonitor(index, handle))
        } catch  where error.status != nil {
            // It is gone already.
        } catch {
            note(error, "ceasing to listen in the background")
        }
    }

    func stopListening() async {
        guard let index = appearance?.index else { return }
        for peer in listening { await stopListening(for: peer, index) }
        if let handle = monitor { await removeMonitor(handle, index) }
    }

    // MARK: - Names

    /// Tells the kernel whether to ask a Classic device for its name, which takes a second or more
    /// each time.
    func confirmName(of device: ManagementEvent.DeviceFound) {
        guard device.wantsNameConfirmed, discovery?.kind == .classic,
            let appearance, isPrivileged == true, mode != .observer
        else { return }
        let isKnown =
            neighbourhood.name(of: device.peer) != nil || device.data.isPlainlyNoMeter
        let command = ManagementCommand.confirmName(
            appearance.index, device.peer, isKnown: isKnown)
        appearance.beside { [self] in
            // A device that is gone by now needs no name.
            _ = try? await send(command)
        }
    }
}

extension AdvertisingData {
    /// By their class, computers, phones and headsets; the modules in meters call themselves
    /// "uncategorised" or nothing at all.
    fileprivate var isPlainlyNoMeter: Bool {
        guard let deviceClass else { return false }
        return [1, 2, 4].contains(deviceClass >> 8 & 0x1f)
    }
}
