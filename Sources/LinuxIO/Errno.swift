import CLinux
import Glibc

/// A failed system call: wraps `errno(3)`. A struct, since the set of codes is open.
package struct Errno: Error, Hashable, Sendable, CustomStringConvertible {
    package let code: Int32

    package init(_ code: Int32) { self.code = code }

    /// What the last failed call of this thread left behind.
    package static var current: Errno { Errno(errno) }
    /// The task was cancelled, or the descriptor was taken away, while waiting.
    package static let cancelled = Errno(ECANCELED)

    /// Name and text, e.g. `ENOENT: No such file or directory`.
    package var description: String {
        guard let name = strerrorname_np(code), let text = strerrordesc_np(code) else {
            return "error \(code)"
        }
        return "\(String(cString: name)): \(String(cString: text))"
    }
}

/// Runs a call that returns −1 and sets `errno` on failure, again when a signal interrupted it.
/// - Throws: `Errno`. EBADF and EFAULT trap: only a mistake of ours causes them.
@discardableResult
package func systemCall<Value: SignedInteger>(_ call: () -> Value) throws(Errno) -> Value {
    while true {
        let value = call()
        if value != -1 { return value }
        let error = Errno.current
        if error.code == EINTR { continue }
        precondition(
            error.code != EBADF && error.code != EFAULT, "a system call was given a bad argument")
        throw error
    }
}

/// Something that the system refused, told to a person.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened, one sentence without a full stop.
    package var message: String
    /// What a person can do about it; empty when nothing needs doing.
    package var advice: String

    package init(_ message: String, advice: String = "") {
        self.message = message
        self.advice = advice
    }
    package init(_ message: String, _ cause: Errno, advice: String = "") {
        self.init("\(message): \(cause)", advice: advice)
    }

    package var description: String { advice.isEmpty ? message : "\(message): \(advice)" }
}
