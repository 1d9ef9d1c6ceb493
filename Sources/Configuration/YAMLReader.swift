/// From the bytes of a file to a tree, or to what is wrong with them.
enum YAMLReader {
    /// A configuration of a thousand meters is smaller.
    static let largest = 1 << 20
    static let tooLarge = Complaint(
        "larger than \(largest / 1024) KiB", advice: "is this the right file?")

    /// Reads one YAML document.
    /// - Parameters:
    ///   - bytes: the whole file; a byte order mark is skipped.
    ///   - report: gets everything that is wrong with the text.
    /// - Returns: the root; `nil` when there is none, and then `report` says why.
    static func read(_ bytes: [UInt8], into report: inout ProblemReport) -> YAMLNode? {
        guard bytes.count <= largest else {
            report.error(nil, tooLarge)
            return nil
        }
        let text = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? Array(bytes.dropFirst(3)) : bytes
        if let (mark, complaint) = flaw(in: text) {
            report.error(mark, complaint)
            return nil
        }
        var tree = YAMLTree()
        do {
            try YAMLEvents.read(text) { tree.take($0) }
        } catch {
            // Nothing else is told: what was read before the flaw may be half of what was meant.
            let (mark, complaint) = explanation(of: error, in: text)
            report.error(mark, complaint)
            return nil
        }
        for (mark, complaint) in tree.complaints { report.error(mark, complaint) }
        if let root = tree.root, root.content != .null { return root }
        if tree.complaints.isEmpty {
            report.error(
                nil, "nothing is written in it",
                advice: "list at least one meter; docs/configuration.md names every key")
        }
        return nil
    }

    /// The first place that is not text as YAML knows it (YAML 1.1, 5.1: character set).
    private static func flaw(in text: [UInt8]) -> (Mark, Complaint)? {
        var mark = Mark.start
        var decoder = UTF8()
        var bytes = text.makeIterator()
        while true {
            switch decoder.decode(&bytes) {
            case .emptyInput:
                return nil
            case .error:
                return (
                    mark, Complaint("not UTF-8 text", advice: "save the file in UTF-8")
                )
            case .scalarValue(let scalar):
                switch scalar.value {
                case 0x0a:
                    mark = Mark(line: mark.line + 1, column: 1)
                case 0x09, 0x0d, 0x20...0x7e, 0x85, 0xa0...0xd7ff, 0xe000...0xfefe,
                    0xff00...0xfffd, 0x10000...0x10ffff:
                    mark.column += 1
                default:
                    return (
                        mark,
                        Complaint(
                            "a control character (\(scalar.escaped(asASCII: true))), so not a text",
                            advice: "is this the right file?")
                    )
                }
            }
        }
    }

    /// Says in words for users of the file what libyaml says in words for authors of YAML.
    private static func explanation(
        of error: YAMLSyntaxError, in text: [UInt8]
    ) -> (Mark, Complaint) {
        let character = character(at: error.mark, in: text)
        let quote = "put text that begins with a special character into quotes"
        switch error.problem {
        case "found character that cannot start any token" where character == "\t",
            "found a tab character that violates indentation",
            "found a tab character where an indentation space is expected":
            return (error.mark, Complaint("a tab cannot indent", advice: "use blanks"))
        case "found character that cannot start any token":
            let shown = character.map { String($0).shown } ?? ""
            return (error.mark, Complaint("a value cannot begin with \(shown)", advice: quote))
        case "mapping values are not allowed in this context":
            return (
                error.mark,
                Complaint(
                    "a colon cannot stand here",
                    advice: "check how this line and the one before are indented; "
                        + "put text that contains a colon and a blank into quotes")
            )
        case "did not find expected key", "did not find expected '-' indicator",
            "block sequence entries are not allowed in this context":
            return (
                error.mark,
                Complaint(
                    "this line does not fit to those above",
                    advice: "keys of one group begin in the same column, and so do the \"-\" of "
                        + "one list")
            )
        case "could not find expected ':'":
            return (
                error.context ?? error.mark,
                Complaint("a key without a colon", advice: "write key: value")
            )
        case "found unexpected end of stream", "found unexpected document indicator":
            return (
                error.context ?? error.mark,
                Complaint("the quotes that open here are never closed")
            )
        case "did not find expected ',' or ']'":
            return (error.context ?? error.mark, Complaint("the [ that opens here is not closed"))
        case "did not find expected ',' or '}'":
            return (error.context ?? error.mark, Complaint("the { that opens here is not closed"))
        case "did not find expected alphabetic or numeric character",
            "did not find expected node content":
            return (error.mark, Complaint("a value is missing here", advice: quote))
        case "found unknown escape character":
            return (
                error.mark,
                Complaint(
                    "unknown escape after \\ in double quotes",
                    advice: "use single quotes, in which \\ is a character like any other")
            )
        default:
            return (error.mark, Complaint("not YAML: \(error.problem)"))
        }
    }

    private static func character(at mark: Mark, in text: [UInt8]) -> Character? {
        let lines = String(decoding: text, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.indices.contains(mark.line - 1) else { return nil }
        return lines[mark.line - 1].unicodeScalars.dropFirst(mark.column - 1).first
            .map(Character.init)
    }
}
