/// Adds up what flows through one meter, reading by reading, in two independent ways: the sum
/// V·I·Δt over the readings, and the meter's own counters (C6).
package struct EnergyAccountant: Sendable {
    /// What flowed between two readings that follow each other.
    package struct Step: Sendable, Hashable {
        package var duration: Duration
        /// By the trapezoid rule; over a gap what `fill` says.
        package var energy: Microjoules
        package var charge: Microcoulombs
        /// Set when the readings are too far apart for the trapezoid rule.
        package var fill: GapFill?
        /// How far the meter's own counters moved; `nil` when it has none.
        package var countedEnergy: MilliwattHours?
        package var countedCharge: MilliampereHours?
        /// A counter fell back: cleared, or started again after a loss of power.
        package var counterRestarted: Bool
    }

    /// Readings further apart are a gap: the straight line between them says too little.
    package static let longestStep: Duration = .seconds(10)

    private var last: Reading?
    /// Groups whose counters fell a while ago.
    private var falls: [Int: Fall] = [:]
    private var energyRest: Int64 = 0
    private var chargeRest: Int64 = 0

    package init() {}

    /// The reading up to which everything has been added.
    package var lastReading: Reading? { last }

    /// Takes the next reading and returns what flowed since the one before; `nil` for the first.
    /// A reading that is not later than the one before adds nothing.
    package mutating func advance(to reading: Reading) -> Step? {
        guard let previous = last else {
            last = reading
            return nil
        }
        let duration = reading.moment.monotonic - previous.moment.monotonic
        guard duration > .zero else { return nil }
        last = reading
        let counted = countedBetween(previous.frame, reading.frame, in: duration)
        var step = Step(
            duration: duration, energy: .zero, charge: .zero, fill: nil,
            countedEnergy: counted?.energy, countedCharge: counted?.charge,
            counterRestarted: counted?.restarted ?? false)
        guard duration > Self.longestStep else {
            integrate(from: previous, to: reading, into: &step)
            return step
        }
        if let counted {
            step.fill = counted.restarted ? .counterRestarted : .counter
            step.energy = Microjoules(counted.energy)
            step.charge = Microcoulombs(counted.charge)
        } else {
            step.fill = .unobserved
        }
        return step
    }

    /// The trapezoid rule in whole microseconds. Halves and fractions of a microjoule are carried to
    /// the next step, so that a month of steps loses nothing.
    private mutating func integrate(
        from previous: Reading, to reading: Reading, into step: inout Step
    ) {
        let time =
            reading.moment.monotonic.nanoseconds / 1_000
            - previous.moment.monotonic.nanoseconds / 1_000
        func flow(_ frame: MeterFrame) -> (power: Int64, current: Int64) {
            let current = max(frame.current, .zero)
            return (
                Microwatts(max(frame.voltage, .zero), times: current).rawValue, current.rawValue
            )
        }
        let (from, to) = (flow(previous.frame), flow(reading.frame))
        energyRest += (from.power + to.power) * time
        chargeRest += (from.current + to.current) * time
        step.energy = Microjoules(energyRest / 2_000_000)
        step.charge = Microcoulombs(chargeRest / 2_000_000)
        energyRest %= 2_000_000
        chargeRest %= 2_000_000
    }

    /// The most that any of the meters can pass, by the manuals' ranges.
    private static func ratedPower(_ model: MeterModel) -> Microwatts {
        switch model {
        case .um24c: Microwatts(72_000_000)
        case .um34c: Microwatts(96_000_000)
        case .um25c, .tc66c: Microwatts(120_000_000)
        }
    }

    /// What a group showed before its counters fell.
    private struct Fall {
        var before: GroupCounter
        var kind: Kind
        var readings = 0

        enum Kind {
            /// To what may have flowed since a restart: it counts on.
            case restart
            /// By next to nothing: it shows nothing new until it is beyond what it showed before.
            case ripple
            /// To anything else: it is not used until it has come back.
            case unclear
        }

        /// A counter that has not come back after so many readings does not come back.
        static let longest = 60
    }

    /// How far the counters of all groups together moved: a change of the selected group adds
    /// nothing by itself, since only the selected one counts. A counter that fell back to nearly
    /// nothing has counted what it shows since its restart; one that jumps up again after it fell
    /// shows nothing new until it is beyond what it showed before.
    ///
    /// `nil` without counters, while it is unclear what one of them shows, or when the movement is
    /// more than the meter can pass in the time.
    private mutating func countedBetween(
        _ old: MeterFrame, _ new: MeterFrame, in time: Duration
    ) -> (energy: MilliwattHours, charge: MilliampereHours, restarted: Bool)? {
        guard !new.groups.isEmpty, old.groups.count == new.groups.count, old.model == new.model
        else {
            falls = [:]
            return nil
        }
        let hours = time.inSeconds / 3_600
        // A UM's group 0 is cleared once more than 1 mAh is new, which it shows then.
        let likely = GroupCounter(
            charge: MilliampereHours(
                Int64(Double(max(old.current, new.current).rawValue) / 1_000 * hours * 2) + 2),
            energy: MilliwattHours(
                Int64(Double(max(old.power, new.power).rawValue) / 1_000 * hours * 2) + 50))
        var energy: Int64 = 0
        var charge: Int64 = 0
        var restarted = false
        var unclear = false
        for (group, (from, to)) in zip(old.groups, new.groups).enumerated() {
            falls[group]?.readings += 1
            if let fall = falls[group], fall.readings > Fall.longest { falls[group] = nil }
            var moved = GroupCounter(
                charge: to.charge - from.charge, energy: to.energy - from.energy)
            if moved.charge < .zero || moved.energy < .zero {
                let kind: Fall.Kind =
                    if to.charge <= likely.charge, to.energy <= likely.energy {
                        .restart
                    } else if time <= Self.longestStep, moved.charge.rawValue >= -2,
                        moved.energy.rawValue >= -50
                    {
                        .ripple
                    } else {
                        .unclear
                    }
                falls[group] = Fall(before: falls[group]?.before ?? from, kind: kind)
                restarted = restarted || kind == .restart
                unclear = unclear || kind == .unclear
                moved = kind == .restart ? to : GroupCounter(charge: .zero, energy: .zero)
            } else if let fall = falls[group],
                fall.kind != .restart || moved.charge > likely.charge
                    || moved.energy > likely.energy
            {
                unclear = unclear || fall.kind == .unclear
                let before = fall.before
                moved.charge = max(.zero, to.charge - max(from.charge, before.charge))
                moved.energy = max(.zero, to.energy - max(from.energy, before.energy))
                if to.charge >= before.charge, to.energy >= before.energy { falls[group] = nil }
            }
            energy += moved.energy.rawValue
            charge += moved.charge.rawValue
        }
        if unclear { return nil }
        let mostEnergy = Double(Self.ratedPower(new.model).rawValue) / 1_000 * hours + 50
        let mostCharge = 6_000 * hours + 2
        guard Double(energy) <= mostEnergy, Double(charge) <= mostCharge else { return nil }
        return (MilliwattHours(energy), MilliampereHours(charge), restarted)
    }
}
