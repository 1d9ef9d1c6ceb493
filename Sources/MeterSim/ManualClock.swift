package import MeterCore
import Synchronization

/// A clock whose hands are moved by a test.
///
/// `advance` does not skip: it goes to each sleeper's own time in order and wakes it there. So that
/// a woken task can do its work and go to sleep again before time goes on, `advance` is told how
/// many tasks are asleep once all is quiet, and waits for that many before each move and at its
/// end.
///
///     let clock = ManualClock()
///     async let polling: Void = poll(clock: clock)  // sleeps a second, over and over
///     try await clock.advance(by: .seconds(60), sleepers: 1)
package final class ManualClock: Timekeeper {
    private struct Sleeper {
        var id: Int
        var due: MonotonicInstant
        var continuation: CheckedContinuation<Bool, Never>
    }
    private struct Waiter {
        var id: Int
        var count: Int
        var continuation: CheckedContinuation<Void, Never>
    }
    private struct State {
        var now: MonotonicInstant
        /// Wall time at the instant zero.
        var wallAtZero: WallTime
        var wallTrusted: Bool
        var sleepers: [Sleeper] = []
        var waiters: [Waiter] = []
        var nextID = 0

        mutating func newID() -> Int {
            nextID += 1
            return nextID
        }
    }
    private let state: Mutex<State>

    /// Sets the monotonic clock to `start` and the wall clock to `wall`.
    package init(
        start: MonotonicInstant = MonotonicInstant(nanoseconds: 1_000_000_000_000),
        wall: WallTime = WallTime(milliseconds: 1_800_000_000_000), wallTrusted: Bool = true
    ) {
        let atZero = wall - .nanoseconds(start.nanoseconds)
        state = Mutex(State(now: start, wallAtZero: atZero, wallTrusted: wallTrusted))
    }

    package func moment() -> Moment {
        state.withLock { state in
            Moment(
                monotonic: state.now,
                wall: state.wallAtZero + .nanoseconds(state.now.nanoseconds),
                wallTrusted: state.wallTrusted)
        }
    }

    /// Steps the wall clock, forwards or backwards; monotonic time does not notice.
    package func setWall(_ wall: WallTime, trusted: Bool) {
        state.withLock { state in
            state.wallAtZero = wall - .nanoseconds(state.now.nanoseconds)
            state.wallTrusted = trusted
        }
    }

    package func sleep(until deadline: MonotonicInstant) async throws {
        let id = state.withLock { $0.newID() }
        let reached = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                var outcome: Bool?
                var satisfied: [Waiter] = []
                state.withLock { state in
                    if Task.isCancelled {
                        outcome = false
                    } else if deadline <= state.now {
                        outcome = true
                    } else {
                        state.sleepers.append(
                            Sleeper(id: id, due: deadline, continuation: continuation))
                        satisfied = Self.takeSatisfied(&state)
                    }
                }
                if let outcome { continuation.resume(returning: outcome) }
                for waiter in satisfied { waiter.continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                state.sleepers.firstIndex { $0.id == id }.map { state.sleepers.remove(at: $0) }
            }
            sleeper?.continuation.resume(returning: false)
        }
        if !reached { throw CancellationError() }
    }

    /// When each sleeping task is due, the next one first.
    package var deadlines: [MonotonicInstant] {
        state.withLock { state in state.sleepers.map(\.due) }.sorted()
    }

    /// Waits until at least this many tasks sleep.
    /// - Throws: `CancellationError` when the waiting task is cancelled, as by a test's time limit.
    package func waitForSleepers(count: Int) async throws {
        let id = state.withLock { $0.newID() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isSatisfied = state.withLock { state in
                    if state.sleepers.count >= count || Task.isCancelled { return true }
                    state.waiters.append(Waiter(id: id, count: count, continuation: continuation))
                    return false
                }
                if isSatisfied { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume()
        }
        try Task.checkCancellation()
    }

    /// Moves to the time of the next sleeper and wakes all who are due then, in the order in which
    /// they went to sleep. Without one up to `limit` it moves to `limit` and wakes nobody.
    ///
    /// Returns at once: whoever needs the woken tasks to have done their work waits for its effect.
    /// - Returns: how many were woken.
    @discardableResult
    package func step(to limit: MonotonicInstant) -> Int {
        let woken = state.withLock { state in
            let next = state.sleepers.map(\.due).min() ?? limit
            state.now = max(state.now, min(next, limit))
            let now = state.now
            let woken = state.sleepers.filter { $0.due <= now }
            state.sleepers.removeAll { $0.due <= now }
            return woken
        }
        for sleeper in woken { sleeper.continuation.resume(returning: true) }
        return woken.count
    }

    /// Moves time forward through all sleepers' times.
    /// - Parameters:
    ///   - duration: how far.
    ///   - sleepers: how many tasks sleep once all that was woken has done its work. Too many wait
    ///     for ever; too few let time go on too early.
    /// - Throws: `CancellationError` when the task is cancelled.
    package func advance(by duration: Duration, sleepers: Int) async throws {
        let target = now + duration
        repeat {
            try await waitForSleepers(count: sleepers)
            step(to: target)
        } while now < target
        try await waitForSleepers(count: sleepers)
    }

    private static func takeSatisfied(_ state: inout State) -> [Waiter] {
        let count = state.sleepers.count
        let satisfied = state.waiters.filter { $0.count <= count }
        state.waiters.removeAll { $0.count <= count }
        return satisfied
    }
}
