import CMosquitto
import Glibc
import MeterCore
import Synchronization

/// A thread of our own, for the calls of the library that wait: name look-up, connecting, `select`.
///
/// It is detached and nobody joins it, which would block the joiner; its end is awaited instead.
final class NetworkThread: Sendable {
    private enum State {
        case running
        case awaited(CheckedContinuation<Void, Never>)
        case ended
    }
    private let state = Mutex(State.running)

    private final class Start {
        let thread: NetworkThread
        let body: @Sendable () -> Void
        init(_ thread: NetworkThread, _ body: @escaping @Sendable () -> Void) {
            self.thread = thread
            self.body = body
        }
    }

    /// Starts `body` on a new thread.
    /// - Throws: `LinkError` when the system gives no more threads.
    init(_ body: @escaping @Sendable () -> Void) throws(LinkError) {
        let start = Unmanaged.passRetained(Start(self, body))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        var identifier = pthread_t()
        let code = pthread_create(
            &identifier, &attributes,
            { pointer in
                guard let pointer else { return nil }
                NetworkThread.run(Unmanaged<Start>.fromOpaque(pointer).takeRetainedValue())
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            throw LinkError(
                .transient, "cannot start the thread for MQTT (\(String(cString: strerror(code))))",
                advice: "raise the limit of tasks for this service")
        }
    }

    private static func run(_ start: Start) {
        pthread_setname_np(pthread_self(), "mqtt")
        // The process's signals are for others. SIGPIPE belongs to the thread that writes, and here
        // is the only one that writes to the broker: the library guards plain sockets since 2.0.15
        // and ignores the signal for the whole process before, but never guards TLS.
        var signals = sigset_t()
        sigfillset(&signals)
        for fault in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT] {
            sigdelset(&signals, fault)
        }
        pthread_sigmask(SIG_BLOCK, &signals, nil)

        start.body()
        start.thread.state.withLock { state -> CheckedContinuation<Void, Never>? in
            defer { state = .ended }
            if case .awaited(let continuation) = state { return continuation }
            return nil
        }?.resume()
    }

    /// Returns when the body has returned. To be called once; pays no heed to cancellation.
    func ended() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if case .ended = state { return true }
                state = .awaited(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
