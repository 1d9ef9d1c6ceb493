package import MeterCore

extension Store {
    /// Notes that a meter was seen, under which name and as which model. What is `nil` stays as it
    /// was.
    package func rememberMeter(
        _ address: MeterAddress, name: String, model: MeterModel?, seenAt: WallTime
    ) throws(StoreError) {
        try run(
            """
            INSERT INTO meters (address, name, model, first_seen_ms, last_seen_ms)
            VALUES (?1, ?2, ?3, ?4, ?4)
            ON CONFLICT (address) DO UPDATE SET
                name = excluded.name,
                model = coalesce(excluded.model, model),
                first_seen_ms = coalesce(first_seen_ms, excluded.first_seen_ms),
                last_seen_ms = excluded.last_seen_ms
            """,
            .text(address.compact), .text(name), .optional(model?.rawValue),
            .integer(seenAt.milliseconds))
    }

    /// All meters that were ever seen or have sessions, by address.
    package func meters() throws(StoreError) -> [KnownMeter] {
        try rows(
            """
            SELECT address, name, model, first_seen_ms, last_seen_ms,
                lifetime_energy_uj, lifetime_charge_uc
            FROM meters ORDER BY address
            """
        ) { row in
            MeterAddress(row.text(0)).map { address in
                KnownMeter(
                    address: address, name: row.text(1),
                    model: row.optionalText(2).flatMap { MeterModel(rawValue: $0) },
                    firstSeenAt: row.optionalInteger(3).map { WallTime(milliseconds: $0) },
                    lastSeenAt: row.optionalInteger(4).map { WallTime(milliseconds: $0) },
                    totals: LifetimeTotals(
                        energy: Microjoules(row.integer(5)), charge: Microcoulombs(row.integer(6)))
                )
            }
        }.compactMap { $0 }
    }

    /// What has flowed through a meter; zero for one that is not known.
    package func lifetimeTotals(of meter: MeterAddress) throws(StoreError) -> LifetimeTotals {
        try rows(
            "SELECT lifetime_energy_uj, lifetime_charge_uc FROM meters WHERE address = ?1",
            .text(meter.compact)
        ) { row in
            LifetimeTotals(
                energy: Microjoules(row.integer(0)), charge: Microcoulombs(row.integer(1)))
        }.first ?? LifetimeTotals()
    }

    /// Raises the totals of a meter. One that is lower than what is stored stays as it is (C9).
    package func saveLifetimeTotals(
        _ totals: LifetimeTotals, of meter: MeterAddress
    ) throws(StoreError) {
        try run(
            """
            INSERT INTO meters (address, name, lifetime_energy_uj, lifetime_charge_uc)
            VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (address) DO UPDATE SET
                lifetime_energy_uj = max(lifetime_energy_uj, excluded.lifetime_energy_uj),
                lifetime_charge_uc = max(lifetime_charge_uc, excluded.lifetime_charge_uc)
            """,
            .text(meter.compact), .text(meter.description), .integer(totals.energy.rawValue),
            .integer(totals.charge.rawValue))
    }
}
