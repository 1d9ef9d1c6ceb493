/// What is wrong with a piece of text, before it is known where it stands.
struct Complaint: Error, Equatable {
    /// What is wrong, without a full stop.
    var message: String
    /// What to do about it; may be empty.
    var advice: String

    init(_ message: String, advice: String = "") {
        self.message = message
        self.advice = advice
    }
}

extension String {
    /// The text as it can be quoted in one line for a terminal: cut off after 40 characters, with
    /// control and invisible characters spelled out.
    var shown: String {
        var result = ""
        for scalar in prefix(40).unicodeScalars {
            result += scalar.isVisible ? String(scalar) : scalar.escaped(asASCII: true)
        }
        return dropFirst(40).isEmpty ? result : result + "…"
    }
}

extension Unicode.Scalar {
    /// Whether the character shows as itself. Controls, line breaks, and the characters that turn
    /// the direction of writing do not; the joiner of emoji (U+200D) may stay.
    var isVisible: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: false
        case .format: value == 0x200d
        default: true
        }
    }
}
