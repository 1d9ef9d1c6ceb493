import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// What a broker is told when it is there again: everything retained, and of that the newest.
struct ReconnectionTests {
    @Test func allThatIsRetainedIsPublishedAgainAndOnlyTheNewest() async throws {
        try await withBench({ [try simulated($0, .um25c, loads(of: 1, for: 60))] }) { bench in
            bench.channel.connect()
            // one session is over, and the next one has begun
            await bench.pass(.seconds(320))
            let kept = bench.channel.retained
            bench.channel.disconnect()
            await bench.pass(.seconds(20))
            bench.channel.connect(forgetful: true)
            await bench.settle()

            #expect(Set(bench.channel.retained.keys) == Set(kept.keys))
            let again = bench.channel.deliveries(over: 2).filter(\.message.retain)
            let perTopic = Dictionary(grouping: again, by: \.message.topic).mapValues(\.count)
            #expect(perTopic.values.allSatisfy { $0 == 1 })
            let session = bench.channel.retained[
                Bench.topics.currentSession(bench.meters[0].address)]
            #expect(session?.contains(#""state":"running""#) == true)
        }
    }

    @Test func theLastSessionStaysTheLastOneAfterAReconnection() async throws {
        try await withBench({ [try simulated($0, .um25c, loads(of: 1, for: 60))] }) { bench in
            let topic = Bench.topics.lastSession(bench.meters[0].address)
            bench.channel.connect()
            for count in 1...2 {
                await bench.pass(.seconds(305))
                #expect(bench.completed.count == count)
                let last = try #require(bench.completed.last).id.description
                #expect(bench.channel.retained[topic]?.contains(last) == true)
                bench.channel.disconnect()
                bench.channel.connect()
                await bench.settle()
                #expect(bench.channel.retained[topic]?.contains(last) == true)
            }
            // a dashboard hears of each session once a connection
            #expect(bench.channel.texts(of: topic).count == 4)
        }
    }

    @Test func aBrokerThatForgotGetsTheSummariesOfEarlierSessionsBack() async throws {
        try await withBench({ [try simulated($0, .um25c, load(of: 1, for: 60))] }) { bench in
            let meter = bench.meters[0]
            let before = try await bench.store.fill(
                with: 60, of: meter, before: bench.clock.moment())
            bench.channel.connect()
            await bench.pass(.seconds(240))
            bench.channel.disconnect()
            bench.channel.connect(forgetful: true)
            await bench.settle()
            let new = try #require(bench.completed.first)
            let expected = before.suffix(49).map(\.id) + [new.id]
            #expect(
                bench.retainedSummaries(of: meter)
                    == expected.map { Bench.topics.session(meter.address, $0) }.sorted())
        }
    }
}
