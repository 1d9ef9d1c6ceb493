import CLinux
import Glibc
import Synchronization

/// A request from outside by signal.
package enum Signal: Sendable, CaseIterable {
    case terminate, interrupt, hangUp

    package var number: Int32 {
        switch self {
        case .terminate: SIGTERM
        case .interrupt: SIGINT
        case .hangUp: SIGHUP
        }
    }
}

/// Signals as a stream, by a handler that writes the number into a pipe.
///
/// Not `signalfd(2)`, which needs the signals blocked in every thread: as soon as a program's main
/// function awaits something, libdispatch parks the main thread in `sigsuspend(2)` with an empty
/// mask (`dispatch_main`), where a blocked signal is delivered after all and ends the process.
package enum Signals {
    /// Delivers `signals` as a stream while `body` runs, and afterwards restores what they did
    /// before. A signal that was ignored at the start, as `nohup` and shells do it for background
    /// jobs, stays ignored.
    ///
    /// The process has one such scope at a time. The stream ends when the task is cancelled.
    /// - Throws: `Errno` when there is no descriptor left; whatever `body` throws.
    @discardableResult
    package static func withSignals<Value: Sendable>(
        _ signals: [Signal] = [.terminate, .interrupt], on reactor: Reactor,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (AsyncStream<Signal>) async throws -> Value
    ) async throws -> Value {
        var ends: [Int32] = [-1, -1]
        try systemCall { pipe2(&ends, O_CLOEXEC | O_NONBLOCK) }
        let writing = OwnedDescriptor(adopting: ends[1])
        let reading: WatchedDescriptor
        do {
            reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
        } catch {
            writing.close()
            throw error
        }
        let previous = catchSignals(signals, into: writing.number)
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await withThrowingTaskGroup(of: Void.self) { group in
                    // Whoever asks four times says nothing that was not said by the second.
                    let (stream, continuation) = AsyncStream.makeStream(
                        of: Signal.self, bufferingPolicy: .bufferingOldest(4))
                    group.addTask {
                        defer { continuation.finish() }
                        while let bytes = try? await reading.read(upTo: 16) {
                            for byte in bytes {
                                let signal = Signal.allCases.first { $0.number == Int32(byte) }
                                if let signal { continuation.yield(signal) }
                            }
                        }
                    }
                    let value = try await body(stream)
                    group.cancelAll()
                    return value
                })
        } catch {
            result = .failure(error)
        }
        restore(previous)
        reading.close()
        writing.close()
        return try result.get()
    }

    /// Makes writing to a closed pipe or socket an error (EPIPE) instead of the end of the process.
    package static func ignoreBrokenPipes() { _ = signal(SIGPIPE, SIG_IGN) }

    private static func catchSignals(
        _ signals: [Signal], into descriptor: Int32
    ) -> [(number: Int32, action: sigaction)] {
        let (isFree, _) = destination.compareExchange(
            expected: -1, desired: descriptor, ordering: .sequentiallyConsistent)
        precondition(isFree, "signals are caught twice")
        _ = handlersRunning.load(ordering: .relaxed)
        var previous: [(Int32, sigaction)] = []
        for signal in signals {
            var old = sigaction()
            _ = sigaction(signal.number, nil, &old)
            let handler = unsafeBitCast(old.__sigaction_handler.sa_handler, to: Int.self)
            if handler == unsafeBitCast(SIG_IGN, to: Int.self) { continue }
            var action = sigaction()
            action.__sigaction_handler.sa_handler = handleSignal
            action.sa_flags = SA_RESTART
            _ = sigaction(signal.number, &action, nil)
            previous.append((signal.number, old))
        }
        return previous
    }

    private static func restore(_ previous: [(number: Int32, action: sigaction)]) {
        for (number, action) in previous {
            var action = action
            _ = sigaction(number, &action, nil)
        }
        destination.store(-1, ordering: .sequentiallyConsistent)
        // A handler that has read the old number may be about to write to it.
        while handlersRunning.load(ordering: .sequentiallyConsistent) > 0 { sched_yield() }
    }
}

/// Handlers are the process's, and a C function captures nothing: hence these two globals. Both
/// are used before a handler is installed, so that it never runs their initialisers.
private let destination = Atomic<Int32>(-1)
private let handlersRunning = Atomic(0)

/// Runs in a signal handler: atomics and `write(2)` only.
private func handleSignal(_ number: Int32) {
    let saved = errno
    handlersRunning.add(1, ordering: .sequentiallyConsistent)
    let descriptor = destination.load(ordering: .sequentiallyConsistent)
    if descriptor >= 0 {
        var byte = UInt8(truncatingIfNeeded: number)
        _ = write(descriptor, &byte, 1)
    }
    handlersRunning.subtract(1, ordering: .sequentiallyConsistent)
    errno = saved
}
