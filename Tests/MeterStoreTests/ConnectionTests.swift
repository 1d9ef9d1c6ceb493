import Testing

@testable import MeterStore

@Suite struct ConnectionTests {
    @Test func valuesOfAllKindsComeBackAsTheyWere() async throws {
        try await withSandbox { sandbox in
            let connection = try Connection(path: sandbox.path + "/values.db", .readWrite)
            defer { connection.close() }
            try connection.execute("CREATE TABLE t (n INTEGER, s TEXT, b BLOB NOT NULL) STRICT")
            let texts: [String?] = ["", "a\0b", "Ω °C", nil]
            let blobs: [[UInt8]] = [[], [0], [0, 1, 255], Array(repeating: 7, count: 100_000)]
            let numbers: [Int64?] = [.min, 0, .max, nil]
            for index in 0..<4 {
                let changed = try connection.run(
                    "INSERT INTO t VALUES (?1, ?2, ?3)", .optional(numbers[index]),
                    .optional(texts[index]), .blob(blobs[index]))
                #expect(changed == 1)
            }
            let rows = try connection.rows("SELECT n, s, b FROM t ORDER BY rowid") {
                ($0.optionalInteger(0), $0.optionalText(1), $0.blob(2))
            }
            #expect(rows.map(\.0) == numbers)
            #expect(rows.map(\.1) == texts)
            #expect(rows.map(\.2) == blobs)
        }
    }

    @Test func anErrorNamesItsCodesAndItsStatement() async throws {
        try await withSandbox { sandbox in
            let connection = try Connection(path: sandbox.path + "/errors.db", .readWrite)
            defer { connection.close() }
            try connection.execute(
                "CREATE TABLE t (n INTEGER UNIQUE) STRICT; INSERT INTO t VALUES (1)")
            do throws(SQLiteError) {
                try connection.run("INSERT INTO t VALUES (?1)", .integer(1))
                Issue.record("a duplicate was accepted")
            } catch {
                let (constraint, unique): (Int32, Int32) = (19, 2067)
                #expect(constraint ~= error)
                #expect(unique ~= error)
                #expect(!(Int32(5) ~= error))
                #expect(error.sql == "INSERT INTO t VALUES (?1)")
                #expect(error.message.contains("t.n"))
            }
            // The statement is usable again after its failure.
            #expect(try connection.run("INSERT INTO t VALUES (?1)", .integer(2)) == 1)
        }
    }

    @Test func aPathWithSpecialCharactersIsTakenLiterally() async throws {
        try await withSandbox { sandbox in
            let path = sandbox.path + "/a b%20?#ü.db"
            let writer = try Connection(path: path, .readWrite)
            try writer.execute("CREATE TABLE t (n INTEGER) STRICT")
            writer.close()
            let reader = try Connection(path: path, .immutable)
            defer { reader.close() }
            #expect(try reader.integer(of: "SELECT count(*) FROM sqlite_schema") == 1)
        }
    }
}
