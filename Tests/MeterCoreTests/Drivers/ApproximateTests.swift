import MeterCore
import Testing

@Suite struct ApproximateTests {
    private let now = MonotonicInstant(nanoseconds: 0)

    private func decoded(watts: UInt8, amperes: UInt8) -> MeterFrame? {
        var driver = MeterDriver(model: .tc66c, dialect: .bluetooth)
        driver.linkOpened(.heartRate)
        guard case .frame(let frame) = driver.receive([0, watts, amperes], at: now) else {
            return nil
        }
        return frame
    }

    @Test func aHeartRateIsWattsAndAmperesAndMarked() throws {
        let frame = try #require(decoded(watts: 27, amperes: 3))
        #expect(frame.power == Microwatts(27_000_000))
        #expect(frame.current == Microamperes(3_000_000))
        #expect(frame.isApproximate)
        #expect(frame.groups.isEmpty)
    }

    @Test func aCutMeasurementWaitsForItsRestAndTheLastOneCounts() {
        var driver = MeterDriver(model: nil, dialect: .bluetooth)
        driver.linkOpened(.heartRate)
        #expect(driver.request().isEmpty)
        #expect(driver.receive([0, 5], at: now) == .incomplete)
        guard case .frame(let frame) = driver.receive([1, 0, 9, 2, 0], at: now) else {
            Issue.record("two whole measurements gave nothing")
            return
        }
        #expect(frame.power == Microwatts(9_000_000))
        // what was left of a link is not part of the next
        driver.linkOpened(.heartRate)
        #expect(driver.receive([7, 1], at: now) == .incomplete)
    }

    @Test func anApproximateReadingIsInNoSessionAndNoTotal() throws {
        var machine = SessionMachine(
            meter: .init(
                address: MeterAddress(localFor: "bench"), name: "bench", gatewayID: "bench",
                softwareVersion: "1"), rules: SessionRules())
        var generator = SystemRandomNumberGenerator()
        let frame = try #require(decoded(watts: 27, amperes: 3))
        for second in 0..<600 {
            let moment = Moment(
                monotonic: MonotonicInstant(nanoseconds: Int64(second) * 1_000_000_000),
                wall: WallTime(milliseconds: Int64(second) * 1000), wallTrusted: true)
            let actions = machine.handle(
                Reading(frame, at: moment), rejected: 0, dropped: 0, using: &generator)
            #expect(actions.isEmpty)
            #expect(machine.lastStep == nil)
        }
        #expect(machine.current == nil)
    }

    @Test func anApproximateReadingIsPublishedAsOne() throws {
        let frame = try #require(decoded(watts: 27, amperes: 3))
        let moment = Moment(
            monotonic: now, wall: WallTime(milliseconds: 0), wallTrusted: false)
        let text = Payloads.live(Reading(frame, at: moment), sequence: 1, gatewayID: "bench")
        #expect(text.contains(#""approximate":true,"voltage":null,"current":3,"power":27,"#))
    }

    @Test func aLinkThatKnowsTheFamilyDecidesIt() {
        var driver = MeterDriver(model: nil, dialect: .bluetooth)
        driver.linkOpened(.tc66)
        for _ in 0..<3 {
            #expect(driver.request() == Array("bgetva\r\n".utf8))
            driver.giveUp()
        }
        driver.linkOpened(.um)
        #expect(driver.request() == [0xf0])
        // one that knows nothing leaves it to trying
        driver.linkOpened()
        driver.giveUp()
        #expect(driver.request() == Array("bgetva\r\n".utf8))
    }

    @Test func servicesThatContradictTheConfigurationAreToldOnce() {
        var driver = MeterDriver(model: .um25c, dialect: .bluetooth)
        driver.linkOpened(.tc66)
        #expect(driver.request() == Array("bgetva\r\n".utf8))
        let notice = driver.takeNotice()
        #expect(notice?.contains("set up as UM25C") == true)
        driver.linkOpened(.tc66)
        let second = driver.takeNotice()
        #expect(second == nil)
    }
}
