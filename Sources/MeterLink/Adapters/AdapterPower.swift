import MeterCore

// From a number in the kernel to an adapter that can be used, and back there when it is wedged.

extension Adapter {
    /// We switch it on if it is off.
    var willSwitchOn: Bool {
        mode == .owner && settings.switchesOn && isPrivileged != false
    }

    /// Reads how it is and brings it up, as far as it is ours to do.
    func boot() async {
        guard let id = appearance?.id else { return }
        retryAt = nil
        do throws(ManagementFailure) {
            try await readInfo()
            try await readLinks()
            if mode == .owner, isPrivileged == true { try await prepare() }
            if !current.contains(.powered) { try await switchOn() }
            guard appearance?.id == id else { return }
            guard current.contains(.powered) else { return stayOff() }
            try await readLinks()
            guard appearance?.id == id, current.contains(.powered) else { return bell.ring() }
            log.info("ready")
            wasReady = true
            lastError = nil
            // Until it has proved itself, the ladder stays where it is.
            refreshAt = clock.now + Self.refreshEvery
            become(.ready)
        } catch {
            guard appearance?.id == id else { return }
            await failedToBoot(error)
        }
    }

    private func failedToBoot(_ failure: ManagementFailure) async {
        note(failure, "switching the adapter on")
        guard failure.status == .blocked, let index = appearance?.index else {
            retryAt = clock.now + .seconds(10)
            return
        }
        let block = await hardware.block(of: index)
        // At the start a block is what the last shutdown left; later a person wants it.
        if block.bySoftware, !block.bySwitch, mode == .owner, !wasReady {
            wasReady = true
            do {
                try await hardware.unblock(index)
                log.notice("was blocked by software; unblocked")
                retryAt = nil
                return bell.ring()
            } catch {
                log.warning("\(error)")
            }
        }
        if block.bySwitch {
            lastError = LinkError(
                .adapter, "the Bluetooth adapter \(address) is blocked by a switch",
                advice: "use the switch or key for radios, or the firmware's settings")
        }
        stayDown(.blocked)
    }

    /// The settings that Classic and LE meters need, in the order in which the kernel takes them.
    /// Keys come before the power, since connections may follow at once.
    private func prepare() async throws(ManagementFailure) {
        guard let index = appearance?.index, let info else { return }
        try await tryTo(.setIOCapability(index, 3))
        if let keys {
            do {
                let bonds = try await keys.bonds(of: address)
                let limit = appearance?.client.packetLimit ?? ManagementCommand.usualLimit
                try await tryTo(.loadLinkKeys(index, bonds.linkKeys, limit: limit))
                try await tryTo(.loadLongTermKeys(index, bonds.longTermKeys, limit: limit))
            } catch let error as ManagementFailure {
                throw error
            } catch {
                // Meters without pairing go on as ever.
                log.warning("\(error)")
                lastError = LinkError(.configuration, "\(error)")
            }
        }
        let wanted: [(ControllerSettings, ManagementCommand)] = [
            (.lowEnergy, .setLowEnergy(index, true)),
            (.classic, .setClassic(index, true)),
            (.simplePairing, .setSimplePairing(index, true)),
            (.bondable, .setBondable(index, true)),
        ]
        for (setting, command) in wanted
        where info.supported.contains(setting) && !current.contains(setting) {
            try await tryTo(command)
        }
    }

    /// Sends what the adapter can do without; that it was refused is told.
    private func tryTo(_ command: ManagementCommand) async throws(ManagementFailure) {
        do throws(ManagementFailure) {
            try await send(command)
        } catch {
            guard error.status != nil else { throw error }
            note(error, "\(command.opcode)")
        }
    }

    private func switchOn() async throws(ManagementFailure) {
        guard willSwitchOn, isPrivileged == true, let index = appearance?.index else { return }
        let reply = try await send(.setPowered(index, true), within: Self.powerLimit)
        if let settings = ManagementCommand.settings(reply) {
            // The event about it comes as well.
            current = settings
        }
        wasSwitchedOnByUs = true
    }

    private func stayOff() {
        let last = lastError
        defer { if let lastError, lastError != last { log.warning("\(lastError)") } }
        if isPrivileged == false {
            lastError = LinkError(
                .permission, "the Bluetooth adapter \(address) is off, and may not be switched on",
                advice: "give the program CAP_NET_ADMIN: in the unit AmbientCapabilities="
                    + "CAP_NET_ADMIN, on the command line sudo")
        } else {
            lastError = LinkError(
                .adapter, "the Bluetooth adapter \(address) is off",
                advice: mode == .guest
                    ? "bluetoothd runs it: bluetoothctl power on"
                    : "switch it on: bluetoothctl power on")
        }
        stayDown(.off)
    }

    private func stayDown(_ state: AdapterState) {
        become(state)
        retryAt = clock.now + .seconds(30)
        refuseAll(unavailable)
    }

    /// For one that is off, blocked or given up: looks whether to try again.
    func reconsider() async {
        guard let index = appearance?.index else { return }
        retryAt = clock.now + .seconds(30)
        if state == .failed {
            ladder.resume(at: clock.now)
            if !ladder.hasGivenUp {
                retryAt = nil
                become(.poweringOn)
            }
            return
        }
        let block = await hardware.block(of: index)
        if block.bySoftware || block.bySwitch {
            lastError = LinkError(
                .adapter, "the Bluetooth adapter \(address) is blocked",
                advice: block.bySwitch
                    ? "use the switch or key for radios" : "rfkill unblock bluetooth")
            become(.blocked)
            return refuseAll(unavailable)
        }
        if willSwitchOn || current.contains(.powered) {
            retryAt = nil
            become(.poweringOn)
        } else {
            // Who switches it on is told by an event; this is for the case that it got lost.
            try? await readInfo()
        }
    }

    // MARK: - Recovery

    /// A link that stands proves that the radio works, unless the kernel itself is stuck.
    var mayClimb: Bool {
        guard isPrivileged != false, mode != .observer else { return false }
        if let notBefore = ladder.notBefore, clock.now < notBefore { return false }
        return links.isEmpty || suspicion.isMute
    }

    /// The adapter works.
    func proven() {
        guard ladder.last != nil else { return }
        ladder.proven()
        log.notice("works again")
    }

    /// Takes the next step of recovery.
    func climb() async {
        guard let index = appearance?.index else { return }
        let block = await hardware.block(of: index)
        let means = RecoveryLadder.Means(
            managementAnswers: !suspicion.isMute, isBlocked: block.bySoftware,
            mayIntervene: mode == .owner || settings.mayRecoverAsGuest,
            mayResetUSB: settings.mayResetUSB && appearance?.bus == .usb)
        guard let step = ladder.climb(at: clock.now, with: means) else { return }
        // Evidence is gathered anew after each step.
        suspicion = AdapterSuspicion()
        if step == .giveUp {
            lastError = LinkError(
                .adapter, "the Bluetooth adapter \(address) is wedged, and nothing helped",
                advice: "cut its power: unplug it, or switch the machine off and on")
            log.error("\(unavailable)")
            return stayDown(.failed)
        }
        log.warning("does not work: \(step.sentence)")
        if step != .calm { become(.recovering) }
        do {
            try await take(step, index)
        } catch {
            let error = (error as? ManagementFailure)?.error(step.sentence) ?? error
            log.warning("\(error)")
            lastError = error as? LinkError ?? lastError
        }
        if step != .calm {
            slots.powerCycled(at: clock.now)
            retryAt = nil
        }
        if appearance != nil { become(.poweringOn) }
    }

    private func take(_ step: RecoveryLadder.Step, _ index: UInt16) async throws {
        switch step {
        case .calm:
            await stopDiscovery()
            await stopListening()
        case .unblock: try await hardware.unblock(index)
        case .powerCycle:
            try await send(.setPowered(index, false), within: Self.powerLimit)
            // How long firmware needs is published nowhere; two seconds are what others give it.
            try await clock.sleep(for: .seconds(2))
            try await send(.setPowered(index, true), within: Self.powerLimit)
        case .bounce: try await hardware.bounce(index)
        case .resetUSB: try await hardware.resetUSB(index)
        case .giveUp: break
        }
    }

    // MARK: - The end

    /// Takes back what we put into the kernel, as far as it answers.
    func leave() async {
        isLeaving = true
        guard appearance != nil else { return }
        refuseAll(.cancelled)
        guard isPrivileged == true, mode != .observer else { return }
        await stopDiscovery()
        await stopListening()
        guard settings.restoresPower, wasSwitchedOnByUs, mode == .owner, links.isEmpty,
            let index = appearance?.index
        else { return }
        do throws(ManagementFailure) {
            try await send(.setPowered(index, false), within: .seconds(2))
        } catch {
            note(error, "switching the adapter off again")
        }
    }
}

extension RecoveryLadder.Step {
    fileprivate var sentence: String {
        switch self {
        case .calm: "stopping all scanning"
        case .unblock: "lifting its block"
        case .powerCycle: "switching it off and on"
        case .bounce: "restarting it"
        case .resetUSB: "resetting its USB port"
        case .giveUp: "nothing is left to try"
        }
    }
}
