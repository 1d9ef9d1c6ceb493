import MeterCore
import Synchronization

/// What waits for the channel's one consumer.
///
/// An own queue instead of a buffering policy, since those drop any event alike. Here only received
/// messages are, so that a stream of them cannot fill the memory; the others come at the pace of
/// the reconnecting.
final class EventQueue: Sendable {
    /// Received messages that may wait.
    static let limit = 1000

    private struct State {
        var waiting = FIFO<ChannelEvent>()
        var messages = 0
        var consumer: CheckedContinuation<ChannelEvent?, Never>?
        var isFinished = false
    }
    private let state = Mutex(State())

    /// To be called once. Ends after `finish`, when all that waits has been taken.
    func stream() -> AsyncStream<ChannelEvent> {
        // No buffer of its own: each event is asked for here.
        AsyncStream {
            await self.next()
        } onCancel: {
            self.abandon()
        }
    }

    /// Returns false if the event was dropped.
    @discardableResult func add(_ event: ChannelEvent) -> Bool {
        let (consumer, isKept) = state.withLock {
            state -> (CheckedContinuation<ChannelEvent?, Never>?, Bool) in
            if state.isFinished { return (nil, false) }
            if let consumer = state.consumer.take() { return (consumer, true) }
            if case .received = event {
                if state.messages == Self.limit { return (nil, false) }
                state.messages += 1
            }
            state.waiting.append(event)
            return (nil, true)
        }
        consumer?.resume(returning: event)
        return isKept
    }

    func finish() {
        let consumer = state.withLock { state in
            state.isFinished = true
            return state.consumer.take()
        }
        consumer?.resume(returning: nil)
    }

    /// The consumer was cancelled and will not come again.
    private func abandon() {
        state.withLock { $0.waiting = FIFO() }
        finish()
    }

    private func next() async -> ChannelEvent? {
        await withCheckedContinuation { continuation in
            let answer: ChannelEvent?? = state.withLock { state in
                if let event = state.waiting.popFirst() {
                    if case .received = event { state.messages -= 1 }
                    return .some(event)
                }
                // The flag is set before `abandon` takes the lock: one of the two sees the other.
                if state.isFinished || Task.isCancelled { return .some(nil) }
                precondition(state.consumer == nil, "the channel's events have one consumer")
                state.consumer = continuation
                return .none
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }
}
