/// Something that goes wrong with a simulated meter, at a given time or by chance.
///
/// As text: `NAME[@START[+LENGTH]][:KEY=VALUE,...]`, with times since the start of the meter such
/// as `90s`, `2m`, `1h` or `500ms`. Without a start it holds from the start on, without a length
/// for ever. Examples: `silence@60s+20s`, `flip@30s+60s:p=0.1`, `stray:n=37,p=0.05`.
package struct Fault: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// No answer.
        case silence
        /// The answer ends after some bytes; `nil` leaves it to chance.
        case cut(after: Int?)
        /// Random bytes before the answer.
        case stray(bytes: Int)
        /// Bits of the answer turned over.
        case flip(bits: Int)
        /// An answer whose only flaw is its check.
        case badCheck
        /// The answer in pieces of these sizes, and the rest.
        case split(sizes: [Int])
        /// The supply is off: the meter and its link are gone, nothing flows.
        case noPower
        /// The link is gone; the meter goes on counting.
        case outOfRange
        /// The selected group's counters go to zero, as if somebody had pressed a key.
        case counterReset
        /// Somebody selects another group; `nil` is the next one.
        case groupChange(to: Int?)
    }

    package let kind: Kind
    /// Milliseconds since the start of the meter.
    package let start: Int64
    /// In milliseconds; `nil` for ever.
    package let length: Int64?
    /// Of each answer to be affected, from 0 to 1.
    package let probability: Double

    init(_ kind: Kind, start: Int64 = 0, length: Int64? = nil, probability: Double = 1) {
        self.kind = kind
        self.start = start
        self.length = length
        self.probability = probability
    }

    func holds(at time: Int64) -> Bool {
        time >= start && (length.map { time < start + $0 } ?? true)
    }

    /// All forms and what they do, for a help text.
    package static let forms: [(form: String, summary: String)] = Word.allCases.map {
        ($0.form, $0.summary)
    }

    /// Reads the text form.
    /// - Throws: `FaultSyntaxError`, which says what is allowed.
    package init(_ text: String) throws(FaultSyntaxError) {
        let (head, options) = Self.halves(text[...], at: ":")
        let (name, window) = Self.halves(head, at: "@")
        guard let word = Word(rawValue: String(name)) else {
            throw FaultSyntaxError(text, "there is no fault named '\(name)'", nil)
        }
        func wrong(_ problem: String) -> FaultSyntaxError { FaultSyntaxError(text, problem, word) }

        var start: Int64?
        var length: Int64?
        if let window {
            let (from, span) = Self.halves(window, at: "+")
            start = Self.milliseconds(from)
            if start == nil { throw wrong("'\(from)' is not a time such as 90s, 2m, 1h or 500ms") }
            if let span {
                guard word.hasLength else { throw wrong("it happens at one moment") }
                length = Self.milliseconds(span)
                if length ?? 0 <= 0 { throw wrong("'\(span)' is not a length such as 20s") }
            }
        }
        if start == nil, word.needsStart { throw wrong("it needs a time, e.g. \(word)@90s") }
        if length == nil, word.needsLength {
            throw wrong("it needs a length, e.g. \(word)@120s+20s")
        }

        var values: [String: Substring] = [:]
        for option in options?.split(separator: ",", omittingEmptySubsequences: false) ?? [] {
            let (key, value) = Self.halves(option, at: "=")
            guard word.keys.contains(String(key)) else {
                let keys = word.keys.isEmpty ? "nothing" : word.keys.joined(separator: ", ")
                throw wrong("'\(key)' means nothing here, where \(keys) can be set")
            }
            guard let value else { throw wrong("'\(key)' has no value") }
            if values.updateValue(value, forKey: String(key)) != nil {
                throw wrong("'\(key)' is given twice")
            }
        }
        func number(_ range: ClosedRange<Int>) throws(FaultSyntaxError) -> Int? {
            guard let text = values["n"] else { return nil }
            guard let number = Int(text), range.contains(number) else {
                let span = "from \(range.lowerBound) to \(range.upperBound)"
                throw wrong("'\(text)' is not a number \(span)")
            }
            return number
        }

        var probability = 1.0
        if let text = values["p"] {
            guard let value = Double(text), (0...1).contains(value) else {
                throw wrong("'\(text)' is not a probability from 0 to 1")
            }
            probability = value
        }
        switch word {
        case .silence: kind = .silence
        case .cut: kind = .cut(after: try number(0...191))
        case .stray: kind = .stray(bytes: try number(1...10_000) ?? 16)
        case .flip: kind = .flip(bits: try number(1...1536) ?? 1)
        case .badCheck: kind = .badCheck
        case .split:
            let text = values["sizes"] ?? "1/20"
            let sizes = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
            guard sizes.allSatisfy({ $0 ?? 0 > 0 }) else {
                throw wrong("'\(text)' is not a list of sizes such as 1/20/109")
            }
            kind = .split(sizes: sizes.compactMap { $0 })
        case .noPower: kind = .noPower
        case .outOfRange: kind = .outOfRange
        case .counterReset: kind = .counterReset
        case .groupChange: kind = .groupChange(to: try number(0...9))
        }
        self.start = start ?? 0
        self.length = length
        self.probability = probability
    }

    /// A text form that reads as the same fault.
    package var description: String {
        let word = self.word
        var text = word.rawValue
        if start != 0 || length != nil || word.needsStart { text += "@" + Self.text(start) }
        if let length { text += "+" + Self.text(length) }
        var options: [String] = []
        switch kind {
        case .cut(let number?), .groupChange(let number?): options.append("n=\(number)")
        case .stray(let number), .flip(let number): options.append("n=\(number)")
        case .split(let sizes):
            options.append("sizes=" + sizes.map { String($0) }.joined(separator: "/"))
        case .silence, .cut, .badCheck, .noPower, .outOfRange, .counterReset, .groupChange: break
        }
        if probability != 1 { options.append("p=\(probability)") }
        return options.isEmpty ? text : text + ":" + options.joined(separator: ",")
    }

    /// The name in the text form, e.g. `bad-check`.
    package var name: String { word.rawValue }

    private var word: Word {
        switch kind {
        case .silence: .silence
        case .cut: .cut
        case .stray: .stray
        case .flip: .flip
        case .badCheck: .badCheck
        case .split: .split
        case .noPower: .noPower
        case .outOfRange: .outOfRange
        case .counterReset: .counterReset
        case .groupChange: .groupChange
        }
    }

    private static func halves(
        _ text: Substring, at separator: Character
    ) -> (Substring, Substring?) {
        guard let index = text.firstIndex(of: separator) else { return (text, nil) }
        return (text[..<index], text[text.index(after: index)...])
    }

    private static let units: [(name: String, milliseconds: Int64)] = [
        ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000),
    ]

    private static func milliseconds(_ text: Substring) -> Int64? {
        for unit in units where text.hasSuffix(unit.name) {
            // A year is enough, and keeps sums from overflowing.
            guard let number = Double(text.dropLast(unit.name.count)),
                (0...31_536_000_000).contains(number * Double(unit.milliseconds))
            else { return nil }
            return Int64((number * Double(unit.milliseconds)).rounded())
        }
        return nil
    }

    private static func text(_ milliseconds: Int64) -> String {
        milliseconds % 1000 == 0 ? "\(milliseconds / 1000)s" : "\(milliseconds)ms"
    }
}

/// A text that is not a fault.
package struct FaultSyntaxError: Error, Hashable, CustomStringConvertible {
    /// What is wrong and what is allowed, in two sentences without a last full stop.
    package let description: String

    fileprivate init(_ text: String, _ problem: String, _ word: Word?) {
        let allowed =
            word.map { "It is written \($0.form)" }
            ?? "There are "
            + Word.allCases.map { $0.rawValue }.joined(separator: ", ")
        description = "'\(text)' is not a fault: \(problem). \(allowed)"
    }
}

/// The names of the faults in text, and what may follow each.
private enum Word: String, CaseIterable, CustomStringConvertible {
    case silence
    case cut
    case stray
    case flip
    case badCheck = "bad-check"
    case split
    case noPower = "no-power"
    case outOfRange = "out-of-range"
    case counterReset = "counter-reset"
    case groupChange = "group-change"

    var description: String { rawValue }

    var needsStart: Bool { !keys.contains("p") }
    var needsLength: Bool { self == .noPower || self == .outOfRange }
    var hasLength: Bool { self != .counterReset && self != .groupChange }

    var keys: [String] {
        switch self {
        case .silence, .badCheck: ["p"]
        case .cut, .stray, .flip: ["n", "p"]
        case .split: ["sizes", "p"]
        case .noPower, .outOfRange, .counterReset: []
        case .groupChange: ["n"]
        }
    }

    var form: String {
        let time =
            needsLength ? "@START+LENGTH" : hasLength ? "[@START[+LENGTH]]" : "@START"
        let options = keys.map { $0 == "sizes" ? "sizes=A/B/..." : "\($0)=\($0.uppercased())" }
        let tail = options.isEmpty ? "" : "[:" + options.joined(separator: ",") + "]"
        return rawValue + time + tail
    }

    var summary: String {
        switch self {
        case .silence: "no answer"
        case .cut: "the answer ends after N bytes (by chance)"
        case .stray: "N random bytes (16) before the answer"
        case .flip: "N bits of the answer (1) turned over"
        case .badCheck: "an answer with a wrong check"
        case .split: "the answer in pieces of A, B, ... bytes (1/20) and the rest"
        case .noPower: "the supply is off, the meter gone"
        case .outOfRange: "the link is gone, the meter goes on counting"
        case .counterReset: "the selected group's counters go to zero"
        case .groupChange: "group N (the next one) is selected"
        }
    }
}
