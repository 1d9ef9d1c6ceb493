import Glibc

/// TCP on 127.0.0.1, for private brokers of the demo and of tests.
package enum Loopback {
    /// Finds a port that nobody uses now. Another process may take it before the caller does.
    package static func freePort() throws(Errno) -> UInt16 {
        let socket = try makeSocket()
        do throws(Errno) {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            try withSocketAddress(&address) { (pointer) throws(Errno) in
                try systemCall { bind(socket.number, pointer, size) }
                try systemCall { getsockname(socket.number, pointer, &size) }
            }
            socket.close()
            return UInt16(bigEndian: address.sin_port)
        } catch {
            socket.close()
            throw error
        }
    }

    /// Whether somebody accepts connections there.
    package static func canConnect(to port: UInt16) async throws(Errno) -> Bool {
        try await BlockingWorker(label: "loopback").run { () throws(Errno) in
            let socket = try makeSocket()
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            address.sin_port = port.bigEndian
            let size = socklen_t(MemoryLayout<sockaddr_in>.size)
            // The kernel answers at once, except where a listener's queue is full.
            var limit = timeval(tv_sec: 1, tv_usec: 0)
            setsockopt(
                socket.number, SOL_SOCKET, SO_SNDTIMEO, &limit,
                socklen_t(MemoryLayout<timeval>.size))
            var isConnected = false
            withSocketAddress(&address) { pointer in
                isConnected = connect(socket.number, pointer, size) == 0
            }
            socket.close()
            return isConnected
        }
    }

    private static func makeSocket() throws(Errno) -> OwnedDescriptor {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        return OwnedDescriptor(adopting: try systemCall { socket(AF_INET, type, 0) })
    }

    private static func withSocketAddress<Failure: Error>(
        _ address: inout sockaddr_in,
        _ body: (UnsafeMutablePointer<sockaddr>) throws(Failure) -> Void
    ) throws(Failure) {
        let result: Result<Void, Failure> = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                do throws(Failure) {
                    return .success(try body(pointer))
                } catch {
                    return .failure(error)
                }
            }
        }
        try result.get()
    }
}
