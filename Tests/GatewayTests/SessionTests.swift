import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// From the current to the stored and published session.
struct SessionTests {
    @Test(arguments: MeterModel.allCases)
    func aPhonesChargeIsOneSessionWithTheEnergyThatFlowed(_ model: MeterModel) async throws {
        try await withBench({ [try simulated($0, model, "phone-short")] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(960))
            let meter = bench.meters[0]
            let truth = try #require(meter.truth)
            let stored = try await bench.store.sessions()
            #expect(stored.count == 1)
            let session = try #require(stored.first)
            #expect(session.endReason == .currentStopped)
            #expect(session.model == model)
            // plugged in after 15 s; full after 775 s, when only 12 mA flow
            let begin = bench.instant(of: session.startedAt)
            let end = bench.instant(of: try #require(session.endedAt))
            #expect((15.0...18.0).contains((begin - truth.start).inSeconds))
            #expect((774.0...778.0).contains((end - truth.start).inSeconds))
            let flowed = truth.trueEnergy(from: begin, to: end)
            #expect(difference(session.energy, flowed) < 0.005)
            let all = truth.trueEnergy(from: truth.start, to: truth.start + .seconds(775))
            #expect(difference(session.energy, all) < 0.005)
            // and both ways to count agree
            let counted = try #require(session.energyCounted)
            #expect(difference(counted, all) < 0.005)

            let samples = try await bench.store.samples(of: session.id)
            #expect(samples.count == session.samples)
            #expect(samples.last?.offset ?? 0 <= session.durationMilliseconds)

            let published = try #require(bench.publishedSummaries(of: meter).first)
            #expect(published.sessionId == session.id.description)
            #expect(published.endedAt == session.endedAt?.iso8601)
            let waiting = try await bench.store.outboxCount()
            #expect(waiting == 0)
        }
    }

    @Test func aRunningSessionIsToldOfAtItsStartEveryThirtySecondsAndAtItsEnd() async throws {
        try await withBench({ [try simulated($0, .um25c, load(of: 1, for: 95))] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(300))
            let topic = Bench.topics.currentSession(bench.meters[0].address)
            let told = bench.channel.deliveries(to: topic)
            #expect(told.allSatisfy { $0.message.retain && $0.message.qos == .atLeastOnce })
            let running = told.filter { $0.text.contains(#""state":"running""#) }
            #expect(running.count >= 4)
            let pauses = running.map(\.at.monotonic).pauses
            #expect(pauses.allSatisfy { $0 <= .seconds(31.5) })
            #expect(told.last?.text.contains(#""state":"idle""#) == true)
        }
    }

    @Test(arguments: MeterModel.allCases)
    func twentySecondsWithoutPowerInMidChargeLeaveOneSession(_ model: MeterModel) async throws {
        try await withBench({
            [try simulated($0, model, "phone-short", faults: ["no-power@300s+20s"])]
        }) { bench in
            await bench.pass(.seconds(970))
            let truth = try #require(bench.meters[0].truth)
            let stored = try await bench.store.sessions()
            #expect(stored.count == 1)
            let session = try #require(stored.first)
            let all = truth.trueEnergy(from: truth.start, to: truth.start + .seconds(775))
            #expect(difference(session.energy, all) < 0.01)
            #expect(session.gaps.count == 1)
        }
    }

    @Test func aCounterThatIsClearedInMidChargeChangesNeitherSessionNorTotals() async throws {
        try await withBench({
            [try simulated($0, .um25c, "phone-short", faults: ["counter-reset@300s"])]
        }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(960))
            let truth = try #require(bench.meters[0].truth)
            let stored = try await bench.store.sessions()
            #expect(stored.count == 1)
            let session = try #require(stored.first)
            let all = truth.trueEnergy(from: truth.start, to: truth.start + .seconds(775))
            #expect(difference(session.energy, all) < 0.005)
            let totals = try bench.publishedCounters(of: bench.meters[0]).map(\.energyTotalWh)
            #expect(totals == totals.sorted())
            #expect(abs((totals.last ?? 0) / all.wattHours - 1) < 0.01)
        }
    }
}

/// What waits in the database for the broker (E3).
struct OutboxDeliveryTests {
    @Test func sessionsThatEndWhileTheBrokerIsAwayArriveOnceAndInOrder() async throws {
        try await withBench({ [try simulated($0, .um25c, loads(of: 1, for: 60))] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(4))
            bench.channel.disconnect()
            await bench.pass(.seconds(640))
            let ended = bench.completed
            #expect(ended.count == 2)
            let waiting = try await bench.store.outboxCount()
            #expect(waiting > 0)
            bench.channel.connect()
            await bench.pass(.seconds(2))
            let meter = bench.meters[0]
            let arrived = try bench.publishedSummaries(of: meter)
            #expect(arrived.map(\.sessionId) == ended.map(\.id.description))
            #expect(arrived.map(\.startedAt) == ended.map(\.startedAt.iso8601))
            let left = try await bench.store.outboxCount()
            #expect(left == 0)
        }
    }

    @Test func aMessageThatIsNotAcknowledgedIsSentAgain() async throws {
        try await withBench({ [try simulated($0, .um25c, load(of: 1, for: 60))] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(100))
            bench.channel.hang()
            await bench.pass(.seconds(140))
            #expect(bench.completed.count == 1)
            let waiting = try await bench.store.outboxCount()
            #expect(waiting > 0)
            bench.channel.disconnect()
            bench.channel.hang(false)
            bench.channel.connect()
            await bench.pass(.seconds(2))
            #expect(try bench.publishedSummaries(of: bench.meters[0]).count == 1)
            let left = try await bench.store.outboxCount()
            #expect(left == 0)
        }
    }

    @Test func whatTheBrokerRefusesIsKeptWithTheReasonAndReportedOnce() async throws {
        try await withBench({ [try simulated($0, .um25c, loads(of: 1, for: 60))] }) { bench in
            bench.channel.refuse("/sessions/")
            bench.channel.connect()
            await bench.pass(.seconds(640))
            #expect(bench.completed.count == 2)
            let refused = try await bench.store.refusedOutbox(limit: 10)
            #expect(
                refused.map(\.refusal)
                    == refused.map { "not authorised for \($0.item.message.topic)" })
            #expect(refused.count == 2)
            let errors = bench.log.lines(from: .error).map(\.text)
            #expect(errors.count == 2)
            for (error, row) in zip(errors, refused) {
                #expect(error.contains(row.item.message.topic))
            }
            // the others are not held up by them
            let last = bench.channel.retained[Bench.topics.lastSession(bench.meters[0].address)]
            let newest = try #require(bench.completed.last).id.description
            #expect(last?.contains(newest) == true)
        }
    }

    @Test func onlyTheNewestFiftySummariesOfEachMeterStayWithTheBroker() async throws {
        try await withBench({ clock in
            [
                try simulated(clock, .um25c, load(of: 1, for: 60), named: "Busy"),
                try simulated(clock, .um25c, load(of: 1, for: 60), named: "Fresh"),
            ]
        }) { bench in
            let busy = bench.meters[0]
            // as many as the broker is to keep, from before
            let before = try await bench.store.fill(
                with: 50, of: busy, before: bench.clock.moment())
            bench.channel.connect()
            await bench.pass(.seconds(240))
            #expect(bench.completed.count == 2)
            let kept = bench.retainedSummaries(of: busy)
            #expect(kept.count == 50)
            #expect(!kept.contains(Bench.topics.session(busy.address, before[0].id)))
            #expect(kept.contains(Bench.topics.session(busy.address, before[1].id)))
            #expect(bench.retainedSummaries(of: bench.meters[1]).count == 1)
        }
    }
}

extension Bench {
    func publishedCounters(of meter: BenchMeter) throws -> [CountersMessage] {
        try channel.texts(of: Self.topics.counters(meter.address)).map { try CountersMessage($0) }
    }
}

extension Store {
    /// Makes a copy as a power cut would leave it now.
    func copy(to folder: Folder) throws {
        try withConnection { try $0.execute("VACUUM INTO '\(folder.path)/usbmeter.db'") }
    }

    /// Stores completed sessions of an hour each, the last of which began two hours ago.
    /// - Returns: them, oldest first.
    func fill(
        with count: Int, of meter: BenchMeter, before moment: Moment
    ) throws -> [SessionSummary] {
        var generator = SeededGenerator(seed: 1)
        return try (1...count).reversed().map { age in
            let start = moment.wall - .seconds(7_200 * age)
            var session = SessionSummary(
                id: SessionID(at: start, using: &generator), meter: meter.address,
                meterName: meter.settings.name, model: .um25c, gatewayID: Bench.gatewayID,
                startedAt: start, clockTrusted: true, softwareVersion: "1.2.3")
            session.durationMilliseconds = 3_600_000
            session.endedAt = start + .seconds(3_600)
            session.endReason = .currentStopped
            try finish(session)
            return session
        }
    }
}

/// The outbox when the disk or the broker's rights are the trouble.
struct OutboxTroubleTests {
    @Test func aMessageThatCannotBeForgottenIsNotSentOverAndOver() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock, .um25c, load(of: 1, for: 60))
            try await withGateway(in: folder, meters: [meter], clock: clock) { bench in
                bench.channel.connect()
                await bench.pass(.seconds(100))
                try folder.breakStatement("DELETE ON outbox")
                await bench.pass(.seconds(600))
                #expect(try bench.publishedSummaries(of: meter).count == 1)
                #expect(bench.log.lines(from: .error).count == 1)
                try folder.repairStatements()
                await bench.pass(.seconds(20))
                #expect(try bench.publishedSummaries(of: meter).count == 1)
                let left = try await bench.store.outboxCount()
                #expect(left == 0)
            }
        }
    }

    @Test func messagesThatCouldNotBeReadAreSentWhenTheyCan() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock, .um25c, load(of: 1, for: 60))
            try await withGateway(in: folder, meters: [meter], clock: clock) { bench in
                await bench.pass(.seconds(300))
                #expect(bench.completed.count == 1)
                try folder.execute("ALTER TABLE outbox RENAME TO elsewhere")
                bench.channel.connect()
                await bench.pass(.seconds(60))
                #expect(bench.log.lines(from: .error).count == 1)
                try folder.execute("ALTER TABLE elsewhere RENAME TO outbox")
                // nothing else happens meanwhile that would set it off
                await bench.pass(.seconds(20))
                let left = try await bench.store.outboxCount()
                #expect(left == 0)
                #expect(!bench.retainedSummaries(of: meter).isEmpty)
            }
        }
    }

    @Test func aRefusalIsNotReportedAnewWithEachConnection() async throws {
        try await withBench({ [try simulated($0)] }) { bench in
            bench.channel.refuse("/counters")
            for _ in 1...20 {
                bench.channel.connect()
                await bench.pass(.seconds(5))
                bench.channel.disconnect()
                await bench.pass(.seconds(5))
            }
            #expect(bench.log.lines(from: .error).count == 1)
            // allowed again, and refused again: that is news
            bench.channel.refuse()
            bench.channel.connect()
            await bench.pass(.seconds(5))
            bench.channel.disconnect()
            bench.channel.refuse("/counters")
            bench.channel.connect()
            await bench.pass(.seconds(5))
            #expect(bench.log.lines(from: .error).count == 2)
        }
    }
}
