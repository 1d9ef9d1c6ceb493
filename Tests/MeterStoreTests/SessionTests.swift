import MeterCore
import Testing

@testable import MeterStore

@Suite struct SessionTests {
    @Test func sessionsAreListedNewestFirstByMeterAndTime() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let old = running(0).completed
                let other = running(10, of: rack).completed
                let new = running(20).completed
                let now = running(30)
                for summary in [new, old, other] { try await store.finish(summary) }
                try await store.begin(now)

                #expect(try await store.sessions() == [now, new, other, old])
                #expect(try await store.sessions(includeRunning: false) == [new, other, old])
                #expect(try await store.sessions(meter: bench) == [now, new, old])
                #expect(try await store.sessions(limit: 2) == [now, new])
                #expect(try await store.sessions(limit: 0) == [])
                #expect(
                    try await store.sessions(since: other.startedAt, until: now.startedAt)
                        == [new, other])
                #expect(
                    try await store.sessions(
                        meter: bench, until: now.startedAt, limit: 1, includeRunning: false) == [
                            new
                        ])
                #expect(try await store.lastSession(of: bench) == new)
                #expect(try await store.lastSession(of: rack) == other)
                #expect(try await store.openSessions() == [now])
            }
        }
    }

    @Test func aSessionIsFoundByTheStartOfItsID() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let early = running(0).completed
                let late = running(60 * 24 * 365).completed
                try await store.finish(late)
                try await store.finish(early)
                let prefix = String(early.id.description.prefix(8))
                #expect(try await store.sessions(withIDPrefix: prefix.uppercased()) == [early])
                #expect(try await store.sessions(withIDPrefix: "01") == [early, late])
                #expect(try await store.sessions(withIDPrefix: early.id.description) == [early])
                #expect(try await store.sessions(withIDPrefix: "ffff") == [])
                #expect(try await store.session(late.id) == late)
                #expect(try await store.session(running(0).id) == nil)
            }
        }
    }

    @Test func aCurveFillsPageAfterPage() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                let samples = noisyCurve(3605)
                let emptyPages = try await store.count("PRAGMA page_count")
                for start in stride(from: 0, to: 1500, by: 10) {
                    try await store.append(Array(samples[start..<start + 10]), progress: session)
                }
                try await store.finish(session.completed, remaining: Array(samples[1500...]))
                #expect(try await store.samples(of: session.id) == samples)
                let sizes = try await store.withConnection {
                    try $0.rows("SELECT length(payload) FROM sample_chunks ORDER BY sequence") {
                        Int($0.integer(0))
                    }
                }
                #expect(sizes.count > 2)
                #expect(sizes.allSatisfy { $0 <= Store.bytesPerChunk })
                #expect(sizes.dropLast().allSatisfy { $0 > Store.bytesPerChunk * 4 / 5 })
                let pages = try await store.count("PRAGMA page_count")
                #expect(pages - emptyPages <= sizes.count + 2)
            }
        }
    }

    /// A card wears out by the page: the chunk, the session, and the meter's totals, no index.
    @Test func aBatchOfSamplesWritesThreePages() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                var session = running(0)
                let samples = noisyCurve(200)
                var sizes: [Int] = []
                for start in stride(from: 0, to: 200, by: 10) {
                    session.energyIntegrated = Microjoules(Int64(start))
                    try await store.append(
                        Array(samples[start..<start + 10]), progress: session,
                        totals: LifetimeTotals(energy: Microjoules(Int64(start))))
                    sizes.append(try sandbox.bytes(of: sandbox.database + "-wal").count)
                }
                // A page in the log has a header of 24 bytes.
                #expect((sizes[19] - sizes[9]) / (4096 + 24) == 10 * 3)
            }
        }
    }

    @Test func aStartThatIsCorrectedMovesTheSession() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                var early = running(0)
                let other = running(10)
                try await store.begin(early)
                try await store.begin(other)
                early.startedAt = other.startedAt + .seconds(60)
                try await store.append([], progress: early)
                #expect(try await store.sessions() == [early, other])
                #expect(try await store.sessions(since: early.startedAt) == [early])
            }
        }
    }

    @Test func aBatchThatIsRepeatedAddsNothing() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                try await store.append(curve(0..<10), progress: session)
                try await store.append(curve(0..<10), progress: session)
                try await store.append(curve(5..<15), progress: session)
                #expect(try await store.samples(of: session.id) == curve(0..<15))
            }
        }
    }

    @Test func samplesAfterTheRealEndAreDropped() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                try await store.append(curve(0..<1100), progress: session)
                try await store.finish(
                    session.completed, remaining: curve(1100..<1110), endOffset: 1_000_000)
                #expect(try await store.samples(of: session.id) == curve(0..<1001))

                // Over a border of chunks, and the tail can grow again.
                let other = running(1)
                try await store.append(curve(0..<1100), progress: other)
                try await store.truncateSamples(of: other.id, after: 511_000)
                #expect(try await store.samples(of: other.id) == curve(0..<512))
                try await store.append(curve(512..<600), progress: other)
                #expect(try await store.samples(of: other.id) == curve(0..<600))
                try await store.truncateSamples(of: other.id, after: -1)
                #expect(try await store.samples(of: other.id) == [])
            }
        }
    }

    @Test func aRunningSessionIsFoundAfterARestartAndGoesOn() async throws {
        try await withSandbox { sandbox in
            var session = running(0)
            try await sandbox.withStore { store in
                try await store.begin(session)
                session.samples = 20
                try await store.append(curve(0..<20), progress: session)
            }
            try await sandbox.withStore { store in
                #expect(try await store.openSessions() == [session])
                try await store.append(curve(20..<30), progress: session)
                #expect(try await store.samples(of: session.id) == curve(0..<30))
                try await store.finish(session.completed)
                #expect(try await store.openSessions() == [])
                #expect(try await store.sessions() == [session.completed])
            }
        }
    }

    @Test func theHigherRevisionOfAKnownSessionWins() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let first = running(0).completed
                #expect(
                    try await store.finish(first, remaining: curve(0..<100), outbox: [item("s")]))
                #expect(
                    !(try await store.finish(first, remaining: curve(0..<100), outbox: [item("s")]))
                )
                #expect(try await store.outboxCount() == 1)

                let third = first.revised(3, label: "Phone")
                #expect(try await store.finish(third))
                #expect(try await store.finish(first.revised(2, label: "Lamp")) == false)
                #expect(try await store.sessions() == [third])
                #expect(try await store.samples(of: first.id) == curve(0..<100))

                // A late batch of the recorder does not open it again.
                var late = first
                late.endedAt = nil
                try await store.append(curve(100..<110), progress: late)
                #expect(try await store.sessions() == [third])
                #expect(try await store.samples(of: first.id) == curve(0..<100))
            }
        }
    }

    @Test func discardingForgetsOnlyWhatStillRuns() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let blip = running(0)
                let real = running(1).completed
                try await store.append(curve(0..<10), progress: blip)
                try await store.finish(real)
                try await store.discard(blip.id)
                try await store.discard(real.id)
                #expect(try await store.sessions() == [real])
                #expect(try await store.count("SELECT count(*) FROM sample_chunks") == 0)
            }
        }
    }

    @Test func deletingTakesTheCurveAlongAndLeavesAMessage() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0).completed
                try await store.finish(session, remaining: curve(0..<1000))
                #expect(try await store.delete(session.id, outbox: [item("tombstone")]))
                #expect(try await store.delete(session.id, outbox: [item("tombstone")]) == false)
                #expect(try await store.sessions() == [])
                #expect(try await store.samples(of: session.id) == [])
                #expect(try await store.count("SELECT count(*) FROM sample_chunks") == 0)
                #expect(try await store.outbox(limit: 9).map(\.item.key) == ["tombstone"])
            }
        }
    }

    @Test func aDamagedPartOfACurveIsReportedAndDoesNotStopTheRecording() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                try await store.append(curve(0..<10), progress: session)
                try await store.withConnection {
                    try $0.execute("UPDATE sample_chunks SET payload = x'01ff'")
                }
                try await store.append(curve(10..<20), progress: session)
                try await store.finish(session.completed, endOffset: 15_000)
                let error = await storeError {
                    try await store.samples(of: session.id)
                }
                #expect(error?.kind == .damagedRecord)
                #expect(try await store.session(session.id) == session.completed)
            }
        }
    }

    // MARK: Meters

    @Test func lifetimeTotalsOnlyRise() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                #expect(try await store.lifetimeTotals(of: bench) == LifetimeTotals())
                let high = LifetimeTotals(energy: Microjoules(500), charge: Microcoulombs(50))
                try await store.saveLifetimeTotals(high, of: bench)
                try await store.saveLifetimeTotals(
                    LifetimeTotals(energy: Microjoules(400), charge: Microcoulombs(60)), of: bench)
                #expect(
                    try await store.lifetimeTotals(of: bench)
                        == LifetimeTotals(energy: Microjoules(500), charge: Microcoulombs(60)))

                let session = running(0, of: rack)
                try await store.append(curve(0..<1), progress: session, totals: high)
                try await store.finish(session.completed, totals: LifetimeTotals())
                #expect(try await store.lifetimeTotals(of: rack) == high)
            }
        }
    }

    @Test func aMeterIsRememberedWithTheNewestNameAndItsModel() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                try await store.saveLifetimeTotals(
                    LifetimeTotals(energy: Microjoules(5)), of: bench)
                try await store.rememberMeter(bench, name: "Bench", model: .um25c, seenAt: noon)
                let later = noon + .seconds(60)
                try await store.rememberMeter(bench, name: "Desk", model: nil, seenAt: later)
                #expect(
                    try await store.meters() == [
                        KnownMeter(
                            address: bench, name: "Desk", model: .um25c, firstSeenAt: noon,
                            lastSeenAt: later,
                            totals: LifetimeTotals(energy: Microjoules(5)))
                    ])
            }
        }
    }

    // MARK: Size

    @Test func listingTenThousandSessionsWalksAnIndex() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let template = running(0).completed
                try await store.begin(running(0))
                try await store.begin(running(0, of: rack))
                let receipt = try await store.encoded(template)
                try await store.withConnection { connection in
                    try connection.execute("BEGIN")
                    for number in 0..<10_000 {
                        let session = running(number, of: number % 4 == 0 ? bench : rack)
                        try connection.run(
                            """
                            INSERT INTO sessions (
                                id, meter, started_ms, ended_ms, duration_ms, energy_uj, charge_uc,
                                peak_power_uw, revision, receipt)
                            VALUES (?1, ?2, ?3, ?3, 1, 1, 1, 1, 1, ?4)
                            """,
                            .text(session.id.description), .text(session.meter.compact),
                            .integer(session.startedAt.milliseconds), .text(receipt))
                    }
                    try connection.execute("COMMIT; ANALYZE")
                }
                #expect(try await store.sessions(limit: 100).count == 100)
                #expect(try await store.sessions(meter: rack, limit: 100).count == 100)

                for (sql, index) in [
                    (Store.listing, "sessions_by_time"),
                    (Store.listingOfMeter, "sessions_by_meter"),
                ] {
                    let plan = try await store.withConnection { connection in
                        let count = sql.contains("?5") ? 5 : 4
                        return try connection.rows(
                            "EXPLAIN QUERY PLAN " + sql, Array(repeating: .integer(1), count: count)
                        ) { $0.text(3) }.joined(separator: "; ")
                    }
                    #expect(plan.contains("USING INDEX \(index)"), "\(plan)")
                    #expect(!plan.contains("SCAN"), "\(plan)")
                    #expect(!plan.contains("TEMP B-TREE"), "\(plan)")
                }
            }
        }
    }
}
