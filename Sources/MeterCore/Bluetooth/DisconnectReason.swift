/// Why a Bluetooth connection ended, as the kernel's management interface tells it.
package enum DisconnectReason: UInt8, Sendable, CaseIterable {
    case unspecified = 0
    /// Nothing was heard of the other side for the agreed time: range, interference, power.
    case supervisionTimeout = 1
    /// This computer ended it: one of its programs, or the adapter going off.
    case localHost = 2
    case remote = 3
    case authenticationFailed = 4
    case localSuspend = 5
}
