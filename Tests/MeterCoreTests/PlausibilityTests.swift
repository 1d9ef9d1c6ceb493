import MeterCore
import Testing

@Suite struct PlausibilityTests {
    /// What a real change may cost, and that it is believed then.
    @Test(arguments: UMAnswer.Kind.allCases)
    func aRealChangeCostsAtMostOneFurtherRequest(kind: UMAnswer.Kind) throws {
        let changes: [(String, (inout UMAnswer) -> Void)] = [
            ("load step up", { $0.measure(microvolts: 4_980_000, microamperes: 2_100_000) }),
            ("load step down", { $0.measure(microvolts: 5_150_000, microamperes: 80_000) }),
            ("load gone", { $0.measure(microvolts: 5_200_000, microamperes: 0) }),
            ("9 V without a load", { $0.measure(microvolts: 9_020_000, microamperes: 0) }),
            ("9 V with a small load", { $0.measure(microvolts: 9_020_000, microamperes: 4_000) }),
            ("12 V with a load", { $0.measure(microvolts: 12_050_000, microamperes: 1_500_000) }),
            ("QC negotiation", { ($0.dPlus, $0.dMinus, $0.mode) = (330, 60, 1) }),
            ("DCP", { ($0.dPlus, $0.dMinus, $0.mode) = (60, 60, 7) }),
            ("unknown mode", { $0.mode = 65_535 }),
            ("group change", { $0.group = 4 }),
            ("counter clear", { ($0.charge[4], $0.energy[4]) = (0, 0) }),
            ("backlight", { $0.backlight = 1 }),
            ("screen", { $0.screen = 3 }),
            ("timeout", { $0.timeout = 9 }),
            ("threshold", { $0.threshold = 30 }),
            ("recording starts", { $0.active = 1 }),
            ("recording time wraps", { $0.seconds = 0 }),
            ("warm", { ($0.celsius, $0.fahrenheit) = (41, 105) }),
        ]
        var answer = UMAnswer(kind)
        answer.charge[4] = 1_200
        answer.energy[4] = 6_200
        answer.seconds = 359_999
        answer.measure(microvolts: 5_100_000, microamperes: 900_000)
        var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
        _ = bench.poll { _ in answer.bytes }
        for (name, change) in changes {
            change(&answer)
            let (frame, requests) = bench.poll { _ in answer.bytes }
            #expect(requests <= 2, "\(name)")
            #expect(answer.differences(from: try #require(frame)) == [], "\(name)")
            let (_, next) = bench.poll { _ in answer.bytes }
            #expect(next == 1, "\(name), afterwards")
        }
        #expect(bench.driver.statistics.rejected == 0)
    }

    @Test func aLoadStepIsBelievedAtOnceSinceThePowerVouchesForIt() {
        var answer = UMAnswer(.um25c)
        var bench = Bench(MeterDriver(model: .um25c, dialect: .bluetooth))
        answer.measure(microvolts: 5_100_000, microamperes: 900_000)
        _ = bench.poll { _ in answer.bytes }
        for current in [2_000_000, 0, 50_000, 3_000_000, 500_000] {
            answer.measure(microvolts: 5_100_000 - current / 20, microamperes: current)
            #expect(bench.poll { _ in answer.bytes }.requests == 1)
        }
    }

    @Test func aUnitWithAnOddFieldIsReadAfterTheFirstTime() throws {
        let oddities: [(inout UMAnswer) -> Void] = [
            { $0.resistance = 0 },
            { $0.resistance = 99_999 },
            { $0.resistance *= 10 },
            { $0.fahrenheit = 0 },
            { $0.fahrenheit = $0.celsius },
            { $0.mode = 37 },
            { $0.screen = 60 },
            { $0.backlight = 7 },
        ]
        for oddity in oddities {
            for kind in UMAnswer.Kind.allCases {
                var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
                var answer = UMAnswer(kind)
                for second in 0..<20 {
                    answer.measure(
                        microvolts: 5_100_000, microamperes: 900_000 + second * 7_000)
                    oddity(&answer)
                    let (frame, requests) = bench.poll { _ in answer.bytes }
                    #expect(requests == (second == 0 ? 2 : 1))
                    #expect(answer.differences(from: try #require(frame)) == [])
                }
                #expect(bench.driver.statistics.rejected == 0)
            }
        }
    }

    @Test func aPowerThatLagsBehindARestlessLoadIsStillRead() {
        var random = Seeded(5)
        for kind in UMAnswer.Kind.allCases {
            var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
            var answer = UMAnswer(kind)
            var (read, requests) = (0, 0)
            for _ in 0..<200 {
                // each answer's power is that of a moment before, 3 to 6 per cent away
                let (frame, count) = bench.poll(limit: 12) { _ in
                    answer.measure(
                        microvolts: 5_100_000,
                        microamperes: 1_000_000 + random.int(-60_000...60_000))
                    let milliwatts = answer.milliwatts
                    answer.milliwatts =
                        milliwatts * (100 + [3, 4, 5, 6, -4, -6][random.int(0...5)]) / 100
                    return answer.bytes
                }
                if frame != nil { read += 1 }
                requests += count
            }
            #expect(read == 200)
            #expect(requests < 200 * 9)
        }
    }

    @Test func dataLinesThatNeverRestDoNotStarveTheReadings() throws {
        var random = Seeded(6)
        var bench = Bench(MeterDriver(model: .um34c, dialect: .bluetooth))
        var answer = UMAnswer(.um34c)
        answer.measure(microvolts: 5_100_000, microamperes: 900_000)
        for second in 0..<200 {
            let (frame, requests) = bench.poll { _ in
                answer.dPlus = random.int(0...330)
                answer.dMinus = random.int(0...330)
                answer.mode = random.int(0...8)
                return answer.bytes
            }
            #expect(requests <= (second == 0 ? 3 : 2))
            #expect(answer.differences(from: try #require(frame)) == [])
        }
    }

    @Test func aVoltageThatNothingVouchesForIsNotBelievedAtOnce() {
        for kind in UMAnswer.Kind.allCases {
            for (volts, current) in [
                (5_120_000, 0), (5_120_000, 900), (5_120_000, 3_000), (5_120_000, 6_000),
                (5_120_000, 9_900), (5_120_000, 14_000), (20_040_000, 7_500), (20_040_000, 0),
                (12_000_000, 12_000),
            ] {
                var answer = UMAnswer(kind)
                answer.measure(microvolts: volts, microamperes: current)
                var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
                _ = bench.poll { _ in answer.bytes }
                for bit in 0..<16 where (1 << bit) * kind.voltStep > 300_000 {
                    var damaged = answer
                    damaged.volts ^= 1 << bit
                    let frame = bench.ask(damaged.bytes).frame
                    #expect(frame == nil, "\(kind): bit \(bit) at \(volts) µV, \(current) µA")
                    _ = bench.poll { _ in answer.bytes }
                }
            }
        }
    }

    @Test func aCounterThatJumpedIsNotBelievedAtOnce() {
        for kind in UMAnswer.Kind.allCases {
            var answer = UMAnswer(kind)
            answer.measure(microvolts: 5_120_000, microamperes: 1_000_000)
            answer.charge = Array(repeating: 4_711, count: 10)
            answer.energy = Array(repeating: 24_000, count: 10)
            answer.group = 2
            var bench = Bench(MeterDriver(model: kind.model, dialect: .bluetooth))
            _ = bench.poll { _ in answer.bytes }
            for group in 0..<10 {
                for bit in (group == 2 ? 3 : 0)..<32 {
                    for counter in [\UMAnswer.charge, \.energy] {
                        var damaged = answer
                        damaged[keyPath: counter][group] ^= 1 << bit
                        bench.now = bench.now + .seconds(1)
                        #expect(bench.ask(damaged.bytes).frame == nil, "group \(group), bit \(bit)")
                        bench.now = bench.now + .seconds(1)
                        #expect(bench.ask(answer.bytes).frame != nil)
                    }
                }
            }
        }
    }

    @Test func theFirstFrameAfterConnectingOrASilenceHasToBeBorneOut() {
        for silence in [false, true] {
            var answer = UMAnswer(.um25c)
            answer.measure(microvolts: 5_120_000, microamperes: 1_000_000)
            answer.charge[0] = 100
            answer.energy[0] = 512
            var bench = Bench(MeterDriver(model: .um25c, dialect: .bluetooth))
            if silence {
                _ = bench.poll { _ in answer.bytes }
                bench.now = bench.now + .seconds(500)
            }
            // 64 mWh more is no more than what 5 W may have given in the silence
            var damaged = answer
            damaged.energy[0] ^= 64
            #expect(bench.ask(damaged.bytes).asksAgain)
            #expect(bench.ask(answer.bytes).asksAgain)
            let frame = bench.ask(answer.bytes).frame
            #expect(frame.map { answer.differences(from: $0) } == [])
            #expect(bench.driver.statistics.heldBack == 1)
        }
    }

    @Test func aTC66ThatShowsWhatItCannotMeasureIsAskedAgain() {
        var bench = Bench(MeterDriver(model: .tc66c, dialect: .bluetooth))
        var answer = TC66Answer()
        #expect(bench.ask(answer.bytes).frame != nil)
        for spoil in [
            { $0.volts = 0x7fff_ffff }, { $0.amperes = 0xffff_ffff }, { $0.watts = 0xffff_ffff },
        ] as [(inout TC66Answer) -> Void] {
            var spoilt = answer
            spoil(&spoilt)
            #expect(bench.ask(spoilt.bytes).asksAgain)
        }
        answer.volts = 200_000
        #expect(bench.ask(answer.bytes).frame != nil)
        #expect(bench.driver.statistics.heldBack == 3)
    }
}
