/// A point on a clock that never steps back, in nanoseconds since an arbitrary start. Every
/// duration comes from these.
package struct MonotonicInstant: Hashable, Comparable, Sendable, Codable {
    package var nanoseconds: Int64
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }
    package static func + (instant: Self, duration: Duration) -> Self {
        Self(nanoseconds: instant.nanoseconds + duration.nanoseconds)
    }
    package static func - (instant: Self, duration: Duration) -> Self {
        Self(nanoseconds: instant.nanoseconds - duration.nanoseconds)
    }
    package static func - (later: Self, earlier: Self) -> Duration {
        .nanoseconds(later.nanoseconds - earlier.nanoseconds)
    }
}

extension Duration {
    /// Whole nanoseconds; ±292 years fit.
    package var nanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
    /// Whole milliseconds, truncated.
    package var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
    /// Seconds as a fraction, for showing.
    package var inSeconds: Double { Double(nanoseconds) / 1e9 }
}

/// Time of day in UTC, in milliseconds since 1970. A value of doubt: boards without a clock battery
/// start in 1970 or at the last saved time.
package struct WallTime: Hashable, Comparable, Sendable, Codable {
    package var milliseconds: Int64
    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    package static func < (left: Self, right: Self) -> Bool {
        left.milliseconds < right.milliseconds
    }
    package static func + (time: Self, duration: Duration) -> Self {
        Self(milliseconds: time.milliseconds + duration.milliseconds)
    }
    package static func - (time: Self, duration: Duration) -> Self {
        Self(milliseconds: time.milliseconds - duration.milliseconds)
    }
    package static func - (later: Self, earlier: Self) -> Duration {
        .milliseconds(later.milliseconds - earlier.milliseconds)
    }

    package init(from decoder: any Decoder) throws {
        milliseconds = try decoder.singleValueContainer().decode(Int64.self)
    }
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(milliseconds)
    }

    /// ISO 8601 in UTC with milliseconds and `Z`, e.g. `2026-11-30T20:30:00.000Z`, for the years 0
    /// to 9999. Done in integers, since dates kept as floating seconds lose a millisecond now and
    /// then. The calendar rule is the proleptic Gregorian one, counted in eras of 400 years from
    /// 1 March of year 0.
    package var iso8601: String {
        let day = milliseconds.flooredDivision(by: 86_400_000)
        let rest = milliseconds - day * 86_400_000
        let shifted = day + 719_468  // days from 0000-03-01 to 1970-01-01
        let era = shifted.flooredDivision(by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let dayOfMonth = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)

        func padded(_ value: Int64, _ width: Int) -> String {
            let digits = String(value)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(dayOfMonth, 2))T"
            + "\(padded(rest / 3_600_000, 2)):\(padded(rest / 60_000 % 60, 2)):"
            + "\(padded(rest / 1000 % 60, 2)).\(padded(rest % 1000, 3))Z"
    }
}

extension Int64 {
    fileprivate func flooredDivision(by divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}

/// What the clocks said at one moment.
package struct Moment: Sendable, Hashable {
    package var monotonic: MonotonicInstant
    package var wall: WallTime
    /// Whether the kernel held the wall clock for synchronised at that moment.
    package var wallTrusted: Bool

    package init(monotonic: MonotonicInstant, wall: WallTime, wallTrusted: Bool) {
        self.monotonic = monotonic
        self.wall = wall
        self.wallTrusted = wallTrusted
    }
}
