import MeterCore

extension Store {
    /// Adds messages to the outbox, in this order. One of class `latest` replaces an older one of
    /// the same key, and goes to the end.
    package func enqueue(_ items: [OutboxItem]) throws(StoreError) {
        guard !items.isEmpty else { return }
        try transaction(synced: false) { () throws(StoreError) in
            for item in items { try insert(item) }
        }
    }

    /// The messages that wait to be sent, oldest first.
    package func outbox(limit: Int) throws(StoreError) -> [OutboxRow] {
        try outboxRows(
            """
            SELECT id, key, topic, payload, qos, retain, class, created_ms, attempts, refusal
            FROM outbox WHERE refusal IS NULL ORDER BY id LIMIT ?1
            """, limit)
    }

    /// The messages that the broker will not have, oldest first, with its reasons.
    package func refusedOutbox(limit: Int) throws(StoreError) -> [OutboxRow] {
        try outboxRows(
            """
            SELECT id, key, topic, payload, qos, retain, class, created_ms, attempts, refusal
            FROM outbox WHERE refusal IS NOT NULL ORDER BY id LIMIT ?1
            """, limit)
    }

    /// How many messages wait to be sent.
    package func outboxCount() throws(StoreError) -> Int {
        try rows("SELECT count(*) FROM outbox WHERE refusal IS NULL") { Int($0.integer(0)) }
            .first ?? 0
    }

    /// Forgets messages that the broker has acknowledged. Ids that are gone already are ignored.
    ///
    /// Not synced: a message that a power cut brings back is sent twice, which is harmless (E3).
    package func removeFromOutbox(_ ids: [Int64]) throws(StoreError) {
        try eachOutboxRow(ids, "DELETE FROM outbox WHERE id = ?1")
    }

    /// Counts a try to send messages.
    package func countOutboxAttempt(_ ids: [Int64]) throws(StoreError) {
        try eachOutboxRow(ids, "UPDATE outbox SET attempts = attempts + 1 WHERE id = ?1")
    }

    /// Keeps a message that the broker will not have, but does not offer it any more.
    package func refuseOutbox(_ id: Int64, reason: String) throws(StoreError) {
        try run("UPDATE outbox SET refusal = ?2 WHERE id = ?1", .integer(id), .text(reason))
    }

    /// Offers refused messages again, e.g. after the broker's rights were changed.
    /// - Returns: how many.
    @discardableResult
    package func retryRefusedOutbox() throws(StoreError) -> Int {
        try run("UPDATE outbox SET refusal = NULL WHERE refusal IS NOT NULL")
    }

    // MARK: Within a transaction

    func insert(_ item: OutboxItem) throws(StoreError) {
        if item.class == .latest {
            // Not an update: an acknowledgement for the older message may be on its way, and must
            // not remove this one.
            try run("DELETE FROM outbox WHERE key = ?1 AND class = 'latest'", .text(item.key))
        }
        try run(
            """
            INSERT INTO outbox (key, topic, payload, qos, retain, class, created_ms)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            """,
            .text(item.key), .text(item.message.topic), .blob(item.message.payload),
            .integer(Int64(item.message.qos.rawValue)), .flag(item.message.retain),
            .text(item.class.rawValue), .integer(item.createdAt.milliseconds))
    }

    private func eachOutboxRow(_ ids: [Int64], _ sql: String) throws(StoreError) {
        guard !ids.isEmpty else { return }
        try transaction(synced: false) { () throws(StoreError) in
            for id in ids { try run(sql, .integer(id)) }
        }
    }

    private func outboxRows(_ sql: String, _ limit: Int) throws(StoreError) -> [OutboxRow] {
        try rows(sql, .integer(Int64(max(0, limit)))) { row in
            OutboxRow(
                id: row.integer(0),
                item: OutboxItem(
                    key: row.text(1),
                    message: Message(
                        topic: row.text(2), payload: row.blob(3),
                        qos: row.integer(4) == 0 ? .atMostOnce : .atLeastOnce,
                        retain: row.integer(5) != 0),
                    class: row.text(6) == OutboxItem.Class.latest.rawValue ? .latest : .every,
                    createdAt: WallTime(milliseconds: row.integer(7))),
                attempts: Int(row.integer(8)), refusal: row.optionalText(9))
        }
    }
}
