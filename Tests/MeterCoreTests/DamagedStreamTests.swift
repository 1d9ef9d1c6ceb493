import MeterCore
import Testing

/// Long streams in which a good part of the answers is damaged on the way: what the driver gives
/// out has to be what the meter sent.
@Suite struct DamagedStreamTests {
    /// A meter that charges something, seen once a second.
    private struct Charger {
        var answer: UMAnswer
        var random: Seeded
        private var volts = 5_120_000
        private var amperes = 900_000
        private var chargeRest = 0
        private var energyRest = 0

        init(_ kind: UMAnswer.Kind, seed: UInt64) {
            answer = UMAnswer(kind)
            random = Seeded(seed)
            for group in 0..<10 {
                answer.charge[group] = random.int(0...9_999)
                answer.energy[group] = random.int(0...99_999)
            }
            answer.recordedCharge = 700
            answer.recordedEnergy = 3_600
            answer.seconds = 4_000
            answer.active = 1
        }

        mutating func pass(milliseconds: Int) {
            switch random.int(1...400) {
            case 1: volts = [5_120_000, 9_040_000, 12_010_000, 20_030_000][random.int(0...3)]
            case 2...8:
                amperes = [0, 0, 3_000, 40_000, 500_000, 900_000, 2_400_000][random.int(0...6)]
            case 9: answer.group = random.int(0...9)
            case 10: (answer.dPlus, answer.dMinus) = (random.int(0...330), random.int(0...330))
            case 11: answer.mode = [0, 1, 2, 7, 8, 65_535][random.int(0...5)]
            case 12: answer.backlight = random.int(0...5)
            case 13: answer.screen = random.int(0...6)
            case 14: (answer.charge[answer.group], answer.energy[answer.group]) = (0, 0)
            case 15...20:
                answer.celsius = min(60, max(0, answer.celsius + random.int(-1...1)))
                answer.fahrenheit = answer.celsius * 9 / 5 + 32 + random.int(0...1)
            default: break
            }
            let noise = random.int(-2...2)
            answer.measure(
                microvolts: volts + noise * 1_000,
                microamperes: amperes == 0 ? 0 : max(0, amperes + noise * 700))
            chargeRest += amperes * milliseconds
            energyRest += amperes / 1_000 * (volts / 1_000) * milliseconds
            answer.charge[answer.group] += chargeRest / 3_600_000_000
            answer.recordedCharge += chargeRest / 3_600_000_000
            answer.energy[answer.group] += energyRest / 3_600_000_000
            answer.recordedEnergy += energyRest / 3_600_000_000
            chargeRest %= 3_600_000_000
            energyRest %= 3_600_000_000
            if random.int(0...999) < milliseconds { answer.seconds += 1 }
        }
    }

    private enum Damage: CaseIterable {
        case flip, flips, cut, lostByte, extraByte, strayBefore, burst

        func apply(to bytes: [UInt8], _ random: inout Seeded) -> [UInt8] {
            var bytes = bytes
            let place = random.int(0...(bytes.count - 1))
            switch self {
            case .flip: bytes[place] ^= 1 << UInt8(random.int(0...7))
            case .flips:
                for _ in 0..<random.int(2...4) {
                    bytes[random.int(0...129)] ^= 1 << UInt8(random.int(0...7))
                }
            case .cut: bytes.removeSubrange(place...)
            case .lostByte: bytes.remove(at: place)
            case .extraByte: bytes.insert(UInt8(random.int(0...255)), at: place)
            case .strayBefore: bytes = random.bytes(random.int(1...140)) + bytes
            case .burst:
                let end = min(bytes.count, place + random.int(1...12))
                bytes.replaceSubrange(place..<end, with: random.bytes(end - place))
            }
            return bytes
        }
    }

    /// What is off in a frame, apart from what no rule can see.
    private func gross(_ frame: MeterFrame, _ truth: UMAnswer) -> [String] {
        let kind = truth.kind
        var found: [String] = []
        func near(_ name: String, _ is: Int64, _ should: Int, _ allowed: Int) {
            if abs(Int(`is`) - should) > allowed { found.append("\(name) \(`is`) for \(should)") }
        }
        if frame.model != kind.model { found.append("model") }
        let watts = truth.milliwatts
        let loaded = truth.amperes * kind.ampereStep >= 100_000
        let volts = truth.volts * kind.voltStep
        let amperes = truth.amperes * kind.ampereStep
        near(
            "voltage", frame.voltage.rawValue, volts,
            loaded ? 2 * kind.voltStep + volts / 100 : 310_000)
        near("current", frame.current.rawValue, amperes, 1_000 + amperes / 100)
        near("power", frame.power.rawValue, watts * 1_000, 40_000 + watts * 10)
        near("celsius", frame.temperature?.rawValue ?? .min, truth.celsius * 1_000, 2_000)
        near("D+", frame.dPlus?.rawValue ?? .min, truth.dPlus * 10_000, 150_000)
        near("D-", frame.dMinus?.rawValue ?? .min, truth.dMinus * 10_000, 150_000)
        for group in 0..<10 {
            // of the selected group the two lowest bits may move by themselves
            let slack = group == truth.group ? 3 : 0
            near("charge \(group)", frame.groups[group].charge.rawValue, truth.charge[group], slack)
            near("energy \(group)", frame.groups[group].energy.rawValue, truth.energy[group], slack)
        }
        near("recorded charge", frame.recording?.charge.rawValue ?? 0, truth.recordedCharge, 3)
        near("recorded energy", frame.recording?.energy.rawValue ?? 0, truth.recordedEnergy, 3)
        near("recorded time", frame.recording?.seconds ?? 0, truth.seconds, 6)
        let exact: [(String, Int?, Int)] = [
            ("group", frame.group, truth.group), ("mode", frame.mode?.rawValue, truth.mode),
            ("backlight", frame.backlight, truth.backlight), ("screen", frame.screen, truth.screen),
            ("timeout", frame.screenTimeoutMinutes, truth.timeout),
            ("active", frame.recording.map { $0.active ? 1 : 0 }, truth.active),
            (
                "threshold", frame.recording.map { Int($0.threshold.rawValue) / 10_000 },
                truth.threshold
            ),
        ]
        for (name, shown, should) in exact where shown != should {
            found.append("\(name) \(shown ?? -1)")
        }
        return found
    }

    @Test(arguments: [UMAnswer.Kind.um25c, .um34c, .um24c])
    func nothingGrossEverComesOutOfADamagedStream(kind: UMAnswer.Kind) {
        var random = Seeded(kind == .um25c ? 11 : 12)
        var charger = Charger(kind, seed: 99)
        var driver = MeterDriver(model: kind.model, dialect: .bluetooth)
        var now = MonotonicInstant(nanoseconds: 0)
        var (frames, damaged, slips, polls) = (0, 0, 0, 0)
        while frames < 4_000, polls < 60_000 {
            polls += 1
            _ = driver.request()
            let wait = driver.statistics.accepted % 5 == 0 ? 150 : 1_000
            now = now + .milliseconds(wait)
            charger.pass(milliseconds: wait)
            var bytes = charger.answer.bytes
            let hit = random.chance(25)
            if hit {
                damaged += 1
                bytes = Damage.allCases[random.int(0...6)].apply(to: bytes, &random)
            }
            if polls % 1_000 == 0 { driver.linkOpened() }
            var frame: MeterFrame?
            let cut = random.int(0...bytes.count)
            for piece in [bytes[..<cut], bytes[cut...]] {
                if let given = driver.receive(Array(piece), at: now).frame { frame = given }
            }
            guard let frame else {
                driver.giveUp()
                continue
            }
            frames += 1
            let off = gross(frame, charger.answer)
            #expect(off == [], "frame \(frames), poll \(polls)")
            if hit, !charger.answer.differences(from: frame).isEmpty { slips += 1 }
        }
        #expect(frames == 4_000)
        // what slips through is in the lowest bits of a few fields; measured: 12 of 2021 for the
        // UM25C, 1 of 1865 for the UM34C
        #expect(slips * 100 < damaged, "\(slips) of \(damaged)")
    }

    /// Every bit of a frame in turn: how many are seen, and which slip.
    @Test(arguments: [UMAnswer.Kind.um25c, .um34c])
    func ofAllSingleBitsOnlyTheLowestSlipThrough(kind: UMAnswer.Kind) {
        for (microvolts, microamperes) in [
            (5_120_000, 1_000_000), (5_120_000, 0), (9_040_000, 20_000),
        ] {
            var answer = UMAnswer(kind)
            answer.measure(microvolts: microvolts, microamperes: microamperes)
            answer.charge[0] = 1_000
            answer.energy[0] = 5_000
            answer.active = 1
            answer.seconds = 77
            var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
            _ = bench.poll { _ in answer.bytes }
            var slipped: [Int] = []
            for bit in 0..<(130 * 8) {
                var bytes = answer.bytes
                bytes[bit / 8] ^= 0x80 >> UInt8(bit % 8)
                if let frame = bench.ask(bytes, after: .seconds(1)).frame {
                    #expect(gross(frame, answer) == [], "bit \(bit)")
                    if !answer.differences(from: frame).isEmpty { slipped.append(bit) }
                }
                _ = bench.poll { _ in answer.bytes }
            }
            // measured: 34, 62 and 36 for the UM25C, 11, 38 and 15 for the UM34C
            #expect(slipped.count < 66, "\(slipped)")
        }
    }
}
