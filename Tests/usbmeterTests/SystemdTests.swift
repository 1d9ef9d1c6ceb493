import Glibc
import LinuxIO
import Testing

/// The agent as systemd sees it.
struct SystemdTests {
    @Test func theWatchdogIsFedAgainAfterItCouldNotBeReached() async throws {
        try await withFolder { folder in
            try "gateway: { id: t, data: \(folder)/data }\nmeters: []\n".write(
                toFile: folder + "/usbmeter.yaml", atomically: false, encoding: .utf8)
            let socket = folder + "/notify"
            let log = folder + "/log"
            try await Reactor.withReactor { reactor in
                try await ChildProcess.withChildProcess(
                    try program(), ["run", "--config", folder + "/usbmeter.yaml"],
                    environment: ["NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "400000"],
                    output: .discarded, errors: .file(log), stopWithin: .seconds(10), on: reactor
                ) { _ in
                    // nobody listens there yet
                    try await eventually {
                        lines(of: log).contains { $0.contains("systemd cannot") }
                    }
                    let systemd = try Systemd(at: socket)
                    defer { systemd.close() }
                    try await eventually { systemd.messages().contains("READY=1") }
                    #expect(
                        lines(of: log).filter { $0.contains("systemd cannot") }.count == 1)
                    try await eventually { systemd.messages().contains("WATCHDOG=1") }
                }
            }
            #expect(lines(of: log).last?.contains("stopped") == true)
        }
    }
}

/// The end of systemd's notification socket.
private struct Systemd {
    private let number: Int32
    private let received = Received()
    private final class Received { var messages: [String] = [] }

    init(at path: String) throws {
        let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        number = try systemCall { socket(AF_UNIX, type, 0) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let number = number
        try systemCall {
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(number, $0, size) }
            }
        }
    }

    func close() { Glibc.close(number) }

    /// All that came so far.
    func messages() -> [String] {
        var buffer = [UInt8](repeating: 0, count: 1_000)
        while true {
            let count = recv(number, &buffer, buffer.count, 0)
            guard count >= 0 else { return received.messages }
            received.messages.append(String(decoding: buffer.prefix(count), as: UTF8.self))
        }
    }
}
