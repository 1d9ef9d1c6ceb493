import CSQLite
import Glibc

/// Why the store did not do what was asked. When an operation throws, nothing of it has happened.
package struct StoreError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Named by what can be done about it.
    package enum Kind: String, Sendable, CaseIterable {
        /// No room on the file system. Works again by itself once there is.
        case full
        /// The file, or its file system, cannot be written; or the store was opened read-only.
        case readOnly
        /// The file is damaged. Closing the store and opening it again checks it as a whole, sets
        /// it aside when it is bad, and begins a fresh one.
        case corrupt
        /// One record cannot be understood, although the file as such is sound.
        case damagedRecord
        /// Another program held the database for longer than we wait.
        case busy
        /// Another agent runs on the same data directory.
        case inUse
        /// The disk failed.
        case io
        /// The user may not read or write there.
        case permission
        /// There is no database yet.
        case missing
        /// Written by a later version of this program. It was left as it is.
        case newerVersion
        /// Written by an earlier version, and opened read-only, so that it cannot be brought up to
        /// date.
        case olderVersion
        /// A database, but not one of this program. It was left as it is.
        case foreign
        /// The store has been closed.
        case closed
        /// Anything else, which is a fault of this program.
        case unexpected
    }

    package var kind: Kind
    /// What happened, one sentence without a full stop.
    package var message: String
    /// What a person can do about it; empty when nothing needs doing.
    package var advice: String

    package init(_ kind: Kind, _ message: String, advice: String = "") {
        self.kind = kind
        self.message = message
        self.advice = advice
    }

    package var description: String { advice.isEmpty ? message : "\(message): \(advice)" }
}

extension StoreError {
    /// Says what SQLite's error means for the database file at `path`.
    init(_ error: SQLiteError, at path: String) {
        // A shared-memory file that cannot grow is reported as an I/O error.
        if error.primary == SQLITE_FULL || [ENOSPC, EDQUOT].contains(error.systemError) {
            self.init(
                .full, "no room to write \(path)",
                advice: "free some space there; recording goes on by itself")
            return
        }
        switch error {
        case SQLITE_READONLY where error.systemError == EROFS:
            self.init(
                .readOnly, "\(path) is on a file system that is mounted read-only",
                advice: "a card that fails is often remounted so: look at 'dmesg'")
        case SQLITE_READONLY:
            self.init(
                .readOnly, "\(path) cannot be written (\(error.message))",
                advice: "check the owner of the file and of its folder")
        case SQLITE_CORRUPT, SQLITE_NOTADB:
            self.init(
                .corrupt, "\(path) is damaged (\(error.message))",
                advice: "restart the agent, which sets the file aside and begins a fresh one")
        case SQLITE_BUSY, SQLITE_LOCKED:
            self.init(
                .busy, "another program is using \(path)",
                advice: "close other programs that have the database open")
        case SQLITE_CANTOPEN where [EACCES, EPERM].contains(error.systemError),
            SQLITE_PERM, SQLITE_AUTH:
            self = .permission(for: path)
        case SQLITE_IOERR, SQLITE_CANTOPEN:
            self.init(
                .io,
                "\(path) cannot be read or written (\(error.message), code \(error.code)"
                    + (error.systemError == 0 ? "" : ", \(systemMessage(error.systemError))") + ")",
                advice: "check the disk or card: look at 'dmesg'")
        default:
            self.init(
                .unexpected, "the database refused a statement: \(error)",
                advice: "please report this")
        }
    }

    static func permission(for path: String) -> Self {
        Self(
            .permission, "no permission for \(path)",
            advice: "run this as the user that owns it, or choose another data directory")
    }

    /// Says what the `errno` of a system call means.
    init(system code: Int32, doing what: String, to path: String) {
        switch code {
        case EACCES, EPERM: self = .permission(for: path)
        case ENOSPC, EDQUOT:
            self.init(.full, "cannot \(what) \(path): no room", advice: "free some space there")
        case EROFS:
            self.init(
                .readOnly, "cannot \(what) \(path): the file system is mounted read-only",
                advice: "choose another data directory")
        case ENOTDIR, EEXIST:
            self.init(
                .permission, "cannot \(what) \(path): a part of the path is a file",
                advice: "choose another data directory")
        default:
            self.init(
                .io, "cannot \(what) \(path): \(systemMessage(code))",
                advice: "check the path and the disk")
        }
    }
}

/// The text of an `errno`, e.g. `No space left on device`.
private func systemMessage(_ code: Int32) -> String {
    String(cString: strerror(code))
}
