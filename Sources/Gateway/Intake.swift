import MeterCore
import Synchronization

/// The way from a meter's task to its recorder. A recorder that cannot keep up, as with a card that
/// stalls, loses the oldest readings, and they are counted (C10).
final class Intake: Sendable {
    enum Event: Sendable {
        /// `rejected`: answers so far that were not believed.
        case reading(Reading, rejected: Int)
        case tick(MonotonicInstant)
        /// The link is up (`nil`), or is down for this reason.
        case link(ConnectionState, LinkError?)
    }

    /// Readings that may wait, and one tick; changes of the link are rare.
    private static let depth = 101

    let events: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation
    private let lost = Atomic(0)
    private let tickWaits = Atomic(false)

    init() {
        // newest: a recorder that is behind does better with what is current
        (events, continuation) = AsyncStream.makeStream(
            bufferingPolicy: .bufferingNewest(Self.depth))
    }

    /// Readings lost so far.
    var dropped: Int { lost.load(ordering: .relaxed) }

    func offer(_ reading: Reading, rejected: Int) { yield(.reading(reading, rejected: rejected)) }

    /// Tells how the link is, when that has changed.
    func link(_ state: ConnectionState, _ fault: LinkError?) { yield(.link(state, fault)) }

    /// Tells that time has passed, unless the recorder has not heard the last time yet.
    func tick(_ now: MonotonicInstant) {
        guard !tickWaits.exchange(true, ordering: .relaxed) else { return }
        yield(.tick(now))
    }

    /// Called by the recorder for each tick that it takes.
    func tickTaken() { tickWaits.store(false, ordering: .relaxed) }

    func finish() { continuation.finish() }

    private func yield(_ event: Event) {
        guard case .dropped(let victim) = continuation.yield(event) else { return }
        switch victim {
        case .reading: lost.wrappingAdd(1, ordering: .relaxed)
        case .tick: tickTaken()
        case .link: break  // the next change tells anew
        }
    }
}
