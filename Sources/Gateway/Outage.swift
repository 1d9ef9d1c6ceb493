import MeterCore

/// Says once that something is away and once that it is back, with a count, however often it is
/// tried in between.
struct Outage: Sendable {
    /// A loss shows itself in more than one way at first: the connection breaks, then nobody
    /// answers. Only another cause that comes up after this is worth a line.
    static let settling: Duration = .seconds(60)

    private var since: MonotonicInstant?
    private var attempts = 0
    private var told: Set<String> = []
    private static let mostCauses = 5

    /// It failed. Returns the line to log: at the first failure, and once for each further cause
    /// that comes up while it lasts.
    /// - Parameter cause: what makes two reasons the same, e.g. their category; otherwise `reason`.
    mutating func failed(
        _ reason: String, cause: String? = nil, at now: MonotonicInstant
    ) -> String? {
        attempts += 1
        let start = since ?? now
        let isFirst = since == nil
        since = start
        guard isFirst || now - start >= Self.settling,
            told.count < Self.mostCauses, told.insert(cause ?? reason).inserted
        else { return nil }
        return reason
    }

    /// It works. Returns what to say about the outage; `nil` when there was none.
    mutating func ended(at now: MonotonicInstant) -> String? {
        defer { self = Outage() }
        guard let since else { return nil }
        let seconds = Int((now - since).inSeconds.rounded())
        return "back after \(seconds) s and \(attempts) \(attempts == 1 ? "failure" : "failures")"
    }
}
