package import MeterCore

extension Store {
    /// A chunk grows to this many bytes, some 800 samples of a UM25C. With its row around it, it
    /// then just fits one page of 4,096; at half the size, a third of each page would stay empty.
    static let bytesPerChunk = 4_000
    /// How finely a long stretch is cut where it does not fit.
    private static let samplesPerCut = 64

    /// The curve of a session, in order; empty for one that is not known.
    /// - Throws: `damagedRecord` when a part of it cannot be read.
    package func samples(of id: SessionID) throws(StoreError) -> [Sample] {
        let chunks = try rows(
            """
            SELECT sequence, payload FROM sample_chunks
            WHERE session = (SELECT number FROM sessions WHERE id = ?1) ORDER BY sequence
            """, .text(id.description)
        ) { (sequence: $0.integer(0), payload: $0.blob(1)) }
        var result: [Sample] = []
        for chunk in chunks {
            do throws(SampleCodecError) {
                result += try SampleCodec.decode(chunk.payload)
            } catch {
                throw StoreError(
                    .damagedRecord,
                    "part \(chunk.sequence) of the curve of session \(id) cannot be read: \(error)",
                    advice: "its receipt is sound; delete the session if the curve does not matter")
            }
        }
        return result
    }

    // MARK: Within a transaction

    /// Adds samples that are later than those stored. The last chunk grows until it is full, so
    /// that the curve is never in small pieces, and each batch rewrites one page.
    func add(_ samples: [Sample], to session: Int64) throws(StoreError) {
        let last = try rows(
            """
            SELECT sequence, last_offset_ms, payload FROM sample_chunks
            WHERE session = ?1 ORDER BY sequence DESC LIMIT 1
            """, .integer(session)
        ) { (sequence: $0.integer(0), offset: $0.integer(1), payload: $0.blob(2)) }.first

        var fresh: [Sample] = []
        var reached = last?.offset
        for sample in samples where reached.map({ sample.offset > $0 }) ?? true {
            fresh.append(sample)
            reached = sample.offset
        }
        guard !fresh.isEmpty else { return }

        var sequence = last?.sequence ?? 0
        var chunk: [Sample] = []
        if let last {
            if let stored = try? SampleCodec.decode(last.payload) {
                chunk = stored
            } else {
                // Left for whoever can read it; the curve goes on behind it.
                sequence += 1
            }
        }
        var isWritten = true
        for start in stride(from: 0, to: fresh.count, by: Self.samplesPerCut) {
            let more = fresh[start..<min(start + Self.samplesPerCut, fresh.count)]
            if !chunk.isEmpty, !fits(chunk + more) {
                if !isWritten { try write(chunk, as: sequence, of: session) }
                sequence += 1
                chunk = []
            }
            chunk += more
            isWritten = false
        }
        try write(chunk, as: sequence, of: session)
    }

    private func fits(_ samples: [Sample]) -> Bool {
        samples.count <= SampleCodec.maximumCount
            && SampleCodec.encode(samples).count <= Self.bytesPerChunk
    }

    /// Drops samples later than `offset`.
    func trim(_ session: Int64, after offset: Int64) throws(StoreError) {
        try run(
            "DELETE FROM sample_chunks WHERE session = ?1 AND first_offset_ms > ?2",
            .integer(session), .integer(offset))
        let cut = try rows(
            "SELECT sequence, payload FROM sample_chunks WHERE session = ?1 AND last_offset_ms > ?2",
            .integer(session), .integer(offset)
        ) { (sequence: $0.integer(0), payload: $0.blob(1)) }
        for chunk in cut {
            guard let samples = try? SampleCodec.decode(chunk.payload) else { continue }
            try write(samples.filter { $0.offset <= offset }, as: chunk.sequence, of: session)
        }
    }

    private func write(
        _ samples: [Sample], as sequence: Int64, of session: Int64
    ) throws(StoreError) {
        guard let first = samples.first, let last = samples.last else { return }
        try run(
            """
            INSERT INTO sample_chunks (
                session, sequence, first_offset_ms, last_offset_ms, count, payload)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (session, sequence) DO UPDATE SET
                first_offset_ms = excluded.first_offset_ms,
                last_offset_ms = excluded.last_offset_ms,
                count = excluded.count, payload = excluded.payload
            """,
            .integer(session), .integer(sequence), .integer(first.offset), .integer(last.offset),
            .integer(Int64(samples.count)), .blob(SampleCodec.encode(samples)))
    }
}
