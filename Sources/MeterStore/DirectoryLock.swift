import Glibc

/// Keeps a second agent out of a data directory. The kernel drops the lock with the process,
/// however that ends, so that none is ever stale.
struct DirectoryLock: Sendable {
    private let descriptor: Int32

    /// Wraps `flock(2)`; does not wait.
    /// - Throws: `inUse` when another agent holds it.
    init(_ directory: DataDirectory) throws(StoreError) {
        let path = directory.lock
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o640)
        guard descriptor >= 0 else { throw StoreError(system: errno, doing: "open", to: path) }
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            let holder = Self.holder(descriptor)
            close(descriptor)
            guard code == EWOULDBLOCK else {
                throw StoreError(system: code, doing: "lock", to: path)
            }
            throw StoreError(
                .inUse, "another agent\(holder) is running on \(directory.path)",
                advice: "stop it first, or give this one a data directory of its own")
        }
        // Only for the sentence above; a full disk must not keep the agent from starting.
        let text = Array("\(getpid())\n".utf8)
        ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.count, 0)
        self.descriptor = descriptor
    }

    func release() { close(descriptor) }

    private static func holder(_ descriptor: Int32) -> String {
        var text = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &text, text.count, 0)
        let number = String(decoding: text.prefix(max(0, count)), as: UTF8.self)
            .prefix { $0.isNumber }
        return number.isEmpty ? "" : " (process \(number))"
    }
}
