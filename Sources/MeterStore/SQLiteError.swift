import CSQLite

/// What SQLite answered when it did not do what was asked.
struct SQLiteError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The extended result code (https://sqlite.org/rescode.html).
    var code: Int32
    var message: String
    /// What was asked; empty for opening and closing.
    var sql: String
    /// `errno` of the system call that failed, 0 if none did.
    var systemError: Int32

    init(code: Int32, message: String, sql: String = "", systemError: Int32 = 0) {
        self.code = code
        self.message = message
        self.sql = sql
        self.systemError = systemError
    }

    /// The error that `connection` last ran into.
    init(of connection: OpaquePointer, sql: String = "") {
        self.init(
            code: sqlite3_extended_errcode(connection),
            message: String(cString: sqlite3_errmsg(connection)), sql: sql,
            systemError: sqlite3_system_errno(connection))
    }

    /// The low eight bits of the code, e.g. `SQLITE_IOERR` for `SQLITE_IOERR_FSYNC`.
    var primary: Int32 { code & 0xff }

    /// A primary code matches all its extended codes, an extended code only itself.
    static func ~= (code: Int32, error: Self) -> Bool {
        code == error.code || code == error.primary
    }

    var description: String {
        "\(message) (SQLite code \(code))" + (sql.isEmpty ? "" : " in: \(sql)")
    }
}
