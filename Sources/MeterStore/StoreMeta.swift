extension Store {
    /// A small fact, e.g. the gateway's id.
    package func meta(_ key: String) throws(StoreError) -> String? {
        try rows("SELECT value FROM meta WHERE key = ?1", .text(key)) { $0.text(0) }.first
    }

    /// Keeps a small fact for good; `nil` forgets it.
    package func setMeta(_ key: String, _ value: String?) throws(StoreError) {
        try transaction(synced: true) { () throws(StoreError) in
            if let value {
                try run(
                    """
                    INSERT INTO meta (key, value) VALUES (?1, ?2)
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value
                    """, .text(key), .text(value))
            } else {
                try run("DELETE FROM meta WHERE key = ?1", .text(key))
            }
        }
    }
}
