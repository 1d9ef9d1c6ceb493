/// Which code a meter is paired with, and when guessing stops.
package struct PairingRules: Sendable {
    /// All UM meters leave the factory with it, as do the serial modules in them.
    package static let usualCode = "1234"
    private static let mostFailures = 2
    /// The radio can be to blame for a refusal, so that it is tried anew at length.
    private static let parkedFor: Duration = .seconds(3_600)

    private var failures: [PeerAddress: (count: Int, last: MonotonicInstant)] = [:]

    package init() {}

    /// A code refused twice is wrong, and more tries can lock a module up; for an hour.
    package func isParked(_ peer: PeerAddress, at now: MonotonicInstant) -> Bool {
        guard let failures = failures[peer] else { return false }
        return failures.count >= Self.mostFailures && now - failures.last < Self.parkedFor
    }
    package mutating func refused(_ peer: PeerAddress, at now: MonotonicInstant) {
        // Once parked, the next refusals are counted anew.
        let before = isParked(peer, at: now) || now - (failures[peer]?.last ?? now) < Self.parkedFor
        failures[peer] = ((before ? failures[peer]?.count ?? 0 : 0) + 1, now)
    }
    /// Paired, or a person asks anew.
    package mutating func forgive(_ peer: PeerAddress) { failures[peer] = nil }
}
