/// What the meter shows between sessions, from which a start is judged: nothing plugged in, a
/// device that is full and draws a little, or a standby load.
struct IdleLevel: Sendable {
    /// Below this nothing is plugged in: the meters' offsets are under a milliampere, while full
    /// phones and tablets were seen at 3 mA and more.
    private static let nothing = Microamperes(2_000)
    private static let window: Duration = .seconds(60)
    private static let mostPoints = 64
    private static let longProof: Duration = .seconds(300)

    private var points: [(at: MonotonicInstant, current: Microamperes)] = []
    private var nothingSince: MonotonicInstant?
    /// Charge of the session before, as long as its device has stayed plugged in since; of several
    /// the largest.
    private(set) var chargeBefore: Microcoulombs?
    /// What a full device draws above the stop current, until it has been below the start current for
    /// a minute.
    private var leftOver = Microamperes.zero
    private var lowSince: MonotonicInstant?

    mutating func add(_ reading: Reading) {
        let now = reading.moment.monotonic
        points.removeAll { now - $0.at > Self.window }
        if lowSince.map({ now - $0 >= Self.window }) ?? false { leftOver = .zero }
        if points.last.map({ now - $0.at >= Self.window / Self.mostPoints }) ?? true {
            points.append((now, reading.frame.current))
        }
        lowSince = lowSince ?? now
        guard reading.frame.current < Self.nothing else {
            nothingSince = nil
            return
        }
        let since = nothingSince ?? now
        nothingSince = since
        guard now - since >= .seconds(5) else { return }
        // unplugged: what was there says nothing of what will be
        chargeBefore = nil
        leftOver = .zero
        points.removeAll { $0.at < since }
    }

    /// After a longer silence what was before says nothing of what is: the device may be another. A
    /// link takes up to this to come back.
    static let longestSilence: Duration = .seconds(60)

    mutating func forget() { self = IdleLevel() }

    /// A rise has begun.
    mutating func rose() {
        lowSince = nil
        nothingSince = nil
    }

    /// - Parameter drawing: what the device, full as it is, goes on drawing; zero where that is below
    ///   the stop current.
    mutating func sessionEnded(charge: Microcoulombs, drawing current: Microamperes) {
        points = []
        nothingSince = nil
        (leftOver, lowSince) = (current, nil)
        chargeBefore = max(charge, chargeBefore ?? .zero)
    }

    /// The usual current of the last minute; zero when nothing is plugged in or nothing is known.
    private var standby: Microamperes {
        let sorted = points.map(\.current).sorted()
        guard !sorted.isEmpty else { return leftOver }
        let median = sorted[sorted.count / 2]
        return max(leftOver, median < Self.nothing ? .zero : median)
    }

    /// Whether a rise that fulfils the rules is a session, and not the upkeep of a full device or a
    /// blip of a standby load.
    ///
    /// From nothing it is one at once. A device that was full must take a fifth of what it took
    /// before, at twice what it draws when it is full: top-ups and a phone in use do not. A load that
    /// was there already must come to ten times what it drew and to four times the start current, or
    /// last for five minutes at twice as much. The figures were chosen on ten recorded charges (docs/sessions.md).
    func isSession(_ rise: CurrentRise, _ rules: SessionRules) -> Bool {
        let standby = standby.rawValue
        let mean = rise.meanCurrent.rawValue
        if let chargeBefore {
            return mean >= standby * 2 && rise.charge.rawValue * 5 >= chargeBefore.rawValue
        }
        if standby == 0 { return true }
        return mean >= max(rules.startCurrent.rawValue * 4, standby * 10)
            || rise.duration >= Self.longProof && mean >= standby * 2
    }

    /// Whether a rise has had its time and is no more than a standby load's wavering, so that there
    /// is no use in keeping what it has so far. What follows may be a rise of its own.
    func isStandby(_ rise: CurrentRise) -> Bool {
        rise.duration >= Self.longProof && rise.meanCurrent.rawValue < standby.rawValue * 2
    }
}
