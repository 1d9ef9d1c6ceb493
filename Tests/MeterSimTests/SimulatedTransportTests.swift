import MeterCore
import Testing

@testable import MeterSim

@Suite(.timeLimit(.minutes(1)))
struct SimulatedTransportTests {
    let clock = ManualClock(start: start)

    private func transport(
        _ model: MeterModel = .um25c, _ dialect: CommandDialect = .usb, faults: [Fault] = []
    ) -> SimulatedTransport {
        SimulatedTransport(
            "bench", to: meter(model, steady(volts: 5, amperes: 1), dialect, faults: faults),
            clock: clock)
    }

    /// Why a link cannot be opened; `nil` if it can.
    private func refusal(of transport: SimulatedTransport) async throws -> FaultCategory? {
        do {
            try await transport.withLink { _ in }
            return nil
        } catch let error as LinkError {
            return error.category
        }
    }

    @Test func anAnswerComesWhenItIsDueByTheClock() async throws {
        let transport = transport()
        let clock = clock
        try await withThrowingTaskGroup(of: [UInt8].self) { group in
            group.addTask {
                try await transport.withLink { link in
                    try await link.send([0xf0])
                    return try await link.receive()
                }
            }
            try await clock.waitForSleepers(count: 1)
            #expect(clock.deadlines == [start + .milliseconds(135)])
            clock.step(to: at(1))
            let frame = try #require(try await group.next())
            #expect(frame.count == 130)
        }
        #expect(clock.deadlines.isEmpty)
    }

    @Test func piecesArriveOneByOne() async throws {
        let transport = transport(.tc66c, .bluetooth)
        let clock = clock
        try await withThrowingTaskGroup(of: [Int].self) { group in
            group.addTask {
                try await transport.withLink { link in
                    try await link.send([UInt8]("bgetva\r\n".utf8))
                    var sizes: [Int] = []
                    while sizes.reduce(0, +) < 192 { sizes.append(try await link.receive().count) }
                    return sizes
                }
            }
            for _ in 0..<10 {
                try await clock.waitForSleepers(count: 1)
                clock.step(to: at(10))
            }
            #expect(try await group.next() == [20, 20, 20, 20, 20, 20, 20, 20, 20, 12])
            #expect(clock.now == start + .milliseconds(500 + 9 * 10))
        }
    }

    @Test func cancellingAReceiveLosesNoBytes() async throws {
        let transport = transport()
        let clock = clock
        let size = try await transport.withLink { link in
            // Somebody waits and gives up.
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    do throws(LinkError) {
                        _ = try await link.receive()
                        Issue.record("there was nothing to receive")
                    } catch {
                        #expect(error == LinkError.cancelled)
                    }
                }
                group.cancelAll()
            }
            try await link.send([0xf0])
            try await clock.waitForSleepers(count: 1)
            clock.step(to: at(1))
            return try await link.receive().count
        }
        #expect(size == 130)
    }

    @Test func losingPowerEndsTheLinkForGood() async throws {
        let transport = transport(faults: try faults("no-power@10s+5s"))
        let clock = clock
        let errors = try await transport.withLink { link in
            var errors: [FaultCategory] = []
            try await clock.waitForSleepers(count: 1)
            // An answer that is still on its way when the power goes.
            clock.step(to: at(9.9))
            try await link.send([0xf0])
            try await clock.waitForSleepers(count: 2)
            clock.step(to: at(10))
            for _ in 0..<2 {
                do throws(LinkError) {
                    _ = try await link.receive()
                } catch {
                    errors.append(error.category)
                }
            }
            try await clock.advance(by: .seconds(6), sleepers: 0)
            do throws(LinkError) {
                try await link.send([0xf0])
            } catch {
                errors.append(error.category)
            }
            return errors
        }
        #expect(errors == [.absent, .absent, .absent])
    }

    @Test func aMeterWithoutPowerRefusesUntilItIsBack() async throws {
        let transport = transport(faults: try faults("no-power@10s+5s"))
        try await clock.advance(by: .seconds(12), sleepers: 0)
        #expect(try await refusal(of: transport) == .absent)
        try await clock.advance(by: .seconds(3), sleepers: 0)
        try await transport.withLink { _ in }
    }

    @Test func aMeterTakesOneLinkAtATime() async throws {
        let transport = transport()
        try await transport.withLink { _ in
            let refusal = try await refusal(of: transport)
            #expect(refusal == .busyElsewhere)
        }
        try await transport.withLink { _ in }
    }

    @Test func anErrorOfTheBodyClosesTheLinkToo() async throws {
        struct Mishap: Error {}
        let transport = transport()
        await #expect(throws: Mishap.self) {
            try await transport.withLink { _ in throw Mishap() }
        }
        try await transport.withLink { _ in }
    }

    @Test func anAnswerNeverReachesALaterLink() async throws {
        let transport = transport()
        let clock = clock
        try await transport.withLink { link in
            try await link.send([0xf0])
            try await clock.waitForSleepers(count: 1)
        }
        try await clock.advance(by: .seconds(1), sleepers: 0)
        try await transport.withLink { link in
            try await link.send([0xd3, 0xf0])
            try await clock.waitForSleepers(count: 1)
            clock.step(to: at(5))
            #expect(try await link.receive().big16(120) == 3)
        }
    }

    @Test func theMeterCountsOnBetweenLinks() async throws {
        let transport = transport(faults: try faults("out-of-range@10s+30s"))
        try await clock.advance(by: .seconds(72), sleepers: 0)
        let meter = await transport.device.state
        #expect(meter.memory.groups[0].shown.charge == MilliampereHours(20))
    }
}

private func expect(_ expected: SimulatedDevice.Event, from device: SimulatedDevice) async throws {
    let event = try await device.next()
    #expect(event == expected)
}

@Suite(.timeLimit(.minutes(1)))
struct SimulatedDeviceTests {
    @Test func aPumpSeesBytesAndPowerComingAndGoing() async throws {
        let clock = ManualClock(start: start)
        let device = SimulatedDevice(
            meter(.um25c, faults: try faults("no-power@10s+5s", "out-of-range@20s+5s")),
            clock: clock)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await device.run() }
            try await clock.waitForSleepers(count: 1)
            await device.received([0xf0])
            try await clock.waitForSleepers(count: 2)
            clock.step(to: at(1))
            guard case .bytes(let frame) = try await device.next() else {
                Issue.record("not bytes")
                return
            }
            #expect(frame.count == 130)
            clock.step(to: at(10))
            try await expect(.lost, from: device)
            #expect(await !device.isReachable)
            // Into the void.
            await device.received([0xf0])
            for expected in [SimulatedDevice.Event.returned, .lost, .returned] {
                try await clock.waitForSleepers(count: 1)
                clock.step(to: at(60))
                try await expect(expected, from: device)
            }
            #expect(clock.now == at(25))
            group.cancelAll()
            await #expect(throws: CancellationError.self) { try await group.waitForAll() }
        }
    }

    @Test func aDeviceWithoutPowerSaysSoFirst() async throws {
        let clock = ManualClock(start: at(12))
        let device = SimulatedDevice(
            meter(.um25c, faults: try faults("no-power@10s+5s")), clock: clock)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await device.run() }
            try await expect(.lost, from: device)
            group.cancelAll()
        }
    }

    @Test func anAnswerUnderWayIsLostWithThePower() async throws {
        let clock = ManualClock(start: start)
        let device = SimulatedDevice(
            meter(.um25c, faults: try faults("no-power@10s+5s")), clock: clock)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await device.run() }
            try await clock.waitForSleepers(count: 1)
            clock.step(to: at(9.95))
            await device.received([0xf0])
            try await clock.waitForSleepers(count: 2)
            clock.step(to: at(12))
            try await expect(.lost, from: device)
            try await clock.waitForSleepers(count: 2)
            clock.step(to: at(12))
            clock.step(to: at(20))
            try await expect(.returned, from: device)
            group.cancelAll()
        }
    }
}
