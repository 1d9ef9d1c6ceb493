import FoundationEssentials
import MeterCore
import Testing

@testable import MeterStore

@Suite struct FailureTests {
    @Test func finishingHappensWhollyOrNotAtAll() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                try await store.append(curve(0..<600), progress: session)
                try sandbox.withConnection {
                    try $0.execute(
                        """
                        CREATE TRIGGER bad BEFORE INSERT ON outbox WHEN new.key = 'bad'
                        BEGIN SELECT RAISE(ABORT, 'injected'); END
                        """)
                }
                let totals = LifetimeTotals(energy: Microjoules(9), charge: Microcoulombs(9))
                let error = await storeError {
                    try await store.finish(
                        session.completed, remaining: curve(600..<610), totals: totals,
                        outbox: [item("good"), item("bad")], endOffset: 100_000)
                }
                #expect(error?.kind == .unexpected)
                #expect(error?.message.contains("injected") == true)
                #expect(try await store.openSessions() == [session])
                #expect(try await store.samples(of: session.id) == curve(0..<600))
                #expect(try await store.lifetimeTotals(of: bench) == LifetimeTotals())
                #expect(try await store.outboxCount() == 0)

                try await store.finish(
                    session.completed, remaining: curve(600..<610), totals: totals,
                    outbox: [item("good")])
                #expect(try await store.samples(of: session.id) == curve(0..<610))
                #expect(try await store.outboxCount() == 1)
            }
        }
    }

    /// The files are taken as they are at that moment, without an orderly end.
    @Test func aCompletedSessionIsThereOnceWheneverTheProgramIsKilled() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                let done = running(1)
                try await store.finish(
                    done.completed, remaining: curve(0..<100), outbox: [item("done")])
                try await store.append(curve(0..<10), progress: session)
                try await sandbox.withCopy { copy in
                    let sessions = try await copy.sessions()
                    #expect(sessions == [done.completed, session])
                    #expect(await copy.openingNotes == [])
                    #expect(try await copy.openSessions() == [session])
                    #expect(try await copy.samples(of: done.id) == curve(0..<100))
                    #expect(try await copy.samples(of: session.id) == curve(0..<10))
                    #expect(try await copy.outboxCount() == 1)
                }
                // Within a transaction: nothing of it is there.
                try await store.withConnection {
                    try $0.execute("BEGIN IMMEDIATE; DELETE FROM outbox")
                }
                try await sandbox.withCopy { store throws in
                    #expect(try await store.outboxCount() == 1)
                }
                try await store.withConnection { try $0.execute("ROLLBACK") }

                try await store.finish(
                    session.completed, remaining: curve(10..<20), outbox: [item("next")])
                try await sandbox.withCopy { copy in
                    #expect(try await copy.sessions() == [done.completed, session.completed])
                    #expect(try await copy.outboxCount() == 2)
                    let again = try await copy.finish(session.completed, outbox: [item("next")])
                    #expect(!again)
                    #expect(try await copy.outboxCount() == 2)
                }
            }
        }
    }

    /// The log is cut off at every few hundred bytes, as by a power cut while it is written.
    @Test func aLogThatEndsAnywhereLosesOnlyTheNewestTransactions() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let sessions = (0..<4).map { running($0).completed }
                for session in sessions {
                    try await store.finish(session, remaining: curve(0..<50), outbox: [item("s")])
                }
                // The tables come with the first transaction.
                let length = try sandbox.bytes(of: sandbox.database + "-wal").count
                var seen = Set<Int>()
                for end in stride(from: 0, through: length, by: 1999) {
                    try await sandbox.withCopy(logLength: end) { copy in
                        let kept = try await copy.sessions()
                        seen.insert(kept.count)
                        #expect(kept == sessions.prefix(kept.count).reversed())
                        #expect(try await copy.outboxCount() == kept.count)
                        for session in kept {
                            #expect(try await copy.samples(of: session.id) == curve(0..<50))
                        }
                    }
                }
                #expect(seen == [0, 1, 2, 3])
            }
        }
    }

    @Test func aFullDiskIsNamedAndRecordingGoesOnWhenThereIsRoom() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let session = running(0)
                try await store.append(curve(0..<10), progress: session)
                let pages = try await store.count("PRAGMA page_count")
                try await store.withConnection {
                    try $0.execute("PRAGMA max_page_count = \(pages)")
                }
                let error = await storeError {
                    try await store.append(curve(10..<9000), progress: session)
                }
                #expect(error?.kind == .full)
                #expect(error?.advice.contains("free some space") == true)
                #expect(try await store.samples(of: session.id) == curve(0..<10))

                try await store.withConnection { try $0.execute("PRAGMA max_page_count = 100000") }
                try await store.append(curve(10..<9000), progress: session)
                #expect(try await store.samples(of: session.id) == curve(0..<9000))
            }
        }
    }

    @Test func anotherProgramThatHoldsTheDatabaseIsNamed() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore(busyTimeout: .milliseconds(20)) { store in
                let other = try Connection(path: sandbox.database, .readWrite)
                defer { other.close() }
                try other.execute("BEGIN IMMEDIATE")
                let error = await storeError {
                    try await store.finish(running(0).completed)
                }
                #expect(error?.kind == .busy)
                try other.execute("COMMIT")
                try await store.finish(running(0).completed)
            }
        }
    }

    @Test func aCompletedSessionIsSyncedAndTheRestIsNot() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                let during = try await store.syncLevelWithin(synced: true)
                #expect(during == 2)
                #expect(try await store.syncLevelWithin(synced: false) == 1)
                #expect(try await store.count("PRAGMA synchronous") == 1)
            }
        }
    }

    @Test func everyErrorOfTheDatabaseHasAKind() {
        let cases: [(Int32, Int32, StoreError.Kind)] = [
            (13, 0, .full), (4874, 28, .full), (8, 30, .readOnly), (1032, 0, .readOnly),
            (11, 0, .corrupt), (779, 0, .corrupt), (26, 0, .corrupt), (5, 0, .busy), (6, 0, .busy),
            (14, 13, .permission), (14, 2, .io), (10, 5, .io), (1034, 0, .io), (19, 0, .unexpected),
            (1, 0, .unexpected),
        ]
        for (code, system, kind) in cases {
            let error = StoreError(
                SQLiteError(code: code, message: "m", systemError: system), at: "/x/usbmeter.db")
            #expect(error.kind == kind, "\(code)")
            #expect(!error.advice.isEmpty)
        }
    }
}

extension Store {
    fileprivate func syncLevelWithin(synced: Bool) throws -> Int {
        try transaction(synced: synced) { () throws(StoreError) in
            try rows("PRAGMA synchronous") { Int($0.integer(0)) }.first ?? -1
        }
    }
}
