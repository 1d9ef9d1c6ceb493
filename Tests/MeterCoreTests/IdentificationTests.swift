import MeterCore
import Testing

@Suite struct IdentificationTests {
    @Test func aMeterOfUnknownModelIsAskedInBothWaysUntilItAnswers() {
        for (kind, dialect, requests) in [
            (Answering.um25c, CommandDialect.bluetooth, [[0xf0], Array("bgetva\r\n".utf8)]),
            (.tc66c, .bluetooth, [[0xf0], Array("bgetva\r\n".utf8)]),
            (.um34c, .usb, [[0xf0], Array("getva".utf8)]),
            (.tc66c, .usb, [[0xf0], Array("getva".utf8)]),
        ] as [(Answering, CommandDialect, [[UInt8]])] {
            var driver = MeterDriver(model: nil, dialect: dialect)
            var now = MonotonicInstant(nanoseconds: 0)
            var frame: MeterFrame?
            for attempt in 0..<20 where frame == nil {
                now = now + .seconds(1)
                let request = driver.request()
                if attempt < 6 {
                    // switched on late: silent for six requests
                    #expect(request == requests[attempt % 2])
                    driver.giveUp()
                    continue
                }
                let understood = request == requests[kind == .tc66c ? 1 : 0]
                frame = understood ? driver.receive(kind.bytes(), at: now).frame : nil
                if !understood { driver.giveUp() }
            }
            #expect(frame?.model == kind.model)
            // known now: an unanswered request does not change the way
            let known = driver.request()
            driver.giveUp()
            #expect(driver.request() == known)
        }
    }

    @Test func aConfiguredMeterIsAlwaysAskedInItsOwnWay() {
        for (model, request) in [
            (MeterModel.um24c, [0xf0]), (.um25c, [0xf0]), (.um34c, [0xf0]),
            (.tc66c, Array("bgetva\r\n".utf8)),
        ] as [(MeterModel, [UInt8])] {
            var driver = MeterDriver(model: model, dialect: .bluetooth)
            for _ in 0..<3 {
                #expect(driver.request() == request)
                driver.giveUp()
            }
        }
    }

    @Test func aWrongModelInTheConfigurationIsReadRightAndSaidOnce() throws {
        for (configured, kind) in [
            (MeterModel.um24c, UMAnswer.Kind.um25c), (.um34c, .um25c), (.um25c, .um24c),
            (.um25c, .um34c),
        ] {
            for (microvolts, microamperes) in [
                (5_120_000, 1_000_000), (5_120_000, 0), (19_980_000, 0),
            ] {
                var bench = Bench(MeterDriver(model: configured, dialect: .bluetooth))
                var answer = UMAnswer(kind)
                answer.measure(microvolts: microvolts, microamperes: microamperes)
                let frame = try #require(bench.poll { _ in answer.bytes }.frame)
                #expect(answer.differences(from: frame) == [])
                let said = bench.driver.takeNotice()
                let notice = try #require(said)
                #expect(notice.contains(configured.name) && notice.contains(kind.model.name))
                for _ in 0..<5 { _ = bench.poll { _ in answer.bytes } }
                #expect(bench.driver.takeNotice() == nil)
            }
        }
    }

    @Test func aUnitThatSendsAnotherModelsIdIsReadAsConfigured() throws {
        var bench = Bench(MeterDriver(model: .um25c, dialect: .bluetooth))
        var answer = UMAnswer(.um25c)
        answer.id = 0x0963
        answer.measure(microvolts: 5_120_000, microamperes: 400_000)
        let frame = try #require(bench.poll { _ in answer.bytes }.frame)
        #expect(answer.differences(from: frame) == [])
        #expect(bench.driver.takeNotice() != nil)
    }

    /// The frame decides the scale where it can, and what it decided holds where it cannot: 3 V
    /// without a load might as well be 30 V.
    @Test func theScaleOnceShownByTheFramesHoldsForOneThatDoesNotShowIt() throws {
        for kind in [UMAnswer.Kind.um25c, .um34c] {
            for configured in [kind.model, nil] {
                var bench = Bench(MeterDriver(model: configured, dialect: .bluetooth))
                var answer = UMAnswer(kind)
                answer.id = kind == .um25c ? 0x0963 : 0x09c9
                if kind == .um34c { answer.filler = 0x6b }
                answer.measure(microvolts: 5_000_000, microamperes: 1_000_000)
                _ = try #require(bench.poll { _ in answer.bytes }.frame)
                answer.measure(microvolts: kind == .um25c ? 3_300_000 : 3_000_000, microamperes: 0)
                for _ in 0..<3 {
                    let frame = try #require(bench.poll { _ in answer.bytes }.frame)
                    #expect(answer.differences(from: frame) == [])
                }
            }
        }
    }

    @Test func anUnlistedIdIsAcceptedWhenTheFrameVouchesForIt() throws {
        for kind in UMAnswer.Kind.allCases {
            for configured in [kind.model, nil] {
                var bench = Bench(MeterDriver(model: configured, dialect: .bluetooth))
                var answer = UMAnswer(kind)
                answer.id = 0x0b0b
                answer.measure(microvolts: 5_120_000, microamperes: 700_000)
                let frame = try #require(bench.poll { _ in answer.bytes }.frame)
                #expect(answer.differences(from: frame) == [])
                #expect(bench.driver.statistics.strayBytes == 0)

                // split as it comes over the air
                _ = bench.driver.request()
                bench.now = bench.now + .seconds(1)
                #expect(
                    bench.driver.receive(Array(answer.bytes[..<20]), at: bench.now) == .incomplete)
                let whole = bench.driver.receive(Array(answer.bytes[20...]), at: bench.now).frame
                #expect(whole != nil)
            }
        }
    }

    @Test func anUnlistedIdWithAWrongCheckOrNoAgreementIsNoFrame() {
        var answer = UMAnswer(.um25c)
        answer.id = 0x0b0b
        answer.measure(microvolts: 5_120_000, microamperes: 700_000)
        var bench = Bench(MeterDriver(model: .um25c, dialect: .bluetooth))
        var bad = answer.bytes
        bad[129] = 0xf0
        for _ in 0..<3 { #expect(bench.ask(bad).frame == nil) }
        answer.milliwatts *= 2
        for _ in 0..<3 { #expect(bench.ask(answer.bytes).frame == nil) }
        #expect(bench.driver.statistics.accepted == 0)
    }

    @Test func aNewLinkTakesTwoFramesAgain() {
        var bench = Answering.um25c.bench()
        #expect(bench.ask(Answering.um25c.bytes()).frame != nil)
        bench.driver.linkOpened()
        #expect(bench.ask(Answering.um25c.bytes()).asksAgain)
        #expect(bench.ask(Answering.um25c.bytes()).frame != nil)
        #expect(bench.driver.statistics.accepted == 3)
        #expect(bench.driver.statistics.rejected == 0)
    }
}
