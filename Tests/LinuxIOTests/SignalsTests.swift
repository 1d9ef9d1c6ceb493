import Glibc
import LinuxIO
import Testing

/// Signals belong to the whole process: one test at a time.
@Suite(.serialized, .timeLimit(.minutes(2))) struct SignalsTests {
    /// The main thread of a test run waits in `sigsuspend` like that of any async program, so this
    /// also shows that signals arrive there.
    @Test func aSignalArrivesEachTime() async throws {
        _ = signal(SIGHUP, SIG_DFL)
        try await Reactor.withReactor { reactor in
            try await Signals.withSignals([.hangUp], on: reactor) { stream in
                var signals = stream.makeAsyncIterator()
                for _ in 0..<3 {
                    kill(getpid(), SIGHUP)
                    #expect(await signals.next() == .hangUp)
                }
            }
        }
    }

    @Test func whatASignalDidIsRestored() async throws {
        _ = signal(SIGHUP, SIG_DFL)
        try await Reactor.withReactor { reactor in
            try await Signals.withSignals([.hangUp], on: reactor) { _ in
                let handler = try disposition(of: SIGHUP)
                #expect(handler > 1)
            }
        }
        #expect(try disposition(of: SIGHUP) == 0)
    }

    @Test func anIgnoredSignalStaysIgnored() async throws {
        _ = signal(SIGHUP, SIG_IGN)
        try await Reactor.withReactor { reactor in
            try await Signals.withSignals([.hangUp], on: reactor) { _ in
                let handler = try disposition(of: SIGHUP)
                #expect(handler == 1)
                kill(getpid(), SIGHUP)
            }
        }
        _ = signal(SIGHUP, SIG_DFL)
    }

    @Test func theStreamEndsWhenTheTaskIsCancelled() async throws {
        try await Reactor.withReactor { reactor in
            let waiting = Task {
                try await Signals.withSignals([.hangUp], on: reactor) { stream in
                    for await _ in stream {}
                    return Task.isCancelled
                }
            }
            waiting.cancel()
            let wasCancelled = try await waiting.value
            #expect(wasCancelled)
        }
    }

    @Test func aBrokenPipeIsAnError() async throws {
        Signals.ignoreBrokenPipes()
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        OwnedDescriptor(adopting: ends[0]).close()
        let writer = LineWriter(descriptor: ends[1])
        #expect(throws: Errno(EPIPE)) { try writer.write("into nothing") }
        OwnedDescriptor(adopting: ends[1]).close()
    }

    /// 0 is the default, 1 ignores, anything else is a handler.
    private func disposition(of number: Int32) throws -> Int {
        var action = sigaction()
        try systemCall { sigaction(number, nil, &action) }
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
    }
}
