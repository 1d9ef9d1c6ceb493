/// Keeps damaged values of the UM series out. Their frames carry no check over most of the bytes
/// (the UM24C's and UM25C's none at all), so a flipped bit has to show in what the fields say of
/// each other and of the frame before.
///
/// A frame with something odd is held back and the meter asked again at once; it counts only when
/// the next one bears it out. So a real change costs one more request, and a flipped bit is never
/// believed.
struct PlausibilityGate: Sendable {
    enum Verdict: Equatable {
        /// `confirming`: it bears out the frame that was held back before it.
        case accepted(confirming: Bool)
        /// Held back, a word on why; ask again.
        case heldBack(String)
    }

    private enum Oddity: Hashable {
        case power, resistance, fahrenheit, range(String)
    }

    private struct Candidate {
        var frame: MeterFrame
        var at: MonotonicInstant
        var oddities: Set<Oddity>
        /// Nothing but its data lines was odd.
        var onlyLines: Bool
    }

    /// A frame that is older says too little of the next one: it counts as the first.
    private static let silence = EnergyAccountant.longestStep

    private var accepted: (frame: MeterFrame, at: MonotonicInstant)?
    private var candidate: Candidate?
    private var heldBackInARow = 0
    /// Oddities that two frames in a row have borne out: this unit is like that.
    private var usual: Set<Oddity> = []

    /// Forgets what was seen before, as at the start of a connection.
    mutating func reset() {
        accepted = nil
        candidate = nil
        heldBackInARow = 0
    }

    /// Judges a frame whose end bytes were right, taken at `now`.
    mutating func judge(_ frame: MeterFrame, at now: MonotonicInstant) -> Verdict {
        let oddities = Self.oddities(of: frame).subtracting(usual)
        // after a silence the counters may have moved a good deal
        if let accepted, now - accepted.at > Self.silence { self.accepted = nil }
        if let candidate, now - candidate.at > Self.silence { self.candidate = nil }
        var reason = "the first on this link or after a silence"
        var onlyLines = false
        if let odd = oddities.first {
            reason = Self.describe(odd)
        } else if let accepted {
            if let change = Self.oddChange(
                from: accepted.frame, to: frame, in: now - accepted.at)
            {
                reason = change
            } else if let change = Self.changedLines(from: accepted.frame, to: frame) {
                reason = change
                onlyLines = true
            } else {
                return accept(frame, at: now, confirming: false)
            }
        } else {
            onlyLines = heldBackInARow > 0
        }
        // Data lines may go on changing: what is borne out then is that they do.
        if let candidate,
            Self.oddChange(from: candidate.frame, to: frame, in: now - candidate.at) == nil,
            candidate.onlyLines && onlyLines
                || Self.changedLines(from: candidate.frame, to: frame) == nil,
            oddities.isEmpty
                || oddities == candidate.oddities && !oddities.contains(.power)
                    && Self.sameOddValues(candidate.frame, frame, oddities)
        {
            usual.formUnion(oddities)
            return accept(frame, at: now, confirming: true)
        }
        heldBackInARow += 1
        // A unit whose power field lags behind a restless load never agrees with itself; after a
        // while of that, a power within a tenth will do.
        if oddities == [.power], heldBackInARow > 5, let candidate,
            candidate.oddities == [.power], Self.powerAgrees(frame, perMille: 100),
            Self.oddChange(from: candidate.frame, to: frame, in: now - candidate.at) == nil
        {
            return accept(frame, at: now, confirming: true)
        }
        candidate = Candidate(
            frame: frame, at: now, oddities: oddities, onlyLines: onlyLines)
        return .heldBack(reason)
    }

    private mutating func accept(
        _ frame: MeterFrame, at now: MonotonicInstant, confirming: Bool
    ) -> Verdict {
        accepted = (frame, now)
        candidate = nil
        heldBackInARow = 0
        return .accepted(confirming: confirming)
    }

    // MARK: One frame by itself

    private static func oddities(of frame: MeterFrame) -> Set<Oddity> {
        var found: Set<Oddity> = []
        if !powerAgrees(frame, perMille: 2) { found.insert(.power) }
        if !resistanceAgrees(frame) { found.insert(.resistance) }
        if let celsius = frame.temperature, let fahrenheit = frame.temperatureFahrenheit {
            // both are cut off from one finer value: published pairs are 21/70, 24/75, 27/81
            let least = celsius.rawValue * 9 / 5 / 1_000 + 32
            if !(least - 2...least + 3).contains(fahrenheit) { found.insert(.fahrenheit) }
        }
        func expect(_ fine: Bool, _ name: String) {
            if !fine { found.insert(.range(name)) }
        }
        expect((0...30_000_000).contains(frame.voltage.rawValue), "voltage")
        expect((0...7_000_000).contains(frame.current.rawValue), "current")
        expect((0...9).contains(frame.group ?? 0), "group")
        expect(frame.mode?.isDocumented ?? true, "mode")
        expect((0...5).contains(frame.backlight ?? 0), "backlight")
        expect((0...15).contains(frame.screenTimeoutMinutes ?? 0), "screen timeout")
        expect((0...20).contains(frame.screen ?? 0), "screen")
        expect((0...30_000_000).contains(frame.dPlus?.rawValue ?? 0), "D+")
        expect((0...30_000_000).contains(frame.dMinus?.rawValue ?? 0), "D-")
        expect((-40_000...150_000).contains(frame.temperature?.rawValue ?? 0), "temperature")
        if let recording = frame.recording {
            expect((0...500_000).contains(recording.threshold.rawValue), "recording threshold")
        }
        return found
    }

    /// V·I against the power field, within what the last digits leave open.
    private static func powerAgrees(_ frame: MeterFrame, perMille: Int64) -> Bool {
        let product = Microwatts(frame.voltage, times: frame.current)
        return abs((frame.power - product).rawValue)
            <= powerTolerance(of: frame, perMille: perMille).rawValue
    }
    private static func powerTolerance(of frame: MeterFrame, perMille: Int64) -> Microwatts {
        guard let series = UMSeries.of(frame.model) else { return .zero }
        let lastDigits =
            Microwatts(frame.voltage, times: Microamperes(series.currentStep))
            + Microwatts(Microvolts(series.voltageStep), times: frame.current)
        let product = Microwatts(frame.voltage, times: frame.current).rawValue
        return lastDigits + Microwatts(2 * UMSeries.powerStep + product * perMille / 1_000)
    }

    /// V/I against the resistance field, from 10 mA up, below which its digits say little.
    private static func resistanceAgrees(_ frame: MeterFrame) -> Bool {
        guard let resistance = frame.resistance, frame.current.rawValue >= 10_000 else {
            return true
        }
        let ratio = frame.voltage.rawValue * 1_000 / frame.current.rawValue
        return frame.isOpenCircuit
            ? ratio > 5_000_000 : abs(resistance.rawValue - ratio) <= 300 + ratio / 12
    }

    private static func describe(_ oddity: Oddity) -> String {
        switch oddity {
        case .power: "volts times amperes is not its power"
        case .resistance: "volts over amperes is not its resistance"
        case .fahrenheit: "its two temperatures differ"
        case .range(let name): "its \(name) is out of range"
        }
    }

    private static func sameOddValues(
        _ left: MeterFrame, _ right: MeterFrame, _ oddities: Set<Oddity>
    ) -> Bool {
        oddities.allSatisfy { oddity in
            switch oddity {
            case .power: false
            // follows the load: that both are off is all that can be asked
            case .resistance: left.resistance == right.resistance || !left.isOpenCircuit
            case .fahrenheit:
                abs((left.temperatureFahrenheit ?? 0) - (right.temperatureFahrenheit ?? 0)) <= 2
            case .range: true  // oddChange has compared the fields
            }
        }
    }

    // MARK: Against an earlier frame

    /// Names a field that has changed in a way that one more frame should bear out; `nil` when
    /// nothing has.
    private static func oddChange(
        from old: MeterFrame, to new: MeterFrame, in time: Duration
    ) -> String? {
        if old.model != new.model { return "its model changed" }
        // With a load the power field vouches for the voltage; with none, or one so small that the
        // change is lost in the power's last digits, nothing does.
        let step = Microvolts(abs((new.voltage - old.voltage).rawValue))
        let tolerance = powerTolerance(of: new, perMille: 2)
        if step > Microvolts(300_000), Microwatts(step, times: new.current) <= tolerance + tolerance
        {
            return "its voltage changed without a load that would show in its power"
        }
        if let from = old.temperature, let to = new.temperature,
            abs((to - from).rawValue) > 5_000
        {
            return "its temperature jumped"
        }
        if old.group != new.group { return "its group changed" }
        if old.backlight != new.backlight || old.screenTimeoutMinutes != new.screenTimeoutMinutes
            || old.screen != new.screen
        {
            return "its screen settings changed"
        }
        return oddCount(from: old, to: new, in: time)
    }

    /// What a device says on the data lines, and what the meter makes of it.
    private static func changedLines(from old: MeterFrame, to new: MeterFrame) -> String? {
        for (name, from, to) in [
            ("D+", old.dPlus, new.dPlus), ("D-", old.dMinus, new.dMinus),
        ] where abs((to ?? .zero).rawValue - (from ?? .zero).rawValue) > 150_000 {
            return "its \(name) changed"
        }
        return old.mode == new.mode ? nil : "its mode changed"
    }

    /// Counters move forward, no faster than the current allows, and only the selected group's.
    private static func oddCount(
        from old: MeterFrame, to new: MeterFrame, in time: Duration
    ) -> String? {
        let hours = time.inSeconds / 3_600
        let mostCharge =
            Int64(Double(max(old.current, new.current).rawValue) / 1_000 * hours * 2) + 1
        let mostEnergy =
            Int64(Double(max(old.power, new.power).rawValue) / 1_000 * hours * 2) + 1
        for (index, pair) in zip(old.groups, new.groups).enumerated() {
            let charge = (pair.1.charge - pair.0.charge).rawValue
            let energy = (pair.1.energy - pair.0.energy).rawValue
            let selected = index == new.group
            if !(0...(selected ? mostCharge : 0)).contains(charge)
                || !(0...(selected ? mostEnergy : 0)).contains(energy)
            {
                return "the counters of its group \(index) jumped"
            }
        }
        if let from = old.recording, let to = new.recording {
            if from.threshold != to.threshold || from.active != to.active {
                return "its recording state changed"
            }
            if !(0...mostCharge).contains((to.charge - from.charge).rawValue)
                || !(0...mostEnergy).contains((to.energy - from.energy).rawValue)
                || !(0...Int64(time.inSeconds) + 2).contains(to.seconds - from.seconds)
            {
                return "its recording counters jumped"
            }
        }
        return nil
    }
}
