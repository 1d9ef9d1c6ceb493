package import MeterCore

extension Store {
    // MARK: Recording

    /// Notes that a session has begun.
    package func begin(_ summary: SessionSummary) throws(StoreError) {
        try transaction(synced: false) { () throws(StoreError) in
            _ = try save(summary)
        }
    }

    /// Adds to the curve of a running session and keeps its figures so far, so that it can go on
    /// after a restart. Begins the session if it is not known.
    ///
    /// Samples that are not later than those stored are taken for repeated and left out. Nothing
    /// happens to a session that is completed already, except that `totals`, those of its meter, are
    /// raised.
    package func append(
        _ samples: [Sample], progress summary: SessionSummary, totals: LifetimeTotals? = nil
    ) throws(StoreError) {
        precondition(summary.endedAt == nil, "append is for running sessions")
        try transaction(synced: syncsBatches) { () throws(StoreError) in
            if let totals { try saveLifetimeTotals(totals, of: summary.meter) }
            guard let number = try save(summary) else { return }
            try add(samples, to: number)
        }
    }

    /// Completes a session, or stores a later revision of a completed one, all in one transaction:
    /// its receipt, the end of its curve, its meter's totals, and the messages that tell of it.
    /// When it returns, all of that survives a power cut.
    ///
    /// A session that is completed here already is only replaced by a higher revision (D6).
    /// - Parameters:
    ///   - summary: with its end.
    ///   - samples: those that were not appended yet.
    ///   - totals: of the session's meter, never lowered.
    ///   - items: what is to be published, in this order.
    ///   - endOffset: samples later than this are dropped, since a session ends when the current
    ///     fell and not when that was known (C5).
    /// - Returns: `false` when the same or a later revision was known and nothing was changed.
    /// - Throws: any `StoreError`; then the session is as it was before.
    @discardableResult
    package func finish(
        _ summary: SessionSummary, remaining samples: [Sample] = [],
        totals: LifetimeTotals? = nil, outbox items: [OutboxItem] = [], endOffset: Int64? = nil
    ) throws(StoreError) -> Bool {
        precondition(summary.endedAt != nil, "a session that is finished has an end")
        return try transaction(synced: true) { () throws(StoreError) in
            guard let number = try save(summary) else { return false }
            try add(samples, to: number)
            if let endOffset { try trim(number, after: endOffset) }
            if let totals { try saveLifetimeTotals(totals, of: summary.meter) }
            for item in items { try insert(item) }
            return true
        }
    }

    /// Drops the samples of a session that are later than `offset`, in milliseconds since its first
    /// sample.
    package func truncateSamples(
        of id: SessionID, after offset: Int64
    ) throws(StoreError) {
        try transaction(synced: false) { () throws(StoreError) in
            if let number = try number(of: id) { try trim(number, after: offset) }
        }
    }

    /// Forgets a running session that turned out to be none. A completed one is left alone.
    package func discard(_ id: SessionID) throws(StoreError) {
        try run("DELETE FROM sessions WHERE id = ?1 AND ended_ms IS NULL", .text(id.description))
    }

    /// Deletes a session with its curve, and puts what is to be published about that into the
    /// outbox, in one transaction.
    /// - Returns: `false` when it was not known; then the outbox is not touched either.
    @discardableResult
    package func delete(
        _ id: SessionID, outbox items: [OutboxItem] = []
    ) throws(StoreError) -> Bool {
        try transaction(synced: true) { () throws(StoreError) in
            guard try run("DELETE FROM sessions WHERE id = ?1", .text(id.description)) > 0
            else { return false }
            for item in items { try insert(item) }
            return true
        }
    }

    // MARK: Reading

    /// The sessions that had no end when the agent stopped, oldest first.
    package func openSessions() throws(StoreError) -> [SessionSummary] {
        try summaries(
            rows(
                "SELECT receipt FROM sessions WHERE ended_ms IS NULL ORDER BY started_ms"
            ) { $0.blob(0) })
    }

    /// Sessions, newest first: those of one meter or of all, that started at `since` or later and
    /// before `until`, at most `limit`.
    package func sessions(
        meter: MeterAddress? = nil, since: WallTime? = nil, until: WallTime? = nil,
        limit: Int? = nil, includeRunning: Bool = true
    ) throws(StoreError) -> [SessionSummary] {
        let from = Value.integer(since?.milliseconds ?? .min)
        let to = Value.integer(until?.milliseconds ?? .max)
        let running = Value.flag(includeRunning)
        let most = Value.integer(limit.map { Int64(max(0, $0)) } ?? -1)
        guard let meter else {
            return try summaries(
                rows(Self.listing, from, to, running, most) { $0.blob(0) })
        }
        return try summaries(
            rows(Self.listingOfMeter, from, to, running, most, .text(meter.compact)) {
                $0.blob(0)
            })
    }

    static let listing = """
        SELECT receipt FROM sessions
        WHERE started_ms >= ?1 AND started_ms < ?2 AND (?3 OR ended_ms IS NOT NULL)
        ORDER BY started_ms DESC, id DESC LIMIT ?4
        """
    static let listingOfMeter = """
        SELECT receipt FROM sessions
        WHERE meter = ?5
            AND started_ms >= ?1 AND started_ms < ?2 AND (?3 OR ended_ms IS NOT NULL)
        ORDER BY started_ms DESC, id DESC LIMIT ?4
        """

    package func session(_ id: SessionID) throws(StoreError) -> SessionSummary? {
        try summaries(
            rows("SELECT receipt FROM sessions WHERE id = ?1", .text(id.description)) {
                $0.blob(0)
            }
        ).first
    }

    /// The sessions whose ids begin with `prefix`, in either case, by id.
    package func sessions(
        withIDPrefix prefix: String
    ) throws(StoreError) -> [SessionSummary] {
        let prefix = prefix.lowercased()
        // `~` sorts after all characters of an id.
        return try summaries(
            rows(
                "SELECT receipt FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY id",
                .text(prefix), .text(prefix + "~")
            ) { $0.blob(0) })
    }

    /// The completed session of a meter that started last.
    package func lastSession(of meter: MeterAddress) throws(StoreError) -> SessionSummary? {
        try sessions(meter: meter, limit: 1, includeRunning: false).first
    }

    private func summaries(_ receipts: [[UInt8]]) throws(StoreError) -> [SessionSummary] {
        var result: [SessionSummary] = []
        result.reserveCapacity(receipts.count)
        for receipt in receipts { result.append(try decodedSummary(receipt)) }
        return result
    }

    func number(of id: SessionID) throws(StoreError) -> Int64? {
        try rows("SELECT number FROM sessions WHERE id = ?1", .text(id.description)) {
            $0.integer(0)
        }.first
    }

    // MARK: Within a transaction

    /// Stores the row of a session, if it is newer than what is there.
    /// - Returns: the number of the row, `nil` when the row was left as it is.
    private func save(_ summary: SessionSummary) throws(StoreError) -> Int64? {
        let known = try rows(
            "SELECT number, ended_ms, revision FROM sessions WHERE id = ?1",
            .text(summary.id.description)
        ) { (number: $0.integer(0), isRunning: $0.optionalInteger(1) == nil, $0.integer(2)) }.first
        if let (_, isRunning, revision) = known, !isRunning {
            guard summary.endedAt != nil, summary.revision > revision else { return nil }
        }
        try run(
            "INSERT INTO meters (address, name, model) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            .text(summary.meter.compact), .text(summary.meterName), .text(summary.model.rawValue))
        let indexed: [Value] = [
            .text(summary.meter.compact), .integer(summary.startedAt.milliseconds),
            .optional(summary.endedAt?.milliseconds),
        ]
        let others: [Value] = [
            .optional(summary.label), .integer(summary.durationMilliseconds),
            .integer(summary.energy.rawValue), .integer(summary.charge.rawValue),
            .integer(summary.peakPower.rawValue), .integer(Int64(summary.revision)),
            .text(try encoded(summary)),
        ]
        guard let number = known?.number else {
            try run(
                """
                INSERT INTO sessions (
                    id, meter, started_ms, ended_ms, label, duration_ms,
                    energy_uj, charge_uc, peak_power_uw, revision, receipt)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                """, [.text(summary.id.description)] + indexed + others)
            return lastInsertedRow
        }
        try run(
            """
            UPDATE sessions SET
                label = ?2, duration_ms = ?3, energy_uj = ?4, charge_uc = ?5,
                peak_power_uw = ?6, revision = ?7, receipt = ?8
            WHERE number = ?1
            """, [.integer(number)] + others)
        // Apart, since naming them makes SQLite write three indices anew, with each batch.
        try run(
            """
            UPDATE sessions SET meter = ?2, started_ms = ?3, ended_ms = ?4
            WHERE number = ?1 AND (meter, started_ms, ended_ms) IS NOT (?2, ?3, ?4)
            """, [.integer(number)] + indexed)
        return number
    }
}
