import MeterCore

/// The publishes of one connection: a bounded number that the broker has and we wait for, the rest
/// in the order in which they came.
///
/// `Waiter` is whoever is to be told.
struct PublishWindow<Waiter: Sendable>: Sendable {
    /// The broker has at most this many of ours at once.
    static var limit: Int { 20 }
    /// This many without acknowledgement may be on their way to the socket. It only fills up when
    /// the broker reads nothing.
    static var offerLimit: Int { 200 }

    /// A publish that waits to be handed over.
    struct Turn: Sendable {
        var ticket: UInt64
        var message: Message
        var waiter: Waiter
    }

    /// A publish that was handed over.
    struct Flight: Sendable {
        var ticket: UInt64
        var topic: String
        var since: MonotonicInstant
        /// `nil` once it has given up. The broker has the message all the same, so the place in the
        /// window stays taken.
        var waiter: Waiter?
    }

    private var turns = FIFO<Turn>()
    /// By the library's message identifier.
    private var flights: [Int32: Flight] = [:]
    private var offers = 0
    private(set) var droppedOffers = 0

    /// How many the broker has, and how many wait for their turn.
    var load: (inFlight: Int, waiting: Int) { (flights.count, turns.count) }

    mutating func queue(_ turn: Turn) { turns.append(turn) }

    /// The next to hand over, if there is room; `sent` must follow unless that fails.
    mutating func nextTurn() -> Turn? {
        flights.count < Self.limit ? turns.popFirst() : nil
    }

    mutating func sent(_ turn: Turn, as identifier: Int32, at now: MonotonicInstant) {
        let earlier = flights.updateValue(
            Flight(
                ticket: turn.ticket, topic: turn.message.topic, since: now, waiter: turn.waiter),
            forKey: identifier)
        precondition(earlier == nil, "the library gave two messages in flight the same identifier")
    }

    /// Whether an offer may be handed over; counts it as dropped if not.
    mutating func hasRoomForOffer() -> Bool {
        if offers < Self.offerLimit { return true }
        droppedOffers += 1
        return false
    }

    mutating func sentOffer() { offers += 1 }

    /// Takes out what the library reports as done; `nil` when it was an offer.
    mutating func settle(_ identifier: Int32) -> Flight? {
        if let flight = flights.removeValue(forKey: identifier) { return flight }
        offers = max(0, offers - 1)
        return nil
    }

    /// Forgets a waiter that has given up, together with its message if that is still here.
    mutating func giveUp(_ ticket: UInt64) -> Waiter? {
        if let turn = turns.remove(where: { $0.ticket == ticket }) { return turn.waiter }
        guard let identifier = flights.first(where: { $0.value.ticket == ticket })?.key
        else { return nil }
        defer { flights[identifier]?.waiter = nil }
        return flights[identifier]?.waiter
    }

    /// When the oldest was handed over that is not yet settled.
    var oldest: MonotonicInstant? { flights.values.lazy.map(\.since).min() }

    /// Ends with the connection: what it knew of the wire is void, and all who wait are returned.
    mutating func clear() -> [Waiter] {
        var waiters = flights.values.sorted { $0.ticket < $1.ticket }.compactMap(\.waiter)
        flights = [:]
        offers = 0
        while let turn = turns.popFirst() { waiters.append(turn.waiter) }
        return waiters
    }
}
