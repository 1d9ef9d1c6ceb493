/// The sums of one session while it runs: a value, so that a copy taken where the current fell is
/// the session as it would be if that was the end.
struct SessionRun: Sendable {
    let id: SessionID
    let start: Moment
    /// Started by command: ends by command.
    let isManual: Bool
    private(set) var last: Moment
    private var model: MeterModel
    private var energy = Microjoules.zero
    private var charge = Microcoulombs.zero
    private var countedEnergy = MilliwattHours.zero
    private var countedCharge = MilliampereHours.zero
    private var hasCounters = true
    private(set) var lastPower = Microwatts.zero
    private(set) var lastCurrent = Microamperes.zero
    private var peakPower = Microwatts.zero
    private var peakCurrent = Microamperes.zero
    private var minVoltage = Microvolts(.max)
    private var maxVoltage = Microvolts.zero
    private var maxTemperature: MilliCelsius?
    private(set) var samples = 0
    private var gaps: [Gap] = []
    private var droppedGaps = 0
    private var unfilledTime = Duration.zero
    private var wall: (at: MonotonicInstant, time: WallTime, trusted: Bool)

    /// A receipt with more gaps than this counts the rest; a meter at the edge of range would
    /// otherwise fill it.
    private static let mostGaps = 100

    init(id: SessionID, from first: Reading, manual: Bool) {
        self.id = id
        start = first.moment
        last = first.moment
        model = first.frame.model
        isManual = manual
        wall = (first.moment.monotonic, first.moment.wall, first.moment.wallTrusted)
    }

    /// Adds a reading and what flowed before it, and returns its point on the curve.
    mutating func add(_ reading: Reading, _ step: EnergyAccountant.Step?) -> Sample {
        if let step { add(step, before: reading) }
        let frame = reading.frame
        let power = Microwatts(frame.voltage, times: max(frame.current, .zero))
        lastPower = power
        lastCurrent = frame.current
        peakPower = max(peakPower, power)
        peakCurrent = max(peakCurrent, frame.current)
        minVoltage = min(minVoltage, frame.voltage)
        maxVoltage = max(maxVoltage, frame.voltage)
        if let temperature = frame.temperature {
            maxTemperature = max(maxTemperature ?? temperature, temperature)
        }
        model = frame.model
        samples += 1
        last = reading.moment
        // The first trusted moment dates the whole session, since the clock may have been set on
        // the way; otherwise the start does.
        if reading.moment.wallTrusted, !wall.trusted {
            wall = (reading.moment.monotonic, reading.moment.wall, true)
        }
        return Sample(
            offset: (reading.moment.monotonic - start.monotonic).milliseconds,
            voltage: frame.voltage, current: frame.current, power: frame.power,
            temperature: frame.temperature, dPlus: frame.dPlus, dMinus: frame.dMinus)
    }

    /// Adds what flowed before a reading that is not part of the session itself.
    mutating func add(_ step: EnergyAccountant.Step, before reading: Reading) {
        energy += step.energy
        charge += step.charge
        if let counted = step.countedEnergy, let countedCharge = step.countedCharge {
            countedEnergy += counted
            self.countedCharge += countedCharge
        } else {
            hasCounters = false
        }
        if let fill = step.fill {
            if fill == .unobserved || fill == .counterRestarted { unfilledTime += step.duration }
            let offset = (reading.moment.monotonic - start.monotonic - step.duration).milliseconds
            if gaps.count < Self.mostGaps {
                gaps.append(
                    Gap(
                        offset: max(0, offset), duration: step.duration.milliseconds, fill: fill,
                        energy: step.energy))
            } else {
                droppedGaps += 1
            }
        }
    }

    /// The receipt so far. While the session runs `end` is `nil`.
    /// - Parameter end: the end, if that is not the last reading: earlier, when the current fell
    ///   inside a gap.
    func summary(
        of meter: SessionMachine.Meter, end: (reason: EndReason, at: MonotonicInstant)?
    ) -> SessionSummary {
        let startedAt = wall.time - (wall.at - start.monotonic)
        var summary = SessionSummary(
            id: id, meter: meter.address, meterName: meter.name, model: model,
            gatewayID: meter.gatewayID, startedAt: startedAt, clockTrusted: wall.trusted,
            softwareVersion: meter.softwareVersion)
        let duration = (end?.at ?? last.monotonic) - start.monotonic
        // a session that was stopped at its first reading still ends after its start
        summary.durationMilliseconds = max(end == nil ? 0 : 1, duration.milliseconds)
        if let end {
            summary.endedAt = startedAt + .milliseconds(summary.durationMilliseconds)
            summary.endReason = end.reason
        }
        summary.energyIntegrated = energy
        summary.chargeIntegrated = charge
        if hasCounters {
            summary.energyCounted = Microjoules(countedEnergy)
            summary.chargeCounted = Microcoulombs(countedCharge)
        }
        (summary.energySource, summary.energySourceReason) = source
        summary.peakPower = peakPower
        summary.peakCurrent = peakCurrent
        summary.minVoltage = samples == 0 ? .zero : minVoltage
        summary.maxVoltage = maxVoltage
        summary.maxTemperature = maxTemperature
        summary.samples = samples
        summary.gaps = gaps
        return summary
    }

    /// Which figure is reported, and why. The integral resolves more, and has in it already what the
    /// counter knows of the gaps; the counter's own figure stands beside it for comparison.
    private var source: (EnergySource, String) {
        let gapCount = gaps.count + droppedGaps
        guard gapCount > 0 else { return (.integrated, "readings without a gap") }
        guard unfilledTime > .zero else {
            return (.integrated, "\(gapCount) gaps, all filled from the meter's counter")
        }
        let seconds = Int(unfilledTime.inSeconds.rounded())
        return (
            .integrated,
            "\(gapCount) gaps, of which \(seconds) s could not be filled from the counter"
        )
    }
}
