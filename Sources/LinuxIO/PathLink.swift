import Glibc

/// A symbolic link to a pseudo-terminal, at a place that the user chose.
struct PathLink: Sendable {
    let path: String

    /// Puts the link in place in one step. Replaces a link that points nowhere or to another
    /// pseudo-terminal, which an earlier run that was killed has left; anything else stays.
    func create(to target: String) throws(SystemError) {
        if symlink(target, path) == 0 { return }
        let error = Errno.current
        guard error.code == EEXIST else {
            throw SystemError(
                "cannot create \(path)", error, advice: "choose a folder that you may write to")
        }
        guard isLeftOver else {
            throw SystemError(
                "\(path) exists and is not a link of ours",
                advice: "choose another path, or remove it")
        }
        let aside = "\(path).\(getpid())"
        _ = unlink(aside)
        guard symlink(target, aside) == 0, rename(aside, path) == 0 else {
            let error = Errno.current
            _ = unlink(aside)
            throw SystemError("cannot replace \(path)", error, advice: "remove it")
        }
    }

    /// Removes the link, unless it points elsewhere by now.
    func remove(from target: String) {
        if destination == target { _ = unlink(path) }
    }

    private var isLeftOver: Bool {
        guard let destination else { return false }
        var status = stat()
        return destination.hasPrefix("/dev/pts/") || stat(path, &status) != 0
    }

    /// Where it points; `nil` when it is not a symbolic link.
    private var destination: String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        if count < 0 { return nil }
        return String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
