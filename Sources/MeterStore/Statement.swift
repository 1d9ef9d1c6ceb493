import CSQLite

/// A value on its way into SQL.
enum Value: Sendable, Equatable {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])

    static func optional(_ value: Int64?) -> Value { value.map { .integer($0) } ?? .null }
    static func optional(_ value: String?) -> Value { value.map { .text($0) } ?? .null }
    static func flag(_ value: Bool) -> Value { .integer(value ? 1 : 0) }
}

/// One compiled statement. Belongs to its `Connection`, which finalises it.
final class Statement {
    private let connection: OpaquePointer
    private let handle: OpaquePointer
    private let sql: String

    /// Compiles exactly one statement. Wraps `sqlite3_prepare_v3`.
    init(_ sql: String, on connection: OpaquePointer) throws(SQLiteError) {
        var handle: OpaquePointer?
        var hasTail = false
        let code = sql.withCString { text in
            var tail: UnsafePointer<CChar>?
            let code = sqlite3_prepare_v3(
                connection, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, &tail)
            hasTail = tail.map { $0.pointee != 0 } ?? false
            return code
        }
        guard code == SQLITE_OK else { throw SQLiteError(of: connection, sql: sql) }
        guard let handle, !hasTail else { preconditionFailure("not exactly one statement: \(sql)") }
        self.connection = connection
        self.handle = handle
        self.sql = sql
    }

    func finalize() { sqlite3_finalize(handle) }

    /// Binds the values to `?1`, `?2` and so on, and steps through the rows. `read` sees each of
    /// them, which is valid only until it returns.
    func run(_ values: [Value], _ read: (Row) -> Void = { _ in }) throws(SQLiteError) {
        precondition(
            Int(sqlite3_bind_parameter_count(handle)) == values.count,
            "\(values.count) values for: \(sql)")
        defer {
            // The code only repeats what the last step has said.
            sqlite3_reset(handle)
            sqlite3_clear_bindings(handle)
        }
        for (index, value) in values.enumerated() {
            guard bind(value, at: Int32(index + 1)) == SQLITE_OK else {
                throw SQLiteError(of: connection, sql: sql)
            }
        }
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: read(Row(handle))
            case SQLITE_DONE: return
            default: throw SQLiteError(of: connection, sql: sql)
            }
        }
    }

    private func bind(_ value: Value, at index: Int32) -> Int32 {
        switch value {
        case .null:
            return sqlite3_bind_null(handle, index)
        case .integer(let number):
            return sqlite3_bind_int64(handle, index, number)
        case .text(var text):
            // By length, since a text may hold a zero byte.
            return text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { characters in
                    CSQLite_bind_text_copy(
                        handle, index, characters.baseAddress, Int32(characters.count))
                }
            }
        case .blob(let bytes) where bytes.isEmpty:
            // An empty array may have no address, and a blob without address is NULL to SQLite.
            return sqlite3_bind_zeroblob(handle, index, 0)
        case .blob(let bytes):
            return bytes.withUnsafeBytes { bytes in
                CSQLite_bind_blob_copy(handle, index, bytes.baseAddress, Int32(bytes.count))
            }
        }
    }
}

/// The row on which a statement stands. Columns count from 0.
struct Row {
    private let handle: OpaquePointer

    fileprivate init(_ handle: OpaquePointer) { self.handle = handle }

    func integer(_ column: Int32) -> Int64 {
        check(column)
        return sqlite3_column_int64(handle, column)
    }
    func optionalInteger(_ column: Int32) -> Int64? {
        isNull(column) ? nil : integer(column)
    }
    func text(_ column: Int32) -> String { String(decoding: blob(column), as: UTF8.self) }
    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    /// The bytes of a blob, or of a text in UTF-8.
    func blob(_ column: Int32) -> [UInt8] {
        check(column)
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        let count = Int(sqlite3_column_bytes(handle, column))
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }

    private func isNull(_ column: Int32) -> Bool {
        check(column)
        return sqlite3_column_type(handle, column) == SQLITE_NULL
    }
    private func check(_ column: Int32) {
        precondition(
            column >= 0 && column < sqlite3_data_count(handle), "the row has no column \(column)")
    }
}
