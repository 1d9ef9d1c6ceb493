/// Which code a meter is paired with, and when guessing stops.
package struct PairingRules: Sendable {
    /// All UM meters leave the factory with it, as do the serial modules in them.
    package static let usualCode = "1234"
    private static let mostFailures = 2

    private var failures: [PeerAddress: Int] = [:]

    package init() {}

    /// A code refused twice is wrong, and more tries can lock a module up.
    package func isParked(_ peer: PeerAddress) -> Bool {
        failures[peer, default: 0] >= Self.mostFailures
    }
    package mutating func refused(_ peer: PeerAddress) { failures[peer, default: 0] += 1 }
    /// Paired, or a person asks anew.
    package mutating func forgive(_ peer: PeerAddress) { failures[peer] = nil }
}
