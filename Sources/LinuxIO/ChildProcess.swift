import CLinux
import Glibc
import Synchronization

/// A program that runs as long as a scope. Wraps `posix_spawn(3)` and `pidfd_open(2)`.
package final class ChildProcess: Sendable {
    /// How it ended.
    package enum Exit: Hashable, Sendable, CustomStringConvertible {
        case code(Int32)
        case signal(Int32)

        package var description: String {
            switch self {
            case .code(let code): "exit code \(code)"
            case .signal(let number): "signal \(number)"
            }
        }
    }

    /// Where what it prints goes.
    package enum Output: Sendable {
        case inherited
        case discarded
        /// Appends; makes the file.
        case file(String)
        /// To `output` here. Whoever asks for it must read it: the program stops when 64 KB wait.
        case pipe
    }

    package let processID: Int32
    /// What comes through `.pipe`, from standard output and errors alike; `nil` without one. It
    /// ends, with an empty read, when nobody has the other end open any more.
    package let output: WatchedDescriptor?
    private let handle: WatchedDescriptor
    private let knownExit = Mutex<Exit?>(nil)

    private init(processID: Int32, output: WatchedDescriptor?, handle: WatchedDescriptor) {
        self.processID = processID
        self.output = output
        self.handle = handle
    }

    /// Starts a program, runs `body` with it and ends it, if it has not ended by itself: SIGTERM
    /// to it and whatever it has started, SIGKILL when that took longer than `limit`. Also when
    /// `body` throws or the task is cancelled.
    ///
    /// The program gets a process group of its own, no input, none of our descriptors, and all
    /// signals as they are by default, whatever is blocked or ignored here.
    /// `program` is a path, or a name to be looked up in `PATH`; `environment` is the whole of it,
    /// and `nil` passes ours on.
    /// - Throws: `SystemError` when it cannot be started; whatever `body` throws. That the program
    ///   failed is no error here: see `exit`.
    @discardableResult
    package static func withChildProcess<Value: Sendable>(
        _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        output: Output = .inherited, errors: Output = .inherited, stopWithin limit: Duration,
        on reactor: Reactor, isolation: isolated (any Actor)? = #isolation,
        _ body: (ChildProcess) async throws -> Value
    ) async throws -> Value {
        let child: ChildProcess
        do throws(Errno) {
            child = try start(program, arguments, environment, output, errors, on: reactor)
        } catch {
            throw SystemError(
                "cannot start \(program)", error,
                advice: error.code == ENOENT ? "install it" : "")
        }
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(child))
        } catch {
            result = .failure(error)
        }
        await withoutCancellation { await child.stop(within: limit) }
        child.output?.close()
        child.handle.close()
        return try result.get()
    }

    /// Waits until the program has ended. What it has started and left behind in its process group
    /// is killed then. One task may wait at a time; asking again gives the same answer.
    /// - Throws: `.cancelled` when the task is.
    package func exit() async throws(Errno) -> Exit {
        try await handle.whenReadable { (_) throws(Errno) in
            guard let exit = try reap() else { throw Errno(EAGAIN) }
            return exit
        }
    }

    /// Sends a signal to the program and whatever it has started; none when it has ended.
    package func signal(_ number: Int32) {
        // Until it is reaped, which happens under the same lock, the number is not used again.
        knownExit.withLock { exit in
            if exit == nil { _ = kill(-processID, number) }
        }
    }

    private func reap() throws(Errno) -> Exit? {
        try knownExit.withLock { known throws(Errno) in
            if let known { return known }
            var information = siginfo_t()
            try systemCall {
                waitid(P_PID, id_t(processID), &information, WEXITED | WNOHANG | WNOWAIT)
            }
            guard information.si_signo == SIGCHLD else { return nil }
            _ = kill(-processID, SIGKILL)
            var status: Int32 = 0
            try systemCall { waitpid(processID, &status, 0) }
            // wait(2): the low seven bits are the signal, the next byte the exit code.
            let exit: Exit = status & 0x7f == 0 ? .code(status >> 8 & 0xff) : .signal(status & 0x7f)
            known = exit
            return exit
        }
    }

    private func stop(within limit: Duration) async {
        signal(SIGTERM)
        let hasEnded = await withTaskGroup(of: Bool.self) { group in
            group.addTask { (try? await self.exit()) != nil }
            group.addTask {
                try? await Task.sleep(for: limit)
                return false
            }
            let first = await group.next() ?? false
            group.cancelAll()
            return first
        }
        if hasEnded { return }
        signal(SIGKILL)
        do throws(Errno) {
            _ = try await exit()
        } catch {
            preconditionFailure("a killed process cannot be waited for: \(error)")
        }
    }

    // MARK: - Starting

    private static func start(
        _ program: String, _ arguments: [String], _ environment: [String: String]?,
        _ output: Output, _ errors: Output, on reactor: Reactor
    ) throws(Errno) -> ChildProcess {
        var ends: [Int32] = []
        if output.isPipe || errors.isPipe {
            ends = [-1, -1]
            try systemCall { pipe2(&ends, O_CLOEXEC) }
        }
        let processID: Int32
        do throws(Errno) {
            processID = try spawn(
                [program] + arguments, environment, output, errors, pipe: ends.last)
        } catch {
            for end in ends { OwnedDescriptor(adopting: end).close() }
            throw error
        }
        do throws(Errno) {
            var reading: WatchedDescriptor?
            if !ends.isEmpty {
                OwnedDescriptor(adopting: ends[1]).close()
                reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
            }
            do throws(Errno) {
                let handle = try WatchedDescriptor(
                    OwnedDescriptor(adopting: try systemCall { pidfd_open(processID, 0) }),
                    on: reactor)
                return ChildProcess(processID: processID, output: reading, handle: handle)
            } catch {
                reading?.close()
                throw error
            }
        } catch {
            _ = kill(-processID, SIGKILL)
            try systemCall { waitpid(processID, nil, 0) }
            throw error
        }
    }

    private static func spawn(
        _ command: [String], _ environment: [String: String]?, _ output: Output,
        _ errors: Output, pipe: Int32?
    ) throws(Errno) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for (target, output) in [(1, output), (2, errors)] as [(Int32, Output)] {
            switch output {
            case .inherited: break
            case .discarded:
                posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_WRONLY, 0)
            case .file(let path):
                posix_spawn_file_actions_addopen(
                    &actions, target, path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
            case .pipe:
                if let pipe { posix_spawn_file_actions_adddup2(&actions, pipe, target) }
            }
        }
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var arguments = command.map { strdup($0) } + [nil]
        var variables = (environment ?? [:]).map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var processID: pid_t = 0
        let code = variables.withUnsafeMutableBufferPointer { variables in
            posix_spawnp(
                &processID, command[0], &actions, &attributes, &arguments,
                environment == nil ? linux_environment() : variables.baseAddress)
        }
        if code != 0 { throw Errno(code) }
        return processID
    }
}

extension ChildProcess.Output {
    fileprivate var isPipe: Bool {
        if case .pipe = self { true } else { false }
    }
}
