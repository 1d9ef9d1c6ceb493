import FoundationEssentials
import Glibc
import MeterCore
import Synchronization
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// A meter that a test puts on the bench.
struct BenchMeter: Sendable {
    let settings: MeterSettings
    /// The simulated meter as it was at the start, whose truth does not change; `nil` for a
    /// transport that is no meter.
    let truth: SimulatedMeter?
    var address: MeterAddress { settings.address }
}

/// One run of a gateway with a store of its own, simulated meters, a fake broker and a clock that
/// stands still unless the test lets time pass.
final class Bench: Sendable {
    static let gatewayID = "bench-1"
    static let topics = Topics(base: "usbmeter", gatewayID: gatewayID)

    let clock: ManualClock
    let channel: FakeChannel
    let log: RecordedLog
    let store: Store
    let meters: [BenchMeter]
    private let executor = SteppedExecutor()
    private let seen = Mutex<[(at: MonotonicInstant, event: GatewayEvent)]>([])
    private let hasEnded = Atomic(false)
    private let requests: AsyncStream<Void>
    private let request: AsyncStream<Void>.Continuation

    fileprivate init(
        clock: ManualClock, channel: FakeChannel, log: RecordedLog, store: Store,
        meters: [BenchMeter]
    ) {
        self.clock = clock
        self.channel = channel
        self.log = log
        self.store = store
        self.meters = meters
        // nothing is sent: its end is the request to stop
        (requests, request) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    // MARK: Time

    /// Lets everything happen that is due at this moment.
    /// - Parameter storeMayWait: do not wait for the store, which somebody holds up.
    func settle(storeMayWait: Bool = false) async {
        repeat {
            await executor.runAll()
            // the store has done what was asked of it before
            if !storeMayWait { _ = await store.openingNotes }
        } while !executor.isIdle
    }

    /// Lets time pass, each task waking at its own moment.
    func pass(_ duration: Duration, storeMayWait: Bool = false) async {
        let end = clock.now + duration
        repeat {
            await settle(storeMayWait: storeMayWait)
            clock.step(to: end)
        } while clock.now < end
        await settle(storeMayWait: storeMayWait)
    }

    /// Lets time pass until something is so, and says whether it came to that.
    func pass(atMost limit: Duration, until isSo: () async throws -> Bool) async rethrows -> Bool {
        let end = clock.now + limit
        while true {
            await settle()
            if try await isSo() { return true }
            if clock.now >= end { return false }
            clock.step(to: end)
        }
    }

    // MARK: The gateway

    fileprivate func run(_ gateway: Gateway, deliveryLimit: Duration) async {
        await gateway.run(deliveryLimit: deliveryLimit) { for await _ in self.requests {} }
        hasEnded.store(true, ordering: .relaxed)
    }

    fileprivate var preferredExecutor: SteppedExecutor { executor }

    fileprivate func observe(_ event: GatewayEvent) {
        let now = clock.now
        seen.withLock { $0.append((now, event)) }
    }

    func requestStop() { request.finish() }

    /// Asks the gateway to stop and lets time pass until it has.
    /// - Returns: how long it took by its own clock.
    @discardableResult
    func stop(sourceLocation: SourceLocation = #_sourceLocation) async -> Duration {
        let start = clock.now
        requestStop()
        let ended = await pass(atMost: .seconds(60)) { hasEnded.load(ordering: .relaxed) }
        #expect(ended, "the gateway does not end", sourceLocation: sourceLocation)
        return clock.now - start
    }

    // MARK: What was seen

    var events: [(at: MonotonicInstant, event: GatewayEvent)] { seen.withLock { $0 } }

    func states(of meter: BenchMeter) -> [ConnectionState] { changes(of: meter).map(\.state) }
    func changes(of meter: BenchMeter) -> [(at: MonotonicInstant, state: ConnectionState)] {
        events.compactMap { at, event in
            guard case .state(meter.address, let state) = event else { return nil }
            return (at, state)
        }
    }
    func readings(of meter: BenchMeter) -> [Reading] {
        events.compactMap { _, event in
            guard case .reading(meter.address, let reading) = event else { return nil }
            return reading
        }
    }
    var completed: [SessionSummary] {
        events.compactMap { _, event in
            guard case .completed(let session) = event else { return nil }
            return session
        }
    }

    func live(of meter: BenchMeter) -> [FakeChannel.Delivery] {
        channel.deliveries(to: Self.topics.live(meter.address))
    }
    func availability(of meter: BenchMeter) -> [FakeChannel.Delivery] {
        channel.deliveries(to: Self.topics.availability(meter.address))
    }
}

/// Runs a gateway in `folder` while `body` does something with it, then stops it.
@discardableResult
func withGateway<Result: Sendable>(
    in folder: Folder, meters: [BenchMeter] = [], clock: ManualClock = ManualClock(),
    channel: FakeChannel? = nil, hasChannel: Bool = true, busyTimeout: Duration = .seconds(2),
    deliveryLimit: Duration = .seconds(2), _ body: (Bench) async throws -> Result
) async throws -> Result {
    let store = try await Store.open(
        directory: folder.path, at: clock.moment().wall, syncingBatches: false, schema: .current,
        busyTimeout: busyTimeout)
    let log = RecordedLog()
    let bench = Bench(
        clock: clock, channel: channel ?? FakeChannel(clock: clock), log: log, store: store,
        meters: meters)
    let gateway = Gateway(
        settings: GatewaySettings(gatewayID: Bench.gatewayID, softwareVersion: "1.2.3"),
        meters: meters.map(\.settings), store: store, channel: hasChannel ? bench.channel : nil,
        clock: clock, log: Log(log), observe: bench.observe)
    let result = await withTaskGroup(
        of: Void.self, returning: Swift.Result<Result, any Error>.self
    ) { group in
        group.addTask(executorPreference: bench.preferredExecutor) {
            await bench.run(gateway, deliveryLimit: deliveryLimit)
        }
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(bench)) } catch { result = .failure(error) }
        await bench.stop()
        return result
    }
    await store.close()
    return try result.get()
}

/// A folder of its own for one test.
struct Folder: Sendable {
    let path: String

    /// A second connection to the database in it, as another program would have it.
    func withConnection<Result>(_ body: (Connection) throws -> Result) throws -> Result {
        let connection = try Connection(path: path + "/usbmeter.db", .readWrite)
        defer { connection.close() }
        return try body(connection)
    }

    func execute(_ sql: String) throws { try withConnection { try $0.execute(sql) } }

    /// From now on a kind of statement fails, e.g. `DELETE ON outbox`.
    func breakStatement(_ statement: String) throws {
        let name = "broken_" + String(statement.map { $0 == " " ? "_" : $0 })
        try execute(
            """
            CREATE TRIGGER \(name) BEFORE \(statement)
            BEGIN SELECT RAISE(ABORT, 'out of order'); END
            """)
    }

    /// They work again.
    func repairStatements() throws {
        let names = try withConnection { connection in
            try connection.rows("SELECT name FROM sqlite_schema WHERE type = 'trigger'") {
                $0.text(0)
            }
        }
        for name in names { try execute("DROP TRIGGER \(name)") }
    }
}

func withFolder<Result>(_ body: (Folder) async throws -> Result) async throws -> Result {
    var template = Array("/tmp/usbmeter-gateway-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw StoreError(.io, "no temporary folder") }
    let bytes = template.dropLast().map { UInt8(bitPattern: $0) }
    let folder = Folder(path: String(decoding: bytes, as: UTF8.self))
    defer { try? FileManager.default.removeItem(atPath: folder.path) }
    return try await body(folder)
}

/// A gateway in a folder of its own.
@discardableResult
func withBench<Result: Sendable>(
    _ makeMeters: (ManualClock) throws -> [BenchMeter] = { _ in [] }, hasChannel: Bool = true,
    deliveryLimit: Duration = .seconds(2), _ body: (Bench) async throws -> Result
) async throws -> Result {
    let clock = ManualClock()
    let meters = try makeMeters(clock)
    return try await withFolder { folder in
        try await withGateway(
            in: folder, meters: meters, clock: clock, hasChannel: hasChannel,
            deliveryLimit: deliveryLimit, body)
    }
}
