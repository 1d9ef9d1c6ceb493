import MeterCore
import MeterStore

/// The messages that tell of a completed session, for the outbox. `session/last` is none of them: like
/// other states it is published again after each connection, and after a restart from the store.
struct SessionMessages {
    /// Retained summaries a meter: the broker keeps them in memory and sends them to every new
    /// subscriber.
    static let retainedSummaries = 50

    let topics: Topics

    /// What is to be published of a session, in this order. When its meter has enough retained
    /// summaries, that of the oldest makes room.
    func outbox(
        _ summary: SessionSummary, at time: WallTime, knownTo store: Store
    ) async throws(StoreError) -> [OutboxItem] {
        var items: [OutboxItem] = []
        if let expired = try await expired(by: summary, store) {
            items.append(item(topics.session(expired.meter, expired.id), text: "", time))
        }
        let text = Payloads.session(summary)
        items.append(item(topics.session(summary.meter, summary.id), text: text, time))
        return items
    }

    private func expired(
        by summary: SessionSummary, _ store: Store
    ) async throws(StoreError) -> SessionSummary? {
        let kept = Self.retainedSummaries
        do throws(StoreError) {
            let known = try await store.sessions(
                meter: summary.meter, limit: kept, includeRunning: false)
            return known.count < kept ? nil : known.last
        } catch  where error.kind == .damagedRecord {
            // A receipt among them that cannot be read must not keep this one from being stored. The
            // broker has one summary too many until then.
            return nil
        }
    }

    private func item(_ topic: String, text: String, _ time: WallTime) -> OutboxItem {
        OutboxItem(
            key: topic,
            message: Message(topic: topic, text: text, qos: .atLeastOnce, retain: true),
            class: .latest, createdAt: time)
    }
}
