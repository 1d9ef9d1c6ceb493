import CLinux
import Glibc
import Synchronization

/// One thread that waits for descriptors on behalf of tasks. Wraps `epoll(7)`.
///
/// A descriptor is armed for one event (`EPOLLONESHOT`) each time a task waits for it. Readiness
/// thus stays in the kernel until somebody reads: a wait that is cancelled loses none, and a
/// descriptor that has hung up wakes nobody who does not ask.
package final class Reactor: Sendable {
    enum Direction { case reading, writing }

    private typealias Waiter = CheckedContinuation<Result<Void, Errno>, Never>

    private struct Watch {
        let descriptor: Int32
        var reader: (id: UInt64, waiter: Waiter)?
        var writer: (id: UInt64, waiter: Waiter)?

        var interest: UInt32 {
            (reader == nil ? 0 : EPOLLIN.rawValue) | (writer == nil ? 0 : EPOLLOUT.rawValue)
                | EPOLLONESHOT.rawValue
        }
    }

    /// Watches go by a number of their own, which is never used twice: an event that was under
    /// way when its descriptor closed cannot reach the next file with the same number.
    private struct State {
        var watches: [UInt64: Watch] = [:]
        var lastID: UInt64 = 0
        var isStopping = false

        mutating func nextID() -> UInt64 {
            lastID += 1
            return lastID
        }
    }

    private static let alarmID: UInt64 = 0

    private let epoll: Int32
    private let alarm: Int32
    private let state = Mutex(State())
    private let wakes = Atomic(0)

    private init() throws(Errno) {
        epoll = try systemCall { epoll_create1(Int32(EPOLL_CLOEXEC)) }
        do throws(Errno) {
            alarm = try systemCall { eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK)) }
        } catch {
            OwnedDescriptor(adopting: epoll).close()
            throw error
        }
    }

    /// Starts the thread, runs `body`, ends the thread and returns when it is gone.
    ///
    /// Whatever `body` put on the reactor it must have taken off again. The name is the thread's
    /// and has at most 15 bytes.
    /// - Throws: `Errno` when there is no descriptor or thread left; whatever `body` throws.
    @discardableResult
    package static func withReactor<Value: Sendable>(
        named name: String = "reactor", isolation: isolated (any Actor)? = #isolation,
        _ body: (Reactor) async throws -> Value
    ) async throws -> Value {
        let reactor = try Reactor()
        let thread: pthread_t
        do {
            thread = try reactor.start(named: name)
        } catch {
            reactor.close()
            throw error
        }
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(reactor))
        } catch {
            result = .failure(error)
        }
        await reactor.stop(thread)
        return try result.get()
    }

    /// How often the thread has woken; tests show by it that waiting costs nothing.
    package var wakeCount: Int { wakes.load(ordering: .relaxed) }

    private func start(named name: String) throws(Errno) -> pthread_t {
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(self)
        let code = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Reactor>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, argument.toOpaque())
        guard code == 0 else {
            argument.release()
            throw Errno(code)
        }
        // Fails for a name that is too long only, and the thread works without one.
        _ = pthread_setname_np(thread, name)
        return thread
    }

    private func stop(_ thread: pthread_t) async {
        state.withLock { state in
            precondition(state.watches.isEmpty, "the reactor ends with a descriptor still on it")
            state.isStopping = true
        }
        var one: UInt64 = 1
        _ = write(alarm, &one, MemoryLayout.size(ofValue: one))
        await BlockingWorker(label: "reactor.join").run { _ = pthread_join(thread, nil) }
        close()
    }

    private func close() {
        OwnedDescriptor(adopting: alarm).close()
        OwnedDescriptor(adopting: epoll).close()
    }

    // MARK: - Registrations, for WatchedDescriptor

    /// - Throws: `Errno`; EPERM for a file that cannot be waited for, such as one on disk.
    func add(_ descriptor: Int32) throws(Errno) -> UInt64 {
        let id = state.withLock { state in
            let id = state.nextID()
            state.watches[id] = Watch(descriptor: descriptor)
            return id
        }
        do throws(Errno) {
            var event = epoll_event(events: EPOLLONESHOT.rawValue, data: epoll_data_t(u64: id))
            try systemCall { epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) }
        } catch {
            _ = state.withLock { $0.watches.removeValue(forKey: id) }
            throw error
        }
        return id
    }

    /// Takes the descriptor off, before it is closed. Who still waits for it gets `.cancelled`.
    func remove(_ id: UInt64) {
        let watch = state.withLock { state in
            let watch = state.watches.removeValue(forKey: id)
            if let watch { _ = epoll_ctl(epoll, EPOLL_CTL_DEL, watch.descriptor, nil) }
            return watch
        }
        watch?.reader?.waiter.resume(returning: .failure(.cancelled))
        watch?.writer?.waiter.resume(returning: .failure(.cancelled))
    }

    /// Returns when the descriptor is ready, has failed or has hung up; the call to be made next
    /// tells which. Can return early: try, and wait again on EAGAIN.
    /// - Throws: `.cancelled` when the task is, or the descriptor was removed.
    func wait(_ id: UInt64, for direction: Direction) async throws(Errno) {
        let ticket = state.withLock { $0.nextID() }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { enlist($0, ticket, id, direction) }
        } onCancel: {
            withdraw(ticket, id, direction)
        }
        try result.get()
    }

    private func enlist(
        _ waiter: Waiter, _ ticket: UInt64, _ id: UInt64, _ direction: Direction
    ) {
        let refusal: Errno? = state.withLock { state in
            // A cancellation that came before the waiter was in the table has found nothing to
            // withdraw; it has set the task's flag before, though.
            guard var watch = state.watches[id], !Task.isCancelled else { return .cancelled }
            switch direction {
            case .reading:
                precondition(watch.reader == nil, "two tasks read from one descriptor")
                watch.reader = (ticket, waiter)
            case .writing:
                precondition(watch.writer == nil, "two tasks write to one descriptor")
                watch.writer = (ticket, waiter)
            }
            if let error = arm(watch, id) { return error }
            state.watches[id] = watch
            return nil
        }
        if let refusal { waiter.resume(returning: .failure(refusal)) }
    }

    private func withdraw(_ ticket: UInt64, _ id: UInt64, _ direction: Direction) {
        let waiter: Waiter? = state.withLock { state in
            switch direction {
            case .reading:
                guard let reader = state.watches[id]?.reader, reader.id == ticket else {
                    return nil
                }
                state.watches[id]?.reader = nil
                return reader.waiter
            case .writing:
                guard let writer = state.watches[id]?.writer, writer.id == ticket else {
                    return nil
                }
                state.watches[id]?.writer = nil
                return writer.waiter
            }
        }
        waiter?.resume(returning: .failure(.cancelled))
    }

    private func arm(_ watch: Watch, _ id: UInt64) -> Errno? {
        var event = epoll_event(events: watch.interest, data: epoll_data_t(u64: id))
        do throws(Errno) {
            try systemCall { epoll_ctl(epoll, EPOLL_CTL_MOD, watch.descriptor, &event) }
            return nil
        } catch {
            return error
        }
    }

    // MARK: - The thread

    private func run() {
        var alarmEvent = epoll_event(
            events: EPOLLIN.rawValue, data: epoll_data_t(u64: Self.alarmID))
        let added = epoll_ctl(epoll, EPOLL_CTL_ADD, alarm, &alarmEvent)
        precondition(added == 0, "the reactor cannot watch its own alarm: \(Errno.current)")
        var events = [epoll_event](repeating: epoll_event(), count: 32)
        while true {
            let count = epoll_wait(epoll, &events, Int32(events.count), -1)
            wakes.add(1, ordering: .relaxed)
            precondition(count >= 0 || errno == EINTR, "epoll_wait failed: \(Errno.current)")
            for event in events.prefix(max(0, Int(count))) { deliver(event) }
            if state.withLock({ $0.isStopping }) { return }
        }
    }

    private func deliver(_ event: epoll_event) {
        let id = event.data.u64
        // EPOLLERR and EPOLLHUP concern whoever waits.
        let ended = event.events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
        let readable = ended || event.events & EPOLLIN.rawValue != 0
        let writable = ended || event.events & EPOLLOUT.rawValue != 0
        let due: [(Waiter, Result<Void, Errno>)] = state.withLock { state in
            guard var watch = state.watches[id] else { return [] }
            var due: [(Waiter, Result<Void, Errno>)] = []
            if readable, let reader = watch.reader {
                due.append((reader.waiter, .success(())))
                watch.reader = nil
            }
            if writable, let writer = watch.writer {
                due.append((writer.waiter, .success(())))
                watch.writer = nil
            }
            if watch.reader != nil || watch.writer != nil, let error = arm(watch, id) {
                for left in [watch.reader, watch.writer] {
                    if let left { due.append((left.waiter, .failure(error))) }
                }
                watch.reader = nil
                watch.writer = nil
            }
            state.watches[id] = watch
            return due
        }
        for (waiter, result) in due { waiter.resume(returning: result) }
    }
}
