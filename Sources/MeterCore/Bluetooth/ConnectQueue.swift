/// Who may connect next on one adapter: one attempt at a time, since controllers fail when they are
/// asked for two (field reports of noble, bleak and Home Assistant agree).
///
/// A person's request goes first, then whoever has waited a minute, then who was heard a moment ago,
/// then who failed least of late, then who has waited longest. A meter that is switched off thus
/// keeps nobody waiting for longer than its own attempt, gives way to one that is there, and is not
/// starved either.
package struct ConnectQueue: Sendable {
    package struct Request: Sendable, Hashable {
        package let id: Int
        package let peer: PeerAddress
        package let since: MonotonicInstant
        package let isPersons: Bool
        /// It is known to be there, and not tried on the chance that it may be.
        package let isHeard: Bool
    }
    private static let patience: Duration = .seconds(60)
    private static let remembersFor: Duration = .seconds(600)
    /// So long an attempt made on the chance may take while somebody waits who is there.
    private static let chance: Duration = .seconds(1)

    package private(set) var waiting: [Request] = []
    /// The request whose turn it is.
    package private(set) var inFlight: Request?
    private var begun: MonotonicInstant?
    private var failures: [PeerAddress: (count: Int, last: MonotonicInstant)] = [:]
    private var lastID = 0
    private var quietUntil: MonotonicInstant?
    /// Pause after each turn: a link's first exchanges and another connect together are too much
    /// for some adapters.
    private let pause: Duration

    package init(pause: Duration = .zero) { self.pause = pause }

    /// How many wait or have their turn.
    package var count: Int { waiting.count + (inFlight == nil ? 0 : 1) }

    package mutating func enter(
        _ peer: PeerAddress, isPersons: Bool, isHeard: Bool = false, at now: MonotonicInstant
    ) -> Request {
        lastID += 1
        let request = Request(
            id: lastID, peer: peer, since: now, isPersons: isPersons, isHeard: isHeard)
        waiting.append(request)
        return request
    }

    /// Takes a request out that does not wait any more; its turn is not ended by this.
    package mutating func withdraw(_ id: Int) { waiting.removeAll { $0.id == id } }

    /// Empties the queue and ends the turn.
    package mutating func clear() -> [Request] {
        defer {
            waiting = []
            inFlight = nil
        }
        return waiting
    }

    /// When the one whose turn it is has to give it back, since it was tried on the chance and
    /// somebody waits who is there, or a person; `nil` where it may go on.
    package var givesWayAt: MonotonicInstant? {
        guard let inFlight, let begun, !inFlight.isHeard, !inFlight.isPersons,
            waiting.contains(where: { $0.isHeard || $0.isPersons })
        else { return nil }
        return begun + Self.chance
    }

    /// Whose turn would be next; `nil` while somebody has it, in the pause after, and when nobody
    /// waits whom `mayGo` lets go.
    package func next(
        at now: MonotonicInstant, mayGo: (Request) -> Bool = { _ in true }
    ) -> Request? {
        if let quietUntil, now < quietUntil { return nil }
        guard inFlight == nil else { return nil }
        return waiting.filter(mayGo).min { goesBefore($0, $1, at: now) }
    }

    /// When the pause after the last turn ends.
    package func pauseEnd(after now: MonotonicInstant) -> MonotonicInstant? {
        guard let quietUntil, quietUntil > now, !waiting.isEmpty else { return nil }
        return quietUntil
    }

    private func goesBefore(_ a: Request, _ b: Request, at now: MonotonicInstant) -> Bool {
        if a.isPersons != b.isPersons { return a.isPersons }
        let late = (now - a.since >= Self.patience, now - b.since >= Self.patience)
        if late.0 != late.1 { return late.0 }
        if !late.0 {
            if a.isHeard != b.isHeard { return a.isHeard }
            let failed = (recentFailures(of: a.peer, at: now), recentFailures(of: b.peer, at: now))
            if failed.0 != failed.1 { return failed.0 < failed.1 }
        }
        return a.id < b.id
    }

    private func recentFailures(of peer: PeerAddress, at now: MonotonicInstant) -> Int {
        guard let entry = failures[peer], now - entry.last < Self.remembersFor else { return 0 }
        return entry.count
    }

    package mutating func begin(_ request: Request, at now: MonotonicInstant) {
        precondition(inFlight == nil, "two connection attempts on one adapter")
        withdraw(request.id)
        inFlight = request
        begun = now
    }

    /// Ends the turn, if it is still this one's.
    package mutating func end(_ id: Int, at now: MonotonicInstant) {
        guard inFlight?.id == id else { return }
        inFlight = nil
        if pause > .zero { quietUntil = now + pause }
    }

    package mutating func failed(_ peer: PeerAddress, at now: MonotonicInstant) {
        failures = failures.filter { now - $0.value.last < Self.remembersFor }
        failures[peer] = (recentFailures(of: peer, at: now) + 1, now)
    }
    package mutating func succeeded(_ peer: PeerAddress) { failures[peer] = nil }
}
