import Glibc
import LinuxIO

/// Runs something that ends well when asked to: the first SIGTERM or SIGINT is the request, a second
/// one ends the process at once (A3).
///
/// `body` gets a function that returns when the stop is requested.
func withStopRequest<Result: Sendable>(
    on reactor: Reactor,
    _ body:
        @escaping @Sendable (_ untilStopped: @escaping @Sendable () async -> Void) async throws
        -> Result
) async throws -> Result {
    try await Signals.withSignals(on: reactor) { signals in
        // nothing is sent: its end is the message
        let (requests, request) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask {
                let result = try await body { for await _ in requests {} }
                return .some(result)
            }
            var isStopping = false
            group.addTask {
                for await signal in signals {
                    if isStopping { _exit(128 + signal.number) }
                    isStopping = true
                    request.finish()
                }
                return nil
            }
            while let finished = try await group.next() {
                guard let result = finished else { continue }
                group.cancelAll()
                return result
            }
            throw CancellationError()
        }
    }
}
