/// When an adapter scans, and how. Scanning costs the links time on the air, so it does so only as
/// long as something is looked for.
///
/// - All known meters connected: not at all.
/// - Some Bluetooth LE meters missing: the kernel listens for them in the background.
/// - A person looks for meters: active scanning, at last an inquiry for Classic ones.
/// - Meters are adopted by themselves: a short active look now and then.
package struct ScanPolicy: Sendable {
    /// What one discovery of the kernel looks for; the numbers are those of its interface.
    package enum Kind: UInt8, Sendable {
        case classic = 1
        case lowEnergy = 6
    }
    package struct Situation: Sendable {
        /// A turn to connect is waited for or taken.
        package var isConnecting: Bool
        package var hasLinks: Bool
        package var speaksLowEnergy: Bool
        package var speaksClassic: Bool

        package init(
            isConnecting: Bool, hasLinks: Bool, speaksLowEnergy: Bool, speaksClassic: Bool
        ) {
            self.isConnecting = isConnecting
            self.hasLinks = hasLinks
            self.speaksLowEnergy = speaksLowEnergy
            self.speaksClassic = speaksClassic
        }
    }
    /// A discovery of the kernel ends by itself after 10.24 s.
    package static let run: Duration = .milliseconds(10_240)
    /// How much longer an inquiry may go on. Only when it is over does the kernel ask the devices
    /// that answered for their names, one after the other (hci_resolve_next_name in
    /// net/bluetooth/hci_event.c).
    package static let names: Duration = .seconds(6)
    private static let eager: Duration = .seconds(120)
    private static let eagerPause: Duration = .seconds(20)
    private static let pause: Duration = .seconds(120)
    private static let classicPause: Duration = .seconds(600)

    private struct Find {
        /// When it was to be over.
        var until: MonotonicInstant
        /// Where the inquiry begins; `nil` when it was done or is not wanted.
        var classicFrom: MonotonicInstant?
        /// The end of an inquiry that is not finished by `until`.
        var latest: MonotonicInstant

        var end: MonotonicInstant {
            classicFrom == nil ? until : latest
        }
    }
    private let looksAround: Bool
    private let start: MonotonicInstant
    private var find: Find?
    private var lastLook: MonotonicInstant?
    private var lastInquiry: MonotonicInstant?

    /// - Parameter looksAround: whether unknown meters are wanted, too.
    package init(looksAround: Bool, at now: MonotonicInstant) {
        self.looksAround = looksAround
        start = now
    }

    /// Somebody wants to see what is around for this long. An inquiry, for which Classic devices
    /// have to wait, takes the last ten seconds and up to six more for their names; in less than
    /// fifteen seconds it gets half of the time, and names are not asked for.
    package mutating func look(
        for duration: Duration, includingClassic: Bool, at now: MonotonicInstant
    ) {
        let isWhole = duration >= Self.shortestWithNames
        let until = now + duration
        find = Find(
            until: until,
            classicFrom: includingClassic ? until - (isWhole ? Self.run : duration / 2) : nil,
            latest: isWhole ? until + Self.names : until)
    }
    private static let shortestWithNames: Duration = .seconds(15)

    /// Whether what `look` asked for is still going on.
    package func isLooking(at now: MonotonicInstant) -> Bool {
        find.map { now < $0.end } ?? false
    }

    /// Which discovery should run now.
    package func discovery(at now: MonotonicInstant, _ situation: Situation) -> Kind? {
        guard !situation.isConnecting else { return nil }
        if let find, now < find.end {
            if situation.speaksClassic, let from = find.classicFrom,
                now >= from || !situation.speaksLowEnergy
            {
                return .classic
            }
            return situation.speaksLowEnergy && now < find.until ? .lowEnergy : nil
        }
        guard looksAround else { return nil }
        if situation.speaksLowEnergy, now >= nextLook { return .lowEnergy }
        // An inquiry takes the air from the links for seconds.
        if situation.speaksClassic, !situation.hasLinks, now >= nextInquiry { return .classic }
        return nil
    }

    private var nextLook: MonotonicInstant {
        guard let lastLook else { return start }
        return lastLook + (lastLook - start < Self.eager ? Self.eagerPause : Self.pause)
    }
    private var nextInquiry: MonotonicInstant {
        guard let lastInquiry else { return start }
        return lastInquiry + Self.classicPause
    }

    /// A discovery came to its end, or was stopped after it had done most of its work.
    package mutating func ended(_ kind: Kind, at now: MonotonicInstant) {
        switch kind {
        case .lowEnergy: lastLook = now
        case .classic:
            lastInquiry = now
            find?.classicFrom = nil
        }
    }

    /// When the answer may change by itself.
    package func nextChange(after now: MonotonicInstant) -> MonotonicInstant? {
        var times: [MonotonicInstant] = []
        if let find { times += [find.until, find.latest] + (find.classicFrom.map { [$0] } ?? []) }
        if looksAround { times += [nextLook, nextInquiry] }
        return times.filter { $0 > now }.min()
    }
}
