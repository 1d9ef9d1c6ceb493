/// Collects what is wrong with one file, so that people see everything at once, up to as many
/// errors as anybody reads: a large file of another kind has one in every line.
struct ProblemReport {
    static let mostErrors = 100

    let file: String
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var errorCount = 0

    init(file: String) { self.file = file }

    /// Adds an error at a place, or for the whole file.
    mutating func error(_ mark: Mark?, _ complaint: Complaint) {
        add(.error, mark, complaint)
    }
    mutating func error(_ mark: Mark?, _ message: String, advice: String = "") {
        add(.error, mark, Complaint(message, advice: advice))
    }
    mutating func warning(_ mark: Mark?, _ message: String, advice: String = "") {
        add(.warning, mark, Complaint(message, advice: advice))
    }

    private mutating func add(
        _ severity: ConfigurationProblem.Severity, _ mark: Mark?, _ complaint: Complaint
    ) {
        if severity == .error {
            errorCount += 1
            guard errorCount <= Self.mostErrors else { return }
        }
        problems.append(
            ConfigurationProblem(
                severity, file: file, line: mark?.line, column: mark?.column, complaint.message,
                advice: complaint.advice))
    }

    var hasErrors: Bool { errorCount > 0 }
    /// Whether further errors are not kept.
    var isFull: Bool { errorCount >= Self.mostErrors }

    /// In the order of the file, what concerns the whole file first.
    var inOrder: [ConfigurationProblem] {
        let sorted = problems.enumerated().sorted { left, right in
            let (first, second) = (left.element, right.element)
            return (first.line ?? 0, first.column ?? 0, left.offset)
                < (second.line ?? 0, second.column ?? 0, right.offset)
        }.map(\.element)
        guard isFull else { return sorted }
        let rest = ConfigurationProblem(
            .error, file: file, "only the first \(Self.mostErrors) errors are shown",
            advice: "is this the right file?")
        return sorted + [rest]
    }
}
