/// Whether an adapter is to blame for what goes wrong. One success clears it; four failures within
/// five minutes, or two requests that the kernel left unanswered, convict it.
package struct AdapterSuspicion: Sendable {
    private static let window: Duration = .seconds(300)
    private static let enough = 4
    private static let unansweredEnough = 2

    private var failures: [MonotonicInstant] = []
    /// Requests to the kernel without an answer, since the last answer.
    package private(set) var unanswered = 0

    package init() {}

    /// A failure that the adapter can have caused: an error of the adapter's own, or no connection
    /// to a meter that was heard a moment ago, or silence where there were reports.
    package mutating func failed(at now: MonotonicInstant) {
        failures = failures.filter { now - $0 < Self.window } + [now]
        failures = failures.suffix(Self.enough)
    }
    package mutating func leftUnanswered(at now: MonotonicInstant) {
        unanswered += 1
        failed(at: now)
    }
    /// The kernel answers for this adapter.
    package mutating func answered() { unanswered = 0 }
    /// A connection was made or a device heard.
    package mutating func cleared() { failures = [] }

    package func score(at now: MonotonicInstant) -> Int {
        failures.filter { now - $0 < Self.window }.count
    }
    /// The kernel does not answer for this adapter any more.
    package var isMute: Bool { unanswered >= Self.unansweredEnough }
    package func isConvicted(at now: MonotonicInstant) -> Bool {
        isMute || score(at: now) >= Self.enough
    }
}
