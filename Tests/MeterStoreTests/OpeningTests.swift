import FoundationEssentials
import Glibc
import MeterCore
import Testing

@testable import MeterStore

@Suite struct OpeningTests {
    @Test func aFreshDatabaseHasTheSettingsThatItNeeds() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                #expect(await store.openingNotes == [.created(path: sandbox.database)])
                #expect(try await store.count("PRAGMA user_version") == Schema.current.version)
                #expect(try await store.count("PRAGMA application_id") == Schema.applicationID)
                #expect(try await store.count("PRAGMA auto_vacuum") == 2)
                #expect(try await store.count("PRAGMA foreign_keys") == 1)
                #expect(try await store.count("PRAGMA synchronous") == 1)
                let journal = try await store.withConnection {
                    try $0.text(of: "PRAGMA journal_mode")
                }
                #expect(journal == "wal")
            }
            var information = stat()
            #expect(stat(sandbox.data, &information) == 0)
            #expect(information.st_mode & 0o027 == 0)
            // After an orderly end there is one file, and the lock.
            #expect(try sandbox.names(in: sandbox.data) == ["usbmeter.db", "usbmeter.lock"])
        }
    }

    @Test func whatWasStoredIsThereAfterReopening() async throws {
        try await withSandbox { sandbox in
            let session = running(0).completed
            try await sandbox.withStore { store in
                try await store.finish(session, remaining: curve(0..<700))
                try await store.setMeta("gateway", "pi-1")
            }
            try await sandbox.withStore { store in
                #expect(await store.openingNotes == [])
                #expect(try await store.session(session.id) == session)
                #expect(try await store.samples(of: session.id) == curve(0..<700))
                #expect(try await store.meta("gateway") == "pi-1")
                try await store.setMeta("gateway", nil)
                #expect(try await store.meta("gateway") == nil)
            }
        }
    }

    @Test func missingFoldersAreMade() async throws {
        try await withSandbox { sandbox in
            let store = try await Store.open(directory: sandbox.path + "/a/b/c", at: noon)
            await store.close()
            #expect(try sandbox.names(in: sandbox.path + "/a/b/c").contains("usbmeter.db"))
        }
    }

    @Test func aPathThroughAFileIsExplained() async throws {
        try await withSandbox { sandbox in
            try sandbox.write([1], to: sandbox.path + "/file")
            let error = await storeError {
                try await Store.open(directory: sandbox.path + "/file/data", at: noon)
            }
            #expect(error?.kind == .permission)
            #expect(error?.description.contains("a part of the path is a file") == true)
            #expect(error?.advice.isEmpty == false)
        }
    }

    @Test(.enabled(if: geteuid() != 0, "root may write everywhere"))
    func aFolderThatMayNotBeWrittenIsExplained() async throws {
        try await withSandbox { sandbox in
            #expect(mkdir(sandbox.data, 0o500) == 0)
            let error = await storeError {
                try await Store.open(directory: sandbox.data, at: noon)
            }
            #expect(error?.kind == .permission)
        }
    }

    @Test func aSecondAgentOnTheSameFolderIsRefused() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { first in
                let error = await storeError {
                    try await Store.open(directory: sandbox.data, at: noon)
                }
                #expect(error?.kind == .inUse)
                #expect(error?.message.contains("process \(getpid())") == true)
                try await first.setMeta("still", "works")
            }
            try await sandbox.withStore { store throws in
                #expect(try await store.meta("still") == "works")
            }
        }
    }

    @Test func closingTwiceIsHarmlessAndUseAfterwardsIsAnError() async throws {
        try await withSandbox { sandbox in
            let store = try await Store.open(directory: sandbox.data, at: noon)
            _ = try await store.openSessions()
            await store.close()
            await store.close()
            let error = await storeError { try await store.meters() }
            #expect(error?.kind == .closed)
        }
    }

    // MARK: Versions

    @Test func anOlderDatabaseIsBroughtUpToDateAndKeepsItsRows() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { try await $0.setMeta("a", "1") }
            var next = Schema.current
            next.migrations.append("ALTER TABLE meters ADD COLUMN colour TEXT")
            try await sandbox.withStore(schema: next) { store throws in
                #expect(
                    await store.openingNotes == [
                        .migrated(from: next.version - 1, to: next.version)
                    ])
                #expect(try await store.count("PRAGMA user_version") == next.version)
                #expect(try await store.meta("a") == "1")
            }
        }
    }

    @Test func aDatabaseOfTheFirstVersionLearnsHowMetersAreReached() async throws {
        try await withSandbox { sandbox in
            let peer = PeerAddress(address: MeterAddress(localFor: "a"), kind: .classic)
            let first = Schema(migrations: [Schema.current.migrations[0]])
            try await sandbox.withStore(schema: first) { try await $0.setMeta("a", "1") }
            try await sandbox.withStore { store throws in
                #expect(await store.openingNotes == [.migrated(from: 1, to: 2)])
                let meter = Adoption.Adopted(peer: peer, name: "UM34C 0:1", model: .um34c)
                try await store.adopt(meter, at: WallTime(milliseconds: 1))
                #expect(try await store.adoptedMeters() == [meter])
                #expect(try await store.bluetoothKind(of: peer.address) == .classic)
                try await store.rememberChannel(2, of: peer.address)
                #expect(try await store.channel(of: peer.address) == 2)
                try await store.rememberLinkState(
                    .absent, of: peer.address, named: meter.name, cause: "absent",
                    evidence: "switched off", at: WallTime(milliseconds: 2))
                let states = try await store.linkStates()
                #expect(states.map(\.cause) == ["absent"])
                #expect(states.map(\.name) == [meter.name])
            }
        }
    }

    @Test func aStepThatFailsLeavesTheVersionBeforeIt() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { try await $0.setMeta("a", "1") }
            var next = Schema.current
            next.migrations += [
                "ALTER TABLE meters ADD COLUMN colour TEXT",
                "CREATE TABLE half (n INTEGER); INSERT INTO nowhere VALUES (1)",
            ]
            let error = await storeError {
                try await sandbox.withStore(schema: next) { _ in }
            }
            #expect(error?.message.contains("nowhere") == true)
            next.migrations.removeLast()
            try await sandbox.withStore(schema: next) { store throws in
                #expect(try await store.count("PRAGMA user_version") == next.version)
                #expect(
                    try await store.count("SELECT count(*) FROM sqlite_schema WHERE name = 'half'")
                        == 0)
                #expect(try await store.meta("a") == "1")
            }
        }
    }

    @Test func aLaterVersionIsRefusedAndNotTouched() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { try await $0.setMeta("a", "1") }
            try sandbox.withConnection { try $0.execute("PRAGMA user_version = 99") }
            let before = try sandbox.bytes(of: sandbox.database)
            let error = await storeError {
                try await sandbox.withStore { _ in }
            }
            #expect(error?.kind == .newerVersion)
            #expect(error?.message.contains("version 99") == true)
            #expect(try sandbox.bytes(of: sandbox.database) == before)
            // The lock was let go too.
            try sandbox.withConnection {
                try $0.execute("PRAGMA user_version = \(Schema.current.version)")
            }
            try await sandbox.withStore { store throws in #expect(try await store.meta("a") == "1")
            }
        }
    }

    @Test func aLaterVersionWithAnUnmergedLogIsNotTouchedEither() async throws {
        try await withSandbox { original in
            try await withSandbox { copy in
                try await original.withStore { store in
                    try await store.setMeta("a", "1")
                    try await store.withConnection { try $0.execute("PRAGMA user_version = 99") }
                    try original.copyFiles(to: copy)
                }
                let before = try ["", "-wal"].map { try copy.bytes(of: copy.database + $0) }
                let error = await storeError {
                    try await copy.withStore { _ in }
                }
                #expect(error?.kind == .newerVersion)
                #expect(try ["", "-wal"].map { try copy.bytes(of: copy.database + $0) } == before)
            }
        }
    }

    @Test func theDatabaseOfAnotherProgramIsRefusedAndNotTouched() async throws {
        try await withSandbox { sandbox in
            #expect(mkdir(sandbox.data, 0o700) == 0)
            try sandbox.withConnection { try $0.execute("CREATE TABLE theirs (n INTEGER)") }
            let before = try sandbox.bytes(of: sandbox.database)
            let error = await storeError {
                try await sandbox.withStore { _ in }
            }
            #expect(error?.kind == .foreign)
            #expect(try sandbox.bytes(of: sandbox.database) == before)
        }
    }

    @Test func anEmptyFileBecomesADatabase() async throws {
        try await withSandbox { sandbox in
            #expect(mkdir(sandbox.data, 0o700) == 0)
            try sandbox.write([], to: sandbox.database)
            try await sandbox.withStore { store throws in
                #expect(await store.openingNotes == [.created(path: sandbox.database)])
                #expect(try await store.count("PRAGMA auto_vacuum") == 2)
            }
        }
    }

    // MARK: Damage

    @Test(arguments: ["header", "schema", "cut short"])
    func aDamagedDatabaseIsSetAsideAndAFreshOneBegun(where place: String) async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { try await $0.begin(running(0)) }
            var bytes = try sandbox.bytes(of: sandbox.database)
            switch place {
            case "header": bytes.replaceSubrange(0..<16, with: Array("not a database!!".utf8))
            case "schema":
                bytes.replaceSubrange(100..<4096, with: [UInt8](repeating: 0xa5, count: 3996))
            default: bytes.removeLast(bytes.count - 6000)
            }
            try sandbox.write(bytes, to: sandbox.database)
            let aside = sandbox.database + ".corrupt-\(noon.milliseconds)"
            try await sandbox.withStore { store in
                let notes = await store.openingNotes
                #expect(notes.count == 2)
                guard case .setAside(aside, let reason) = notes.first else {
                    Issue.record("\(notes)")
                    return
                }
                #expect(reason.contains("damaged"))
                #expect(notes.last == .created(path: sandbox.database))
                try await store.finish(running(1).completed)
                #expect(try await store.sessions().count == 1)
            }
            #expect(try sandbox.bytes(of: aside) == bytes)
            // And it opens without further ado the next time.
            try await sandbox.withStore { #expect(await $0.openingNotes == []) }
        }
    }

    @Test func twoDamagedDatabasesAtTheSameTimeAreBothKept() async throws {
        try await withSandbox { sandbox in
            for _ in 0..<2 {
                try await sandbox.withStore { _ in }
                try sandbox.write(Array(repeating: 0xff, count: 8192), to: sandbox.database)
            }
            try await sandbox.withStore { _ in }
            let aside = try sandbox.names(in: sandbox.data).filter { $0.contains(".corrupt-") }
            #expect(aside.count == 2)
        }
    }

    @Test func damageThatShowsInUseIsDealtWithAtTheNextStart() async throws {
        try await withSandbox { sandbox in
            let session = running(0).completed
            try await sandbox.withStore { store in
                try await store.finish(session, remaining: curve(0..<3000))
            }
            // Sound at the front, where it is looked at when it is opened.
            var bytes = try sandbox.bytes(of: sandbox.database)
            let middle = bytes.count / 4096 / 2 * 4096
            bytes.replaceSubrange(
                middle..., with: [UInt8](repeating: 0x5a, count: bytes.count - middle))
            try sandbox.write(bytes, to: sandbox.database)
            try await sandbox.withStore { store in
                #expect(await store.openingNotes == [])
                let error = await storeError {
                    try await store.samples(of: session.id)
                }
                #expect(error?.kind == .corrupt)
            }
            try await sandbox.withStore { store in
                #expect(await store.openingNotes.count == 2)
                try await store.finish(running(1).completed)
            }
            try await sandbox.withStore { #expect(await $0.openingNotes == []) }
        }
    }

    @Test func aFalseAlarmLosesNothing() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { try await $0.setMeta("a", "1") }
            try sandbox.write([], to: sandbox.database + ".suspect")
            try await sandbox.withStore { store throws in
                #expect(await store.openingNotes == [])
                #expect(try await store.meta("a") == "1")
            }
            #expect(try sandbox.names(in: sandbox.data).contains("usbmeter.db.suspect") == false)
        }
    }

    // MARK: Reading beside the agent

    @Test func sessionsCanBeListedWhileTheAgentWrites() async throws {
        try await withSandbox { sandbox in
            let first = running(0).completed
            let second = running(1)
            try await sandbox.withStore { store in
                try await store.finish(first)
                try await sandbox.withReader { reader in
                    #expect(try await reader.sessions() == [first])
                    try await store.append(curve(0..<10), progress: second)
                    #expect(try await reader.sessions() == [second, first])
                    #expect(try await reader.samples(of: second.id) == curve(0..<10))
                    let error = await storeError {
                        try await reader.begin(running(2))
                    }
                    #expect(error?.kind == .readOnly)
                }
                try await store.finish(second.completed)
            }
            // And after it has stopped.
            try await sandbox.withReader { store throws in
                #expect(try await store.sessions().count == 2)
            }
        }
    }

    @Test func readingWhereNoAgentWasYetIsExplained() async throws {
        try await withSandbox { sandbox throws in
            let error = await storeError {
                try await sandbox.withReader { _ in }
            }
            #expect(error?.kind == .missing)
            #expect(error?.advice.contains("start the agent") == true)
            // Looking has made nothing.
            #expect(try sandbox.names(in: sandbox.path) == [])
        }
    }

    @Test func aReaderNeitherMigratesNorSetsAside() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { _ in }
            try sandbox.withConnection { try $0.execute("PRAGMA user_version = 99") }
            let newer = await storeError {
                try await sandbox.withReader { _ in }
            }
            #expect(newer?.kind == .newerVersion)
            try sandbox.write(Array(repeating: 0xff, count: 8192), to: sandbox.database)
            let damaged = await storeError {
                try await sandbox.withReader { _ in }
            }
            #expect(damaged?.kind == .corrupt)
            #expect(try sandbox.bytes(of: sandbox.database).count == 8192)
        }
    }
}
