import LinuxIO
import MeterCore
import Synchronization

/// A connected socket, and how it came about.
struct OpenSocket: Sendable {
    let descriptor: WatchedDescriptor
    let adapter: MeterAddress
    /// Of RFCOMM.
    let channel: UInt8?
}

/// Connects a socket in a turn on an adapter, lends it to `body` and closes it. The owner of the
/// adapters hears how the attempt or the link ended.
/// - Parameter connect: makes the connection from the adapter with this address.
/// - Throws: `LinkError` when there is no turn or no connection; whatever `body` throws.
func withSocket<Value: Sendable>(
    to peer: PeerAddress, _ radio: any RadioAccess, _ reopening: Reopening,
    connect: @escaping @Sendable (_ adapter: MeterAddress) async throws(LinkError) -> OpenSocket,
    _ body: @Sendable (OpenSocket) async throws -> Value
) async throws -> Value {
    try await reopening.wait(radio)
    // kept here, since the giver of turns may throw after it was made
    let made = Made()
    do {
        try await radio.withTurn(for: peer) { adapter in
            do throws(LinkError) {
                let socket = try await connect(adapter)
                made.socket.withLock { $0 = socket }
            } catch {
                await tell(radio, peer, adapter, error)
                throw error
            }
        }
    } catch {
        if let socket = made.take() { await close(socket, peer, radio, reopening, error) }
        throw error
    }
    guard let socket = made.take() else {
        preconditionFailure("a turn ended without a connection and without an error")
    }
    reopening.opened()
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(socket))
    } catch {
        result = .failure(error)
    }
    var failure: (any Error)?
    if case .failure(let error) = result { failure = error }
    await close(socket, peer, radio, reopening, failure)
    return try result.get()
}

private final class Made: Sendable {
    let socket = Mutex<OpenSocket?>(nil)

    func take() -> OpenSocket? {
        socket.withLock { socket in
            defer { socket = nil }
            return socket
        }
    }
}

private func close(
    _ socket: OpenSocket, _ peer: PeerAddress, _ radio: any RadioAccess, _ reopening: Reopening,
    _ error: (any Error)?
) async {
    socket.descriptor.close()
    reopening.closed(on: socket.adapter)
    await tell(radio, peer, socket.adapter, error)
}

/// An end by our own will is no error.
private func tell(
    _ radio: any RadioAccess, _ peer: PeerAddress, _ adapter: MeterAddress, _ error: (any Error)?
) async {
    let fault = (error as? LinkError).flatMap { $0.category == .cancelled ? nil : $0 }
    await withoutCancellation { await radio.connectionEnded(peer, on: adapter, fault) }
}

extension SocketFaults {
    /// Makes one connection in the time that it may take.
    func connect(
        by clock: any Timekeeper,
        _ body: @escaping @Sendable () async throws(Errno) -> WatchedDescriptor
    ) async throws(LinkError) -> WatchedDescriptor {
        let socket: WatchedDescriptor?
        do throws(Errno) {
            socket = try await within(ConnectLimit.whole, by: clock, body)
        } catch {
            throw connecting(error)
        }
        guard let socket else { throw notHeard }
        return socket
    }
}
