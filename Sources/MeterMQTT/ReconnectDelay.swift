import MeterCore

/// How long to wait before the next try: half a second, doubled after each failure up to a minute,
/// times a random share, so that a house full of gateways does not knock at the same moment.
struct ReconnectDelay {
    static let first = Duration.milliseconds(500)
    static let longest = Duration.seconds(60)
    /// A connection that held this long was a good one: the next failure is a new trouble.
    static let goodConnection = Duration.seconds(30)

    private var next = first

    /// The pause after one more failure.
    /// - Parameters:
    ///   - connected: how long the connection had held that has now ended; `nil` if there was none.
    ///   - share: from 0.5 to 1.
    /// - Returns: how long to wait.
    mutating func afterFailure(connected: Duration?, share: Double) -> Duration {
        if let connected, connected >= Self.goodConnection { next = Self.first }
        defer { next = min(next * 2, Self.longest) }
        return next * share
    }
}
