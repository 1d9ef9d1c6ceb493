import CLinux
import Glibc
import Synchronization

/// A serial device made of software: whoever opens `path` talks to whoever reads and writes here.
/// Wraps `pty(7)` in raw mode.
///
/// The far side may come and go. We keep it open too, so that its absence is silence and not an
/// error that a waiting reader would spin on.
package final class PseudoTerminal: Sendable {
    private struct Pair {
        let master: WatchedDescriptor
        let slave: Int32
        let slavePath: String

        func close() {
            OwnedDescriptor(adopting: slave).close()
            master.close()
        }
    }

    private struct State {
        var pair: Pair
        var isPlugged = false
    }

    private let reactor: Reactor
    private let link: PathLink?
    private let state: Mutex<State>

    private init(link: PathLink?, reactor: Reactor) throws(SystemError) {
        self.reactor = reactor
        self.link = link
        state = Mutex(State(pair: try Self.open(on: reactor)))
    }

    /// Makes the device, lends it to `body` and removes it again.
    ///
    /// At `linkPath` a symbolic link to its path in `/dev/pts` appears. A link that an earlier run
    /// left there is replaced; a file or device is not.
    /// - Throws: `SystemError` when it cannot be made; whatever `body` throws.
    @discardableResult
    package static func withPseudoTerminal<Value: Sendable>(
        linkedAt linkPath: String? = nil, on reactor: Reactor,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (PseudoTerminal) async throws -> Value
    ) async throws -> Value {
        let terminal = try PseudoTerminal(
            link: linkPath.map(PathLink.init(path:)), reactor: reactor)
        defer { terminal.close() }
        try terminal.plugIn()
        return try await body(terminal)
    }

    /// What clients open: the link if there is one, otherwise the path in `/dev/pts`, which changes
    /// with each `unplug`.
    package var path: String { link?.path ?? current.slavePath }

    /// Waits for bytes of a client and returns what has arrived, never an empty array. Goes on
    /// waiting over `unplug` and `plugIn`.
    /// - Throws: `.cancelled` when the task is or the device was removed.
    package func read() async throws(Errno) -> [UInt8] {
        while true {
            let pair = current
            // A client that was killed leaves its claim (TIOCEXCL) behind, since the terminal lives
            // on in our hands.
            _ = try? pair.master.perform { _ in ioctl(pair.slave, UInt(TIOCNXCL)) }
            do throws(Errno) {
                return try await pair.master.read()
            } catch {
                guard wasReplaced(pair), !Task.isCancelled else { throw error }
            }
        }
    }

    /// Hands bytes to the client. Waits while 4 KB lie there that nobody takes.
    ///
    /// While unplugged it does nothing, and what is under way at that moment is lost, as with a
    /// real device.
    /// - Throws: `.cancelled` when the task is or the device was removed.
    package func write(_ bytes: [UInt8]) async throws(Errno) {
        let (pair, isPlugged) = state.withLock { ($0.pair, $0.isPlugged) }
        guard isPlugged else { return }
        do throws(Errno) {
            try await pair.master.write(bytes)
        } catch {
            guard wasReplaced(pair), !Task.isCancelled else { throw error }
        }
    }

    /// Pulls the plug: clients see a hang-up and the link vanishes. Until `plugIn` nobody finds the
    /// device.
    /// - Throws: `SystemError` when the system has no pseudo-terminal left; then nothing happened.
    package func unplug() throws(SystemError) {
        // The next one is there before the old one goes, so that there is always one to read from.
        let next = try Self.open(on: reactor)
        let old = state.withLock { state in
            let old = state.pair
            state = State(pair: next)
            return old
        }
        link?.remove(from: old.slavePath)
        old.close()
    }

    /// Puts the link back, to the device that `unplug` has made.
    /// - Throws: `SystemError` when something else is in its place.
    package func plugIn() throws(SystemError) {
        try link?.create(to: current.slavePath)
        state.withLock { $0.isPlugged = true }
    }

    private var current: Pair { state.withLock { $0.pair } }
    private func wasReplaced(_ pair: Pair) -> Bool { current.master !== pair.master }

    private func close() {
        link?.remove(from: current.slavePath)
        current.close()
    }

    private static func open(on reactor: Reactor) throws(SystemError) -> Pair {
        do throws(Errno) {
            let master = OwnedDescriptor(
                adopting: try systemCall { posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) })
            let slave: (number: Int32, path: String)
            do throws(Errno) {
                slave = try openSlave(of: master.number)
            } catch {
                master.close()
                throw error
            }
            do throws(Errno) {
                return Pair(
                    master: try WatchedDescriptor(master, on: reactor), slave: slave.number,
                    slavePath: slave.path)
            } catch {
                OwnedDescriptor(adopting: slave.number).close()
                throw error
            }
        } catch {
            throw SystemError("cannot make a pseudo-terminal", error)
        }
    }

    private static func openSlave(
        of master: Int32
    ) throws(Errno) -> (number: Int32, path: String) {
        try systemCall { grantpt(master) }
        try systemCall { unlockpt(master) }
        var name = [CChar](repeating: 0, count: 64)
        let code = ptsname_r(master, &name, name.count)
        if code != 0 { throw Errno(code) }
        let path = String(
            decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let slave = OwnedDescriptor(
            adopting: try systemCall { Glibc.open(path, O_RDWR | O_NOCTTY | O_CLOEXEC) })
        do throws(Errno) {
            try setRawMode(slave.number)
        } catch {
            slave.close()
            throw error
        }
        return (slave.release(), path)
    }
}
