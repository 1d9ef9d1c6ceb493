import MeterCore

/// When a meter counts as online: from its first believed frame until nothing has been heard of it
/// for half a minute. A link that opens is no meter yet, and one that drops for seconds is no outage
/// that a dashboard should flap for.
struct Availability: Sendable {
    let patience: Duration
    private var lastHeard: MonotonicInstant?
    private(set) var isOnline = false

    init(pollInterval: Duration) { patience = max(.seconds(30), pollInterval * 3) }

    /// - Returns: whether it has just come online.
    mutating func heard(at now: MonotonicInstant) -> Bool {
        lastHeard = now
        defer { isOnline = true }
        return !isOnline
    }

    /// - Returns: whether it has just gone offline.
    mutating func timePassed(to now: MonotonicInstant) -> Bool {
        guard isOnline, let lastHeard, now - lastHeard > patience else { return false }
        isOnline = false
        return true
    }
}
