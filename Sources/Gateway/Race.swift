import MeterCore

/// Waits for bytes until `deadline`; `nil` when there were none. Bytes that come in the very moment
/// of the deadline are returned, not lost.
/// - Throws: `LinkError`; `cancelled` when the task is cancelled.
func receive(
    from link: any Link, until deadline: MonotonicInstant, by clock: any Timekeeper
) async throws(LinkError) -> [UInt8]? {
    try await limited(to: deadline, by: clock) { () async throws(LinkError) in
        try await link.receive()
    }
}

/// Hands bytes over until `deadline`.
/// - Returns: `false` when the link did not take them.
/// - Throws: `LinkError`; `cancelled` when the task is cancelled.
func send(
    _ bytes: [UInt8], over link: any Link, until deadline: MonotonicInstant,
    by clock: any Timekeeper
) async throws(LinkError) -> Bool {
    try await limited(to: deadline, by: clock) { () async throws(LinkError) in
        try await link.send(bytes)
    } != nil
}

/// Does something that can be cancelled, but no longer than until `deadline`; then the result is
/// `nil`.
private func limited<Value: Sendable>(
    to deadline: MonotonicInstant, by clock: any Timekeeper,
    _ body: @escaping @Sendable () async throws(LinkError) -> Value
) async throws(LinkError) -> Value? {
    let result = await withTaskGroup(
        of: Result<Value, LinkError>?.self, returning: Result<Value, LinkError>?.self
    ) { group in
        group.addTask {
            do throws(LinkError) { return .success(try await body()) } catch {
                return .failure(error)
            }
        }
        group.addTask {
            try? await clock.sleep(until: deadline)
            return nil
        }
        let first = await group.next() ?? nil
        group.cancelAll()
        let second = await group.next() ?? nil
        if let first { return first }
        // the deadline came first; what it cancelled has nothing to say
        if case .failure(let error) = second, error.category == .cancelled { return nil }
        return second
    }
    if Task.isCancelled { throw .cancelled }
    return try result?.get()
}
