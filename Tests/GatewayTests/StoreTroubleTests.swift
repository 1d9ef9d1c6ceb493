import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// A disk that is full or damaged, or held by somebody else: measuring and publishing go on, and
/// nothing is lost when it is over (D5).
struct StoreTroubleTests {
    /// One charge of two minutes on the bench, recorded in `folder`.
    private func withCharge(
        busyTimeout: Duration = .seconds(2),
        _ body: (Folder, BenchMeter, Bench) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock, .um25c, load(of: 1, for: 120))
            try await withGateway(
                in: folder, meters: [meter], clock: clock, busyTimeout: busyTimeout
            ) { bench in
                bench.channel.connect()
                try await body(folder, meter, bench)
            }
        }
    }

    private func breakAll(_ folder: Folder) throws {
        for statement in [
            "INSERT ON sample_chunks", "UPDATE ON sample_chunks", "UPDATE ON sessions",
            "INSERT ON sessions", "UPDATE ON meters", "INSERT ON outbox",
        ] { try folder.breakStatement(statement) }
    }

    @Test func samplesOfATroubledTimeAreStoredWhenItIsOver() async throws {
        try await withCharge { folder, meter, bench in
            await bench.pass(.seconds(30))
            try breakAll(folder)
            await bench.pass(.seconds(60))
            // all of the time a reading a second
            #expect(bench.live(of: meter).count >= 89)
            #expect(bench.log.lines(from: .error).count == 1)
            try folder.repairStatements()
            await bench.pass(.seconds(15))
            let back = bench.log.lines(from: .notice).filter { $0.level == .notice }
            #expect(back.count == 1)
            #expect(back.first?.text.contains("back after") == true)
            await bench.pass(.seconds(200))

            let stored = try await bench.store.sessions()
            #expect(stored.count == 1)
            let session = try #require(stored.first)
            let samples = try await bench.store.samples(of: session.id)
            #expect(samples.count == session.samples)
            #expect(samples.map(\.offset).pauses.allSatisfy { $0 == 1_000 })
            #expect(bench.log.lines(from: .error).count == 1)
        }
    }

    @Test func aSessionThatEndsInATroubledTimeIsPublishedAtOnceAndStoredOnce() async throws {
        try await withCharge { folder, meter, bench in
            await bench.pass(.seconds(30))
            try breakAll(folder)
            await bench.pass(.seconds(600))
            #expect(bench.completed.count == 1)
            let id = try #require(bench.completed.first).id
            // once, and not each time that storing is tried
            #expect(try bench.publishedSummaries(of: meter).map(\.sessionId) == [id.description])
            #expect(bench.channel.texts(of: Bench.topics.lastSession(meter.address)).count == 1)
            // one for each statement that does not work, however often it is tried
            #expect(bench.log.lines(from: .error).count <= 2)

            try folder.repairStatements()
            await bench.pass(.seconds(30))
            let stored = try await bench.store.sessions()
            #expect(stored.map(\.id) == [id])
            #expect(stored.first?.endedAt != nil)
            let samples = try await bench.store.samples(of: id)
            #expect(samples.count == stored.first?.samples)
            let left = try await bench.store.outboxCount()
            #expect(left == 0)
        }
    }

    @Test func whatTheBrokerHasClearedDoesNotComeBack() async throws {
        try await withCharge { folder, meter, bench in
            await bench.pass(.seconds(30))
            try breakAll(folder)
            await bench.pass(.seconds(300))
            let id = try #require(bench.completed.first).id
            try folder.repairStatements()
            await bench.pass(.seconds(30))
            // fifty newer ones push it out, as it would go in a month
            try await bench.store.delete(id)
            bench.channel.offer(
                Message(
                    topic: Bench.topics.session(meter.address, id), text: "", qos: .atLeastOnce,
                    retain: true))
            bench.channel.disconnect()
            bench.channel.connect()
            await bench.settle()
            #expect(bench.retainedSummaries(of: meter).isEmpty)
        }
    }

    @Test func aDatabaseHeldByAnotherProgramDelaysNothingButStoring() async throws {
        try await withCharge(busyTimeout: .milliseconds(1)) { folder, meter, bench in
            await bench.pass(.seconds(30))
            let held = try Connection(path: folder.path + "/usbmeter.db", .readWrite)
            defer { held.close() }
            try held.execute("BEGIN IMMEDIATE")
            await bench.pass(.seconds(60))
            #expect(bench.live(of: meter).count >= 89)
            #expect(bench.log.lines(from: .error).count == 1)
            try held.execute("COMMIT")
            await bench.pass(.seconds(215))
            let session = try #require(bench.completed.first)
            let samples = try await bench.store.samples(of: session.id)
            #expect(samples.count == session.samples)
        }
    }

    @Test func aReceiptThatCannotBeReadKeepsNoOtherSessionFromBeingStored() async throws {
        try await withCharge { folder, meter, bench in
            let before = try await bench.store.fill(
                with: 50, of: meter, before: bench.clock.moment())
            try folder.execute("UPDATE sessions SET receipt = '{}' WHERE id = '\(before[30].id)'")
            await bench.pass(.seconds(300))
            let session = try #require(bench.completed.first)
            let stored = try await bench.store.session(session.id)
            #expect(stored?.endedAt != nil)
            #expect(bench.retainedSummaries(of: meter).count == 1)
        }
    }

    @Test func aDatabaseThatIsHeldDoesNotKeepTheGatewayFromStopping() async throws {
        try await withCharge(busyTimeout: .milliseconds(200)) { folder, meter, bench in
            await bench.pass(.seconds(60))
            let held = try Connection(path: folder.path + "/usbmeter.db", .readWrite)
            defer { held.close() }
            try held.execute("BEGIN IMMEDIATE")
            await bench.stop()
            try held.execute("COMMIT")
            let lines = bench.log.lines(from: .error).map(\.text)
            #expect(lines.count == 2)
            #expect(lines.last?.contains("before everything") == true)
            #expect(try bench.publishedSummaries(of: meter).count == 1)
        }
    }

    @Test func aGatewayStopsAlsoWhenNothingCanBeStoredAndSaysSo() async throws {
        try await withCharge { folder, meter, bench in
            await bench.pass(.seconds(30))
            try breakAll(folder)
            await bench.pass(.seconds(30))
            let took = await bench.stop()
            #expect(took < .seconds(2.1))
            #expect(bench.log.lines(from: .error).last?.text.contains("before everything") == true)
            // the broker has it at least
            #expect(try bench.publishedSummaries(of: meter).count == 1)
        }
    }
}

/// C9: what has flowed since a meter is known only ever rises.
struct TotalsTests {
    @Test func totalsGoOnAfterARestart() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock, .um25c, "flat", faults: ["counter-reset@90s"])
            var totals: [Double] = []
            for _ in 1...3 {
                let channel = FakeChannel(clock: clock)
                channel.connect()
                try await withGateway(
                    in: folder, meters: [meter], clock: clock, channel: channel
                ) { bench in await bench.pass(.seconds(130)) }
                totals += try channel.texts(of: Bench.topics.counters(meter.address))
                    .map { try CountersMessage($0).energyTotalWh }
                // away for a while, in which nothing is counted
                clock.step(to: clock.now + .seconds(30))
            }
            #expect(totals == totals.sorted())
            // three times 130 s at 5 W, less the first reading of each
            let end = try #require(totals.last)
            #expect((0.525...0.545).contains(end))
        }
    }

    @Test func totalsThatCannotBeReadAreNotPublishedAsZero() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock)
            try await withGateway(in: folder, meters: [meter], clock: clock) { bench in
                try await bench.store.saveLifetimeTotals(
                    LifetimeTotals(energy: Microjoules(36_000_000_000)), of: meter.address)
            }
            try folder.execute("ALTER TABLE meters RENAME TO elsewhere")
            try await withGateway(in: folder, meters: [meter], clock: clock) { bench in
                bench.channel.connect()
                await bench.pass(.seconds(100))
                #expect(try bench.publishedCounters(of: meter).isEmpty)
                try folder.execute("ALTER TABLE elsewhere RENAME TO meters")
                await bench.pass(.seconds(100))
                let totals = try bench.publishedCounters(of: meter).map(\.energyTotalWh)
                #expect(totals.allSatisfy { $0 > 10.1 && $0 < 10.4 })
                #expect(totals.count >= 2)
            }
            // nothing of it is lost on disk either
            try await withGateway(in: folder, clock: clock) { bench in
                let kept = try await bench.store.lifetimeTotals(of: meter.address)
                #expect((10.26...10.29).contains(kept.energy.wattHours))
            }
        }
    }

    @Test func aLoadBelowTheStartCurrentIsCountedAndTold() async throws {
        try await withBench({ [try simulated($0, .um25c, load(of: 0.03, for: 3_600))] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(1_000))
            let totals = try bench.publishedCounters(of: bench.meters[0])
            // 0.15 W for a quarter of an hour
            #expect(totals.last?.energyTotalWh ?? 0 > 0.035)
            #expect(totals.count <= 20)
        }
    }
}

/// Sessions that a crash left without an end.
struct LeftOverTests {
    @Test func theyEndAtTheirLastStoredReadingAndAreDelivered() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock)
            try await withFolder { running in
                try await withGateway(in: running, meters: [meter], clock: clock) { bench in
                    await bench.pass(.seconds(64))
                    // as a power cut would leave it
                    try await bench.store.copy(to: folder)
                }
            }
            clock.step(to: clock.now + .seconds(3_600))
            // the broker is there before anything else
            let channel = FakeChannel(clock: clock)
            channel.connect()
            try await withGateway(in: folder, clock: clock, channel: channel) { bench in
                await bench.pass(.seconds(1))
                let stored = try await bench.store.sessions()
                let session = try #require(stored.first)
                #expect(stored.count == 1)
                #expect(session.endReason == .interrupted)
                // the last batch of ten seconds may be missing
                #expect((48_000...64_000).contains(session.durationMilliseconds))
                let samples = try await bench.store.samples(of: session.id)
                #expect(samples.last?.offset == session.durationMilliseconds)
                #expect(samples.count == session.samples)
                #expect(try bench.publishedSummaries(of: meter).count == 1)
                let last = bench.channel.retained[Bench.topics.lastSession(meter.address)]
                #expect(last?.contains(session.id.description) == true)
            }
        }
    }

    @Test func theyCountAmongTheFiftySummaries() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock)
            try await withGateway(in: folder, clock: clock) { bench in
                await bench.settle()
                _ = try await bench.store.fill(with: 50, of: meter, before: clock.moment())
                var open = try await bench.store.fill(with: 1, of: meter, before: clock.moment())[0]
                (open.endedAt, open.endReason) = (nil, nil)
                var generator = SystemRandomNumberGenerator()
                open.id = SessionID(at: clock.moment().wall, using: &generator)
                open.startedAt = clock.moment().wall
                try await bench.store.begin(open)
            }
            try await withGateway(in: folder, meters: [meter], clock: clock) { bench in
                bench.channel.connect()
                await bench.pass(.seconds(1))
                #expect(bench.retainedSummaries(of: meter).count == 50)
            }
        }
    }

    @Test func oneThatCannotBeStoredDoesNotKeepTheOthersOpen() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock)
            var ids: [SessionID] = []
            try await withGateway(in: folder, clock: clock) { bench in
                await bench.settle()
                for var open in try await bench.store.fill(
                    with: 2, of: meter, before: clock.moment())
                {
                    try await bench.store.delete(open.id)
                    (open.endedAt, open.endReason) = (nil, nil)
                    try await bench.store.begin(open)
                    ids.append(open.id)
                }
            }
            try folder.execute(
                """
                CREATE TRIGGER broken BEFORE UPDATE ON sessions WHEN OLD.id = '\(ids[0])'
                BEGIN SELECT RAISE(ABORT, 'out of order'); END
                """)
            try await withGateway(in: folder, clock: clock) { bench in
                await bench.pass(.seconds(1))
                let open = try await bench.store.openSessions()
                #expect(open.map(\.id) == [ids[0]])
                #expect(bench.log.lines(from: .error).count == 1)
            }
        }
    }
}

extension [Int64] {
    fileprivate var pauses: [Int64] { zip(self, dropFirst()).map { $1 - $0 } }
}
