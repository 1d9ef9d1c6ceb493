package import MeterCore

/// A meter that has been seen here.
package struct KnownMeter: Sendable, Hashable {
    package var address: MeterAddress
    package var name: String
    /// `nil` until a frame has told.
    package var model: MeterModel?
    /// `nil` when only its totals or its sessions are known.
    package var firstSeenAt: WallTime?
    package var lastSeenAt: WallTime?
    package var totals: LifetimeTotals

    package init(
        address: MeterAddress, name: String, model: MeterModel?, firstSeenAt: WallTime?,
        lastSeenAt: WallTime?, totals: LifetimeTotals
    ) {
        self.address = address
        self.name = name
        self.model = model
        self.firstSeenAt = firstSeenAt
        self.lastSeenAt = lastSeenAt
        self.totals = totals
    }
}
