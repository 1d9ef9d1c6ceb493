/// The tables, and how they came to be. docs/database.md says what each column means.
struct Schema: Sendable {
    /// `USBM`, in the header of each database of ours.
    static let applicationID = 0x5553_424d

    /// Step `n` brings a database of version `n` to `n + 1`. Steps that were released never change.
    var migrations: [String]

    var version: Int { migrations.count }

    static let current = Schema(migrations: [first, second])

    /// Brings a database up to date, each step in a transaction of its own: after a crash or an
    /// error it has the version that it says it has.
    func migrate(_ connection: Connection, from version: Int) throws(SQLiteError) {
        for (index, step) in migrations.enumerated() where index >= version {
            try connection.execute("BEGIN IMMEDIATE")
            do throws(SQLiteError) {
                try connection.execute(step)
                try connection.execute(
                    """
                    PRAGMA application_id = \(Self.applicationID);
                    PRAGMA user_version = \(index + 1);
                    COMMIT
                    """)
            } catch {
                if connection.isInTransaction { try? connection.execute("ROLLBACK") }
                throw error
            }
        }
    }

    private static let first = """
        CREATE TABLE meta (
            key TEXT PRIMARY KEY NOT NULL,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE meters (
            address TEXT PRIMARY KEY NOT NULL CHECK (length(address) = 12),
            name TEXT NOT NULL,
            model TEXT,
            first_seen_ms INTEGER,
            last_seen_ms INTEGER,
            lifetime_energy_uj INTEGER NOT NULL DEFAULT 0,
            lifetime_charge_uc INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE sessions (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE CHECK (length(id) = 36),
            meter TEXT NOT NULL REFERENCES meters (address),
            label TEXT,
            started_ms INTEGER NOT NULL,
            ended_ms INTEGER,
            duration_ms INTEGER NOT NULL,
            energy_uj INTEGER NOT NULL,
            charge_uc INTEGER NOT NULL,
            peak_power_uw INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            receipt TEXT NOT NULL
        ) STRICT;
        CREATE INDEX sessions_by_time ON sessions (started_ms, id);
        CREATE INDEX sessions_by_meter ON sessions (meter, started_ms, id);
        CREATE INDEX sessions_running ON sessions (started_ms) WHERE ended_ms IS NULL;

        CREATE TABLE sample_chunks (
            session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
            sequence INTEGER NOT NULL,
            first_offset_ms INTEGER NOT NULL,
            last_offset_ms INTEGER NOT NULL,
            count INTEGER NOT NULL,
            payload BLOB NOT NULL,
            PRIMARY KEY (session, sequence)
        ) STRICT;

        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            topic TEXT NOT NULL,
            payload BLOB NOT NULL,
            qos INTEGER NOT NULL CHECK (qos IN (0, 1)),
            retain INTEGER NOT NULL CHECK (retain IN (0, 1)),
            class TEXT NOT NULL CHECK (class IN ('latest', 'every')),
            created_ms INTEGER NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            refusal TEXT
        ) STRICT;
        CREATE UNIQUE INDEX outbox_latest ON outbox (key) WHERE class = 'latest';
        """

    /// How a meter is reached over Bluetooth, and what was last wrong with its link.
    private static let second = """
        ALTER TABLE meters ADD COLUMN bluetooth TEXT
            CHECK (bluetooth IN ('classic', 'lePublic', 'leRandom'));
        ALTER TABLE meters ADD COLUMN channel INTEGER CHECK (channel BETWEEN 1 AND 30);
        ALTER TABLE meters ADD COLUMN adopted INTEGER NOT NULL DEFAULT 0
            CHECK (adopted IN (0, 1));
        ALTER TABLE meters ADD COLUMN state TEXT;
        ALTER TABLE meters ADD COLUMN state_since_ms INTEGER;
        ALTER TABLE meters ADD COLUMN cause TEXT;
        ALTER TABLE meters ADD COLUMN evidence TEXT;
        """
}
