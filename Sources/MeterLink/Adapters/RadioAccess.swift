package import MeterCore

/// What a link needs from whoever owns the adapters: a turn to connect, and the reason when a link
/// falls.
package protocol RadioAccess: Sendable {
    /// Waits for a turn on an adapter (queue, slots, scanning paused) and lends the address of that
    /// adapter to `body`, which makes the connection; the turn ends when `body` returns or throws.
    /// - Throws: `LinkError` of category adapter, noSlot, permission or cancelled; what `body`
    ///   throws.
    func withTurn<R: Sendable>(
        for peer: PeerAddress,
        _ body: @escaping @Sendable (_ adapter: MeterAddress) async throws -> R
    ) async throws -> R

    /// Tells how the attempt or link went, for slot learning, suspicion and the doctor.
    func connectionEnded(
        _ peer: PeerAddress, on adapter: MeterAddress, _ error: LinkError?) async

    /// Waits until `peer` is heard by any adapter; see `Transport.sign`.
    func sign(
        of peer: PeerAddress, since: MonotonicInstant, afterSilence silence: Duration,
        until deadline: MonotonicInstant
    ) async -> Bool

    /// What `peer` last called itself in the air; `nil` when no name was heard.
    func advertisedName(of peer: PeerAddress) async -> String?

    /// The kernel's reason for the last disconnect of `peer`, joined with the socket's error for at
    /// most 500 ms.
    func disconnectReason(
        _ peer: PeerAddress, on adapter: MeterAddress
    ) async -> DisconnectReason?
}
