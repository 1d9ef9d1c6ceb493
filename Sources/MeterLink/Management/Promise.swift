import MeterCore
import Synchronization

/// A value that one task waits for and another brings: whichever comes first, and at most once.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case open
        case waiting(CheckedContinuation<Value?, Never>)
        case kept(Value)
        case over
    }
    private let state = Mutex(State.open)

    init() {}

    /// Brings the value.
    /// - Returns: `false` when nobody wants it any more.
    @discardableResult
    func keep(_ value: Value) -> Bool {
        let (waiter, isTaken): (CheckedContinuation<Value?, Never>?, Bool) = state.withLock {
            switch $0 {
            case .open:
                $0 = .kept(value)
                return (nil, true)
            case .waiting(let waiter):
                $0 = .over
                return (waiter, true)
            case .kept, .over: return (nil, false)
            }
        }
        waiter?.resume(returning: value)
        return isTaken
    }

    /// Waits for the value; `nil` when the task is cancelled or `giveUp` was called before it came.
    func value() async -> Value? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Value?? = state.withLock {
                    switch $0 {
                    case .open where Task.isCancelled:
                        $0 = .over
                        return .some(nil)
                    case .open:
                        $0 = .waiting(continuation)
                        return nil
                    case .kept(let value):
                        $0 = .over
                        return value
                    case .waiting: preconditionFailure("two tasks wait for one promise")
                    case .over: return .some(nil)
                    }
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            giveUp()
        }
    }

    /// Ends the waiting without a value, unless one has come.
    func giveUp() {
        let waiter: CheckedContinuation<Value?, Never>? = state.withLock {
            switch $0 {
            case .open: $0 = .over
            case .waiting(let waiter):
                $0 = .over
                return waiter
            case .kept, .over: break
            }
            return nil
        }
        waiter?.resume(returning: nil)
    }

    /// Waits for the value until `deadline`, for ever when that is `nil`; a value that comes in the
    /// moment of the deadline is returned, not lost.
    /// - Returns: `nil` when there was none, or the task is cancelled.
    func value(until deadline: MonotonicInstant?, by clock: any Timekeeper) async -> Value? {
        guard let deadline else { return await value() }
        return await withTaskGroup(of: Void.self, returning: Value?.self) { group in
            group.addTask {
                // Cancelled, or over because the value has come: both end here.
                try? await clock.sleep(until: deadline)
                self.giveUp()
            }
            let value = await self.value()
            group.cancelAll()
            return value
        }
    }
}

/// Wakes one task that looks after something, however often it is rung before that looks. A second
/// task that waits sends the first on its way.
final class Bell: Sendable {
    private let state = Mutex((isRung: false, waiter: Promise<Void>?.none))

    init() {}

    func ring() {
        let waiter = state.withLock { state in
            defer { state = (state.waiter == nil, nil) }
            return state.waiter
        }
        waiter?.keep(())
    }

    /// Returns when it was rung since the last time, at `deadline`, or when the task is cancelled.
    func wait(until deadline: MonotonicInstant?, by clock: any Timekeeper) async {
        let promise = Promise<Void>()
        let (isRung, former) = state.withLock { state in
            defer { state = (false, state.isRung ? nil : promise) }
            return (state.isRung, state.waiter)
        }
        former?.keep(())
        if isRung { return }
        _ = await promise.value(until: deadline, by: clock)
        state.withLock { state in
            if state.waiter === promise { state.waiter = nil }
        }
    }
}
