import MeterCore
import Testing

/// Histories made up at random, and shapes like those of ten recorded charges.
@Suite struct SessionHistoryTests {
    /// Whatever happens, what `SessionBench` watches over holds, no session overlaps another, the
    /// reported energy is that of an independent sum, and no charge of ten minutes is missed.
    @Test(arguments: 0..<24)
    func whateverHappensTheRulesHold(seed: Int) {
        var random = Seeded(UInt64(seed) + 1_000)
        var bench = SessionBench()
        bench.hasCounters = random.chance(80)
        bench.wallTrusted = random.chance(70)
        var chargesEnded = 0
        for _ in 0..<25 {
            let volts = [5_000, 9_000, 12_000, 20_000][random.int(0...3)] as Int64
            let step = [500, 1_000, 1_000, 2_000, 5_000][random.int(0...4)] as Int64
            let level = Int64(random.int(0...3_000))
            switch random.int(1...14) {
            case 1...3:
                bench.run(30, volts: volts, every: step, at: 0)
                bench.run(
                    Double(random.int(600...900)), volts: volts, every: step, at: max(400, level))
                bench.run(130, volts: volts, every: step, at: 0)
                chargesEnded += 1
            case 4: bench.run(Double(random.int(1...300)), volts: volts, every: step, at: level)
            case 5: bench.run(60, every: step, at: Int64(random.int(0...60)))
            case 6: bench.silence(Int64(random.int(1...59)), flowing: level)
            case 7: bench.silence(Int64(random.int(60...900)), flowing: level)
            case 8: bench.clearCounters()
            case 9: bench.startManually()
            case 10: bench.stop(random.chance(80) ? .manual : .interrupted)
            case 11:
                var noise = Seeded(UInt64(random.next()))
                bench.run(120, volts: volts, every: step) { _ in
                    noise.chance(30) ? Int64(noise.int(0...100)) : level
                }
            case 12: bench.run(300, volts: volts, every: step) { level - Int64($0) * level / 300 }
            case 13: for _ in 0..<200 { bench.tick() }
            default: bench.run(Double(random.int(1...200)), every: step, at: 0)
            }
            if bench.isRunning, random.chance(50) { bench.stop(.manual) }
        }
        bench.stop(.interrupted)
        #expect(bench.began.count == bench.ended.count)
        #expect(bench.actions.first.map { $0 == "began" } ?? true)
        #expect(bench.ended.count >= min(chargesEnded, 1))
        for (left, right) in zip(bench.ended, bench.ended.dropFirst()) {
            // two sessions by hand at one reading share its millisecond
            #expect(bench.limits(left).end <= bench.limits(right).start + 1)
            #expect(left.id != right.id)
        }
        for session in bench.ended where session.gaps.isEmpty {
            let (start, end) = bench.limits(session)
            let expected = bench.wattHours(from: start, to: end)
            // one begun by hand has nothing of the stretch before its first reading
            let before = bench.byHand.contains(session.id) ? 0.17 : 1e-9
            let off = expected - session.energyIntegrated.wattHours
            #expect(off > -1e-9 && off < before)
        }
    }

    /// A shape, and the sessions that a person would see in it, in seconds from its start.
    struct Shape: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var step: Int64 = 1_000
        var volts: Int64 = 5_000
        var seconds: Double
        var sessions: [(start: Double, end: Double)]
        /// mA after so many seconds; the number is random, 0 to 999, and another for each reading.
        var current: @Sendable (Double, Int) -> Double
    }

    static let shapes = [
        Shape(
            testDescription: "tablet over night, full after four hours, with upkeep",
            seconds: 28_000, sessions: [(0, 16_200)]
        ) { second, _ in
            if second < 9_000 { return 960 }
            if second < 16_200 { return 960 - (second - 9_000) * 0.108 }
            return second.truncatingRemainder(dividingBy: 300) < 20 ? 180 : 6
        },
        Shape(
            testDescription: "phone with a pre-charge and a clean end", seconds: 14_000,
            sessions: [(52, 12_877)]
        ) { second, _ in
            if second < 52 || second >= 12_877 { return 0.7 }
            return second < 86 ? 94 : 840 - (second - 86) * 0.05
        },
        Shape(
            testDescription: "e-reader that never stops drawing", step: 5_000, seconds: 15_000,
            sessions: [(30, 12_610)]
        ) { second, random in
            if second < 30 { return 0 }
            if second < 9_000 { return 440 + Double(random % 20) }
            return second < 12_610 ? 440 - (second - 9_000) * 0.094 : 66 + Double(random % 2)
        },
        Shape(
            testDescription: "phone at 9 V with spikes and dips", step: 3_000, volts: 8_700,
            seconds: 9_900, sessions: [(33, 9_720)]
        ) { second, random in
            if second < 33 { return 0 }
            if second >= 9_720 { return 16 }
            if random < 3 { return 40 }
            return max(105, 1_400 - second * 0.14) + (random > 990 ? 400 : 0)
        },
        Shape(
            testDescription: "earpiece below 61 mA", step: 3_000, seconds: 5_700,
            sessions: [(33, 5_511)]
        ) { second, _ in
            if second < 33 || second >= 5_511 { return 0 }
            return second < 4_450 ? 59.6 : 59.6 - (second - 4_450) * 0.0345
        },
        Shape(
            testDescription: "full phone on the cable", step: 3_000, seconds: 12_300, sessions: []
        ) { _, random in random < 20 ? 50 + Double(random) * 12 : 43 },
        Shape(
            testDescription: "phone in use after its charge", step: 200, seconds: 7_490,
            sessions: [(6, 3_597)]
        ) { second, random in
            if second < 6 { return 0 }
            if second < 3_597 { return 2_060 - second * 0.53 }
            return (second + 100).truncatingRemainder(dividingBy: 180) < 50 && random < 600
                ? 200 + Double(random) : 8
        },
        Shape(
            testDescription: "top-ups of two to five minutes", step: 500, seconds: 9_200,
            sessions: [(42, 5_690)]
        ) { second, random in
            if second < 41.5 { return 3 + Double(random % 10) }
            if second < 5_690 { return 820 - second * 0.128 + Double(random % 40) }
            for start in [6_090.0, 6_775, 7_560, 8_510, 9_060] {
                if second >= start, second < start + 180 { return 100 + Double(random % 50) }
            }
            return random < 5 ? 300 : 3 + Double(random % 17)
        },
        Shape(
            testDescription: "cell at constant current, then constant voltage", volts: 4_000,
            seconds: 9_680, sessions: [(0, 9_680)]
        ) { second, _ in second < 6_000 ? 1_750 : 1_750 - (second - 6_000) * 0.42 },
        Shape(
            testDescription: "phone seen from its battery, cut off while it charges", volts: 4_200,
            seconds: 10_200, sessions: [(3, 10_200)]
        ) { second, random in
            if second < 3 { return -500 }
            if second.truncatingRemainder(dividingBy: 240) < 2 { return 300 }
            return max(190, 3_500 - second * 0.33) + Double(random % 50)
        },
    ]

    @Test(arguments: shapes)
    func theSessionsOfARecordedShapeAreThoseThatAPersonSees(shape: Shape) {
        var bench = SessionBench()
        var random = Seeded(77)
        let zero = bench.now
        bench.run(shape.seconds, volts: shape.volts, every: shape.step) { second in
            Int64(shape.current(second - Double(shape.step) / 1_000, random.int(0...999)))
        }
        bench.stop(.endOfRecording)
        #expect(bench.ended.count == shape.sessions.count)
        for (found, expected) in zip(bench.ended, shape.sessions) {
            let limits = bench.limits(found)
            let start = Double(limits.start - zero - shape.step) / 1_000
            let end = Double(limits.end - zero - shape.step) / 1_000
            #expect(abs(start - expected.start) <= 5, "start \(start) for \(expected.start)")
            #expect(abs(end - expected.end) <= 30, "end \(end) for \(expected.end)")
            let sum = bench.wattHours(from: limits.start, to: limits.end)
            #expect(abs(found.energyIntegrated.wattHours - sum) < 1e-9)
        }
    }
}
