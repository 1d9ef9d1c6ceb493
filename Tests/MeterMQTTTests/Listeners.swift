import Glibc
import Synchronization

@testable import MeterMQTT

/// A listener whose queue is full: whoever calls it gets no answer, as from a computer that is off.
final class DeafListener: Sendable {
    let port: UInt16
    private let descriptors: [Int32]
    private let ownCallers: Int

    init() throws {
        let (listener, port) = try listening(backlog: 0)
        self.port = port
        // A queue of 0 holds one; the others wait in vain already.
        let callers = (0..<4).map { _ in
            let caller = socket(
                AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
            var address = sockaddr_in.loopback(port: port)
            _ = address.with { connect(caller, $0, $1) }
            return caller
        }
        descriptors = [listener] + callers
        ownCallers = Self.callersInVain(port)
    }

    /// Whether somebody besides our own callers waits for an answer.
    var hasCaller: Bool { Self.callersInVain(port) > ownCallers }

    /// How many sockets of the machine are in SYN_SENT, state 02, towards this port.
    private static func callersInVain(_ port: UInt16) -> Int {
        guard let file = fopen("/proc/net/tcp", "r") else { return 0 }
        defer { fclose(file) }
        let digits = String(port, radix: 16, uppercase: true)
        let peer = "0100007F:" + String(repeating: "0", count: 4 - digits.count) + digits
        var count = 0
        var line = [UInt8](repeating: 0, count: 512)
        while line.withUnsafeMutableBytes({ buffer in
            fgets(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), 512, file) != nil
        }) {
            let fields = String(decoding: line.prefix { $0 != 0 }, as: UTF8.self)
                .split(separator: " ")
            if fields.count > 3, fields[2] == peer, fields[3] == "02" { count += 1 }
        }
        return count
    }

    func close() { for descriptor in descriptors { Glibc.close(descriptor) } }
}

/// A broker that answers a greeting with given bytes, for what a real one would not say.
final class ScriptedBroker: Sendable {
    let port: UInt16
    private let listener: Int32
    private let script: @Sendable (_ level: UInt8) -> Answer
    private let greetings = Mutex<[UInt8]>([])

    struct Answer {
        var bytes: [UInt8]
        /// Whether the connection stays open until the client closes it.
        var stays: Bool
    }

    /// The protocol levels of the greetings so far: 4 is MQTT 3.1.1.
    var levels: [UInt8] { greetings.withLock { $0 } }

    /// Runs one while `body` runs, which must have ended its connections when it returns.
    static func run(
        _ script: @escaping @Sendable (_ level: UInt8) -> Answer,
        _ body: (ScriptedBroker) async throws -> Void
    ) async throws {
        let broker = try ScriptedBroker(script)
        let thread = try NetworkThread { broker.serve() }
        do {
            try await body(broker)
        } catch {
            await broker.end(thread)
            throw error
        }
        await broker.end(thread)
    }

    private init(_ script: @escaping @Sendable (UInt8) -> Answer) throws {
        self.script = script
        (listener, port) = try listening(backlog: 5)
    }

    private func end(_ thread: NetworkThread) async {
        shutdown(listener, Int32(SHUT_RDWR))
        await thread.ended()
        close(listener)
    }

    private func serve() {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { return }
            defer { close(client) }
            var packet = [UInt8](repeating: 0, count: 256)
            // The greeting of a client with a short name comes in one piece.
            guard read(client, &packet, packet.count) > 8 else { continue }
            let level = packet[8]
            greetings.withLock { $0.append(level) }
            let answer = script(level)
            _ = write(client, answer.bytes, answer.bytes.count)
            while answer.stays, read(client, &packet, packet.count) > 0 {}
        }
    }
}

private func listening(backlog: Int32) throws -> (descriptor: Int32, port: UInt16) {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in.loopback(port: 0)
    guard address.with({ bind(listener, $0, $1) }) == 0, listen(listener, backlog) == 0,
        let port = ownPort(listener)
    else { throw Broker.Failure(description: "cannot listen: \(errno)") }
    return (listener, port)
}
