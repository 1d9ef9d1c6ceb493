import FoundationEssentials
import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Synchronization
import Testing

@testable import MeterLink

/// The kernel's side of the management channel, at the other end of a socket pair: adapters that do
/// as they are told, and everything that was asked of them in order.
actor FakeKernel {
    struct Controller {
        var address: MeterAddress
        var supported: ControllerSettings = [
            .powered, .bondable, .simplePairing, .classic, .lowEnergy,
        ]
        var current: ControllerSettings = []
        var bus: UInt8 = 1
        var links: [PeerAddress] = []
        var discovery: UInt8?
        var listening: [PeerAddress] = []
        /// What a meter takes for its code.
        var code = "1234"
    }
    struct Request: Sendable, Equatable {
        var opcode: ManagementCommand.Opcode
        var index: UInt16
        var parameters: [UInt8]
    }
    typealias Opcode = ManagementCommand.Opcode

    private let far: WatchedDescriptor
    var controllers: [UInt16: Controller]
    private(set) var requests: [Request] = []
    private var refusals: [Opcode: [UInt8]] = [:]
    private var silent: Set<Opcode> = []
    private var revision: UInt16
    private var isTrusted: Bool
    private var pairing: (index: UInt16, peer: [UInt8])?

    init(
        _ far: WatchedDescriptor, _ controllers: [UInt16: Controller], revision: UInt16,
        isTrusted: Bool
    ) {
        self.far = far
        self.controllers = controllers
        self.revision = revision
        self.isTrusted = isTrusted
    }

    func run() async {
        while let bytes = try? await far.read(upTo: 32_768), bytes.count >= 6 {
            take(bytes)
        }
    }

    // MARK: - What a test looks at and does

    func opcodes(of index: UInt16) -> [Opcode] {
        requests.filter { $0.index == index }.map(\.opcode)
    }
    func count(_ opcode: Opcode) -> Int { requests.count { $0.opcode == opcode } }
    func last(_ opcode: Opcode) -> Request? { requests.last { $0.opcode == opcode } }
    func forgetRequests() { requests = [] }

    /// Answers requests of this kind with a status, as often as it is given.
    func refuse(_ opcode: Opcode, with status: ManagementStatus, times: Int = 1) {
        refusals[opcode] = .init(repeating: status.code, count: times)
    }
    func silence(_ opcodes: Opcode...) { silent.formUnion(opcodes) }
    private var tellsOfWrongCodes = true
    func endSilence() { silent = [] }
    func setCode(_ code: String, of index: UInt16) { controllers[index]?.code = code }
    /// A wrong code is not told of, as when the meter asked for it.
    func hangUpOverWrongCodes() { tellsOfWrongCodes = false }

    func connect(_ peer: PeerAddress, on index: UInt16 = 0) {
        controllers[index]?.links.append(peer)
        emit(0x000b, index, bytes(peer) + [8, 0, 0, 0, 0, 0])
    }
    func disconnect(_ peer: PeerAddress, reason: DisconnectReason, on index: UInt16 = 0) {
        controllers[index]?.links.removeAll { $0 == peer }
        emit(0x000c, index, bytes(peer) + [reason.rawValue])
    }
    func hear(
        _ peer: PeerAddress, name: String? = nil, rssi: Int8 = -60, flags: UInt8 = 0,
        on index: UInt16 = 0
    ) {
        var data: [UInt8] = []
        if let name { data += [UInt8(name.utf8.count + 1), 0x09] + name.utf8 }
        emit(
            0x0012, index,
            bytes(peer) + [UInt8(bitPattern: rssi), flags, 0, 0, 0, UInt8(data.count), 0] + data
        )
    }
    func endDiscovery(of index: UInt16 = 0) {
        guard let kind = controllers[index]?.discovery else { return }
        controllers[index]?.discovery = nil
        emit(0x0013, index, [kind, 0])
    }
    /// Somebody else switches it.
    func setPower(_ on: Bool, of index: UInt16 = 0) {
        switchPower(on, index)
        emit(0x0006, index, settings(index))
    }
    func remove(_ index: UInt16) -> Controller? {
        var gone = controllers.removeValue(forKey: index)
        gone?.links = []
        gone?.discovery = nil
        gone?.listening = []
        gone?.current = []
        emit(0x0021, index, [0, 1])
        return gone
    }
    func add(_ controller: Controller, as index: UInt16) {
        controllers[index] = controller
        emit(0x0020, index, [0, controller.bus])
    }
    func emit(_ code: UInt16, _ index: UInt16, _ parameters: [UInt8]) {
        var packet: [UInt8] = []
        packet.append(littleEndian: code)
        packet.append(littleEndian: index)
        packet.append(littleEndian: UInt16(parameters.count))
        send(packet + parameters)
    }
    func send(_ packet: [UInt8]) {
        _ = try? far.perform { (number) throws(Errno) in
            try systemCall { Glibc.send(number, packet, packet.count, Int32(MSG_NOSIGNAL)) }
        }
    }

    // MARK: - What a kernel does

    private static let readOnly: Set<Opcode> = [
        .readVersion, .readCommands, .readIndexList, .readExtendedIndexList, .readInfo,
    ]

    private func take(_ bytes: [UInt8]) {
        func word(_ offset: Int) -> UInt16 {
            UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
        }
        guard let opcode = Opcode(rawValue: word(0)) else {
            Issue.record("an unknown request: \(bytes)")
            return
        }
        let (index, parameters) = (word(2), Array(bytes[6...]))
        #expect(Int(word(4)) == parameters.count)
        requests.append(Request(opcode: opcode, index: index, parameters: parameters))
        guard !silent.contains(opcode) else { return }
        if !isTrusted, !Self.readOnly.contains(opcode) { return fail(opcode, index, 0x14) }
        if let status = refusals[opcode]?.popLast() { return fail(opcode, index, status) }
        if index != 0xffff, controllers[index] == nil { return fail(opcode, index, 0x11) }
        answer(opcode, index, parameters)
    }

    private func answer(_ opcode: Opcode, _ index: UInt16, _ parameters: [UInt8]) {
        switch opcode {
        case .readVersion: complete(opcode, index, [1, UInt8(revision), 0])
        case .readCommands:
            var list: [UInt8] = []
            for code in Opcode.allCases { list.append(littleEndian: code.rawValue) }
            complete(opcode, index, [UInt8(Opcode.allCases.count), 0, 0, 0] + list)
        case .readExtendedIndexList:
            var list: [UInt8] = []
            for (key, value) in controllers.sorted(by: { $0.key < $1.key }) {
                list += [UInt8(key), 0, 0, value.bus]
            }
            complete(opcode, index, [UInt8(controllers.count), 0] + list)
        case .readInfo: complete(opcode, index, information(index))
        case .setPowered:
            let wasOn = controllers[index]?.current.contains(.powered)
            switchPower(parameters == [1], index)
            complete(opcode, index, settings(index))
            if wasOn != (parameters == [1]) { emit(0x0006, index, settings(index)) }
        case .setBondable: set(.bondable, opcode, index, parameters)
        case .setSimplePairing: set(.simplePairing, opcode, index, parameters)
        case .setLowEnergy: set(.lowEnergy, opcode, index, parameters)
        case .setClassic: set(.classic, opcode, index, parameters)
        case .getConnections:
            guard controllers[index]?.current.contains(.powered) ?? false else {
                return fail(opcode, index, 0x0f)
            }
            let links = controllers[index]?.links ?? []
            complete(opcode, index, [UInt8(links.count), 0] + links.flatMap(bytes))
        case .startDiscovery:
            guard controllers[index]?.discovery == nil else { return fail(opcode, index, 0x0a) }
            controllers[index]?.discovery = parameters[0]
            complete(opcode, index, parameters)
            emit(0x0013, index, [parameters[0], 1])
        case .stopDiscovery:
            guard controllers[index]?.discovery == parameters[0] else {
                return fail(opcode, index, 0x0b)
            }
            complete(opcode, index, parameters)
            endDiscovery(of: index)
        case .addDevice: listen(index, parameters) { $0.append($1) }
        case .removeDevice:
            listen(index, parameters) { list, peer in list.removeAll { $0 == peer } }
        case .addPatternMonitor: complete(opcode, index, [9, 0])
        case .disconnect:
            complete(opcode, index, parameters)
            if let peer = peer(parameters) { disconnect(peer, reason: .localHost, on: index) }
        case .getConnectionInfo: complete(opcode, index, parameters + [0xc4, 0, 4])
        case .pair:
            pairing = (index, Array(parameters.prefix(7)))
            emit(0x000e, index, Array(parameters.prefix(7)) + [0])
        case .pinReply: pinReply(index, parameters)
        case .pinRefusal:
            complete(opcode, index, Array(parameters.prefix(7)))
            if pairing != nil { endPairing(status: 5) }
        default: complete(opcode, index, Array(parameters.prefix(7)))
        }
        if opcode == .addDevice || opcode == .removeDevice {
            complete(opcode, index, Array(parameters.prefix(7)))
        }
    }

    private func pinReply(_ index: UInt16, _ parameters: [UInt8]) {
        let peer = Array(parameters.prefix(7))
        complete(.pinReply, index, peer)
        let code = String(decoding: parameters[8..<(8 + Int(parameters[7]))], as: UTF8.self)
        if code == controllers[index]?.code {
            let key = [UInt8](repeating: 0xaa, count: 16)
            emit(0x0009, index, [1] + peer + [0] + key + [4])
            if pairing != nil { endPairing(status: 0) }
        } else {
            if tellsOfWrongCodes { emit(0x0011, index, peer + [5]) }
            if pairing != nil { endPairing(status: 5) }
        }
    }

    private func endPairing(status: UInt8) {
        guard let (index, peer) = pairing else { return }
        pairing = nil
        if status == 0 {
            complete(.pair, index, peer)
        } else {
            emit(0x0001, index, opcodeBytes(.pair) + [status] + peer)
        }
    }

    private func listen(
        _ index: UInt16, _ parameters: [UInt8],
        _ change: (inout [PeerAddress], PeerAddress) -> Void
    ) {
        guard let peer = peer(parameters) else { return }
        change(&controllers[index, default: Controller(address: peer.address)].listening, peer)
    }

    private func set(
        _ setting: ControllerSettings, _ opcode: Opcode, _ index: UInt16, _ parameters: [UInt8]
    ) {
        controllers[index]?.current.insert(setting)
        complete(opcode, index, settings(index))
    }

    private func switchPower(_ on: Bool, _ index: UInt16) {
        if on {
            controllers[index]?.current.insert(.powered)
        } else {
            controllers[index]?.current.remove(.powered)
            controllers[index]?.links = []
            controllers[index]?.discovery = nil
        }
    }

    private func settings(_ index: UInt16) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: controllers[index]?.current.rawValue ?? 0)
        return bytes
    }

    private func information(_ index: UInt16) -> [UInt8] {
        guard let controller = controllers[index] else { return [] }
        var bytes = controller.address.littleEndianBytes + [9]
        bytes.append(littleEndian: UInt16(10))
        bytes.append(littleEndian: controller.supported.rawValue)
        bytes.append(littleEndian: controller.current.rawValue)
        bytes += [0, 0, 0] + Array("test".utf8)
        return bytes + [UInt8](repeating: 0, count: 280 - bytes.count)
    }

    private func complete(_ opcode: Opcode, _ index: UInt16, _ returned: [UInt8]) {
        emit(0x0001, index, opcodeBytes(opcode) + [0] + returned)
    }
    private func fail(_ opcode: Opcode, _ index: UInt16, _ status: UInt8) {
        emit(0x0002, index, opcodeBytes(opcode) + [status])
    }
    private func opcodeBytes(_ opcode: Opcode) -> [UInt8] {
        [UInt8(opcode.rawValue & 0xff), UInt8(opcode.rawValue >> 8)]
    }
    private func bytes(_ peer: PeerAddress) -> [UInt8] {
        peer.address.littleEndianBytes + [peer.kind.rawValue]
    }
    private func peer(_ parameters: [UInt8]) -> PeerAddress? {
        guard let address = MeterAddress(littleEndian: parameters.prefix(6)),
            let kind = PeerAddress.Kind(rawValue: parameters[6])
        else { return nil }
        return PeerAddress(address: address, kind: kind)
    }
}

/// What a test says about the machine, and what was done to it.
final class FakeHardware: AdapterHardware {
    private struct State {
        var daemon: Int?
        var blocks: [UInt16: RadioBlock] = [:]
        var done: [String] = []
    }
    private let state = Mutex(State())

    init(daemon: Int? = nil) { state.withLock { $0.daemon = daemon } }

    func setDaemon(_ daemon: Int?) { state.withLock { $0.daemon = daemon } }
    func setBlock(_ block: RadioBlock, of index: UInt16) {
        state.withLock { $0.blocks[index] = block }
    }
    var done: [String] { state.withLock(\.done) }

    func bluetoothDaemon() async -> Int? { state.withLock(\.daemon) }
    func block(of index: UInt16) async -> RadioBlock {
        state.withLock { $0.blocks[index] ?? RadioBlock() }
    }
    func unblock(_ index: UInt16) async throws(LinkError) {
        state.withLock {
            $0.blocks[index]?.bySoftware = false
            $0.done.append("unblock \(index)")
        }
    }
    func bounce(_ index: UInt16) async throws(LinkError) {
        state.withLock { $0.done.append("bounce \(index)") }
    }
    func resetUSB(_ index: UInt16) async throws(LinkError) {
        state.withLock { $0.done.append("reset \(index)") }
    }
}

/// Lines that were logged.
final class LogLines: LogSink {
    private let lines = Mutex<[String]>([])
    func write(_ level: LogLevel, _ line: String) {
        lines.withLock { $0.append("\(level) \(line)") }
    }
    var all: [String] { lines.withLock(\.self) }
}

/// Everything that a test of the pool has in its hands.
struct KernelBench: Sendable {
    let kernel: FakeKernel
    let pool: AdapterPool
    let clock: ManualClock
    let hardware: FakeHardware
    let log: LogLines

    /// Turns time on, in steps of at most `step` and while no request to the kernel waits for its
    /// answer, until something holds; `false` when it does not within 20 real seconds.
    func until(
        step: Duration = .milliseconds(100), limit: Duration = .seconds(3600),
        answered: Bool = true, _ condition: () async -> Bool
    ) async -> Bool {
        let deadline = ContinuousClock.now + .seconds(20)
        let end = clock.now + limit
        while ContinuousClock.now < deadline {
            if await condition() { return true }
            guard clock.now < end else { return false }
            // Twice, since an answer may have been taken and the next request not been sent.
            var isQuiet = true
            for _ in 0..<2 {
                try? await Task.sleep(for: .milliseconds(1))
                if answered, await pool.unanswered > 0 { isQuiet = false }
            }
            if isQuiet { clock.step(to: clock.now + step) }
        }
        return await condition()
    }

    /// Waits, without turning time, until something holds.
    func soon(_ condition: () async -> Bool) async -> Bool {
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline {
            if await condition() { return true }
            try? await Task.sleep(for: .milliseconds(1))
        }
        return await condition()
    }

    func state(_ number: Int = 0) async -> AdapterState? {
        let adapters = await pool.facts().adapters
        return adapters.indices.contains(number) ? adapters[number].state : nil
    }
    /// Waits until an adapter is ready.
    func ready(_ number: Int = 0) async throws {
        let isReady = await soon { await state(number) == .ready }
        try #require(isReady, "the adapter is not ready")
    }
}

let firstAdapter = mac("AA:00:00:00:00:01")
let secondAdapter = mac("AA:00:00:00:00:02")

/// What happens before the pool looks.
struct Preparation: Sendable {
    let run: @Sendable (FakeKernel, FakeHardware) async -> Void
    init(_ run: @escaping @Sendable (FakeKernel, FakeHardware) async -> Void) { self.run = run }
}

func withKernelBench(
    _ controllers: [UInt16: FakeKernel.Controller] = [0: .init(address: firstAdapter)],
    settings: RadioSettings = RadioSettings(), daemon: Int? = nil, revision: UInt16 = 23,
    isTrusted: Bool = true,
    prepare: Preparation = Preparation { _, _ in },
    _ body: @Sendable (KernelBench) async throws -> Void
) async throws {
    try await Reactor.withReactor { reactor in
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
        let far = try WatchedDescriptor(OwnedDescriptor(adopting: ends[1]), on: reactor)
        defer { far.close() }
        let near = Guarded<Int32?>(ends[0])
        let kernel = FakeKernel(far, controllers, revision: revision, isTrusted: isTrusted)
        let clock = ManualClock()
        let hardware = FakeHardware(daemon: daemon)
        let log = LogLines()
        await prepare.run(kernel, hardware)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await kernel.run() }
            defer { group.cancelAll() }
            try await AdapterPool.withPool(
                settings, reactor: reactor, clock: clock, log: Log(log), hardware: hardware,
                openSocket: { () throws(LinkError) in
                    let number = near.withLock { near in
                        defer { near = nil }
                        return near
                    }
                    guard let number else { throw LinkError(.transient, "opened twice") }
                    return number
                }
            ) { pool in
                try await body(
                    KernelBench(
                        kernel: kernel, pool: pool, clock: clock, hardware: hardware, log: log))
                await kernel.endSilence()
            }
        }
    }
}

/// For conditions that both have to wait.
func both(_ one: Bool, _ other: Bool) -> Bool { one && other }

func category(of body: () async throws -> Void) async -> FaultCategory? {
    do {
        try await body()
        return nil
    } catch {
        return (error as? LinkError)?.category
    }
}

func withTemporaryFolder(_ body: (String) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.path + "/mgmt-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try await body(folder)
}
