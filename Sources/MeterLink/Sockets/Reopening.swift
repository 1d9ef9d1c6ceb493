import MeterCore
import Synchronization

/// When a meter may be connected again after a link to it has ended.
final class Reopening: Sendable {
    private struct State {
        /// The last link fell; its end was not ours.
        var hasFallen = false
        var closed: (at: MonotonicInstant, adapter: MeterAddress)?
    }

    private let peer: PeerAddress
    private let clock: any Timekeeper
    private let state = Mutex(State())

    init(of peer: PeerAddress, clock: any Timekeeper) {
        self.peer = peer
        self.clock = clock
    }

    func opened() { state.withLock { $0 = State() } }

    /// The link fell by itself.
    func fell() { state.withLock { $0.hasFallen = true } }

    /// The socket was closed.
    func closed(on adapter: MeterAddress) {
        let now = clock.now
        state.withLock { state in
            // an LE link that fell is gone; a UM24C wants to rest all the same
            if peer.isLowEnergy, state.hasFallen { return }
            state.closed = (now, adapter)
        }
    }

    /// Waits as long as it takes.
    ///
    /// The kernel keeps an LE link for 2 s after its socket was closed; a new socket would land on
    /// the old link, with what was agreed on it. A UM24C does not take a quick reconnect over RFCOMM
    /// (libsigrok PR 40).
    func wait(_ radio: any RadioAccess) async throws(LinkError) {
        guard let closed = state.withLock({ $0.closed }) else { return }
        let pause: Duration = peer.isLowEnergy ? .milliseconds(2_500) : .seconds(1)
        let end = closed.at + pause
        guard clock.now < end else { return }
        // the management socket has seen it end
        if peer.isLowEnergy, await radio.disconnectReason(peer, on: closed.adapter) != nil {
            return
        }
        do { try await clock.sleep(until: end) } catch { throw .cancelled }
    }
}
