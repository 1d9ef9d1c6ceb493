import MeterCore

/// How a database is opened: looked at first, then replaced, brought up to date, or refused.
struct Opening: Sendable {
    var directory: DataDirectory
    var schema: Schema
    var busyTimeout: Duration

    /// For the agent that holds the directory's lock. See `Store.open`.
    func forWriting(at time: WallTime) throws(StoreError) -> (Connection, [OpeningNote]) {
        do throws(StoreError) {
            return try openForWriting()
        } catch {
            guard error.kind == .corrupt else { throw error }
            let path = try directory.setAside(at: time)
            let (connection, notes) = try openForWriting()
            return (connection, [.setAside(path: path, reason: error.message)] + notes)
        }
    }

    /// For a program that looks on. See `Store.openReadOnly`.
    func forReading() throws(StoreError) -> Connection {
        let missing = StoreError(
            .missing, "there is no database in \(directory.path) yet",
            advice: "start the agent first, or name the data directory that it uses")
        if !directory.exists(directory.database) {
            guard directory.mayBeSearched else { throw .permission(for: directory.path) }
            throw missing
        }
        let (connection, version) = try openForReading()
        if version == schema.version { return connection }
        connection.close()
        if version == 0 { throw missing }
        throw StoreError(
            .olderVersion,
            "\(directory.database) has version \(version) and this program reads version "
                + "\(schema.version)",
            advice: "restart the agent with this version of the program")
    }

    private func openForWriting() throws(StoreError) -> (Connection, [OpeningNote]) {
        // A look without writing comes first, so that a database that is not for us stays as it is
        // to the byte; opening it for writing would merge its log.
        if directory.exists(directory.database) { try look() }
        let connection = try connect(.readWrite)
        do throws(StoreError) {
            let version = try version(of: connection)
            do throws(SQLiteError) {
                if version == 0 {
                    // Must come before the first table, and before the log. Room that is freed is
                    // then given back in small steps, when it is convenient.
                    try connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                }
                try connection.execute(
                    """
                    PRAGMA journal_mode = WAL;
                    PRAGMA synchronous = NORMAL;
                    PRAGMA foreign_keys = ON;
                    PRAGMA cell_size_check = ON;
                    PRAGMA journal_size_limit = 4194304
                    """)
                try schema.migrate(connection, from: version)
            } catch {
                throw StoreError(error, at: directory.database)
            }
            directory.trust()
            if version == 0 { return (connection, [.created(path: directory.database)]) }
            if version == schema.version { return (connection, []) }
            return (connection, [.migrated(from: version, to: schema.version)])
        } catch {
            connection.close()
            throw error
        }
    }

    private func look() throws(StoreError) {
        let connection = try connect(.readOnly)
        defer { connection.close() }
        do throws(StoreError) {
            _ = try version(of: connection)
        } catch {
            // Left by a crash in the moment of its making: only a writer can repair that.
            if error.kind == .readOnly { return }
            throw error
        }
        if directory.isSuspect { try lookThrough(connection) }
    }

    /// Reads every page, which takes a second for each few ten megabytes.
    private func lookThrough(_ connection: Connection) throws(StoreError) {
        let finding: String?
        do throws(SQLiteError) {
            finding = try connection.text(of: "PRAGMA quick_check(1)")
        } catch {
            throw StoreError(error, at: directory.database)
        }
        guard finding == "ok" else {
            throw StoreError(
                .corrupt, "\(directory.database) is damaged (\(finding ?? "no answer"))")
        }
    }

    private func openForReading() throws(StoreError) -> (Connection, version: Int) {
        let connection = try connect(.readOnly)
        do throws(StoreError) {
            return (connection, try version(of: connection))
        } catch {
            connection.close()
            // After an orderly stop the log and its index are gone, and a reader has to make them
            // anew, which somebody without write permission cannot. Then nobody writes either.
            guard [.io, .permission, .readOnly].contains(error.kind),
                !directory.exists(directory.database + "-wal")
            else { throw error }
        }
        let still = try connect(.immutable)
        do throws(StoreError) {
            return (still, try version(of: still))
        } catch {
            still.close()
            throw error
        }
    }

    private func connect(_ access: Connection.Access) throws(StoreError) -> Connection {
        do throws(SQLiteError) {
            return try Connection(path: directory.database, access, busyTimeout: busyTimeout)
        } catch {
            throw StoreError(error, at: directory.database)
        }
    }

    /// The version of the tables; 0 for a database without any.
    private func version(of connection: Connection) throws(StoreError) -> Int {
        let (application, version, tables): (Int, Int, Int)
        do throws(SQLiteError) {
            // First a query that reads the tables' definitions, since the header alone may look
            // sound.
            tables = try connection.integer(of: "SELECT count(*) FROM sqlite_schema")
            application = try connection.integer(of: "PRAGMA application_id")
            version = try connection.integer(of: "PRAGMA user_version")
        } catch {
            throw StoreError(error, at: directory.database)
        }
        if application == 0, version == 0, tables == 0 { return 0 }
        guard application == Schema.applicationID else {
            throw StoreError(
                .foreign, "\(directory.database) is a database of another program",
                advice: "choose another data directory")
        }
        guard version <= schema.version else {
            throw StoreError(
                .newerVersion,
                "\(directory.database) has version \(version) and this program knows only up to "
                    + "\(schema.version)",
                advice: "install the newer version of usbmeter again, or choose another data "
                    + "directory")
        }
        return version
    }
}
