import MeterCore
import Synchronization

/// Keeps log lines for a test to look at.
final class RecordedLog: LogSink {
    struct Line: Sendable, CustomStringConvertible {
        var level: LogLevel
        var text: String
        var description: String { "\(level) \(text)" }
    }
    private let kept = Mutex<[Line]>([])

    func write(_ level: LogLevel, _ line: String) {
        kept.withLock { $0.append(Line(level: level, text: line)) }
    }

    /// What the agent shows as it is configured by default.
    var lines: [Line] { kept.withLock { $0.filter { $0.level >= .info } } }
    /// Lines of trouble, at `level` or above.
    func lines(from level: LogLevel) -> [Line] { lines.filter { $0.level >= level } }
}
