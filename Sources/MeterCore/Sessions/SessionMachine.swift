/// Finds the sessions of one meter in its readings (C3 to C5).
///
/// Pure: it is told of readings and of the passing of time, and says what is to be stored and
/// published. It never looks at a clock.
package struct SessionMachine: Sendable {
    /// Who a session belongs to.
    package struct Meter: Sendable, Hashable {
        package var address: MeterAddress
        package var name: String
        package var gatewayID: String
        package var softwareVersion: String
        package init(
            address: MeterAddress, name: String, gatewayID: String, softwareVersion: String
        ) {
            self.address = address
            self.name = name
            self.gatewayID = gatewayID
            self.softwareVersion = softwareVersion
        }
    }

    package enum Action: Sendable, Equatable {
        /// A session has begun, at a moment that lies some time in the past.
        case began(SessionSummary)
        /// Points for the running session's curve, in order.
        case samples([Sample])
        /// The session is complete. Points of its curve later than its duration are not part of it.
        case ended(SessionSummary)
    }

    private enum Phase: Sendable {
        case idle
        /// The current is up; what would be the session's sums and curve are kept meanwhile.
        case starting(CurrentRise, SessionRun, [Sample])
        case running(SessionRun)
        case ending(Fall)
    }

    /// A session whose current has fallen.
    private struct Fall: Sendable {
        /// The session as it is if this is the end.
        var ended: SessionRun
        var at: MonotonicInstant
        /// The session as it is if the current comes back, and the points of its curve since.
        var goingOn: SessionRun
        var held: [Sample] = []
        var currents: [Microamperes]
        var rise: CurrentRise?

        /// Whether the current, though it dipped below the stop current, has been up since: for most
        /// of the time at or above the start current, or for nearly all of it at or above the stop
        /// current. A phone in use when it is full wavers between the two.
        func isStillFlowing(_ rules: SessionRules) -> Bool {
            let sorted = currents.sorted()
            return sorted[sorted.count / 2] >= rules.startCurrent
                || sorted[sorted.count / 10] >= rules.stopCurrent
        }

        /// How long the current must be back before the session goes on: as long as it was away, so
        /// that a full device's bursts do not keep a session open.
        func proof(_ rules: SessionRules, _ rise: CurrentRise) -> Duration {
            max(rules.startDelay, min(rise.start - at, rules.endDelay / 2))
        }
    }

    private let meter: Meter
    private let rules: SessionRules
    private var phase = Phase.idle
    private var idle = IdleLevel()
    private var plateau = StandbyPlateau()
    private var accountant = EnergyAccountant()
    private var rejectedFrames = 0
    private var rejectedAtStart = 0
    private var dropped = 0
    private var droppedAtStart = 0
    /// Stopped by hand while the current was up: no session starts by itself before it has been down.
    private var heldOff = false
    private var downSince: MonotonicInstant?
    /// The latest moment that was told of.
    private var now = MonotonicInstant(nanoseconds: .min)

    package init(meter: Meter, rules: SessionRules) {
        self.meter = meter
        self.rules = rules
    }

    /// The receipt so far of the session that runs; `nil` when none does.
    package var current: SessionSummary? {
        switch phase {
        case .idle, .starting: nil
        case .running(let run): receipt(run.summary(of: meter, end: nil))
        // not with what may still turn out to be after the end: a published sum must not fall
        case .ending(let fall): receipt(fall.ended.summary(of: meter, end: nil))
        }
    }

    /// What flowed before the last reading, for the lifetime totals.
    package private(set) var lastStep: EnergyAccountant.Step?

    // MARK: Events

    /// A reading has come. An approximate one passes the time and counts for nothing else: whole
    /// amperes would make sums that look like measurements.
    /// - Parameters:
    ///   - rejected: answers of the meter so far that were not believed, for the receipt.
    ///   - dropped: readings so far that were lost on the way here.
    package mutating func handle(
        _ reading: Reading, rejected: Int, dropped: Int,
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        lastStep = nil
        // a silence that was too long ends a session before the reading that broke it
        var actions = timePassed(to: reading.moment.monotonic)
        rejectedFrames = rejected
        self.dropped = dropped
        if reading.frame.isApproximate { return actions }
        if let last = accountant.lastReading, reading.moment.monotonic <= last.moment.monotonic {
            return actions
        }
        let step = accountant.advance(to: reading)
        lastStep = step
        switch phase {
        case .idle:
            forgetAfterSilence(step)
            actions += consider(reading, step, using: &generator)
        case .starting(var rise, var run, var samples):
            guard let step, step.fill == nil else {
                forgetAfterSilence(step)
                return actions + consider(reading, nil, using: &generator)
            }
            phase = .idle  // or the samples would be copied for each reading
            samples.append(run.add(reading, step))
            let dip = max(rules.startDelay, .seconds(10))
            let patience = idle.isSession(rise, rules) ? rules.startDelay : dip
            if !rise.add(reading, step, threshold: rules.startCurrent, longestDip: patience) {
                idle.add(reading)
            } else if !idle.isStandby(rise) {
                actions += settle(rise, run, samples)
            }
        case .running(let run):
            actions += runOn(run, reading, step)
        case .ending(var fall):
            phase = .idle  // as above
            fall.held.append(fall.goingOn.add(reading, step))
            fall.currents.append(reading.frame.current)
            follow(&fall, reading, step)
            if let rise = fall.rise,
                rise.isProven(for: fall.proof(rules, rise), threshold: rules.startCurrent)
            {
                phase = .running(fall.goingOn)
                actions.append(.samples(fall.held))
            } else {
                phase = .ending(fall)
            }
        }
        return actions
    }

    /// Time has passed, with or without a reading.
    package mutating func timePassed(to now: MonotonicInstant) -> [Action] {
        self.now = max(self.now, now)
        switch phase {
        case .idle: return []
        case .starting(let rise, _, _):
            if now - rise.last > EnergyAccountant.longestStep {
                phase = .idle
            }
            return []
        case .running(let run):
            guard now - run.last.monotonic > rules.gapLimit else { return [] }
            return end(run, .meterUnreachable, at: run.last.monotonic)
        case .ending(let fall):
            guard now - fall.at >= rules.endDelay else { return [] }
            if let rise = fall.rise, now - rise.last <= EnergyAccountant.longestStep { return [] }
            if fall.isStillFlowing(rules) {
                phase = .running(fall.goingOn)
                return [.samples(fall.held)]
            }
            return end(fall.ended, .currentStopped, at: fall.at)
        }
    }

    /// Starts a session by command at the reading that came last, if none runs and that is no more
    /// than ten seconds old. It ends by command, or when the meter is unreachable for too long.
    package mutating func startManually(
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        guard current == nil, let reading = accountant.lastReading,
            now - reading.moment.monotonic <= EnergyAccountant.longestStep
        else { return [] }
        var run = SessionRun(
            id: SessionID(at: reading.moment.wall, using: &generator), from: reading, manual: true)
        let sample = run.add(reading, nil)
        return start(run, [sample])
    }

    /// Ends the session that runs, at its last reading or where its current fell.
    package mutating func stop(_ reason: EndReason) -> [Action] {
        switch phase {
        case .idle: return []
        case .starting:
            phase = .idle
            return []
        case .running(let run):
            heldOff = reason == .manual && run.lastCurrent >= rules.startCurrent
            return end(run, reason, at: run.last.monotonic)
        case .ending(let fall): return end(fall.ended, reason, at: fall.at)
        }
    }

    // MARK: Rules

    private mutating func forgetAfterSilence(_ step: EnergyAccountant.Step?) {
        guard let step, step.duration <= IdleLevel.longestSilence else {
            heldOff = false
            return idle.forget()
        }
    }

    /// Idle: does this reading start a rise?
    private mutating func consider(
        _ reading: Reading, _ step: EnergyAccountant.Step?,
        using generator: inout some RandomNumberGenerator
    ) -> [Action] {
        guard reading.frame.current >= rules.startCurrent else {
            phase = .idle
            idle.add(reading)
            let down = downSince ?? reading.moment.monotonic
            downSince = down
            if reading.moment.monotonic - down >= rules.startDelay { heldOff = false }
            return []
        }
        downSince = nil
        guard !heldOff else { return [] }
        idle.rose()
        var run = SessionRun(
            id: SessionID(at: reading.moment.wall, using: &generator), from: reading,
            manual: false)
        // Half of what flowed since the last idle reading belongs to the session, for the current
        // came up somewhere in between; so does the trapezoid at its end.
        let sample = run.add(reading, step?.fill == nil ? step : nil)
        return settle(CurrentRise(reading), run, [sample])
    }

    /// Starts the session if the rise is proven.
    private mutating func settle(
        _ rise: CurrentRise, _ run: SessionRun, _ samples: [Sample]
    ) -> [Action] {
        guard rise.isProven(for: rules.startDelay, threshold: rules.startCurrent),
            idle.isSession(rise, rules)
        else {
            phase = .starting(rise, run, samples)
            return []
        }
        return start(run, samples)
    }

    private mutating func start(_ run: SessionRun, _ samples: [Sample]) -> [Action] {
        rejectedAtStart = rejectedFrames
        droppedAtStart = dropped
        plateau = StandbyPlateau()
        phase = .running(run)
        return [.began(receipt(run.summary(of: meter, end: nil))), .samples(samples)]
    }

    private mutating func runOn(
        _ before: SessionRun, _ reading: Reading, _ step: EnergyAccountant.Step?
    ) -> [Action] {
        var run = before
        let sample = run.add(reading, step)
        if !run.isManual, reading.frame.current < rules.stopCurrent, let step, step.fill != nil {
            // it fell unseen: this reading is after the end
            var ended = before
            ended.add(step, before: reading)
            phase = .ending(
                Fall(
                    ended: ended, at: momentOfFall(before, step, reading), goingOn: run,
                    held: [sample], currents: [reading.frame.current]))
            return []
        }
        phase = .running(run)
        guard !run.isManual else { return [.samples([sample])] }
        if reading.frame.current < rules.stopCurrent {
            phase = .ending(
                Fall(
                    ended: run, at: reading.moment.monotonic, goingOn: run,
                    currents: [reading.frame.current]))
        } else if let full = plateau.add(reading.frame.current, run) {
            return [.samples([sample])] + end(full, .standby, at: full.last.monotonic)
        }
        return [.samples([sample])]
    }

    /// When the current fell inside a gap: where the energy which the counter shows for the gap would
    /// have been used up at the power before.
    private func momentOfFall(
        _ before: SessionRun, _ step: EnergyAccountant.Step, _ reading: Reading
    ) -> MonotonicInstant {
        let now = reading.moment.monotonic
        guard before.lastPower > .zero else { return now - step.duration }
        let flowed = step.energy.base / before.lastPower.base
        return now - step.duration * (1 - min(1, flowed / step.duration.inSeconds))
    }

    /// While the current is down: is it coming back?
    private func follow(
        _ fall: inout Fall, _ reading: Reading, _ step: EnergyAccountant.Step?
    ) {
        if var rise = fall.rise, let step, step.fill == nil {
            let goesOn = rise.add(
                reading, step, threshold: rules.startCurrent, longestDip: rules.startDelay)
            fall.rise = goesOn ? rise : nil
        } else {
            fall.rise =
                reading.frame.current >= rules.startCurrent ? CurrentRise(reading) : nil
        }
    }

    private mutating func end(
        _ run: SessionRun, _ reason: EndReason, at moment: MonotonicInstant
    ) -> [Action] {
        phase = .idle
        let summary = receipt(run.summary(of: meter, end: (reason, moment)))
        if reason == .meterUnreachable {
            idle.forget()
        } else {
            idle.sessionEnded(
                charge: summary.charge,
                drawing: reason == .standby ? run.lastCurrent : .zero)
        }
        return [.ended(summary)]
    }

    private func receipt(_ summary: SessionSummary) -> SessionSummary {
        var summary = summary
        summary.rejectedFrames = rejectedFrames - rejectedAtStart
        summary.droppedReadings = dropped - droppedAtStart
        return summary
    }
}
