import Glibc
package import LinuxIO
package import MeterCore

/// Asks the kernel's management interface and hears its events: one reader, and a table of who
/// waits for which answer.
///
/// Answers carry no number of their request, only the adapter's and the operation's, so of each
/// such pair one request is under way at a time and the next waits.
package actor ManagementClient {
    private struct Key: Hashable {
        let index: UInt16
        let opcode: UInt16
    }
    private struct Answer: Sendable {
        let status: ManagementStatus
        let returned: [UInt8]
    }

    // Sending runs the request in the kernel, which may wait for a lock there.
    private let executor = QueueExecutor(label: "bluetooth.mgmt")
    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    private let socket: WatchedDescriptor
    private let clock: any Timekeeper
    /// How many bytes one request may have.
    package let packetLimit: Int
    private var pending: [Key: Promise<Answer>] = [:]
    private var queues: [Key: [Promise<Void>]] = [:]
    /// Requests that were given up before their answer came, and until when it is still expected:
    /// it must not be taken for the answer to the next one. Those that only read are not among
    /// them, since what they return is right whoever asked.
    private var owed: [Key: MonotonicInstant] = [:]
    /// Requests under way during which an answer was put down as an earlier one's.
    private var mistaken: Set<Key> = []
    private var events = ManagementEventQueue()
    private var reader: Promise<Void>?
    private var failure: LinkError?
    /// Packets that made no sense.
    package private(set) var malformed = 0

    private static let longestLateness: Duration = .seconds(60)

    private init(socket: WatchedDescriptor, packetLimit: Int, clock: any Timekeeper) {
        self.socket = socket
        self.packetLimit = packetLimit
        self.clock = clock
    }

    /// Puts the socket on the reactor, reads from it while `body` runs, and closes it.
    /// - Throws: `LinkError` when the socket cannot be waited for; whatever `body` throws.
    package static func withClient<Result: Sendable>(
        adopting descriptor: Int32, reactor: Reactor, clock: any Timekeeper,
        _ body: @Sendable (ManagementClient) async throws -> Result
    ) async throws -> Result {
        let limit = ManagementSocket.packetLimit(of: descriptor)
        let socket: WatchedDescriptor
        do {
            socket = try WatchedDescriptor(OwnedDescriptor(adopting: descriptor), on: reactor)
        } catch {
            throw LinkError(.transient, "Bluetooth's management channel is of no use: \(error)")
        }
        defer { socket.close() }
        let client = ManagementClient(socket: socket, packetLimit: limit, clock: clock)
        return try await withThrowingTaskGroup(of: Void.self, returning: Result.self) { group in
            group.addTask { await client.read() }
            defer { group.cancelAll() }
            return try await body(client)
        }
    }

    // MARK: - Requests

    /// Sends a request and returns what the kernel returns.
    ///
    /// A request that is cancelled or times out may still be carried out.
    /// - Parameter limit: how long to wait, the wait for an earlier request of the same kind not
    ///   counted.
    /// - Throws: `ManagementFailure`.
    @discardableResult
    package func send(
        _ command: ManagementCommand, within limit: Duration = .seconds(5)
    ) async throws(ManagementFailure) -> [UInt8] {
        let key = Key(index: command.index, opcode: command.opcode.rawValue)
        try await enter(key)
        defer { leave(key) }
        if let failure { throw .channel(failure) }
        let promise = Promise<Answer>()
        pending[key] = promise
        do throws(ManagementFailure) {
            try write(command.bytes)
        } catch {
            pending[key] = nil
            throw error
        }
        let answer = await promise.value(until: clock.now + limit, by: clock)
        pending[key] = nil
        if let answer {
            mistaken.remove(key)
            guard answer.status == .success else {
                throw .status(answer.status, command.opcode)
            }
            return answer.returned
        }
        if let failure { throw .channel(failure) }
        // What was put down as an earlier one's answer was this one's, then.
        let wasMistaken = mistaken.remove(key) != nil
        if !command.opcode.onlyReads, !wasMistaken {
            owed[key] = clock.now + Self.longestLateness
        }
        throw Task.isCancelled ? .cancelled : .unanswered(command.opcode)
    }

    /// Waits until no other request of this kind is under way.
    private func enter(_ key: Key) async throws(ManagementFailure) {
        guard queues[key] != nil else {
            queues[key] = []
            return
        }
        let turn = Promise<Void>()
        queues[key]?.append(turn)
        if await turn.value() == nil { throw .cancelled }
    }

    private func leave(_ key: Key) {
        while let next = queues[key]?.first {
            queues[key]?.removeFirst()
            if next.keep(()) { return }
        }
        queues[key] = nil
    }

    private func write(_ bytes: [UInt8]) throws(ManagementFailure) {
        do throws(Errno) {
            // Some kernels return 0 although the packet went.
            try socket.perform { (number) throws(Errno) in
                _ = try systemCall {
                    Glibc.send(number, bytes, bytes.count, Int32(MSG_NOSIGNAL))
                }
            }
        } catch {
            throw .channel(
                LinkError(.transient, "Bluetooth's management channel took no request: \(error)"))
        }
    }

    // MARK: - Events

    /// Waits for events and takes all that have come. Of a device's reports the last remains, with
    /// what the others had besides; nothing else is dropped.
    ///
    /// One reader.
    /// - Returns: `hasOverflowed` when so many came that state must be read anew; `nil` when the
    ///   channel has failed or the task is cancelled.
    package func nextEvents() async -> (packets: [ManagementPacket], hasOverflowed: Bool)? {
        while events.isEmpty {
            if failure != nil { return nil }
            precondition(reader == nil, "two tasks take Bluetooth events")
            let promise = Promise<Void>()
            reader = promise
            let isThere = await promise.value() != nil
            reader = nil
            if !isThere { return nil }
        }
        return events.takeAll()
    }

    /// How many requests wait for their answer.
    var unanswered: Int { pending.count }
    var hasOwed: Bool { !owed.isEmpty }

    private func read() async {
        while true {
            let packet: [UInt8]
            do {
                packet = try await socket.read(upTo: 8192)
            } catch {
                if error.code == EINTR || error.code == ENOBUFS { continue }
                return fail(
                    error.code == ECANCELED
                        ? .cancelled
                        : LinkError(.adapter, "Bluetooth's management channel failed: \(error)"))
            }
            if packet.isEmpty {
                return fail(LinkError(.adapter, "Bluetooth's management channel has closed"))
            }
            take(packet)
        }
    }

    private func take(_ bytes: [UInt8]) {
        guard let packet = ManagementPacket(bytes) else {
            malformed += 1
            return
        }
        guard case .reply(let opcode, let status, let returned) = packet.event else {
            events.append(packet)
            reader?.keep(())
            return
        }
        let key = Key(index: packet.index, opcode: opcode)
        if let until = owed[key] {
            // While the late one is under way in the kernel, that refuses the next as busy; all
            // else is the late one's answer.
            let isLate = status != .busy || pending[key] == nil
            if isLate { owed[key] = nil }
            if isLate, clock.now < until {
                if pending[key] != nil { mistaken.insert(key) }
                return
            }
        }
        pending[key]?.keep(Answer(status: status, returned: returned))
    }

    private func fail(_ error: LinkError) {
        failure = error
        for promise in pending.values { promise.giveUp() }
        reader?.keep(())
    }
}

/// Why a management request brought nothing.
package enum ManagementFailure: Error, Equatable, Sendable {
    case status(ManagementStatus, ManagementCommand.Opcode)
    /// No answer in time: the adapter, or the kernel's part for it, is stuck.
    case unanswered(ManagementCommand.Opcode)
    /// The answer is too short for what it is to hold.
    case senseless(ManagementCommand.Opcode)
    case channel(LinkError)
    case cancelled

    /// For whoever wanted something done.
    /// - Parameter what: what failed, as the beginning of a sentence, e.g. `scanning`.
    package func error(_ what: String) -> LinkError {
        switch self {
        case .status(let status, _): status.error(what)
        case .unanswered(let opcode):
            LinkError(
                .adapter, "the Bluetooth adapter does not answer (\(opcode))",
                advice: "if it does not recover by itself, unplug it or restart the machine")
        case .senseless(let opcode):
            LinkError(.adapter, "the kernel's answer to \(opcode) makes no sense")
        case .channel(let error): error
        case .cancelled: .cancelled
        }
    }

    package var status: ManagementStatus? {
        if case .status(let status, _) = self { status } else { nil }
    }
    package var isUnanswered: Bool {
        if case .unanswered = self { true } else { false }
    }
}
