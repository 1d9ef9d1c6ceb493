/// A current that has come up and may turn out to be a session, or the going on of one.
struct CurrentRise: Sendable {
    let start: MonotonicInstant
    private(set) var last: MonotonicInstant
    private(set) var charge = Microcoulombs.zero
    private var lastCurrent: Microamperes
    private var lowSince: MonotonicInstant?

    init(_ first: Reading) {
        start = first.moment.monotonic
        last = start
        lastCurrent = first.frame.current
    }

    var duration: Duration { last - start }

    /// Charge over time; the first reading's current while there is only that.
    var meanCurrent: Microamperes {
        let time = duration.milliseconds
        return time <= 0 ? lastCurrent : Microamperes(charge.rawValue * 1_000 / time)
    }

    /// Adds a reading. A dip shorter than `dip` does not end the rise, as long as the mean stays up.
    /// - Returns: whether it goes on.
    mutating func add(
        _ reading: Reading, _ step: EnergyAccountant.Step, threshold: Microamperes,
        longestDip dip: Duration
    ) -> Bool {
        last = reading.moment.monotonic
        lastCurrent = reading.frame.current
        charge += step.charge
        guard lastCurrent < threshold else {
            lowSince = nil
            return true
        }
        let low = lowSince ?? last
        lowSince = low
        return last - low < dip && meanCurrent >= threshold
    }

    /// Up for at least `time`, and still.
    func isProven(for time: Duration, threshold: Microamperes) -> Bool {
        duration >= time && lastCurrent >= threshold && meanCurrent >= threshold
    }
}
