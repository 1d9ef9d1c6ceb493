package import MeterCore

/// A clock that runs some whole number of times faster than another, so that a demonstration need
/// not last for hours.
package struct ScaledClock: Timekeeper {
    private let base: any Timekeeper
    private let speed: Int64
    private let origin: MonotonicInstant
    private let wall: WallTime
    private let wallTrusted: Bool

    /// - Parameters:
    ///   - speed: from 1 on.
    ///   - base: what it follows; both show the same monotonic time now.
    ///   - wallStart: time of day now; that of `base` if `nil`.
    package init(speed: Int, base: any Timekeeper, wallStart: WallTime? = nil) {
        precondition(speed >= 1, "a clock does not run backwards")
        let moment = base.moment()
        self.speed = Int64(speed)
        self.base = base
        origin = moment.monotonic
        wall = wallStart ?? moment.wall
        wallTrusted = wallStart != nil || moment.wallTrusted
    }

    package func moment() -> Moment {
        let elapsed = (base.now - origin).nanoseconds * speed
        return Moment(
            monotonic: origin + .nanoseconds(elapsed), wall: wall + .nanoseconds(elapsed),
            wallTrusted: wallTrusted)
    }

    package func sleep(until deadline: MonotonicInstant) async throws {
        let wait = (deadline - origin).nanoseconds
        // Rounded up, so that the deadline has come afterwards.
        let rest = wait % speed > 0 ? 1 : 0
        try await base.sleep(until: origin + .nanoseconds(wait / speed + Int64(rest)))
    }
}
