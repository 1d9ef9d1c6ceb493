import CSystemd

/// Tells systemd how the service is. Wraps `sd_notify(3)` and `sd_watchdog_enabled(3)`; without
/// systemd, i.e. without `NOTIFY_SOCKET` in the environment, the calls do nothing. Each sends one
/// datagram and does not wait for an answer.
package struct ServiceNotify: Sendable {
    package init() {}

    /// How often systemd wants to hear of us (`WatchdogSec=`), or it restarts the service; `nil`
    /// when it does not ask. Ping at half of it.
    package var watchdogInterval: Duration? {
        var microseconds: UInt64 = 0
        guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
        return .microseconds(microseconds)
    }

    /// The start is complete (`Type=notify`).
    package func ready() throws(Errno) { try send("READY=1") }
    /// The stop has begun.
    package func stopping() throws(Errno) { try send("STOPPING=1") }
    package func pingWatchdog() throws(Errno) { try send("WATCHDOG=1") }
    /// One line for `systemctl status`.
    package func status(_ text: String) throws(Errno) {
        // A line break would begin another assignment.
        try send("STATUS=" + String(text.map { $0.isNewline ? " " : $0 }))
    }

    /// - Throws: `Errno` when the datagram cannot be sent.
    private func send(_ state: String) throws(Errno) {
        let result = sd_notify(0, state)
        if result < 0 { throw Errno(-result) }
    }
}
