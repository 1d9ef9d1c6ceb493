import Synchronization

/// A queue with one reader, who can be cancelled while it waits without losing anything; an
/// `AsyncStream` would end for good.
///
/// At most `capacity` elements wait; the newest are kept, since a far end that nobody listens to
/// talks into the void as well.
final class Mailbox<Element: Sendable>: Sendable {
    private struct State {
        var waiting: [Element] = []
        var reader: CheckedContinuation<Element?, Never>?
    }
    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func put(_ element: Element) {
        let reader = state.withLock { state in
            let reader = state.reader
            state.reader = nil
            if reader == nil {
                if state.waiting.count == capacity { state.waiting.removeFirst() }
                state.waiting.append(element)
            }
            return reader
        }
        reader?.resume(returning: element)
    }

    func removeAll() {
        state.withLock { $0.waiting = [] }
    }

    /// Waits for an element; `nil` when the task is cancelled.
    func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let ready: Element?? = state.withLock { state in
                    if !state.waiting.isEmpty { return .some(state.waiting.removeFirst()) }
                    if Task.isCancelled { return .some(nil) }
                    precondition(state.reader == nil, "a mailbox has one reader")
                    state.reader = continuation
                    return nil
                }
                if let ready { continuation.resume(returning: ready) }
            }
        } onCancel: {
            let reader = state.withLock { state in
                let reader = state.reader
                state.reader = nil
                return reader
            }
            reader?.resume(returning: nil)
        }
    }
}
