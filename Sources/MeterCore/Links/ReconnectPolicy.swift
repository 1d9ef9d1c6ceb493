/// When to try a meter again (B5): after 1, 2, 4 … 60 s, for ever. After three failures in a row it
/// counts as absent, which changes what people are told and not that it is tried.
package struct ReconnectPolicy: Sendable {
    /// Connections that lasted this long count as a success.
    package static let provenAfter: Duration = .seconds(60)
    private static let longest: Duration = .seconds(60)
    private static let failuresUntilAbsent = 3

    /// Attempts that failed, or connections that broke early, since the last proven one.
    package private(set) var failures = 0
    /// An intentional disconnect holds until an explicit connect (B6).
    package private(set) var isWanted = true

    package init() {}

    /// Nothing was heard in three attempts.
    package var isAbsent: Bool { failures >= Self.failuresUntilAbsent }

    /// An attempt failed or a connection broke. Returns how long to wait, within ±20 %.
    /// - Parameter lasted: how long the connection gave readings; zero when it never did.
    package mutating func failed(
        lasted: Duration, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        if lasted >= Self.provenAfter { failures = 0 }
        failures += 1
        let doubled = Duration.seconds(1 << min(failures - 1, 6))
        return min(doubled, Self.longest) * Double.random(in: 0.8...1.2, using: &generator)
    }

    /// The meter was heard, or its device is back: try now.
    package mutating func heard() { failures = 0 }

    /// Told to disconnect: no attempt until `connect()`.
    package mutating func disconnect() { isWanted = false }

    package mutating func connect() {
        isWanted = true
        failures = 0
    }
}
