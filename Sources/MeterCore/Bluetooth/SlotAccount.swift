/// How many connections an adapter can hold at a time, as far as is known. Controllers do not say;
/// a refused connection teaches.
package struct SlotAccount: Sendable {
    /// Ordinary adapters manage about 5 to 7, those on a serial line fewer (field reports). One that
    /// manages fewer says so, and one that manages more than is believed cannot.
    package static let ordinary = 7
    package static let serialLine = 4
    private static let forgetsAfter: Duration = .seconds(24 * 3600)

    private let most: Int
    private var learned: (limit: Int, at: MonotonicInstant)?

    /// - Parameter limit: as configured or by the kind of adapter, at least 1.
    package init(limit: Int) { most = max(1, limit) }

    /// The limit now. What was learned is relaxed by one each day.
    package func limit(at now: MonotonicInstant) -> Int {
        guard let learned else { return most }
        let days = Int(max(0, (now - learned.at) / Self.forgetsAfter))
        return min(most, learned.limit + days)
    }

    /// Whether one more connection fits beside `links`.
    package func hasRoom(beside links: Int, at now: MonotonicInstant) -> Bool {
        links < limit(at: now)
    }

    /// The controller refused a connection for lack of room while it held `links`. With none it was
    /// not for lack of room, and nothing is learned.
    package mutating func refused(holding links: Int, at now: MonotonicInstant) {
        guard links > 0, links < limit(at: now) else { return }
        learned = (links, now)
    }

    /// The controller was off: what leaked in it is gone, so one more is tried.
    package mutating func powerCycled(at now: MonotonicInstant) {
        guard learned != nil else { return }
        let limit = limit(at: now) + 1
        learned = limit < most ? (limit, now) : nil
    }
}
