import Glibc
import MeterCore

/// The folder of one agent, and the names in it.
struct DataDirectory: Sendable {
    let path: String

    var database: String { path + "/usbmeter.db" }
    /// Held by the agent that writes here.
    var lock: String { path + "/usbmeter.lock" }
    /// There when SQLite has found the database damaged while it was in use.
    var suspicion: String { database + ".suspect" }

    /// Makes the folder, and those above it, where they are missing.
    ///
    /// The last one gets mode 0750, so that members of the agent's group may list sessions and
    /// nobody else sees when somebody is at home.
    func create() throws(StoreError) {
        var reached = ""
        let parts = path.split(separator: "/", omittingEmptySubsequences: true)
        for (index, part) in parts.enumerated() {
            reached += (index > 0 || path.hasPrefix("/") ? "/" : "") + part
            guard mkdir(reached, index == parts.count - 1 ? 0o750 : 0o755) != 0 else { continue }
            let code = errno
            // A folder that is there may refuse a new one in other words than EEXIST.
            guard !isFolder(reached) else { continue }
            throw StoreError(system: code, doing: "create", to: reached)
        }
        guard access(path, R_OK | W_OK | X_OK) == 0 else {
            throw StoreError(system: errno, doing: "write in", to: path)
        }
    }

    /// Renames the database with its log and index, so that a fresh one can begin and the old one
    /// can still be examined, and makes that durable.
    /// - Returns: the new name of the database.
    func setAside(at time: WallTime) throws(StoreError) -> String {
        let stem = "\(database).corrupt-\(time.milliseconds)"
        var target = stem
        var number = 1
        while exists(target) {
            number += 1
            target = "\(stem)-\(number)"
        }
        // The database first: SQLite throws a log without a database away, while a database without
        // its log would pass for an older state of itself.
        for suffix in ["", "-wal", "-shm"] {
            guard rename(database + suffix, target + suffix) != 0 else { continue }
            guard errno == ENOENT else {
                throw StoreError(system: errno, doing: "rename", to: database + suffix)
            }
        }
        unlink(suspicion)
        sync()
        return target
    }

    /// Leaves a note for the next start that the database needs to be looked through. Without
    /// room for the note, the next error will leave one.
    func suspect() {
        let descriptor = open(suspicion, O_WRONLY | O_CREAT | O_CLOEXEC, 0o640)
        if descriptor >= 0 { close(descriptor) }
    }
    var isSuspect: Bool { exists(suspicion) }
    func trust() { unlink(suspicion) }

    func exists(_ path: String) -> Bool {
        var information = stat()
        return lstat(path, &information) == 0
    }

    /// Whether what it holds can be seen at all.
    var mayBeSearched: Bool { access(path, X_OK) == 0 || errno != EACCES }

    private func isFolder(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }

    private func sync() {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}
