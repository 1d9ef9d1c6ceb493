import FoundationEssentials
import Glibc
import MeterCore

@testable import MeterStore

/// A folder of its own for one test.
struct Sandbox: Sendable {
    let path: String
    var data: String { path + "/data" }
    var database: String { data + "/usbmeter.db" }

    /// Opens a store in `data`, and closes it when `body` is through.
    @discardableResult
    func withStore<Result: Sendable>(
        schema: Schema = .current, busyTimeout: Duration = .seconds(2),
        _ body: (Store) async throws -> Result
    ) async throws -> Result {
        let store = try await Store.open(
            directory: data, at: noon, schema: schema, busyTimeout: busyTimeout)
        return try await lend(store, body)
    }

    @discardableResult
    func withReader<Result: Sendable>(
        _ body: (Store) async throws -> Result
    ) async throws -> Result {
        try await lend(try await Store.openReadOnly(directory: data), body)
    }

    private func lend<Result: Sendable>(
        _ store: Store, _ body: (Store) async throws -> Result
    ) async throws -> Result {
        do {
            let result = try await body(store)
            await store.close()
            return result
        } catch {
            await store.close()
            throw error
        }
    }

    /// A second connection, as another program would have it.
    func withConnection<Result>(_ body: (Connection) throws -> Result) throws -> Result {
        let connection = try Connection(path: database, .readWrite)
        defer { connection.close() }
        return try body(connection)
    }

    func bytes(of path: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(filePath: path)))
    }
    func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: URL(filePath: path))
    }
    func names(in path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).sorted()
    }
    /// Takes database and log as they are at this moment, as a power cut would, the log no longer
    /// than `logLength`, and opens them in another folder.
    func withCopy(logLength: Int = .max, _ body: (Store) async throws -> Void) async throws {
        try await withSandbox { other in
            try copyFiles(to: other, logLength: logLength)
            try await other.withStore(body)
        }
    }
    func copyFiles(to other: Sandbox, logLength: Int = .max) throws {
        try FileManager.default.createDirectory(
            atPath: other.data, withIntermediateDirectories: true)
        try other.write(bytes(of: database), to: other.database)
        let log = try bytes(of: database + "-wal").prefix(logLength)
        try other.write(Array(log), to: other.database + "-wal")
    }
}

func withSandbox<Result>(
    _ body: (Sandbox) async throws -> Result
) async throws -> Result {
    var template = Array("/tmp/usbmeter-store-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw StoreError(.io, "no temporary folder") }
    let bytes = template.dropLast().map { UInt8(bitPattern: $0) }
    let sandbox = Sandbox(path: String(decoding: bytes, as: UTF8.self))
    defer { try? FileManager.default.removeItem(atPath: sandbox.path) }
    return try await body(sandbox)
}

/// The error with which `body` fails; `nil` when it does not, or fails in another way.
func storeError<Result>(_ body: () async throws -> Result) async -> StoreError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? StoreError
    }
}

let noon = WallTime(milliseconds: 1_780_000_000_000)
let bench = MeterAddress(localFor: "bench")
let rack = MeterAddress(localFor: "rack")

/// A running session that began `minutes` after noon.
func running(_ minutes: Int, of meter: MeterAddress = bench) -> SessionSummary {
    var generator = SystemRandomNumberGenerator()
    let start = noon + .seconds(60 * minutes)
    return SessionSummary(
        id: SessionID(at: start, using: &generator), meter: meter, meterName: "Bench",
        model: .um25c, gatewayID: "pi", startedAt: start, clockTrusted: true,
        softwareVersion: "1.0.0")
}

extension SessionSummary {
    /// The same session, over after an hour.
    var completed: SessionSummary {
        var result = self
        result.endedAt = startedAt + .seconds(3600)
        result.durationMilliseconds = 3_600_000
        result.endReason = .currentStopped
        result.energyIntegrated = Microjoules(36_000_000_000)
        result.gaps = [Gap(offset: 5, duration: 7, fill: .counter, energy: Microjoules(3))]
        return result
    }
    func revised(_ revision: Int, label: String) -> SessionSummary {
        var result = self
        result.revision = revision
        result.label = label
        return result
    }
}

/// One sample a second; `range` counts seconds.
func curve(_ range: Range<Int>) -> [Sample] {
    range.map { second in
        Sample(
            offset: Int64(second) * 1000, voltage: Microvolts(5_012_000 + Int64(second % 7) * 1000),
            current: Microamperes(1_234_500 - Int64(second) * 100), power: Microwatts(6_180_000),
            temperature: second % 3 == 0 ? nil : MilliCelsius(31_000),
            dPlus: Microvolts(600_000), dMinus: Microvolts(590_000))
    }
}

/// One sample a second, none of them like another.
func noisyCurve(_ count: Int) -> [Sample] {
    curve(0..<count).map { sample in
        var sample = sample
        sample.voltage = Microvolts(5_000_000 + .random(in: 0..<100) * 1000)
        sample.current = Microamperes(1_000_000 + .random(in: 0..<100) * 100)
        return sample
    }
}

func item(
    _ key: String, _ text: String = "", _ class: OutboxItem.Class = .every
) -> OutboxItem {
    OutboxItem(
        key: key,
        message: Message(topic: "usbmeter/\(key)", text: text, qos: .atLeastOnce, retain: true),
        class: `class`, createdAt: noon)
}

extension Store {
    /// One number from the database.
    func count(_ sql: String) throws -> Int {
        try withConnection { try $0.integer(of: sql) }
    }
}
