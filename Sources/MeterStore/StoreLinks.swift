package import MeterCore

/// How the link to a meter is, for those who ask without being connected to it.
package struct LinkState: Sendable, Hashable {
    package var meter: MeterAddress
    package var name: String
    /// As in `ConnectionState`.
    package var state: String
    package var since: WallTime
    /// Why it is down, by category; `nil` while it is up.
    package var cause: String?
    /// What was seen, and what to do about it.
    package var evidence: String?
}

/// What the store keeps of links.
extension Store {
    /// Notes a meter that was adopted, so that it is connected after a restart before it is heard.
    package func adopt(
        _ meter: Adoption.Adopted, at time: WallTime
    ) throws(StoreError) {
        try run(
            """
            INSERT INTO meters (address, name, model, first_seen_ms, last_seen_ms, bluetooth, adopted)
            VALUES (?1, ?2, ?3, ?4, ?4, ?5, 1)
            ON CONFLICT (address) DO UPDATE SET
                name = excluded.name, model = coalesce(excluded.model, model),
                bluetooth = excluded.bluetooth, adopted = 1
            """,
            .text(meter.peer.address.compact), .text(meter.name), .optional(meter.model?.rawValue),
            .integer(time.milliseconds), .text(meter.peer.kind.word))
    }

    /// The meters that were adopted, in the order of their addresses.
    package func adoptedMeters() throws(StoreError) -> [Adoption.Adopted] {
        try rows(
            """
            SELECT address, name, model, bluetooth FROM meters
            WHERE adopted = 1 AND bluetooth IS NOT NULL ORDER BY address
            """
        ) { row -> Adoption.Adopted? in
            guard let address = MeterAddress(row.text(0)),
                let kind = PeerAddress.Kind(word: row.text(3))
            else { return nil }
            return Adoption.Adopted(
                peer: PeerAddress(address: address, kind: kind), name: row.text(1),
                model: row.optionalText(2).flatMap { MeterModel(rawValue: $0) })
        }.compactMap { $0 }
    }

    /// The kind of Bluetooth on which a meter was last heard or reached.
    package func bluetoothKind(of meter: MeterAddress) throws(StoreError) -> PeerAddress.Kind? {
        try rows("SELECT bluetooth FROM meters WHERE address = ?1", .text(meter.compact)) { row in
            row.optionalText(0).flatMap { PeerAddress.Kind(word: $0) }
        }.first ?? nil
    }

    /// Notes on which kind of Bluetooth a meter is.
    package func rememberBluetoothKind(
        _ kind: PeerAddress.Kind, of meter: MeterAddress, named name: String
    ) throws(StoreError) {
        try run(
            """
            INSERT INTO meters (address, name, bluetooth) VALUES (?1, ?2, ?3)
            ON CONFLICT (address) DO UPDATE SET bluetooth = excluded.bluetooth
                WHERE bluetooth IS NOT excluded.bluetooth
            """,
            .text(meter.compact), .text(name), .text(kind.word))
    }

    /// The RFCOMM channel that worked for a meter.
    package func channel(of meter: MeterAddress) throws(StoreError) -> UInt8? {
        try rows("SELECT channel FROM meters WHERE address = ?1", .text(meter.compact)) { row in
            row.optionalInteger(0).flatMap { UInt8(exactly: $0) }
        }.first ?? nil
    }

    package func rememberChannel(
        _ channel: UInt8?, of meter: MeterAddress
    ) throws(StoreError) {
        try run(
            "UPDATE meters SET channel = ?2 WHERE address = ?1", .text(meter.compact),
            channel.map { .integer(Int64($0)) } ?? .null)
    }

    /// Notes how the link to a meter is. A meter that was never seen gets a row.
    package func rememberLinkState(
        _ state: ConnectionState, of meter: MeterAddress, named name: String,
        cause: String?, evidence: String?, at time: WallTime
    ) throws(StoreError) {
        try run(
            """
            INSERT INTO meters (address, name, state, state_since_ms, cause, evidence)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (address) DO UPDATE SET
                state = excluded.state, state_since_ms = excluded.state_since_ms,
                cause = excluded.cause, evidence = excluded.evidence
            """,
            .text(meter.compact), .text(name), .text(state.rawValue),
            .integer(time.milliseconds), .optional(cause), .optional(evidence))
    }

    /// How the links of all meters were, as last noted.
    package func linkStates() throws(StoreError) -> [LinkState] {
        try rows(
            """
            SELECT address, name, state, state_since_ms, cause, evidence FROM meters
            WHERE state IS NOT NULL ORDER BY name
            """
        ) { row in
            MeterAddress(row.text(0)).map { address in
                LinkState(
                    meter: address, name: row.text(1), state: row.text(2),
                    since: WallTime(milliseconds: row.integer(3)), cause: row.optionalText(4),
                    evidence: row.optionalText(5))
            }
        }.compactMap { $0 }
    }
}

extension PeerAddress.Kind {
    fileprivate var word: String {
        switch self {
        case .classic: "classic"
        case .lePublic: "lePublic"
        case .leRandom: "leRandom"
        }
    }
    fileprivate init?(word: String) {
        guard let kind = Self.allCases.first(where: { $0.word == word }) else { return nil }
        self = kind
    }
}
