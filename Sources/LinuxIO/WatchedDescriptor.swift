import Glibc
import Synchronization

/// A non-blocking descriptor on a reactor: tasks read, write and wait without holding a thread.
///
/// One task may read and another write at the same time. It must be ended by `close` or `detach`;
/// dropping it open traps.
package final class WatchedDescriptor: Sendable {
    private let number: Int32
    private let reactor: Reactor
    private let id: UInt64
    /// Held during each (non-blocking) call on the number, so that no call can reach a number that
    /// was closed, and perhaps given to another file, in between.
    private let isOpen = Mutex(true)

    /// Sets `O_NONBLOCK` and puts the descriptor on the reactor. A socket is put there after its
    /// `connect(2)`: an unconnected one counts as hung up.
    /// - Throws: `Errno`, with the descriptor closed; EPERM for a file on disk.
    package init(_ descriptor: consuming OwnedDescriptor, on reactor: Reactor) throws(Errno) {
        let number = descriptor.release()
        do throws(Errno) {
            let flags = try systemCall { fcntl(number, F_GETFL) }
            try systemCall { fcntl(number, F_SETFL, flags | O_NONBLOCK) }
            id = try reactor.add(number)
        } catch {
            OwnedDescriptor(adopting: number).close()
            throw error
        }
        self.number = number
        self.reactor = reactor
    }

    deinit {
        precondition(!isOpen.withLock { $0 }, "a descriptor was dropped while on the reactor")
    }

    /// Takes the descriptor off the reactor and gives it back. Who still waits gets `.cancelled`.
    package func detach() -> OwnedDescriptor {
        isOpen.withLock { isOpen in
            precondition(isOpen, "a descriptor was closed twice")
            isOpen = false
            reactor.remove(id)
        }
        return OwnedDescriptor(adopting: number)
    }

    /// Takes the descriptor off the reactor and closes it.
    package func close() { detach().close() }

    /// Runs one call on the number that does not block.
    /// - Throws: what `call` throws; `.cancelled` when the descriptor is closed.
    package func perform<Value: Sendable>(
        _ call: (Int32) throws(Errno) -> Value
    ) throws(Errno) -> Value {
        try isOpen.withLock { isOpen throws(Errno) in
            guard isOpen else { throw .cancelled }
            return try call(number)
        }
    }

    /// Runs `call`, again each time that the descriptor has become readable, until it throws
    /// something other than EAGAIN or returns.
    /// - Throws: what `call` throws; `.cancelled` when the task is or the descriptor was closed.
    package func whenReadable<Value: Sendable>(
        _ call: (Int32) throws(Errno) -> Value
    ) async throws(Errno) -> Value {
        try await when(.reading, call)
    }

    /// Like `whenReadable`, for writing. After a non-blocking `connect(2)` the call to run is one
    /// that fetches `SO_ERROR`, preceded by `writable()`.
    package func whenWritable<Value: Sendable>(
        _ call: (Int32) throws(Errno) -> Value
    ) async throws(Errno) -> Value {
        try await when(.writing, call)
    }

    private func when<Value: Sendable>(
        _ direction: Reactor.Direction, _ call: (Int32) throws(Errno) -> Value
    ) async throws(Errno) -> Value {
        while true {
            if Task.isCancelled { throw .cancelled }
            do throws(Errno) {
                return try perform(call)
            } catch {
                guard error.code == EAGAIN else { throw error }
            }
            try await reactor.wait(id, for: direction)
        }
    }

    /// Returns once a read would not block, because of bytes, the end or an error. It may return
    /// early.
    /// - Throws: `.cancelled` when the task is or the descriptor was closed.
    package func readable() async throws(Errno) { try await reactor.wait(id, for: .reading) }

    /// Returns once a write would not block, or would fail. It may return early.
    /// - Throws: `.cancelled` when the task is or the descriptor was closed.
    package func writable() async throws(Errno) { try await reactor.wait(id, for: .writing) }

    /// Waits for bytes and takes what is there, at most `limit`. Empty means the end of the
    /// stream. Wraps `read(2)`; a packet socket gives one packet.
    ///
    /// Nothing is taken from a task that is cancelled, so no bytes are lost with it.
    /// - Throws: `Errno`; `.cancelled` when the task is or the descriptor was closed.
    package func read(upTo limit: Int = 4096) async throws(Errno) -> [UInt8] {
        try await whenReadable { (number) throws(Errno) in
            var bytes = [UInt8](repeating: 0, count: limit)
            let count = try systemCall { Glibc.read(number, &bytes, limit) }
            bytes.removeLast(limit - count)
            return bytes
        }
    }

    /// Hands all bytes to the system, waiting for room. Wraps `write(2)`.
    /// - Throws: `Errno`, perhaps after a part was written; `.cancelled` likewise.
    package func write(_ bytes: [UInt8]) async throws(Errno) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let left = rest
            rest = rest.dropFirst(
                try await whenWritable { (number) throws(Errno) in
                    try systemCall {
                        left.withUnsafeBytes { Glibc.write(number, $0.baseAddress, $0.count) }
                    }
                })
        }
    }
}
