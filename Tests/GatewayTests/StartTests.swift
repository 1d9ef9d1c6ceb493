import MeterCore
import Testing

@testable import Gateway

struct StartTests {
    @Test func withoutABrokerMetersAreReadAndSessionsRecorded() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            await bench.pass(.seconds(60))
            #expect(bench.readings(of: bench.meters[0]).count >= 58)
            let running = try await bench.store.openSessions()
            #expect(running.count == 1)
            #expect(running.first?.samples ?? 0 >= 48)
        }
    }

    @Test func aBrokerThatComesLateIsToldWhereThingsStand() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            await bench.pass(.seconds(90))
            bench.channel.connect()
            await bench.settle()
            let meter = bench.meters[0].address
            let retained = bench.channel.retained
            #expect(retained[Bench.topics.gatewayStatus] == "online")
            #expect(retained[Bench.topics.availability(meter)] == "online")
            let session = try #require(retained[Bench.topics.currentSession(meter)])
            #expect(session.contains(#""state":"running""#))
            #expect(retained[Bench.topics.counters(meter)] != nil)
        }
    }

    @Test func aMissingMeterHoldsUpNeitherTheOthersNorTheBroker() async throws {
        try await withBench({ clock in
            [
                imposter(clock, named: "Missing") { way in
                    throw LinkError(.absent, "\(way.name) is not there")
                },
                try simulated(clock, named: "There"),
            ]
        }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(10))
            #expect(bench.channel.retained[Bench.topics.gatewayStatus] == "online")
            #expect(bench.live(of: bench.meters[1]).count >= 9)
            let missing = Bench.topics.availability(bench.meters[0].address)
            #expect(bench.channel.retained[missing] == "offline")
        }
    }

    @Test func aMeterWhoseLinkNeverOpensHoldsUpNobody() async throws {
        try await withBench({ clock in
            [
                imposter(clock, named: "Stuck") { _ in
                    try await clock.sleep(for: .seconds(1_000_000))
                    return SilentLink()
                },
                try simulated(clock, named: "There"),
            ]
        }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(10))
            #expect(bench.channel.retained[Bench.topics.gatewayStatus] == "online")
            #expect(bench.live(of: bench.meters[1]).count >= 9)
        }
    }

    @Test func theGatewayIsOnlineFirstOfAllAfterEachConnection() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            for connection in 1...3 {
                bench.channel.connect()
                await bench.pass(.seconds(7))
                let first = try #require(bench.channel.deliveries(over: connection).first)
                #expect(first.message.topic == Bench.topics.gatewayStatus)
                #expect(first.text == "online")
                #expect(first.message.retain)
                #expect(first.message.qos == .atLeastOnce)
                bench.channel.disconnect()
                await bench.pass(.seconds(7))
            }
        }
    }

    @Test func liveReadingsWaitForTheGatewaysGreeting() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            await bench.pass(.seconds(3))
            bench.channel.connect(reporting: false)
            await bench.pass(.seconds(3))
            #expect(bench.channel.deliveries.isEmpty)
            bench.channel.reportConnection()
            await bench.pass(.seconds(3))
            #expect(bench.channel.deliveries.first?.text == "online")
            #expect(bench.live(of: bench.meters[0]).count == 3)
        }
    }

    @Test func liveReadingsAreNumberedAndNotRetainedAndNotMadeUpFor() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(20))
            bench.channel.disconnect()
            await bench.pass(.seconds(20))
            bench.channel.connect()
            await bench.pass(.seconds(20))

            let meter = bench.meters[0]
            let live = bench.live(of: meter)
            #expect(live.allSatisfy { !$0.message.retain && $0.message.qos == .atMostOnce })
            let numbers = try live.map { try LiveMessage($0.text).seq }
            let readings = bench.readings(of: meter).count
            #expect(numbers == Array(1...numbers.count / 2) + Array((readings - 19)...readings))
            // each is published in the moment in which it was taken
            #expect(try live.allSatisfy { try LiveMessage($0.text).ts == $0.at.wall.iso8601 })
        }
    }

    @Test func aGatewayWithoutAChannelKeepsNothingForOne() async throws {
        try await withBench(
            { [try simulated($0, .um25c, load(of: 1, for: 60))] }, hasChannel: false
        ) { bench in
            await bench.pass(.seconds(240))
            #expect(bench.completed.count == 1)
            let waiting = try await bench.store.outboxCount()
            #expect(waiting == 0)
        }
    }
}
