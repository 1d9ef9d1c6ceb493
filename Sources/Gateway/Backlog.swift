import MeterCore

/// What one meter's recorder has and the store does not have yet: the newest samples of the session
/// that runs, and sessions that are complete. Bounded, since a disk may stay full for weeks; of what
/// is too much the oldest goes, curves before receipts.
struct Backlog: Sendable {
    struct Session: Sendable {
        var summary: SessionSummary
        var samples: [Sample]
    }

    /// Ten hours at one a second, some 3 MB.
    static let mostSamples = 36_000
    /// Receipts take some 1 KB each.
    static let mostSessions = 1_000

    /// Of the session that runs.
    private(set) var samples: [Sample] = []
    /// Oldest first.
    private(set) var completed: [Session] = []
    /// Given up since `takeLosses`.
    private var lostSamples = 0
    private var lostSessions = 0
    private var completedSamples = 0

    var isEmpty: Bool { samples.isEmpty && completed.isEmpty }

    mutating func add(_ new: [Sample]) {
        samples += new
        shorten()
    }

    /// The session that runs is over.
    /// - Returns: the sessions that were given up for it.
    mutating func complete(_ summary: SessionSummary) -> [SessionSummary] {
        completedSamples += samples.count
        completed.append(Session(summary: summary, samples: samples))
        samples = []
        let excess = max(0, completed.count - Self.mostSessions)
        let victims = completed.prefix(excess)
        for victim in victims { lost(victim.samples.count) }
        lostSessions += excess
        completed.removeFirst(excess)
        return victims.map(\.summary)
    }

    /// A completed session is stored, with its samples.
    mutating func stored(at index: Int) {
        completedSamples -= completed.remove(at: index).samples.count
    }

    /// The samples of the running session are stored.
    mutating func samplesStored() { samples = [] }

    /// What to say of that which could not be kept, once; empty when all could.
    mutating func takeLosses() -> String {
        defer { (lostSamples, lostSessions) = (0, 0) }
        return (lostSessions > 0 ? "; \(lostSessions) sessions are lost" : "")
            + (lostSamples > 0 ? "; \(lostSamples) samples are lost" : "")
    }

    private mutating func shorten() {
        guard samples.count + completedSamples > Self.mostSamples else { return }
        if let index = completed.firstIndex(where: { !$0.samples.isEmpty }) {
            lost(completed[index].samples.count)
            completed[index].samples = []
        } else {
            // some more than needed, so that it is not done anew for each sample
            let excess = samples.count - Self.mostSamples * 9 / 10
            samples.removeFirst(excess)
            lostSamples += excess
        }
    }

    private mutating func lost(_ count: Int) {
        lostSamples += count
        completedSamples -= count
    }
}
