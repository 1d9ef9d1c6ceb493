/// When to try a meter again (B5): after 1, 2, 4 … 60 s, for ever, or as soon as it is heard. After
/// three failures in a row it counts as absent, which changes what people are told and not that it
/// is tried.
package struct ReconnectPolicy: Sendable {
    /// What to do after a failure.
    package struct Wait: Sendable, Equatable {
        /// For how long, within ±20 %.
        package var delay: Duration
        /// A sign of the meter ends the wait, if the meter gave none for this long before; `nil`:
        /// no sign does.
        package var silence: Duration?
    }

    /// Connections that lasted this long count as a success.
    package static let provenAfter: Duration = .seconds(60)
    private static let longest: Duration = .seconds(60)
    private static let failuresUntilAbsent = 3
    /// A meter that is there advertises several times in that time.
    private static let silence: Duration = .seconds(3)
    /// What looks like no meter can be one whose bytes are out of step, which a new link cures.
    private static let quickMismatches = 2
    /// Between further attempts at what answers and is not a meter.
    private static let firstPatience: Duration = .seconds(60)
    private static let longestPatience: Duration = .seconds(960)

    /// Attempts that failed, or connections that broke early, since the last proven one.
    package private(set) var failures = 0
    /// An intentional disconnect holds until an explicit connect (B6).
    package private(set) var isWanted = true
    /// Of those failures the last ones that found no meter at the other end.
    private var mismatches = 0
    /// The attempt under way was made since the meter was heard.
    private var isHurried = false
    /// One that is heard and cannot be connected is tried at once only once.
    private var mayHurry = true

    package init() {}

    /// Nothing was heard in three attempts.
    package var isAbsent: Bool { failures >= Self.failuresUntilAbsent }

    /// An attempt failed or a connection broke.
    /// - Parameters:
    ///   - category: why.
    ///   - lasted: how long the connection gave readings; zero when it never did.
    package mutating func failed(
        _ category: FaultCategory, lasted: Duration,
        using generator: inout some RandomNumberGenerator
    ) -> Wait {
        if lasted >= Self.provenAfter { failures = 0 }
        failures += 1
        mismatches = category == .incompatible && lasted == .zero ? mismatches + 1 : 0
        if lasted > .zero || category == .absent {
            mayHurry = true
        } else if isHurried {
            mayHurry = false
        }
        isHurried = false
        var delay = min(Duration.seconds(1 << min(failures - 1, 6)), Self.longest)
        if mismatches > Self.quickMismatches {
            let doublings = min(mismatches - Self.quickMismatches - 1, 6)
            delay = min(Self.firstPatience * (1 << doublings), Self.longestPatience)
        }
        return Wait(
            delay: delay * Double.random(in: 0.8...1.2, using: &generator),
            silence: silence(before: category, lasted))
    }

    private func silence(before category: FaultCategory, _ lasted: Duration) -> Duration? {
        guard mayHurry else { return nil }
        if lasted > .zero { return .zero }
        switch category {
        case .absent, .transient, .busyElsewhere, .noSlot, .adapter: return Self.silence
        // It is there and of no use: that it can be heard is nothing new.
        case .silent, .incompatible, .pairing, .permission, .configuration, .bug, .cancelled:
            return nil
        }
    }

    /// The meter was heard, or its device is back: it is tried now.
    package mutating func heard() {
        failures = 0
        isHurried = true
    }

    /// Told to disconnect: no attempt until `connect()`.
    package mutating func disconnect() { isWanted = false }

    package mutating func connect() {
        isWanted = true
        failures = 0
    }
}
