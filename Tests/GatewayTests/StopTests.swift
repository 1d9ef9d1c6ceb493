import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// A3: the order in which a gateway ends, and that it does.
struct StopTests {
    @Test func theSessionIsStoredAndDeliveredAndOfflineIsTheLastWord() async throws {
        try await withBench({ clock in
            [
                try simulated(clock, named: "One"),
                try simulated(clock, named: "Two"),
            ]
        }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(65))
            let took = await bench.stop()
            #expect(took <= .seconds(2))

            let stored = try await bench.store.sessions()
            #expect(stored.count == 2)
            #expect(stored.allSatisfy { $0.endReason == .interrupted })
            for session in stored {
                let samples = try await bench.store.samples(of: session.id)
                #expect(samples.count == session.samples)
                // to the last reading before the stop
                #expect(session.durationMilliseconds > 63_000)
            }
            let texts = bench.channel.deliveries.suffix(3)
            #expect(texts.map(\.text) == ["offline", "offline", "offline"])
            #expect(
                texts.map(\.message.topic)
                    == bench.meters.map { Bench.topics.availability($0.address) }
                    + [Bench.topics.gatewayStatus])
            #expect(bench.retainedSummaries(of: bench.meters[0]).count == 1)
            #expect(bench.retainedSummaries(of: bench.meters[1]).count == 1)
            #expect(bench.states(of: bench.meters[0]).last == .disconnected)
            let waiting = try await bench.store.outboxCount()
            #expect(waiting == 0)
        }
    }

    @Test func aBrokerThatDoesNotAnswerDelaysTheEndByTheLimitAndNoMore() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(65))
            bench.channel.hang()
            await bench.pass(.seconds(65))
            let took = await bench.stop()
            #expect(took <= .seconds(2.1))
            #expect(bench.log.lines(from: .warning).count == 1)
            // it reads the farewell when it is itself again
            #expect(bench.channel.retained[Bench.topics.gatewayStatus] == "offline")
            #expect(bench.availability(of: bench.meters[0]).last?.text == "offline")
            // what the broker did not get is still there for the next start
            let waiting = try await bench.store.outboxCount()
            #expect(waiting > 0)
        }
    }

    @Test func aBrokerThatIsAwayDelaysNothing() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            await bench.pass(.seconds(65))
            let took = await bench.stop()
            #expect(took <= .milliseconds(100))
        }
    }

    @Test func metersThatHangDelayNothing() async throws {
        try await withBench({ clock in
            [
                imposter(clock, named: "Silent") { _ in SilentLink() },
                imposter(clock, named: "Stuck") { _ in StuckLink() },
                imposter(clock, named: "Never opened") { _ in
                    try await clock.sleep(for: .seconds(1_000_000))
                    return SilentLink()
                },
                imposter(clock, named: "Away") { _ in throw LinkError(.absent, "away") },
            ]
        }) { bench in
            await bench.pass(.seconds(65))
            let took = await bench.stop()
            #expect(took <= .milliseconds(100))
        }
    }

    @Test func aReconnectionDuringTheEndDoesNotSayOnlineAgain() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(10))
            // the farewell does not get through at first
            bench.channel.hang()
            bench.requestStop()
            await bench.pass(.seconds(1.5))
            bench.channel.disconnect()
            bench.channel.hang(false)
            bench.channel.connect()
            await bench.stop()
            #expect(bench.channel.retained[Bench.topics.gatewayStatus] != "online")
            #expect(bench.channel.deliveries(over: 2).allSatisfy { $0.text != "online" })
        }
    }

    @Test func theFarewellIsInOrderAlsoWhenTheGreetingIsNotThroughYet() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            await bench.pass(.seconds(10))
            bench.channel.hang()
            bench.channel.connect()
            await bench.settle()
            bench.requestStop()
            await bench.pass(.seconds(0.5))
            // the first publish is lost, and all the others get through
            bench.channel.hang(false)
            await bench.stop()
            let words = bench.channel.deliveries.suffix(2)
            #expect(words.last?.message.topic == Bench.topics.gatewayStatus)
            #expect(words.allSatisfy { $0.text == "offline" })
        }
    }
}
