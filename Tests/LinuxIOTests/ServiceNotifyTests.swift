import Glibc
import LinuxIO
import Testing

/// The environment belongs to the whole process: one test at a time.
@Suite(.serialized) struct ServiceNotifyTests {
    @Test func withoutSystemdNothingHappens() throws {
        unsetenv("NOTIFY_SOCKET")
        unsetenv("WATCHDOG_USEC")
        let service = ServiceNotify()
        try service.ready()
        try service.status("all is well")
        #expect(service.watchdogInterval == nil)
    }

    @Test func systemdHearsEveryState() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/notify"
            let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
            let systemd = OwnedDescriptor(
                adopting: try systemCall { socket(AF_UNIX, type, 0) })
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(systemd.number, $0, size)
                }
            }
            #expect(bound == 0)
            setenv("NOTIFY_SOCKET", path, 1)
            let service = ServiceNotify()
            try service.ready()
            try service.status("2 meters\nREADY=0")
            try service.pingWatchdog()
            try service.stopping()
            unsetenv("NOTIFY_SOCKET")
            var received: [String] = []
            var buffer = [UInt8](repeating: 0, count: 1000)
            while true {
                let count = recv(systemd.number, &buffer, buffer.count, 0)
                if count < 0 { break }
                received.append(String(decoding: buffer.prefix(count), as: UTF8.self))
            }
            systemd.close()
            #expect(
                received == ["READY=1", "STATUS=2 meters READY=0", "WATCHDOG=1", "STOPPING=1"])
        }
    }

    @Test func theWatchdogIntervalIsWhatSystemdAsks() {
        setenv("WATCHDOG_USEC", "30000000", 1)
        setenv("WATCHDOG_PID", "\(getpid())", 1)
        #expect(ServiceNotify().watchdogInterval == .seconds(30))
        setenv("WATCHDOG_PID", "1", 1)
        #expect(ServiceNotify().watchdogInterval == nil)
        unsetenv("WATCHDOG_USEC")
        unsetenv("WATCHDOG_PID")
    }
}
