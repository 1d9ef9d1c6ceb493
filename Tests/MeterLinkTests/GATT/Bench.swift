import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Synchronization
import Testing

@testable import MeterLink

func bytes(_ hex: String) -> [UInt8] {
    var digits = hex.compactMap(\.hexDigitValue)[...]
    var result: [UInt8] = []
    while let high = digits.popFirst(), let low = digits.popFirst() {
        result.append(UInt8(high << 4 | low))
    }
    return result
}

func hex(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined()
}

/// An address that is written correctly.
func mac(_ text: String) -> MeterAddress {
    guard let address = MeterAddress(text) else { fatalError("not an address: \(text)") }
    return address
}

let adapterAddress = mac("B8:27:EB:00:00:01")
let lePeer = PeerAddress(address: mac("A4:C1:38:01:02:03"), kind: .lePublic)
let classicAddress = mac("00:15:A6:00:36:2F")

/// `socket_type.h` by number: Swift 6.0.3 does not find those names in this file.
private enum SocketKind: Int32 {
    case stream = 1
    case packets = 5

    static let closedOnExec: Int32 = 0o2_000_000
}

/// Gives everyone a turn at once and remembers what it was told.
final class FakeRadio: RadioAccess {
    struct State: Sendable {
        var reason: DisconnectReason?
        var ended: [LinkError?] = []
        var isInTurn = false
        var turns = 0
        var throwsAfterBody: LinkError?
        var name: String?
        var isHeard = false
    }
    let state = Guarded(State())

    func sign(
        of peer: PeerAddress, since: MonotonicInstant, afterSilence silence: Duration,
        until deadline: MonotonicInstant
    ) async -> Bool {
        state.withLock { $0.isHeard }
    }

    func advertisedName(of peer: PeerAddress) -> String? { state.withLock { $0.name } }

    func withTurn<R: Sendable>(
        for peer: PeerAddress,
        _ body: @escaping @Sendable (_ adapter: MeterAddress) async throws -> R
    ) async throws -> R {
        state.withLock { state in
            state.turns += 1
            state.isInTurn = true
        }
        defer { state.withLock { $0.isInTurn = false } }
        let value = try await body(adapterAddress)
        if let error = state.withLock({ $0.throwsAfterBody }) { throw error }
        return value
    }

    func connectionEnded(
        _ peer: PeerAddress, on adapter: MeterAddress, _ error: LinkError?
    ) async {
        #expect(adapter == adapterAddress)
        state.withLock { $0.ended.append(error) }
    }

    func disconnectReason(
        _ peer: PeerAddress, on adapter: MeterAddress
    ) async -> DisconnectReason? {
        state.withLock { $0.reason }
    }
}

/// The far end of a socket pair.
final class FarEnd: Sendable {
    let socket: WatchedDescriptor
    /// What was asked for: `ATT`, `SDP` or `RFCOMM 1`, with `secured` where it was.
    let purpose: String
    private let isClosed = Mutex(false)

    init(_ socket: WatchedDescriptor, _ purpose: String) {
        self.socket = socket
        self.purpose = purpose
    }

    /// The next packet or piece; empty at the end.
    func read() async throws -> [UInt8] {
        do throws(Errno) { return try await socket.read() } catch {
            guard error.code == ECONNRESET else { throw error }
            return []
        }
    }
    /// Sends one packet or piece; what the other side does not want any more is lost.
    func write(_ bytes: [UInt8]) async throws {
        do throws(Errno) {
            _ = try await socket.whenWritable { (number) throws(Errno) in
                try systemCall { send(number, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
            }
        } catch {
            guard error.code == EPIPE || error.code == ECONNRESET else { throw error }
        }
    }
    func write(_ hex: String) async throws { try await write(bytes(hex)) }

    /// Waits for exactly this packet.
    func expect(_ packet: String, _ location: SourceLocation = #_sourceLocation) async throws {
        let got = try await read()
        #expect(hex(got) == hex(bytes(packet)), sourceLocation: location)
    }

    /// Waits for the other side to close.
    func expectEnd(_ location: SourceLocation = #_sourceLocation) async throws {
        let got = try await read()
        #expect(hex(got) == "", sourceLocation: location)
    }

    func close() {
        let isFirst = isClosed.withLock { isClosed in
            defer { isClosed = true }
            return !isClosed
        }
        if isFirst { socket.close() }
    }
}

/// Connects to socket pairs, whose far ends are taken with `farEnd`, or fails as told.
final class FakeSockets: BluetoothSockets {
    struct State: Sendable {
        /// For each attempt in turn; connects when there is none left.
        var failures: [Int32] = []
        var attempts: [String] = []
        var raised = 0
        /// RFCOMM channels that let in; `nil`: all.
        var openChannels: Set<UInt8>?
        var hangs = false
        var lastAttempt = 0
        /// Of both ends of each pair: what `fstat(2)` says of them.
        var inodes: Set<UInt64> = []
    }
    private enum Event: Sendable {
        case connected(FarEnd)
        case finished(Int)
    }
    let state = Guarded(State())
    private let events: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation
    private let reactor: Reactor
    private let radio: FakeRadio

    init(on reactor: Reactor, _ radio: FakeRadio) {
        self.reactor = reactor
        self.radio = radio
        // every one is taken by the test
        (events, continuation) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
    }

    func newAttempt() -> Int {
        state.withLock { state in
            state.lastAttempt += 1
            return state.lastAttempt
        }
    }

    /// The far end of the next connection; `nil` when the attempt is finished before there is one.
    func farEnd(of attempt: Int) async -> FarEnd? {
        for await event in events {
            switch event {
            case .connected(let end): return end
            case .finished(attempt): return nil
            case .finished: continue
            }
        }
        return nil
    }

    func finish(_ attempt: Int) { continuation.yield(.finished(attempt)) }

    func connectAttributes(
        from adapter: MeterAddress, to peer: PeerAddress
    ) async throws(Errno) -> WatchedDescriptor {
        try await connect("ATT", .packets)
    }

    func connectSerialPort(
        from adapter: MeterAddress, to address: MeterAddress, channel: UInt8, secured: Bool
    ) async throws(Errno) -> WatchedDescriptor {
        let purpose = "RFCOMM \(channel)\(secured ? " secured" : "")"
        let isOpen = state.withLock { $0.openChannels?.contains(channel) ?? true }
        guard isOpen else {
            state.withLock { $0.attempts.append(purpose) }
            throw Errno(ECONNREFUSED)
        }
        return try await connect(purpose, .stream)
    }

    func connectServiceDiscovery(
        from adapter: MeterAddress, to address: MeterAddress
    ) async throws(Errno) -> WatchedDescriptor {
        try await connect("SDP", .packets)
    }

    func raiseSecurity(of descriptor: WatchedDescriptor) throws(Errno) {
        state.withLock { $0.raised += 1 }
    }

    private func connect(
        _ purpose: String, _ kind: SocketKind
    ) async throws(Errno) -> WatchedDescriptor {
        let (failure, hangs) = state.withLock { state in
            state.attempts.append(purpose)
            return (state.failures.isEmpty ? 0 : state.failures.removeFirst(), state.hangs)
        }
        #expect(radio.state.withLock { $0.isInTurn }, "connected without a turn")
        if failure != 0 { throw Errno(failure) }
        if hangs {
            do { try await Task.sleep(for: .seconds(3600)) } catch { throw .cancelled }
        }
        var pair: [Int32] = [0, 0]
        try systemCall {
            socketpair(AF_UNIX, kind.rawValue | SocketKind.closedOnExec, 0, &pair)
        }
        let near = try WatchedDescriptor(OwnedDescriptor(adopting: pair[0]), on: reactor)
        let far = try WatchedDescriptor(OwnedDescriptor(adopting: pair[1]), on: reactor)
        for number in pair {
            var status = stat()
            try systemCall { fstat(number, &status) }
            let inode = UInt64(status.st_ino)
            state.withLock { _ = $0.inodes.insert(inode) }
        }
        continuation.yield(.connected(FarEnd(far, purpose)))
        return near
    }
}

/// Everything that a link stands on, with the far end in the hands of the test.
struct Bench: Sendable {
    let clock = ManualClock()
    let radio: FakeRadio
    let sockets: FakeSockets

    static func with(_ body: (Bench) async throws -> Void) async throws {
        try await Reactor.withReactor { reactor in
            let radio = FakeRadio()
            try await body(Bench(radio: radio, sockets: FakeSockets(on: reactor, radio)))
        }
    }

    func gatt(named name: String? = "UM25C", profile: GATTProfile? = nil) -> GATTTransport {
        radio.state.withLock { $0.name = name }
        return GATTTransport(
            lePeer, profile: profile, radio: radio, sockets: sockets, clock: clock)
    }

    /// Runs `near` with the transport's link while `far` plays the other end of the socket, which
    /// is closed when both are done.
    @discardableResult
    func dialogue<Value: Sendable>(
        _ transport: some Transport,
        far: @escaping @Sendable (FarEnd) async throws -> Void,
        progress: @escaping @Sendable (ConnectionState) -> Void = { _ in },
        near: @escaping @Sendable (any Link) async throws -> Value
    ) async throws -> Value {
        let attempt = sockets.newAttempt()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                guard let end = await sockets.farEnd(of: attempt) else { return }
                defer { end.close() }
                // a test that is cancelled cancels both sides
                do {
                    try await far(end)
                } catch let error as Errno where error == .cancelled {}
            }
            let result: Result<Value, any Error>
            do {
                result = .success(try await transport.withLink(progress: progress, near))
            } catch {
                result = .failure(error)
            }
            sockets.finish(attempt)
            // the far end sees the near one close, and comes to its own end
            try await group.waitForAll()
            return try result.get()
        }
    }

    /// The error with which a link ends.
    func fault(
        _ transport: some Transport,
        far: @escaping @Sendable (FarEnd) async throws -> Void,
        near: @escaping @Sendable (any Link) async throws -> Void = { _ in }
    ) async throws -> LinkError {
        do {
            try await dialogue(transport, far: far, near: near)
        } catch let error as LinkError {
            return error
        }
        throw Unexpected("the link ended without an error")
    }

    /// Waits until somebody sleeps for exactly so long from now, and nobody for less.
    func waitForSleep(of duration: Duration) async throws {
        while clock.deadlines.first != clock.now + duration {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    /// Turns the clock on once `sleepers` sleep.
    func pass(_ duration: Duration, sleepers: Int = 1) async throws {
        try await clock.waitForSleepers(count: sleepers)
        let target = clock.now + duration
        while clock.now < target { clock.step(to: target) }
    }
}

/// Something that one side of a dialogue tells the test, once.
struct Signal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() {
        // given once
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }
    func give() { continuation.yield() }
    func wait() async { for await _ in stream { return } }
}

/// What a test and its fakes share. Of a `Mutex` in an async closure the compiler of Swift 6.0.3 dies.
final class Guarded<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        value.withLock { body(&$0) }
    }
}

struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Answers of real meters: rd-usb's and sigrok's captures, and one rebuilt from printed values.
enum Capture {
    static let um34c = bytes(
        "0d4c01f5008e000002c7001b00510001000000000000000000000007000000270000000000000000"
            + "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
            + "00000000000000000000000000000000000200010007000000070000002500130000004600000001"
            + "00040000016000008068")
    static let um25c = bytes(
        "09c913c6047a000002440019004e0000000000010000000900000000000000000000000000000000"
            + "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
            + "000000000000000000000000000000000001000000070000000000000000000d0000000000000002"
            + "0004000001b90001fff1")
    static let tc66c = bytes(
        "006630928cdbb01e307647693bac80b012a60ec3c8645b9af0ead3c57ae5a0628f330593ff8f836a"
            + "2a36d60f8709fc4fc5ec277ef1b0dbb4815a9497d8646eb206f404f8061c1177e994f37dfc6f4dab"
            + "07385ea4d05c1e32616e88527b57d3106babf8c170d31db582db234384fa559313e92b412f6af4e1"
            + "6e09168c608fba0a4231f411e56f5c203c590b4a68fd5b092aca6ec4a4554d5542e8674b097e259c"
            + "2aca6ec4a4554d5542e8674b097e259ce09c4004c92da948c3165eebdb8b9ec2")
}
