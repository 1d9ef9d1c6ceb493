/// Something in a configuration file that must or should be changed, and where.
package struct ConfigurationProblem: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Severity: String, Sendable {
        /// The configuration cannot be used.
        case error
        /// It can be used, but something in it has no effect or is unlikely to be meant.
        case warning
    }

    package var severity: Severity
    /// The file as the caller named it.
    package var file: String
    /// Counted from 1; `nil` when the whole file is meant.
    package var line: Int?
    /// Counted in characters from 1; `nil` when the whole file is meant.
    package var column: Int?
    /// What is wrong, without a full stop.
    package var message: String
    /// What to do about it; empty when the message says it all.
    package var advice: String

    package init(
        _ severity: Severity, file: String, line: Int? = nil, column: Int? = nil,
        _ message: String, advice: String = ""
    ) {
        self.severity = severity
        self.file = file
        self.line = line
        self.column = column
        self.message = message
        self.advice = advice
    }

    /// `file:line:column: error: message (advice)`, the form that editors can jump to.
    package var description: String {
        let place = [file, line.map(String.init), column.map(String.init)].compactMap { $0 }
        return place.joined(separator: ":") + ": \(severity.rawValue): \(message)"
            + (advice.isEmpty ? "" : " (\(advice))")
    }
}
