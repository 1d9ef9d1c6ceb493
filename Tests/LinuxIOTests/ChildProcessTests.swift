import Glibc
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct ChildProcessTests {
    private func shell<Value: Sendable>(
        _ script: String, environment: [String: String]? = nil,
        output: ChildProcess.Output = .pipe, on reactor: Reactor,
        _ body: (ChildProcess) async throws -> Value
    ) async throws -> Value {
        try await ChildProcess.withChildProcess(
            "sh", ["-c", script], environment: environment, output: output, errors: .discarded,
            stopWithin: .milliseconds(300), on: reactor, body)
    }

    private func everything(from child: ChildProcess) async throws -> String {
        let output = try #require(child.output)
        var bytes: [UInt8] = []
        while true {
            let next = try await output.read()
            if next.isEmpty { return String(decoding: bytes, as: UTF8.self) }
            bytes += next
        }
    }

    @Test func theExitSaysHowItEnded() async throws {
        try await Reactor.withReactor { reactor in
            try await shell("exit 3", on: reactor) { child in
                let exits = [try await child.exit(), try await child.exit()]
                #expect(exits == [.code(3), .code(3)])
                child.signal(SIGTERM)
            }
            try await shell("kill -9 $$", on: reactor) { child in
                let exit = try await child.exit()
                #expect(exit == .signal(9))
            }
        }
    }

    @Test func outputAndEnvironmentPassThrough() async throws {
        try await Reactor.withReactor { reactor in
            let environment = ["WORD": "a b", "PATH": "/usr/bin:/bin"]
            let text = try await shell("echo \"$WORD\"; env", environment: environment, on: reactor)
            {
                try await everything(from: $0)
            }
            let lines = text.split(separator: "\n")
            #expect(lines.first == "a b")
            #expect(lines.contains("PATH=/usr/bin:/bin"))
            #expect(!lines.contains { $0.hasPrefix("HOME=") })
        }
    }

    @Test func theChildHasDefaultSignalsAndNoneOfOurFiles() async throws {
        Signals.ignoreBrokenPipes()
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            // Deliberately without O_CLOEXEC.
            try #require(pipe(&ends) == 0)
            let script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd"
            let text = try await shell(script, on: reactor) { try await everything(from: $0) }
            for end in ends { OwnedDescriptor(adopting: end).close() }
            let lines = text.split(separator: "\n").map(String.init)
            #expect(lines.contains("SigBlk:\t0000000000000000"))
            // 32 and 33 are glibc's own, which it never hands over.
            let ignored = try #require(lines.first { $0.hasPrefix("SigIgn:\t") }?.dropFirst(8))
            let mask = try #require(UInt64(ignored, radix: 16))
            #expect(mask & 0x7fff_ffff == 0)
            // 3 is the folder that ls itself has open.
            #expect(lines.suffix(4) == ["0", "1", "2", "3"])
        }
    }

    @Test func theEndOfTheScopeEndsTheProgramAndWhatItStarted() async throws {
        try await Reactor.withReactor { reactor in
            let processIDs = try await shell("sleep 1000 & echo $! $$; wait", on: reactor) {
                child in
                let output = try #require(child.output)
                return String(decoding: try await output.read(), as: UTF8.self)
                    .split { $0.isWhitespace }.compactMap { Int32($0) }
            }
            #expect(processIDs.count == 2)
            for id in processIDs { #expect(try await eventually { isGone(id) }) }
        }
    }

    @Test func aProgramThatIgnoresTheRequestIsKilled() async throws {
        try await Reactor.withReactor { reactor in
            let id = try await shell(
                "trap '' TERM; echo on; while :; do sleep 1; done", on: reactor
            ) {
                child in
                _ = try await child.output?.read()
                return child.processID
            }
            #expect(isGone(id))
        }
    }

    @Test func cancellationEndsTheProgramToo() async throws {
        try await Reactor.withReactor { reactor in
            let (stream, continuation) = AsyncStream.makeStream(of: Int32.self)
            let task = Task {
                try await shell("sleep 1000", on: reactor) { child in
                    continuation.yield(child.processID)
                    _ = try await child.exit()
                }
            }
            var ids = stream.makeAsyncIterator()
            let id = try #require(await ids.next())
            task.cancel()
            await #expect(throws: Errno.cancelled) { try await task.value }
            #expect(isGone(id))
        }
    }

    @Test func outputIsAppendedToAFile() async throws {
        try await withTemporaryFolder { folder in
            try await Reactor.withReactor { reactor in
                for word in ["one", "two"] {
                    try await shell("echo \(word)", output: .file(folder + "/log"), on: reactor) {
                        _ = try await $0.exit()
                    }
                }
            }
            #expect(try text(of: folder + "/log") == "one\ntwo\n")
        }
    }

    @Test func aMissingProgramIsAnErrorWithAdvice() async throws {
        try await Reactor.withReactor { reactor in
            await #expect(
                throws: SystemError(
                    "cannot start no-such-program", Errno(ENOENT), advice: "install it")
            ) {
                try await ChildProcess.withChildProcess(
                    "no-such-program", stopWithin: .seconds(1), on: reactor
                ) { _ in }
            }
        }
    }

    /// Gone and reaped, so that not even a zombie answers.
    private func isGone(_ id: Int32) -> Bool {
        // An orphan is reaped by init a little later; it no longer runs either way.
        guard kill(id, 0) == 0, let status = try? text(of: "/proc/\(id)/stat") else { return true }
        return status.contains(") Z ")
    }
}
