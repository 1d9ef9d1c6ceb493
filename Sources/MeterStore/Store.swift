import FoundationEssentials
import LinuxIO
package import MeterCore

/// All that the agent keeps: meters, sessions with their curves, messages that wait for the broker,
/// and small facts, in one SQLite file.
///
/// Its calls wait for the disk on a thread of their own. Each operation happens wholly or not at
/// all. docs/database.md has the tables.
package actor Store {
    private let executor = QueueExecutor(label: "usbmeter.store")
    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    private let opening: Opening
    let syncsBatches: Bool
    private let encoder = JSONEncoder()
    private let decoder = JSONDecoder()

    private var connection: Connection?
    private var lock: DirectoryLock?

    /// What happened while it was opened, in order; usually nothing.
    package private(set) var openingNotes: [OpeningNote] = []

    // MARK: Opening and closing

    /// Opens the database of an agent, which is its only writer until `close()`.
    ///
    /// Makes what is missing, brings an older database up to date, and replaces a damaged one by a
    /// fresh one; `openingNotes` tells. A database of a later version, or of another program, is
    /// refused and not touched.
    /// - Parameters:
    ///   - directory: made with mode 0750 where it is missing.
    ///   - time: for the name of a damaged database that is set aside.
    ///   - syncingBatches: whether `append` waits until its samples would survive a power cut. If
    ///     not, a cut loses what the kernel had not written by itself, often half a minute.
    /// - Returns: the store, to be closed with `close()`.
    /// - Throws: `inUse`, `newerVersion`, `foreign`, `permission`, `readOnly`, `full`, `busy`, `io`.
    package static func open(
        directory: String, at time: WallTime, syncingBatches: Bool = true
    ) async throws(StoreError) -> Store {
        try await open(
            directory: directory, at: time, syncingBatches: syncingBatches, schema: .current)
    }

    static func open(
        directory: String, at time: WallTime, syncingBatches: Bool = true, schema: Schema,
        busyTimeout: Duration = .seconds(2)
    ) async throws(StoreError) -> Store {
        let store = Store(directory, syncingBatches, schema, busyTimeout)
        try await store.start(at: time)
        return store
    }

    /// Opens a database to look at, also while an agent writes to it. Changes nothing; operations
    /// that would, throw `readOnly`.
    /// - Throws: `missing`, `newerVersion`, `olderVersion`, `foreign`, `permission`, `corrupt`,
    ///   `busy`, `io`.
    package static func openReadOnly(directory: String) async throws(StoreError) -> Store {
        let store = Store(directory, false, .current, .seconds(2))
        try await store.startReading()
        return store
    }

    /// Makes the data directory where it is missing, with what is above it; for those who put
    /// something of their own in it.
    /// - Throws: `permission`, `io`.
    package static func createDirectory(_ path: String) throws(StoreError) {
        try DataDirectory(path: path).create()
    }

    private init(
        _ directory: String, _ syncingBatches: Bool, _ schema: Schema, _ busyTimeout: Duration
    ) {
        opening = Opening(
            directory: DataDirectory(path: directory), schema: schema, busyTimeout: busyTimeout)
        syncsBatches = syncingBatches
    }

    /// Writes the log back into the database, closes it, and lets the directory go. Does nothing
    /// the second time.
    package func close() {
        guard let connection else { return }
        self.connection = nil
        // Only saves the next start some work: with a full disk the log stays, and loses nothing.
        if lock != nil { try? connection.execute("PRAGMA wal_checkpoint(PASSIVE)") }
        connection.close()
        lock?.release()
        lock = nil
    }

    private func start(at time: WallTime) throws(StoreError) {
        try opening.directory.create()
        let lock = try DirectoryLock(opening.directory)
        do throws(StoreError) {
            (connection, openingNotes) = try opening.forWriting(at: time)
        } catch {
            lock.release()
            throw error
        }
        self.lock = lock
    }

    private func startReading() throws(StoreError) {
        connection = try opening.forReading()
    }

    // MARK: For the operations in the other files

    /// Runs one statement. See `Connection.run`.
    @discardableResult
    func run(_ sql: String, _ values: Value...) throws(StoreError) -> Int {
        try run(sql, values)
    }
    @discardableResult
    func run(_ sql: String, _ values: [Value]) throws(StoreError) -> Int {
        let connection = try openConnection()
        do throws(SQLiteError) { return try connection.run(sql, values) } catch {
            throw failure(error)
        }
    }

    /// All rows of a query. See `Connection.rows`.
    func rows<Result>(
        _ sql: String, _ values: Value..., read: (Row) -> Result
    ) throws(StoreError) -> [Result] {
        let connection = try openConnection()
        do throws(SQLiteError) { return try connection.rows(sql, values, read) } catch {
            throw failure(error)
        }
    }

    var lastInsertedRow: Int64 { connection?.lastInsertedRow ?? 0 }

    /// Runs `body` in one transaction, which is undone when it throws. If `synced`, waits until the
    /// transaction would survive a power cut.
    @discardableResult
    func transaction<Result>(
        synced: Bool, _ body: () throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        let connection = try openConnection()
        // In WAL mode NORMAL writes a commit without waiting for the disk: a crash of the program
        // loses nothing, a power cut the newest commits. FULL adds one sync of the log to each
        // commit (https://sqlite.org/pragma.html#pragma_synchronous). It cannot be set inside the
        // transaction. (Set back without `defer`, on which Swift 6.0.3 crashes in an actor.)
        guard synced else { return try transaction(on: connection, body) }
        try execute("PRAGMA synchronous = FULL", on: connection)
        let result: Swift.Result<Result, StoreError>
        do throws(StoreError) {
            result = .success(try transaction(on: connection, body))
        } catch {
            result = .failure(error)
        }
        // Cannot fail; if it did, the rest would be slow and right.
        try? connection.execute("PRAGMA synchronous = NORMAL")
        return try result.get()
    }

    private func transaction<Result>(
        on connection: Connection, _ body: () throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        // IMMEDIATE, since only the start of a transaction waits for other writers.
        try execute("BEGIN IMMEDIATE", on: connection)
        do throws(StoreError) {
            let result = try body()
            try execute("COMMIT", on: connection)
            return result
        } catch {
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw error
        }
    }

    private func execute(_ sql: String, on connection: Connection) throws(StoreError) {
        do throws(SQLiteError) { try connection.execute(sql) } catch { throw failure(error) }
    }

    /// Lends the connection to a test.
    func withConnection<Result: Sendable>(
        _ body: @Sendable (Connection) throws -> Result
    ) throws -> Result {
        try body(try openConnection())
    }

    func encoded(_ summary: SessionSummary) throws(StoreError) -> String {
        do {
            return String(decoding: try encoder.encode(summary), as: UTF8.self)
        } catch {
            throw StoreError(
                .unexpected, "session \(summary.id) cannot be written as JSON: \(error)",
                advice: "please report this")
        }
    }
    func decodedSummary(_ bytes: [UInt8]) throws(StoreError) -> SessionSummary {
        do {
            return try decoder.decode(SessionSummary.self, from: Data(bytes))
        } catch {
            throw StoreError(
                .damagedRecord, "a session's receipt cannot be read: \(error)",
                advice: "please report this, with \(opening.directory.database)")
        }
    }

    private func openConnection() throws(StoreError) -> Connection {
        guard let connection else { throw StoreError(.closed, "the store is closed") }
        return connection
    }

    private func failure(_ error: SQLiteError) -> StoreError {
        let failure = StoreError(error, at: opening.directory.database)
        // The next start looks through the whole file. A reader leaves that to the agent.
        if failure.kind == .corrupt, lock != nil { opening.directory.suspect() }
        return failure
    }
}
