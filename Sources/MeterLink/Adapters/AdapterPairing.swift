import LinuxIO
import MeterCore

// As owner of the adapter: pairing, and the keys that it leaves behind.

extension Adapter {
    /// The kernel gives a pairing 60 s.
    private static let pairLimit: Duration = .seconds(65)
    private static let refusalPause: Duration = .seconds(2)

    /// Pairs with a meter, in a turn of its own, and keeps the key.
    func pair(_ peer: PeerAddress, code: String) async throws {
        guard mode == .owner else {
            throw LinkError(
                .pairing, "bluetoothd runs, and pairing is its business",
                advice: "bluetoothctl, then: pair \(peer) (code \(code)), trust \(peer); or end "
                    + "it for good: systemctl disable --now bluetooth")
        }
        guard isPrivileged != false else {
            throw ManagementStatus.permissionDenied.error("pairing")
        }
        guard pairing == nil else {
            throw LinkError(.transient, "another meter is being paired on this adapter")
        }
        let kept = Promise<LinkError?>()
        pairing = Pairing(peer: peer, code: code, kept: kept)
        defer { pairing = nil }
        rules.forgive(peer)
        try await withTurn(for: peer, isPersons: true) { [self] _ in
            guard try await converse(with: peer) else { return }
            // The key comes before the kernel's answer, but perhaps we are still writing it.
            let deadline = clock.now + .seconds(5)
            if let error = await kept.value(until: deadline, by: clock) ?? nil { throw error }
        }
    }

    /// - Returns: whether a key is on its way.
    private func converse(with peer: PeerAddress) async throws(LinkError) -> Bool {
        guard let index = appearance?.index else { throw unavailable }
        do throws(ManagementFailure) {
            try await send(.pair(index, peer, ioCapability: 3), within: Self.pairLimit)
            codeGiven.remove(peer)
            log.notice("paired with \(peer)")
            return true
        } catch {
            let wasAsked = codeGiven.remove(peer) != nil
            switch error {
            case .status(.alreadyPaired, _): return false
            case .status(.authenticationFailed, _), .status(.rejected, _):
                throw refused(by: peer)
            case .status(.disconnected, _), .status(.notConnected, _):
                throw wasAsked ? refused(by: peer) : noAnswer(of: peer)
            case .status(.connectFailed, _), .status(.timeout, _): throw noAnswer(of: peer)
            case .cancelled, .unanswered:
                _ = await withoutCancellation { [self] in
                    try? await send(.cancelPairing(index, peer), within: .seconds(2))
                }
                throw error.error("pairing")
            default: throw error.error("pairing")
            }
        }
    }

    private func refused(by peer: PeerAddress) -> LinkError {
        rules.refused(peer, at: clock.now)
        return LinkError(
            .pairing, "\(peer) refused the pairing code",
            advice: "find its code and give it: usbmeter pair \(peer) --pin PIN")
    }
    private func noAnswer(of peer: PeerAddress) -> LinkError {
        LinkError(
            .absent, "\(peer) did not answer the request to pair",
            advice: "is it on, near, and not connected to a phone?")
    }

    /// Removes a pairing, here and in the kernel.
    func unpair(_ peer: PeerAddress) async throws {
        guard mode == .owner else {
            throw LinkError(
                .pairing, "bluetoothd runs, and pairing is its business",
                advice: "bluetoothctl remove \(peer)")
        }
        rules.forgive(peer)
        try await keys?.forget(peer, of: address)
        guard let index = appearance?.index else { return }
        do throws(ManagementFailure) {
            try await send(.unpair(index, peer, disconnecting: true))
        } catch  where error.status == .notPaired {
            return
        } catch {
            throw error.error("removing the pairing")
        }
    }

    // MARK: - The kernel's questions

    func pairingEvent(_ event: ManagementEvent) {
        guard mode == .owner, let appearance else { return }
        let index = appearance.index
        let answer: ManagementCommand
        var isRefusal = true
        switch event {
        case .pinRequest(let peer, let isSecure):
            // Asked again: the last answer was not liked, and perhaps nothing else tells so.
            if codeGiven.remove(peer) != nil, pairing?.peer != peer { codeRefused(by: peer) }
            if let code = code(for: peer), !isSecure || code.utf8.count == 16 {
                codeGiven.insert(peer)
                answer = .pinReply(index, peer, pin: Array(code.utf8))
                isRefusal = false
            } else {
                answer = .pinRefusal(index, peer)
            }
        case .confirmationRequest(let peer, let isPlain, _):
            // There is no screen to compare a number on.
            isRefusal = !isPlain || code(for: peer) == nil
            answer = isRefusal ? .confirmRefusal(index, peer) : .confirm(index, peer)
        case .passkeyRequest(let peer): answer = .passkeyRefusal(index, peer)
        case .authenticationFailed(let peer, _):
            authenticationFailed(peer, appearance)
            return
        default: return
        }
        appearance.beside { [self, isRefusal] in
            // The kernel asks every program. Another one of ours may pair it for a person just now,
            // and the first answer counts.
            if isRefusal { try? await clock.sleep(for: Self.refusalPause) }
            await reply(answer)
        }
    }

    private func reply(_ answer: ManagementCommand) async {
        do throws(ManagementFailure) {
            try await send(answer)
        } catch  where error.status != nil {
            // The question is no longer open.
        } catch {
            note(error, "answering a pairing request")
        }
    }

    /// `nil` for strangers, and for meters that have refused the code twice.
    private func code(for peer: PeerAddress) -> String? {
        if let pairing, pairing.peer == peer { return pairing.code }
        guard let known = neighbourhood.known(peer), known.pairsByItself,
            !rules.isParked(peer, at: clock.now)
        else { return nil }
        return known.code ?? PairingRules.usualCode
    }

    private func authenticationFailed(_ peer: PeerAddress, _ appearance: Appearance) {
        // While a person pairs, the answer to that request tells.
        guard pairing?.peer != peer else { return }
        guard codeGiven.remove(peer) == nil else {
            return codeRefused(by: peer)
        }
        appearance.beside { [self] in await forgetStaleKey(of: peer) }
    }

    func codeRefused(by peer: PeerAddress) {
        rules.refused(peer, at: clock.now)
        guard rules.isParked(peer, at: clock.now) else { return }
        log.warning("\(peer) refused its pairing code twice: usbmeter pair \(peer) --pin PIN")
    }

    /// The meter has lost its key, so ours is worthless; it will ask for its code again.
    private func forgetStaleKey(of peer: PeerAddress) async {
        do {
            guard let keys, try await keys.holds(peer, of: address) else { return }
            log.notice("\(peer) has forgotten its pairing; ours is removed")
            try await unpair(peer)
        } catch {
            log.warning("\(error)")
        }
    }

    // MARK: - Keys

    /// Writes down a key that the kernel has made and will forget.
    func keep(_ event: ManagementEvent) async {
        guard mode == .owner else { return }
        do {
            switch event {
            case .newLinkKey(let key, let isToStore):
                paired(key.peer)
                if isToStore { try await keys?.store(key, of: address) }
                kept(key.peer)
            case .newLongTermKey(let key, let isToStore):
                paired(key.peer)
                if isToStore { try await keys?.store(key, of: address) }
                kept(key.peer)
            default: return
            }
        } catch {
            let error = LinkError(
                .configuration, "a pairing could not be kept: \(error)",
                advice: "it holds until the adapter goes or the machine restarts")
            log.warning("\(error)")
            lastError = error
            if let pairing { pairing.kept.keep(error) }
        }
    }

    private func paired(_ peer: PeerAddress) {
        codeGiven.remove(peer)
        rules.forgive(peer)
    }

    private func kept(_ peer: PeerAddress) {
        if let pairing, pairing.peer == peer { pairing.kept.keep(nil) }
    }
}
