package import MeterCore

/// A meter as its far end knows it: it measures a load, keeps counters, obeys its commands and
/// answers, with its faults. Pure: time and bytes in, bytes out.
///
/// Like the real ones it renews all that it shows twice a second, and never says anything unasked.
/// What it shows is the mean of the half second just past. It is switched on at `start`.
package struct SimulatedMeter: Sendable {
    /// What the meter sends after some bytes were received.
    package struct Answer: Hashable, Sendable {
        /// From the receipt of the request to the first piece.
        package var delay: Duration
        /// The pieces as they arrive at the far end.
        package var pieces: [[UInt8]]
        /// From one piece to the next.
        package var gap: Duration
        package var bytes: [UInt8] { pieces.flatMap { $0 } }
    }

    package let model: MeterModel
    package let dialect: CommandDialect
    /// The load, by the time since `start`.
    package let profile: LoadProfile
    package let start: MonotonicInstant
    /// What it keeps while it is switched off.
    package private(set) var memory: MeterMemory

    private static let samplePeriod: Int64 = 500

    private var measurement: Measurement
    /// The memory as the screen and the answers have it.
    private var shown: MeterMemory
    private var recordingActive = false
    private var screen: UInt8 = 0
    private var temperature = MilliCelsius(24_000)
    /// Counts for group 0 since a power-on, while the group still shows what was before it. `nil`
    /// once it has been taken over.
    private var flashing: MeterMemory.Counter?
    private var mischief: Mischief
    private let outages: Spans
    private let absences: Spans

    /// Milliseconds since the start up to which all has been done.
    private var time: Int64 = 0
    private var nextSample = Self.samplePeriod
    private var window = Flow()
    private var events: ArraySlice<Event>
    /// When the last answer will have left.
    private var busyUntil: Int64 = 0
    private var heard: [UInt8] = []

    /// Switches a meter on at `start`, with what it remembers.
    ///
    /// `dialect` is the kind of link over which it is asked: it decides the commands of a TC66C,
    /// and for all models the pieces of an answer, 20 bytes over Bluetooth and all at once over
    /// USB. `faults` have their times since `start` and their chances from `seed`.
    package init(
        _ model: MeterModel, dialect: CommandDialect, profile: LoadProfile, faults: [Fault] = [],
        seed: UInt64 = 1, start: MonotonicInstant, memory: MeterMemory = MeterMemory()
    ) {
        self.model = model
        self.dialect = dialect
        self.profile = profile
        self.start = start
        self.memory = memory
        shown = memory
        measurement = Measurement(
            profile.load(at: .zero), temperature: temperature, model: model)
        mischief = Mischief(faults, seed: seed)
        outages = Spans(faults.filter { $0.kind == .noPower })
        absences = Spans(faults.filter { $0.kind == .noPower || $0.kind == .outOfRange })
        events = Event.all(faults: faults, outages: outages)[...]
        renew(profile.load(at: .zero))
    }

    // MARK: What is so at a time

    /// Whether the meter has power, so that it measures.
    package func isPowered(at instant: MonotonicInstant) -> Bool {
        !outages.contains(milliseconds(at: instant))
    }

    /// Whether the meter has power and is in range, so that a link to it can be.
    package func isReachable(at instant: MonotonicInstant) -> Bool {
        !absences.contains(milliseconds(at: instant))
    }

    /// The stretches of time without a link, in order: from when it is lost until it can be again.
    package var unreachable: [Range<MonotonicInstant>] {
        absences.ranges.map {
            start + .milliseconds($0.lowerBound)..<start + .milliseconds($0.upperBound)
        }
    }

    /// The energy that really flows between two times: that of the profile, and none without power.
    package func trueEnergy(from: MonotonicInstant, to: MonotonicInstant) -> Microjoules {
        flow(from: milliseconds(at: from), to: milliseconds(at: to)).energy
    }

    /// The charge that really flows between two times: that of the profile, and none without power.
    package func trueCharge(from: MonotonicInstant, to: MonotonicInstant) -> Microcoulombs {
        flow(from: milliseconds(at: from), to: milliseconds(at: to)).charge
    }

    /// How often each fault has struck so far, by its name.
    package var faultCounts: [String: Int] { mischief.counts }

    // MARK: Time

    /// Lets time pass: measures, counts, and does what the faults have for that time. Time that has
    /// passed already is ignored.
    package mutating func advance(to instant: MonotonicInstant) {
        let target = milliseconds(at: instant)
        while true {
            let event = events.first?.time ?? .max
            let next = min(event, nextSample)
            guard next <= target else { break }
            count(to: next)
            if event == next, let event = events.popFirst() {
                happen(event.kind)
                shown = memory
            } else {
                shown = memory
                if let mean = window.mean { renew(mean) }
                window = Flow()
                nextSample += Self.samplePeriod
            }
        }
        count(to: target)
    }

    private func milliseconds(at instant: MonotonicInstant) -> Int64 {
        max(0, (instant - start).milliseconds)
    }

    private func flow(from: Int64, to: Int64) -> Flow {
        var result = Flow()
        for range in outages.complement(from: from, to: to) {
            result += profile.flow(from: range.lowerBound, to: range.upperBound)
        }
        return result
    }

    private mutating func count(to target: Int64) {
        guard target > time else { return }
        let flow = flow(from: time, to: target)
        time = target
        window += flow
        if memory.selectedGroup == 0, var counter = flashing {
            counter.add(flow)
            // Group 0 is given up for the new charge as soon as that is over 1 mAh.
            if counter.nanocoulombs > MeterMemory.Counter.perShownUnit {
                memory.groups[0] = counter
                flashing = nil
            } else {
                flashing = counter
            }
        } else {
            memory.groups[memory.selectedGroup].add(flow)
        }
        if recordingActive {
            memory.recording.add(flow)
            memory.recordedMilliseconds += flow.milliseconds
        }
    }

    private mutating func renew(_ load: Load) {
        // One degree for each watt, with a time constant of a minute.
        let power = Microwatts(load.voltage, times: load.current)
        let target = 24_000 + power.rawValue / 1000
        temperature = MilliCelsius(temperature.rawValue + (target - temperature.rawValue) / 120)
        measurement = Measurement(load, temperature: temperature, model: model)
        // A threshold of zero never records: a published answer of an UM24C has 0.919 A, a
        // threshold of 0.00 A, and no recording.
        recordingActive =
            memory.thresholdSteps > 0
            && load.current.rawValue >= Int64(memory.thresholdSteps) * 10_000
    }

    // MARK: Events

    private struct Event: Sendable {
        enum Kind { case powerOff, powerOn, counterReset, groupChange(Int?) }
        var time: Int64
        var kind: Kind

        static func all(faults: [Fault], outages: Spans) -> [Event] {
            var events: [Event] = []
            for range in outages.ranges {
                events.append(Event(time: range.lowerBound, kind: .powerOff))
                events.append(Event(time: range.upperBound, kind: .powerOn))
            }
            for fault in faults {
                switch fault.kind {
                case .counterReset: events.append(Event(time: fault.start, kind: .counterReset))
                case .groupChange(let group):
                    events.append(Event(time: fault.start, kind: .groupChange(group)))
                default: break
                }
            }
            return events.sorted { $0.time < $1.time }
        }
    }

    private mutating func happen(_ event: Event.Kind) {
        switch event {
        case .powerOff:
            mischief.note(.noPower)
        case .powerOn:
            heard = []
            busyUntil = time
            screen = 0
            memory.runs &+= 1
            window = Flow()
            renew(profile.load(at: .milliseconds(time)))
            // The TC66C is not known to do so.
            if model != .tc66c { flashing = MeterMemory.Counter() }
        case .counterReset:
            mischief.note(.counterReset)
            clear()
        case .groupChange(let group):
            mischief.note(.groupChange(to: nil))
            memory.selectedGroup = (group ?? memory.selectedGroup + 1) % groupCount
        }
    }

    private var groupCount: Int { model == .tc66c ? 2 : 10 }

    private mutating func clear() {
        memory.groups[memory.selectedGroup] = MeterMemory.Counter()
        if memory.selectedGroup == 0 { flashing = nil }
    }

    // MARK: Bytes

    /// Takes bytes as they arrive, obeys those that are commands and makes the answers to send, in
    /// order. Without power nothing happens.
    package mutating func receive(_ bytes: [UInt8], at instant: MonotonicInstant) -> [Answer] {
        advance(to: instant)
        guard !outages.contains(time) else { return [] }
        return bytes.compactMap { model == .tc66c ? hearTC66C($0) : hearUM($0) }
    }

    /// One command of an UM meter; anything unknown is ignored.
    private mutating func hearUM(_ byte: UInt8) -> Answer? {
        switch byte {
        case 0xf0:
            let answer = UMAnswer(
                model: model, measurement: measurement, memory: shown,
                recordingActive: recordingActive, screen: screen)
            // 130 bytes at 9600 baud.
            return send(after: 135) { answer.bytes(spoilingCheck: $0) }
        case 0xf1:
            screen = (screen + 1) % Self.screens
        case 0xf3 where model == .um24c:
            memory.selectedGroup = (memory.selectedGroup + 1) % groupCount
        case 0xf3:
            screen = (screen + Self.screens - 1) % Self.screens
        case 0xf4:
            clear()
        case 0xa0...0xa9 where model != .um24c:
            memory.selectedGroup = Int(byte - 0xa0)
        case 0xb0...0xce:
            memory.thresholdSteps = byte - 0xb0
        case 0xd0...0xd5:
            memory.backlight = byte - 0xd0
        case 0xe0...0xe9:
            memory.screenTimeout = byte - 0xe0
        default: return nil
        }
        shown = memory
        return nil
    }

    private static let screens: UInt8 = 6

    /// Commands are words, over Bluetooth with a `b` before and CR LF after them. Bytes that can no
    /// longer become a command are forgotten.
    private mutating func hearTC66C(_ byte: UInt8) -> Answer? {
        heard.append(byte)
        while !heard.isEmpty {
            if let word = TC66CWord.allCases.first(where: { heard == $0.bytes(dialect) }) {
                heard = []
                switch word {
                case .getva:
                    let answer = TC66CAnswer(measurement: measurement, memory: shown)
                    return send(after: dialect == .usb ? 30 : 500) {
                        answer.bytes(spoilingCheck: $0)
                    }
                case .query where dialect == .usb:
                    return send(after: 30) { _ in [UInt8]("firm".utf8) }
                case .query, .lastp, .nextp, .rotat:
                    return nil
                }
            }
            if TC66CWord.allCases.contains(where: { $0.bytes(dialect).starts(with: heard) }) {
                return nil
            }
            heard.removeFirst()
        }
        return nil
    }

    private enum TC66CWord: String, CaseIterable {
        case getva, query, lastp, nextp, rotat

        func bytes(_ dialect: CommandDialect) -> [UInt8] {
            switch dialect {
            case .usb: Array(rawValue.utf8)
            case .bluetooth: Array("b\(rawValue)\r\n".utf8)
            }
        }
    }

    private mutating func send(after latency: Int64, bytes: (UInt8) -> [UInt8]) -> Answer? {
        let limit = dialect == .bluetooth ? 20 : Int.max
        guard let pieces = mischief.answer(at: time, pieceLimit: limit, bytes: bytes) else {
            return nil
        }
        // It does one thing after the other.
        let begin = max(time, busyUntil) + latency
        let gap: Int64 = 10
        busyUntil = begin + gap * Int64(pieces.count - 1)
        return Answer(
            delay: .milliseconds(begin - time), pieces: pieces, gap: .milliseconds(gap))
    }
}
