import Glibc
import Synchronization

/// Writes whole lines to a descriptor, each by one `write(2)`, so that lines of several tasks and
/// of other programs on the same pipe do not mix.
///
/// The call waits while the reader at the other end (a pager, journald) takes nothing.
package final class LineWriter: Sendable {
    private let descriptor: Int32
    private let turn = Mutex(())

    /// Borrows the descriptor, e.g. 1 or 2; it must stay open.
    package init(descriptor: Int32) { self.descriptor = descriptor }

    /// Writes `line` and a line feed. Line breaks inside it become spaces: one call is one line.
    /// - Throws: `Errno`, e.g. EPIPE when the reader is gone, or ENOSPC.
    package func write(_ line: some StringProtocol) throws(Errno) {
        var bytes = line.utf8.map { $0 == 10 || $0 == 13 ? 32 : $0 }
        bytes.append(10)
        let whole = bytes
        try turn.withLock { _ throws(Errno) in
            var rest = whole[...]
            while !rest.isEmpty {
                do throws(Errno) {
                    rest = rest.dropFirst(
                        try systemCall {
                            rest.withUnsafeBytes {
                                Glibc.write(descriptor, $0.baseAddress, $0.count)
                            }
                        })
                } catch {
                    // Somebody else may have made a shared terminal non-blocking.
                    guard error.code == EAGAIN else { throw error }
                    var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    try systemCall { poll(&wait, 1, -1) }
                }
            }
        }
    }
}
