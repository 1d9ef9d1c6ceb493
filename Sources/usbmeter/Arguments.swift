import Configuration

/// What a subcommand takes, from which its help is made and its arguments are read.
struct CommandSyntax: Sendable {
    struct Option: Sendable {
        let name: String
        /// What stands for the value in the help; `nil` for a switch.
        let value: String?
        let help: String
        let isRepeatable: Bool

        init(_ name: String, _ value: String? = nil, _ help: String, repeatable: Bool = false) {
            self.name = name
            self.value = value
            self.help = help
            isRepeatable = repeatable
        }
    }

    let name: String
    /// One line.
    let summary: String
    /// What stands for the operands in the usage line.
    var operands = ""
    var operandCount = 0...0
    var options: [Option] = []
    /// Paragraphs after the options.
    var notes: [String] = []

    var help: String {
        var lines = ["usage: usbmeter \(name)\(options.isEmpty ? "" : " [OPTION]…")"]
        if !operands.isEmpty { lines[0] += " \(operands)" }
        lines += ["", summary + "."]
        let all = options + [Option("--help", nil, "show this text")]
        let titles = all.map { "  " + $0.name + ($0.value.map { " \($0)" } ?? "") }
        let width = (titles.map(\.count).max() ?? 0) + 2
        lines.append("")
        for (title, option) in zip(titles, all) {
            lines.append(title + String(repeating: " ", count: width - title.count) + option.help)
        }
        for note in notes { lines += ["", note] }
        return lines.joined(separator: "\n")
    }
}

/// Wrong use of the command line: one line that helps, and exit code 64 (EX_USAGE of sysexits.h).
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}

/// The arguments of one subcommand, as its syntax reads them.
struct Arguments: Sendable {
    private var values: [String: [String]] = [:]
    private(set) var operands: [String] = []
    private(set) var asksForHelp = false

    init(_ words: [String], _ syntax: CommandSyntax) throws(UsageError) {
        var words = words[...]
        var optionsEnded = false
        while let word = words.popFirst() {
            if optionsEnded || word == "-" || !word.hasPrefix("-") {
                operands.append(word)
                continue
            }
            if word == "--" {
                optionsEnded = true
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            if name == "--help" || name == "-h" {
                asksForHelp = true
                return
            }
            guard let option = syntax.options.first(where: { $0.name == name }) else {
                throw UsageError("unknown option \(name)" + Self.suggestion(for: name, syntax))
            }
            guard let placeholder = option.value else {
                if parts.count > 1 { throw UsageError("\(name) takes no value") }
                values[name] = []
                continue
            }
            // what looks like the next option is that, and not a value that was left out
            let next = words.first.flatMap { $0.hasPrefix("--") ? nil : $0 }
            guard let value = parts.count > 1 ? String(parts[1]) : next, !value.isEmpty else {
                throw UsageError("\(name) needs a value: \(name) \(placeholder)")
            }
            if parts.count == 1 { words.removeFirst() }
            if values[name] != nil, !option.isRepeatable {
                throw UsageError("\(name) is given twice")
            }
            values[name, default: []].append(value)
        }
        guard syntax.operandCount.contains(operands.count) else {
            let expected = syntax.operands.isEmpty ? "no further words" : syntax.operands
            throw UsageError(
                operands.count > syntax.operandCount.upperBound
                    ? "\"\(operands[syntax.operandCount.upperBound])\" is one word too many: "
                        + "expected \(expected)"
                    : "missing \(syntax.operands)")
        }
    }

    func has(_ name: String) -> Bool { values[name] != nil }
    func value(_ name: String) -> String? { values[name]?.last }
    func all(_ name: String) -> [String] { values[name] ?? [] }

    /// A whole number within a range, or `fallback` when the option is not given.
    func integer(
        _ name: String, in range: ClosedRange<Int>, default fallback: Int
    ) throws(UsageError) -> Int {
        guard let text = value(name) else { return fallback }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "\(name) is \"\(text)\", expected a whole number from \(range.lowerBound) "
                    + "to \(range.upperBound)")
        }
        return number
    }

    private static func suggestion(for name: String, _ syntax: CommandSyntax) -> String {
        Suggestion.nearest(to: name, among: syntax.options.map(\.name)).map {
            "; did you mean \($0)?"
        } ?? ""
    }
}
