import LinuxIO
import MeterCore

/// The clocks of this machine.
struct SystemTimekeeper: Timekeeper {
    func moment() -> Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: SystemClock.monotonicNanoseconds()),
            wall: WallTime(milliseconds: SystemClock.realtimeMilliseconds()),
            wallTrusted: SystemClock.isSynchronised())
    }

    func sleep(until deadline: MonotonicInstant) async throws {
        // The monotonic clock counts time asleep and the task's need not, so look again.
        while true {
            let now = SystemClock.monotonicNanoseconds()
            guard now < deadline.nanoseconds else { return try Task.checkCancellation() }
            try await Task.sleep(for: .nanoseconds(deadline.nanoseconds - now))
        }
    }
}
