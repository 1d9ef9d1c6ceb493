import CSQLite

/// One open database. Not for two callers at a time: the store's executor is its only user.
///
/// Its calls wait for the disk, and up to `busyTimeout` for other programs' locks.
final class Connection {
    enum Access {
        case readWrite
        case readOnly
        /// For a file that nobody writes, in a folder where we may not create the index that a
        /// write-ahead log needs.
        case immutable
    }

    private let handle: OpaquePointer
    private var statements: [String: Statement] = [:]
    private var isOpen = true

    /// Wraps `sqlite3_open_v2`; creates the file for `readWrite`.
    init(
        path: String, _ access: Access, busyTimeout: Duration = .seconds(2)
    ) throws(SQLiteError) {
        precondition(sqlite3_threadsafe() != 0, "SQLite was built for a single thread")
        // NOMUTEX: the calls come one at a time, if not always from the same thread.
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        var name = path
        switch access {
        case .readWrite: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        case .readOnly: flags |= SQLITE_OPEN_READONLY
        case .immutable:
            flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
            name = "file:\(Self.percentEncoded(path))?immutable=1"
        }
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(name, &opened, flags, nil)
        guard let opened else { throw SQLiteError(code: code, message: "out of memory") }
        guard code == SQLITE_OK else {
            let error = SQLiteError(of: opened)
            sqlite3_close(opened)
            throw error
        }
        handle = opened
        sqlite3_busy_timeout(
            handle,
            Int32(busyTimeout.components.seconds * 1000)
                + Int32(busyTimeout.components.attoseconds / 1_000_000_000_000_000))
    }

    // Only looks: a connection that nobody has closed keeps its file and its locks.
    deinit { assert(!isOpen, "a connection was dropped open") }

    /// Runs one statement, which is compiled once and kept, with the values for `?1`, `?2` and so
    /// on, and returns how many rows it has changed.
    @discardableResult
    func run(_ sql: String, _ values: Value...) throws(SQLiteError) -> Int {
        try run(sql, values)
    }
    @discardableResult
    func run(_ sql: String, _ values: [Value]) throws(SQLiteError) -> Int {
        try prepared(sql).run(values)
        return Int(sqlite3_changes(handle))
    }

    /// All rows of one query, which is compiled once and kept.
    func rows<Result>(
        _ sql: String, _ values: [Value] = [], _ read: (Row) -> Result
    ) throws(SQLiteError) -> [Result] {
        var results: [Result] = []
        try prepared(sql).run(values) { results.append(read($0)) }
        return results
    }

    /// Runs statements without values, and keeps none of them. Their rows are ignored.
    ///
    /// For every `PRAGMA` that sets something: many take effect while they are compiled, so that
    /// one compiled earlier does nothing.
    func execute(_ sql: String) throws(SQLiteError) {
        precondition(isOpen, "used after close()")
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw SQLiteError(of: handle, sql: sql)
        }
    }

    /// The first column of the first row of a query that is not kept, as text.
    func text(of sql: String) throws(SQLiteError) -> String? {
        precondition(isOpen, "used after close()")
        let statement = try Statement(sql, on: handle)
        defer { statement.finalize() }
        var result: String?
        try statement.run([]) { row in
            if result == nil { result = row.optionalText(0) }
        }
        return result
    }
    /// The same as a number; 0 for none.
    func integer(of sql: String) throws(SQLiteError) -> Int {
        try text(of: sql).flatMap { Int($0) } ?? 0
    }

    /// The row id of the row that was inserted last.
    var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Whether a transaction is open. Some errors, a full disk for one, end it by themselves.
    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Finalises all statements and closes. Does nothing the second time.
    func close() {
        guard isOpen else { return }
        isOpen = false
        for statement in statements.values { statement.finalize() }
        statements = [:]
        let code = sqlite3_close(handle)
        precondition(code == SQLITE_OK, "a statement was still open at close: code \(code)")
    }

    private func prepared(_ sql: String) throws(SQLiteError) -> Statement {
        precondition(isOpen, "used after close()")
        if let statement = statements[sql] { return statement }
        let statement = try Statement(sql, on: handle)
        statements[sql] = statement
        return statement
    }

    /// The path as SQLite's file URIs want it (https://sqlite.org/uri.html).
    private static func percentEncoded(_ path: String) -> String {
        path.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                String(UnicodeScalar(byte))
            default:
                "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }.joined()
    }
}
