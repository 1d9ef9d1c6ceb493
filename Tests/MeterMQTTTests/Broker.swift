import Glibc
import Synchronization

/// A real mosquitto on a free port of the loopback interface, with its own folder, ended with the
/// scope that lends it.
final class Broker: Sendable {
    static let isInstalled = access("/usr/sbin/mosquitto", X_OK) == 0

    /// Where a test's clients connect.
    let port: UInt16
    /// A second listener, so that a test can tell one client's connection from another's.
    let otherPort: UInt16
    let folder: String
    private let process = Mutex<pid_t?>(nil)

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs a broker with these lines in its configuration while `body` runs. Each listener takes
    /// the lines in `listener`.
    static func run(
        _ lines: [String] = ["allow_anonymous true"], listener: [String] = [],
        started: Bool = true, _ body: (Broker) async throws -> Void
    ) async throws {
        let broker = try Broker(lines, listener: listener)
        do {
            if started { try await broker.start() }
            try await body(broker)
        } catch {
            await broker.dispose()
            throw error
        }
        await broker.dispose()
    }

    private init(_ lines: [String], listener: [String]) throws {
        var template = Array("/tmp/meter-mqtt-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(description: "mkdtemp: \(errno)") }
        folder = String(decoding: template.dropLast().map(UInt8.init), as: UTF8.self)
        port = try Self.freePort()
        otherPort = try Self.freePort()
        var configuration = ["persistence false", "log_dest file \(folder)/log"]
        if geteuid() == 0 { configuration.append("user root") }
        configuration += lines
        for port in [port, otherPort] {
            configuration.append("listener \(port) 127.0.0.1")
            configuration += listener
        }
        // A relative path of a file is one in the folder.
        let text = configuration.map { line in line.replacing("FOLDER", by: folder) }
        try write("conf", text.joined(separator: "\n") + "\n")
    }

    func write(_ name: String, _ text: String) throws {
        guard let file = fopen("\(folder)/\(name)", "w") else {
            throw Failure(description: "\(name): \(errno)")
        }
        fputs(text, file)
        fclose(file)
    }

    /// Starts it and waits until it accepts connections.
    func start() async throws {
        let pid = try spawn("/usr/sbin/mosquitto", ["-c", "\(folder)/conf"])
        process.withLock { $0 = pid }
        for port in [port, otherPort] {
            try await eventually("the broker accepts connections; see \(folder)/log") {
                Self.accepts(port)
            }
        }
    }

    /// Ends it in order.
    func stop() async { await end(SIGTERM) }
    /// Ends it without a chance to say goodbye.
    func kill() async { await end(SIGKILL) }
    func pause() { signal(SIGSTOP) }
    func resume() { signal(SIGCONT) }
    /// Makes it read its password file again.
    func reload() { signal(SIGHUP) }

    /// Breaks the connections of this process to a port, as a pulled cable and a time-out would,
    /// without a farewell.
    func sever(_ port: UInt16) -> Int {
        var severed = 0
        for descriptor in Int32(3)..<1024 where Self.peerPort(descriptor) == port {
            if shutdown(descriptor, Int32(SHUT_RDWR)) == 0 { severed += 1 }
        }
        return severed
    }

    private func signal(_ number: Int32) {
        process.withLock { if let pid = $0 { _ = Glibc.kill(pid, number) } }
    }

    private func end(_ number: Int32) async {
        guard let pid = process.withLock({ $0.take() }) else { return }
        Glibc.kill(pid, number)
        // One that was paused gets the signal only when it runs.
        Glibc.kill(pid, SIGCONT)
        for _ in 0..<500 {
            if waitpid(pid, nil, WNOHANG) == pid { return }
            await pauseShortly()
        }
        Glibc.kill(pid, SIGKILL)
        waitpid(pid, nil, 0)
    }

    private func dispose() async {
        await kill()
        if let remover = try? spawn("/bin/rm", ["-rf", folder]) { waitpid(remover, nil, 0) }
    }

    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in.loopback(port: 0)
        guard address.with({ bind(descriptor, $0, $1) }) == 0, let port = ownPort(descriptor)
        else { throw Failure(description: "no free port: \(errno)") }
        return port
    }

    private static func accepts(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in.loopback(port: port)
        return address.with { connect(descriptor, $0, $1) } == 0
    }

    private static func peerPort(_ descriptor: Int32) -> UInt16? {
        var address = sockaddr_in.loopback(port: 0)
        guard address.fill({ getpeername(descriptor, $0, $1) }) == 0,
            address.sin_family == sa_family_t(AF_INET)
        else { return nil }
        return UInt16(bigEndian: address.sin_port)
    }
}

/// The port that a socket is bound to.
func ownPort(_ descriptor: Int32) -> UInt16? {
    var address = sockaddr_in.loopback(port: 0)
    guard address.fill({ getsockname(descriptor, $0, $1) }) == 0 else { return nil }
    return UInt16(bigEndian: address.sin_port)
}

/// Starts a program that inherits no descriptor: the library's sockets are not closed on exec, and a
/// copy of one would keep a connection open that its owner has closed.
func spawn(_ program: String, _ arguments: [String]) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for stream in [Int32(0), 1, 2] {
        posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0)
    }
    for descriptor in Int32(3)..<Int32(min(sysconf(Int32(_SC_OPEN_MAX)), 1024)) {
        posix_spawn_file_actions_addclose(&actions, descriptor)
    }
    // The threads on which tests run take no signals, and a child would inherit that.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var list = ([program] + arguments).map { strdup($0) }
    list.append(nil)
    defer { for item in list { free(item) } }
    var variables: [UnsafeMutablePointer<CChar>?] = [nil]
    var pid = pid_t()
    let code = posix_spawn(&pid, program, &actions, &attributes, &list, &variables)
    guard code == 0 else { throw Broker.Failure(description: "\(program): error \(code)") }
    return pid
}

/// Runs a program to its end.
func run(_ program: String, _ arguments: [String]) throws {
    var status: Int32 = 0
    waitpid(try spawn(program, arguments), &status, 0)
    guard status == 0 else {
        throw Broker.Failure(description: "\(program) \(arguments): status \(status)")
    }
}

extension sockaddr_in {
    static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    mutating func with(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        withUnsafePointer(to: &self) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    mutating func fill(
        _ body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> Int32 {
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &self) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, &size) }
        }
    }
}

extension String {
    fileprivate func replacing(_ word: String, by other: String) -> String {
        split(separator: " ", omittingEmptySubsequences: false).map {
            $0.hasPrefix(word) ? other + $0.dropFirst(word.count) : String($0)
        }.joined(separator: " ")
    }
}
