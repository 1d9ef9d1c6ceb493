/// Something worth a log line, or an event, that happened while a store was opened.
package enum OpeningNote: Sendable, Hashable, CustomStringConvertible {
    /// There was no database; a fresh one was begun.
    case created(path: String)
    /// The tables were brought up to date.
    case migrated(from: Int, to: Int)
    /// The database was damaged, was renamed to `path`, and a fresh one was begun. Sessions,
    /// totals and unsent messages are only in the renamed file.
    case setAside(path: String, reason: String)

    package var description: String {
        switch self {
        case .created(let path):
            "began a new database at \(path)"
        case .migrated(let from, let to):
            "brought the database from version \(from) to \(to)"
        case .setAside(let path, let reason):
            "the database was damaged (\(reason)): it is kept as \(path), and a new one was begun"
        }
    }
}
