import Glibc
import LinuxIO
import MeterCore
import Synchronization

/// `SHUT_RDWR` of shutdown(2), an enumerator that Swift finds in some builds and not in others.
private let bothWays: Int32 = 2

/// The client of one GATT server: requests in turn, the values that the server sends, and an end that
/// reaches everyone who waits.
///
/// `run` reads from the socket for as long as the link lasts. Packets are written where they arise
/// and never waited for: one that the socket has no room for stands behind hundreds that the radio
/// did not take, so the link is stuck.
final class GATTClient: Sendable {
    private typealias Answer = Result<ATTResponse, LinkError>

    private struct Request {
        let id: Int
        let request: ATTRequest
        /// On the whole, the wait for a turn included.
        let deadline: MonotonicInstant
        /// `nil` once its task has given up; the response has to be waited for all the same.
        var waiter: CheckedContinuation<Answer, Never>?
    }

    private struct Reader {
        let id: Int
        let waiter: CheckedContinuation<Result<[[UInt8]], LinkError>, Never>
    }

    private struct State {
        var machine = ATTMachine()
        /// The first is the outstanding one when the machine is busy.
        var requests: [Request] = []
        var lastID = 0
        /// What the server has sent from `source` and nobody has taken yet.
        var values: [[UInt8]] = []
        var droppedValues = 0
        var source: UInt16?
        /// Where the server tells that its services have changed.
        var serviceChanged: UInt16?
        var reader: Reader?
        /// Packets that wait while the kernel settles the security of the link.
        var parked: [[UInt8]]?
        var hasRaisedSecurity = false
        /// Of the write that failed; the reader tells what it means.
        var writeError: Errno?
        var end: LinkError?

        mutating func newID() -> Int {
            lastID += 1
            return lastID
        }
    }

    /// Values that may wait for a reader; 192 bytes of a TC66C come in ten.
    private static let mostValues = 64
    private static let mostParked = 16
    /// The kernel's buffer for the channel is shorter.
    private static let readSize = 1024

    private let socket: WatchedDescriptor
    private let sockets: any BluetoothSockets
    private let clock: any Timekeeper
    private let faults: SocketFaults
    private let state = Mutex(State())

    init(
        over socket: WatchedDescriptor, to peer: PeerAddress, sockets: any BluetoothSockets,
        clock: any Timekeeper
    ) {
        self.socket = socket
        self.sockets = sockets
        self.clock = clock
        faults = SocketFaults(peer)
    }

    /// Values that were dropped because nobody took them.
    var droppedValues: Int { state.withLock { $0.droppedValues } }
    /// The longest value that fits in one write.
    var longestValue: Int { state.withLock { $0.machine.longestValue } }

    // MARK: Reading

    /// Takes what the server sends until the link ends or the task is cancelled.
    /// - Parameter explain: makes the error of a link that fell; `nil` for an orderly end.
    func run(explain: @Sendable (Errno?) async -> LinkError) async {
        while state.withLock({ $0.end == nil }) {
            do throws(Errno) {
                let packet = try await socket.read(upTo: Self.readSize)
                guard !packet.isEmpty else {
                    return finish(await explain(state.withLock { $0.writeError }))
                }
                received(packet)
            } catch {
                guard error != .cancelled else { return finish(.cancelled) }
                return finish(await explain(state.withLock { $0.writeError } ?? error))
            }
        }
    }

    private func received(_ packet: [UInt8]) {
        let actions = state.withLock { $0.machine.received(packet) }
        for action in actions { perform(action) }
    }

    private func perform(_ action: ATTMachine.Action) {
        switch action {
        case .send(let packet): transmit(packet)
        case .completed(let response): completed(response)
        case .value(let handle, let value): took(value, from: handle)
        case .failed(.unanswered(let request, let limit)):
            finish(faults.silent(request.purpose, after: limit))
        case .failed(.malformed(let what)): finish(faults.malformed(what))
        }
    }

    private func took(_ value: [UInt8], from handle: UInt16) {
        let (reader, values, hasChanged) = state.withLock { state in
            if handle == state.serviceChanged { return (nil as Reader?, [[UInt8]](), true) }
            guard handle == state.source, !value.isEmpty else { return (nil, [], false) }
            state.values.append(value)
            if state.values.count > Self.mostValues {
                state.values.removeFirst()
                state.droppedValues += 1
            }
            guard let reader = state.reader else { return (nil, [], false) }
            state.reader = nil
            defer { state.values = [] }
            return (reader, state.values, false)
        }
        if hasChanged {
            finish(faults.malformed("it has changed its services, which have to be found again"))
        } else {
            reader?.waiter.resume(returning: .success(values))
        }
    }

    /// Waits for values and takes all that are there. Those that came before the link ended are still
    /// given out. One task at a time.
    func values() async throws(LinkError) -> [[UInt8]] {
        let id = state.withLock { $0.newID() }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let result: Result<[[UInt8]], LinkError>? = state.withLock { state in
                    if Task.isCancelled { return .failure(.cancelled) }
                    if !state.values.isEmpty {
                        defer { state.values = [] }
                        return .success(state.values)
                    }
                    if let end = state.end { return .failure(end) }
                    precondition(state.reader == nil, "two tasks receive from one link")
                    state.reader = Reader(id: id, waiter: waiter)
                    return nil
                }
                if let result { waiter.resume(returning: result) }
            }
        } onCancel: {
            let reader = state.withLock { state in
                guard let reader = state.reader, reader.id == id else { return nil as Reader? }
                state.reader = nil
                return reader
            }
            reader?.waiter.resume(returning: .failure(.cancelled))
        }
        return try result.get()
    }

    // MARK: Writing

    /// Hands a packet to the kernel. A failure ends the reader, which knows to tell the reason.
    private func transmit(_ packet: [UInt8]) {
        let isParked = state.withLock { state in
            guard state.parked != nil else { return false }
            // what is too much of it was asked by a server that does not wait for answers
            if (state.parked?.count ?? 0) < Self.mostParked { state.parked?.append(packet) }
            return true
        }
        guard !isParked else { return }
        do throws(Errno) {
            _ = try socket.perform { (number) throws(Errno) in
                try systemCall { send(number, packet, packet.count, Int32(MSG_NOSIGNAL)) }
            }
        } catch {
            state.withLock { $0.writeError = $0.writeError ?? error }
            // fails only when the link is down already
            _ = try? socket.perform { (number) throws(Errno) in
                try systemCall { shutdown(number, bothWays) }
            }
        }
    }

    /// Writes a value without a response; returns when the kernel has it.
    func command(_ handle: UInt16, _ value: [UInt8]) throws(LinkError) {
        let packet: Result<[UInt8], LinkError> = state.withLock { state in
            if let end = state.end { return .failure(end) }
            return .success(state.machine.command(handle, value))
        }
        transmit(try packet.get())
    }

    // MARK: Requests

    /// Makes a request and waits for its response, in turn with others. When the server wants
    /// security for it, that is raised once for the link and the request made again.
    /// - Throws: `LinkError`; after a limit that has passed the link is of no use any more.
    func request(
        _ request: ATTRequest, within limit: Duration = ATTMachine.usualLimit
    ) async throws(LinkError) -> ATTResponse {
        let response = try await exchange(request, within: limit)
        guard case .refused(let error) = response, error.wantsSecurity else { return response }
        guard state.withLock({ !$0.hasRaisedSecurity }) else { throw faults.needsPairing(error) }
        try await raiseSecurity()
        let second = try await exchange(request, within: limit)
        if case .refused(let error) = second, error.wantsSecurity {
            throw faults.needsPairing(error)
        }
        return second
    }

    private func exchange(
        _ request: ATTRequest, within limit: Duration
    ) async throws(LinkError) -> ATTResponse {
        let id = state.withLock { $0.newID() }
        let deadline = clock.now + limit
        let answer = await withTaskGroup(of: Answer?.self, returning: Answer.self) { group in
            group.addTask { await self.answer(to: request, id, until: deadline) }
            group.addTask {
                do { try await self.clock.sleep(until: deadline) } catch { return nil }
                self.expire(id)
                return nil
            }
            while let result = await group.next() {
                guard let result else { continue }
                group.cancelAll()
                return result
            }
            return .failure(.cancelled)
        }
        return try answer.get()
    }

    private func answer(
        to request: ATTRequest, _ id: Int, until deadline: MonotonicInstant
    ) async -> Answer {
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let refusal: LinkError? = state.withLock { state in
                    if Task.isCancelled { return .cancelled }
                    if let end = state.end { return end }
                    state.requests.append(
                        Request(id: id, request: request, deadline: deadline, waiter: waiter))
                    return nil
                }
                if let refusal {
                    waiter.resume(returning: .failure(refusal))
                } else {
                    startNext()
                }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                guard let index = state.requests.firstIndex(where: { $0.id == id }) else {
                    return nil as CheckedContinuation<Answer, Never>?
                }
                defer {
                    if index == 0, state.machine.isBusy {
                        state.requests[index].waiter = nil
                    } else {
                        state.requests.remove(at: index)
                    }
                }
                return state.requests[index].waiter
            }
            waiter?.resume(returning: .failure(.cancelled))
        }
    }

    private func startNext() {
        let action: ATTMachine.Action? = state.withLock { state in
            guard state.end == nil, !state.machine.isBusy, let next = state.requests.first else {
                return nil
            }
            let now = clock.now
            return state.machine.begin(next.request, at: now, limit: next.deadline - now)
        }
        if let action { perform(action) }
    }

    private func completed(_ response: ATTResponse) {
        // none is left when the link has ended in this very moment
        let waiter = state.withLock { state in
            state.requests.isEmpty ? nil : state.requests.removeFirst().waiter
        }
        waiter?.resume(returning: .success(response))
        startNext()
    }

    /// The time for a request is up: the link is of no use any more, for a late response would be
    /// taken for that to the next request.
    private func expire(_ id: Int) {
        let now = clock.now
        let (actions, request) = state.withLock { state in
            guard let request = state.requests.first(where: { $0.id == id }) else {
                return ([ATTMachine.Action](), nil as Request?)
            }
            return (state.machine.timePassed(to: now), request)
        }
        for action in actions { perform(action) }
        // it may have waited behind another one, which nobody waits for any more
        if actions.isEmpty, let request {
            finish(faults.silent(request.request.purpose, after: ATTMachine.usualLimit))
        }
    }

    /// The first reason stays.
    private func finish(_ error: LinkError) {
        let (requests, reader) = state.withLock { state in
            guard state.end == nil else { return ([Request](), nil as Reader?) }
            state.end = error
            defer {
                state.requests = []
                state.reader = nil
            }
            return (state.requests, state.reader)
        }
        for request in requests { request.waiter?.resume(returning: .failure(error)) }
        reader?.waiter.resume(returning: .failure(error))
    }

    // MARK: Security

    /// Raises the security of the link and waits for that; nothing is sent meanwhile.
    private func raiseSecurity() async throws(LinkError) {
        state.withLock { state in
            state.hasRaisedSecurity = true
            state.parked = []
        }
        let result: Result<Void, LinkError>
        do throws(Errno) {
            try sockets.raiseSecurity(of: socket)
            let settled: Void? = try await within(ATTMachine.transactionLimit, by: clock) {
                [socket] () throws(Errno) in try await socket.writable()
            }
            result = settled == nil ? .failure(faults.connecting(Errno(EACCES))) : .success(())
        } catch {
            result = .failure(
                error == .cancelled ? .cancelled : faults.connecting(Errno(EACCES)))
        }
        let parked = state.withLock { state in
            defer { state.parked = nil }
            return state.parked ?? []
        }
        for packet in parked { transmit(packet) }
        try result.get()
    }

    // MARK: Services

    /// Where values are taken from, from now on.
    func listen(to source: UInt16) { state.withLock { $0.source = source } }
    func expectServiceChanges(at handle: UInt16?) {
        state.withLock { $0.serviceChanged = handle }
    }
}
