import MeterCore
import Testing

/// A session machine with a made-up history put before it, and a watch on what it says: that it
/// begins before it samples and ends, that a curve's points rise and none is beyond the end, and
/// that the sums never fall.
struct SessionBench {
    var machine: SessionMachine
    var random = Seeded(1)
    /// Milliseconds on the monotonic clock.
    private(set) var now: Int64 = 5_000_000
    /// Milliseconds to add for the wall clock.
    var wallAhead: Int64 = 1_790_000_000_000
    var wallTrusted = true
    var rejected = 0
    var dropped = 0

    /// The meter's own counters, in µAs·10⁻³ and µWs·10⁻³ so that nothing is lost.
    private var flowedCharge: Int64 = 0
    private var flowedEnergy: Int64 = 0
    private var lastReading: (at: Int64, millivolts: Int64, milliamperes: Int64)?
    var hasCounters = true
    /// When the counters last did something else than count what was read.
    private var upset: Int64 = 0
    var temperature: Int64? = 25

    private(set) var began: [SessionSummary] = []
    private(set) var ended: [SessionSummary] = []
    /// The curve of each session, by its id.
    private(set) var curves: [SessionID: [Sample]] = [:]
    private(set) var byHand: Set<SessionID> = []
    private(set) var actions: [String] = []
    /// Every reading handed over, in milliseconds, millivolts and milliamperes.
    private(set) var history: [(at: Int64, millivolts: Int64, milliamperes: Int64)] = []
    private var lastEnergy: (id: SessionID, energy: Microjoules)?

    init(_ rules: SessionRules = SessionRules()) {
        machine = SessionMachine(meter: Self.meter, rules: rules)
    }

    static let meter = SessionMachine.Meter(
        address: MeterAddress(localFor: "bench"), name: "Bench", gatewayID: "pi-1",
        softwareVersion: "1.0")

    var isRunning: Bool { machine.current != nil }
    var summaries: [SessionSummary] { ended }

    /// Hands over a reading now.
    mutating func read(_ millivolts: Int64, _ milliamperes: Int64) {
        flow(millivolts, milliamperes)
        history.append((now, millivolts, milliamperes))
        var frame = MeterFrame(
            model: .um34c, voltage: Microvolts(millivolts * 1_000),
            current: Microamperes(milliamperes * 1_000),
            power: Microwatts(millivolts * milliamperes))
        frame.temperature = temperature.map { MilliCelsius($0 * 1_000) }
        if hasCounters {
            frame.group = 0
            frame.groups = [
                GroupCounter(
                    charge: MilliampereHours(flowedCharge / 3_600_000),
                    energy: MilliwattHours(flowedEnergy / 3_600_000_000))
            ]
        }
        take(
            machine.handle(
                Reading(frame, at: moment), rejected: rejected, dropped: dropped, using: &random))
    }

    var moment: Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: now * 1_000_000),
            wall: WallTime(milliseconds: now + wallAhead), wallTrusted: wallTrusted)
    }

    /// Readings every `step` milliseconds for `seconds`, each after its step.
    mutating func run(
        _ seconds: Double, volts millivolts: Int64 = 5_000, every step: Int64 = 1_000,
        _ milliamperes: (Double) -> Int64
    ) {
        let start = now
        while now - start < Int64(seconds * 1_000) {
            now += step
            read(millivolts, milliamperes(Double(now - start) / 1_000))
        }
    }
    mutating func run(
        _ seconds: Double, volts millivolts: Int64 = 5_000, every step: Int64 = 1_000,
        at milliamperes: Int64
    ) {
        run(seconds, volts: millivolts, every: step) { _ in milliamperes }
    }

    /// Nothing comes for `seconds`, in which the meter goes on counting `milliamperes`; the timer ticks.
    mutating func silence(
        _ seconds: Int64, volts millivolts: Int64 = 5_000, flowing milliamperes: Int64 = 0
    ) {
        upset = now
        for _ in 0..<seconds {
            now += 1_000
            flowedCharge += milliamperes * 1_000
            flowedEnergy += milliamperes * millivolts * 1_000
            tick()
        }
        lastReading = (now, millivolts, milliamperes)
    }
    mutating func tick() {
        take(machine.timePassed(to: MonotonicInstant(nanoseconds: now * 1_000_000)))
    }
    /// The meter lost its power: its counters start again.
    mutating func clearCounters() {
        (flowedCharge, flowedEnergy) = (0, 0)
        upset = now
    }

    mutating func startManually() {
        let count = began.count
        take(machine.startManually(using: &random))
        if began.count > count, let id = began.last?.id { byHand.insert(id) }
    }
    mutating func stop(_ reason: EndReason) { take(machine.stop(reason)) }

    private mutating func flow(_ millivolts: Int64, _ milliamperes: Int64) {
        if let last = lastReading {
            let span = now - last.at
            flowedCharge += (last.milliamperes + milliamperes) * span / 2
            flowedEnergy +=
                (last.milliamperes * last.millivolts + milliamperes * millivolts) * span / 2
        }
        lastReading = (now, millivolts, milliamperes)
    }

    private mutating func take(_ new: [SessionMachine.Action]) {
        for action in new {
            switch action {
            case .began(let summary):
                actions.append("began")
                #expect(began.count == ended.count, "one session at a time")
                #expect(summary.endedAt == nil)
                began.append(summary)
                curves[summary.id] = []
                lastEnergy = (summary.id, summary.energy)
            case .samples(let points):
                if actions.last != "samples" { actions.append("samples") }
                #expect(began.count == ended.count + 1, "samples only of a running session")
                guard let id = began.last?.id else { return }
                for point in points {
                    if point.offset <= curves[id]?.last?.offset ?? -1 {
                        Issue.record("offsets rise strictly")
                    }
                    curves[id]?.append(point)
                }
            case .ended(let summary):
                actions.append("ended")
                #expect(began.count == ended.count + 1)
                #expect(summary.id == began.last?.id)
                ended.append(summary)
                check(summary)
            }
        }
        guard let current = machine.current else { return }
        if current.id != began.last?.id { Issue.record("a session that has not begun") }
        if let lastEnergy, lastEnergy.id == current.id, current.energy < lastEnergy.energy {
            Issue.record("the energy of a session never falls")
        }
        lastEnergy = (current.id, current.energy)
    }

    private func check(_ summary: SessionSummary) {
        #expect(summary.durationMilliseconds > 0)
        #expect(summary.endedAt.map { $0 > summary.startedAt } ?? false)
        #expect(summary.energy >= .zero)
        #expect(summary.endReason != nil)
        let curve = curves[summary.id] ?? []
        let inside = curve.filter { $0.offset <= summary.durationMilliseconds }
        #expect(inside.count == summary.samples, "the receipt counts the curve's points")
        #expect(inside.first?.offset == 0)
        if summary.endReason != .standby { #expect(inside.count == curve.count) }
        #expect(summary.peakPower.rawValue == inside.map(\.power.rawValue).max())
        #expect(summary.peakCurrent == inside.map(\.current).max())
        #expect(summary.minVoltage == inside.map(\.voltage).min())
        #expect(summary.maxVoltage == inside.map(\.voltage).max())
        if let counted = summary.energyCounted, summary.gaps.isEmpty,
            upset < limits(summary).start - 10_000
        {
            // whole milliwatt-hours at both ends
            #expect(abs((counted - summary.energyIntegrated).rawValue) <= 2 * 3_600_000)
        }
    }

    /// Milliseconds on the monotonic clock at which a session started and ended.
    func limits(_ summary: SessionSummary) -> (start: Int64, end: Int64) {
        let start = summary.startedAt.milliseconds - wallAhead
        return (start, start + summary.durationMilliseconds)
    }

    /// Wh between two moments by the trapezoid rule over the history, in floating point, with the
    /// stretch before the first reading in it; stretches over 10 s left out.
    func wattHours(from start: Int64, to end: Int64) -> Double {
        var sum = 0.0
        for (left, right) in zip(history, history.dropFirst())
        where right.at >= start && right.at <= end && right.at - left.at <= 10_000 {
            let watts =
                Double(
                    left.millivolts * max(0, left.milliamperes)
                        + right.millivolts * max(0, right.milliamperes)) / 2e6
            sum += watts * Double(right.at - left.at) / 3.6e6
        }
        return sum
    }
}
