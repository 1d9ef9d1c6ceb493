import MeterCore

/// A driver with a meter's answers put before it by hand, and time that moves as told.
struct Bench {
    var driver: MeterDriver
    var now = MonotonicInstant(nanoseconds: 0)

    init(_ driver: MeterDriver) { self.driver = driver }

    /// Asks, and hands the driver `bytes` in one piece 150 ms later.
    mutating func ask(_ bytes: [UInt8], after wait: Duration = .milliseconds(150))
        -> MeterDriver.Outcome
    {
        _ = driver.request()
        now = now + wait
        return driver.receive(bytes, at: now)
    }

    /// Polls once a second until a frame is given out, asking again at once when told to.
    /// - Returns: the frame and how many requests it took, at most `limit`.
    mutating func poll(
        limit: Int = 20, after wait: Duration = .seconds(1), _ answer: (MonotonicInstant) -> [UInt8]
    ) -> (frame: MeterFrame?, requests: Int) {
        now = now + wait
        for count in 1...limit {
            let outcome = ask(answer(now))
            if let frame = outcome.frame { return (frame, count) }
            if outcome == .incomplete { driver.giveUp() }
        }
        return (nil, limit)
    }
}

extension MeterDriver.Outcome {
    var frame: MeterFrame? {
        if case .frame(let frame) = self { frame } else { nil }
    }
    var asksAgain: Bool {
        if case .askAgain = self { true } else { false }
    }
}
