import LinuxIO
import MeterCore

/// Runs `body` for `limit` by `clock` at most; then it is cancelled. `nil` when it did not finish; what
/// it finishes in the very moment is returned.
/// - Throws: what `body` throws; `Errno.cancelled` when the task is cancelled.
func within<Value: Sendable>(
    _ limit: Duration, by clock: any Timekeeper,
    _ body: @escaping @Sendable () async throws(Errno) -> Value
) async throws(Errno) -> Value? {
    let deadline = clock.now + limit
    let result = await withTaskGroup(
        of: Result<Value, Errno>?.self, returning: Result<Value, Errno>?.self
    ) { group in
        group.addTask {
            do throws(Errno) { return .success(try await body()) } catch { return .failure(error) }
        }
        group.addTask {
            try? await clock.sleep(until: deadline)
            return nil
        }
        let first = await group.next() ?? nil
        group.cancelAll()
        let second = await group.next() ?? nil
        if let first { return first }
        if case .failure(.cancelled) = second, !Task.isCancelled { return nil }
        return second
    }
    return try result?.get()
}
