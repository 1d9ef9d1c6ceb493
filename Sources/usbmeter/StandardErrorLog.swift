import Glibc
import LinuxIO
import MeterCore

/// Log lines on standard error. Under systemd each begins with the level that journald reads
/// (sd-daemon(3)), and journald knows the time; otherwise with time and level for people.
struct StandardErrorLog: LogSink {
    private let level: LogLevel
    private let isJournal: Bool
    private let clock: any Timekeeper
    private let writer = LineWriter(descriptor: STDERR_FILENO)

    init(level: LogLevel, clock: any Timekeeper) {
        self.level = level
        self.clock = clock
        isJournal = getenv("JOURNAL_STREAM") != nil
    }

    func write(_ level: LogLevel, _ line: String) {
        guard level >= self.level else { return }
        let head = isJournal ? "<\(priority(level))>" : "\(clock.moment().wall.iso8601) \(level) "
        // there is nowhere to report to that the log cannot be written
        try? writer.write(head + line)
    }

    /// The numbers of syslog(3).
    private func priority(_ level: LogLevel) -> Int {
        switch level {
        case .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        }
    }
}
