import CBluetooth
import Glibc
package import LinuxIO
package import MeterCore

/// The system calls of links, so that tests can put a scripted peer at the far end.
///
/// Each call connects one socket and waits for that. Cancelling the task closes the socket, which
/// ends the attempt in the kernel as well.
package protocol BluetoothSockets: Sendable {
    /// A packet socket on the attribute channel: one packet is one PDU.
    /// - Throws: `Errno` of the call or of the attempt.
    func connectAttributes(
        from adapter: MeterAddress, to peer: PeerAddress
    ) async throws(Errno) -> WatchedDescriptor
    /// A byte stream.
    /// - Parameter secured: whether to pair and encrypt first.
    func connectSerialPort(
        from adapter: MeterAddress, to address: MeterAddress, channel: UInt8, secured: Bool
    ) async throws(Errno) -> WatchedDescriptor
    /// A packet socket to the far end's service discovery server.
    func connectServiceDiscovery(
        from adapter: MeterAddress, to address: MeterAddress
    ) async throws(Errno) -> WatchedDescriptor
    /// Asks for encryption on a connected attribute channel. The socket is writable again when
    /// that is settled.
    func raiseSecurity(of descriptor: WatchedDescriptor) throws(Errno)
}

/// The kernel's Bluetooth sockets.
package struct KernelSockets: BluetoothSockets {
    private let reactor: Reactor

    package init(on reactor: Reactor) { self.reactor = reactor }

    package func connectAttributes(
        from adapter: MeterAddress, to peer: PeerAddress
    ) async throws(Errno) -> WatchedDescriptor {
        // without the channel in the near address the kernel refuses the far one
        let channel = SocketAddress.attributeChannel
        return try await connect(
            SOCK_SEQPACKET, BTPROTO_L2CAP, security: BT_SECURITY_LOW,
            from: SocketAddress.l2cap(adapter, kind: .lePublic, channel: channel),
            to: SocketAddress.l2cap(peer.address, kind: peer.kind, channel: channel))
    }

    package func connectSerialPort(
        from adapter: MeterAddress, to address: MeterAddress, channel: UInt8, secured: Bool
    ) async throws(Errno) -> WatchedDescriptor {
        try await connect(
            SOCK_STREAM, BTPROTO_RFCOMM,
            security: secured ? BT_SECURITY_MEDIUM : BT_SECURITY_LOW,
            from: SocketAddress.rfcomm(adapter, channel: 0),
            to: SocketAddress.rfcomm(address, channel: channel))
    }

    package func connectServiceDiscovery(
        from adapter: MeterAddress, to address: MeterAddress
    ) async throws(Errno) -> WatchedDescriptor {
        // The kernel makes of the lowest level, for this service, one that pairs nothing; the
        // number of that one itself it refuses (l2cap_sock_setsockopt).
        try await connect(
            SOCK_SEQPACKET, BTPROTO_L2CAP, security: BT_SECURITY_LOW,
            from: SocketAddress.l2cap(adapter, kind: .classic),
            to: SocketAddress.l2cap(
                address, kind: .classic, psm: SocketAddress.serviceDiscoveryPSM))
    }

    package func raiseSecurity(of descriptor: WatchedDescriptor) throws(Errno) {
        try descriptor.perform { (number) throws(Errno) in
            try Self.set(BT_SECURITY_MEDIUM, on: number)
        }
    }

    private func connect(
        _ type: __socket_type, _ proto: Int32, security: Int32, from near: [UInt8], to far: [UInt8]
    ) async throws(Errno) -> WatchedDescriptor {
        let flags = Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = try systemCall {
            Glibc.socket(AF_BLUETOOTH, Int32(type.rawValue) | flags, proto)
        }
        // Owned only from here on: of an owner in a do-catch of an async function the optimizer of
        // Swift 6.0.3 dies.
        do throws(Errno) {
            try Self.start(number, security, from: near, to: far)
        } catch {
            OwnedDescriptor(adopting: number).close()
            throw error
        }
        let descriptor = try WatchedDescriptor(OwnedDescriptor(adopting: number), on: reactor)
        do throws(Errno) {
            try await descriptor.whenWritable(Self.finish)
        } catch {
            descriptor.close()
            throw error
        }
        return descriptor
    }

    private static func start(
        _ socket: Int32, _ security: Int32, from near: [UInt8], to far: [UInt8]
    ) throws(Errno) {
        try withAddress(near) { address, size in bind(socket, address, size) }
        try set(security, on: socket)
        // The kernel's limit for the connection, although nothing blocks here.
        var limit = timeval(tv_sec: Int(ConnectLimit.kernel.components.seconds), tv_usec: 0)
        let size = socklen_t(MemoryLayout.size(ofValue: limit))
        try systemCall { setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, size) }
        do throws(Errno) {
            try withAddress(far) { address, size in Glibc.connect(socket, address, size) }
        } catch {
            guard error.code == EINPROGRESS else { throw error }
        }
    }

    /// - Throws: EAGAIN while the connection is being made; its own error when it failed.
    private static func finish(_ socket: Int32) throws(Errno) {
        var poll = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
        try systemCall { Glibc.poll(&poll, 1, 0) }
        guard poll.revents != 0 else { throw Errno(EAGAIN) }
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout.size(ofValue: code))
        try systemCall { getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size) }
        guard code == 0 else { throw Errno(code) }
        guard poll.revents & Int16(POLLOUT) != 0, poll.revents & Int16(POLLHUP | POLLERR) == 0
        else { throw Errno(ECONNRESET) }
    }

    /// Both bytes: newer kernels refuse the level alone.
    private static func set(_ security: Int32, on socket: Int32) throws(Errno) {
        var option = bt_security(level: UInt8(security), key_size: 0)
        let size = socklen_t(MemoryLayout.size(ofValue: option))
        try systemCall { setsockopt(socket, SOL_BLUETOOTH, BT_SECURITY, &option, size) }
    }

    private static func withAddress(
        _ bytes: [UInt8], _ call: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws(Errno) {
        try systemCall {
            bytes.withUnsafeBytes { buffer -> Int32 in
                // an address is never empty
                guard let start = buffer.baseAddress else { return -1 }
                return call(
                    start.assumingMemoryBound(to: sockaddr.self), socklen_t(buffer.count))
            }
        }
    }
}

/// How long the making of a connection may take.
enum ConnectLimit {
    /// The kernel's own limit, for the socket.
    static let kernel: Duration = .seconds(20)
    /// Ours, for a kernel that does not keep its own.
    static let whole: Duration = .seconds(22)
}
