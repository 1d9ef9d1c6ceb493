import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim

struct AvailabilityTests {
    @Test func aMeterIsOnlineOnlyWhenAnAnswerCouldBeBelieved() async throws {
        try await withBench({ [try simulated($0, .um34c, faults: ["bad-check@0s+10s"])] }) {
            bench in
            bench.channel.connect()
            let meter = bench.meters[0]
            await bench.pass(.seconds(9))
            // it is connected and does answer
            #expect(bench.states(of: meter).contains(.receiving))
            #expect(bench.availability(of: meter).map(\.text) == ["offline"])
            await bench.pass(.seconds(10))
            #expect(bench.availability(of: meter).map(\.text) == ["offline", "online"])
            let online = try #require(bench.availability(of: meter).last).at.monotonic
            let first = try #require(bench.readings(of: meter).first)
            #expect(online >= first.moment.monotonic)
        }
    }

    @Test func aMeterIsOfflineAfterThirtySecondsOfSilence() async throws {
        try await withBench({ [try simulated($0, faults: ["out-of-range@60s+100s"])] }) { bench in
            bench.channel.connect()
            let meter = bench.meters[0]
            await bench.pass(.seconds(300))
            let said = bench.availability(of: meter)
            #expect(said.map(\.text) == ["offline", "online", "offline", "online"])
            let last = try #require(
                bench.readings(of: meter).last { $0.moment.monotonic < said[2].at.monotonic })
            let silence = said[2].at.monotonic - last.moment.monotonic
            #expect(silence > .seconds(30) && silence <= .seconds(32))
        }
    }

    @Test func aLossOfSecondsIsNoOutageForADashboard() async throws {
        try await withBench({ [try simulated($0, faults: ["out-of-range@60s+5s"])] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(120))
            #expect(bench.states(of: bench.meters[0]).contains(.disconnected))
            let said = bench.availability(of: bench.meters[0]).map(\.text)
            #expect(said == ["offline", "online"])
        }
    }

    @Test func aMeterThatIsAskedRarelyHasThreePollsOfTime() async throws {
        try await withBench({ [try simulated($0, pollInterval: .seconds(20))] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(300))
            let said = bench.availability(of: bench.meters[0]).map(\.text)
            #expect(said == ["offline", "online"])
        }
    }

    @Test func aBrokerThatIsAwayForLongIsALineOnLossAndOneOnReturn() async throws {
        try await withBench { bench in
            bench.channel.connect()
            await bench.settle()
            bench.channel.disconnect("no broker listens", attempts: 1)
            for attempt in 2...600 {
                await bench.pass(.seconds(60))
                bench.channel.stayAway("no broker listens", attempts: attempt)
            }
            bench.channel.connect()
            await bench.settle()
            let lines = bench.log.lines.map(\.text)
            #expect(lines.count == 3)
            #expect(lines.last?.contains("600 failures") == true)
        }
    }

    @Test func anOutageOfTenHoursIsALineOnLossAndOneOnReturn() async throws {
        try await withBench({ [try simulated($0, faults: ["no-power@60s+10h"])] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(36_060 + 73))
            let meter = bench.meters[0]
            let lines = bench.log.lines.map(\.text).filter { $0.contains("Bench: ") }
                .filter { !$0.contains("session") }
            #expect(lines.count == 3)
            #expect(lines.last?.contains("failures") == true)
            // back within one cap
            let last = try #require(bench.readings(of: meter).last)
            #expect(bench.clock.now - last.moment.monotonic < .seconds(2))
            #expect(
                bench.availability(of: meter).map(\.text)
                    == ["offline", "online", "offline", "online"])
        }
    }

    @Test func reasonsThatAlternateAreToldOnceEach() async throws {
        try await withBench({ clock in
            [
                imposter(clock) { way in
                    throw way.attempts.count % 2 == 0
                        ? LinkError(.absent, "it is not there")
                        : LinkError(.busyElsewhere, "it is in use")
                }
            ]
        }) { bench in
            await bench.pass(.seconds(3_600))
            #expect(bench.log.lines(from: .warning).count == 2)
        }
    }
}
