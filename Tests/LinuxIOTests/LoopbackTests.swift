import Glibc
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct LoopbackTests {
    @Test func aFreePortHasNobodyBehindIt() async throws {
        let port = try Loopback.freePort()
        #expect(port >= 1024)
        #expect(try await !Loopback.canConnect(to: port))
    }

    @Test func aListenerIsFoundByItsPort() async throws {
        let port = try Loopback.freePort()
        let listener = try systemCall { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) }
        }
        #expect(bound == 0)
        #expect(try await !Loopback.canConnect(to: port))
        try systemCall { listen(listener, 1) }
        #expect(try await Loopback.canConnect(to: port))
        close(listener)
        #expect(try await !Loopback.canConnect(to: port))
    }
}
