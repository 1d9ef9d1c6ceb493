import MeterCore

/// How one kind of value is read from text and written as text.
struct Scalar<Value> {
    /// What may be written, for the documentation.
    let accepts: String
    /// Turns the text into a value. A complaint continues the key's name: `has no unit: "50"`.
    let read: (_ text: String, _ folder: String) throws(Complaint) -> Value
    let write: (Value) -> String
}

extension Scalar where Value == Duration {
    /// A duration within limits, in multiples of `whole`.
    static func duration(
        _ limits: ClosedRange<Duration>, whole: Duration = .milliseconds(1)
    ) -> Self {
        func text(_ duration: Duration) -> String {
            QuantityUnits.duration.text(duration.milliseconds)
        }
        return Scalar(
            accepts: "`\(text(limits.lowerBound))` to `\(text(limits.upperBound))`"
                + (whole > .milliseconds(1) ? " in steps of `\(text(whole))`" : ""),
            read: { string, _ throws(Complaint) in
                let value = Duration.milliseconds(try QuantityUnits.duration.steps(in: string))
                try check(value, within: limits, text)
                guard value.milliseconds % whole.milliseconds == 0 else {
                    throw Complaint("is not a multiple of \(text(whole))", advice: "round it")
                }
                return value
            }, write: text)
    }
}

extension Scalar where Value == Microamperes {
    /// A current within limits.
    static func current(_ limits: ClosedRange<Microamperes>) -> Self {
        func text(_ current: Microamperes) -> String {
            QuantityUnits.current.text(current.rawValue)
        }
        return Scalar(
            accepts: "`\(text(limits.lowerBound))` to `\(text(limits.upperBound))`",
            read: { string, _ throws(Complaint) in
                let value = Microamperes(try QuantityUnits.current.steps(in: string))
                try check(value, within: limits, text)
                return value
            }, write: text)
    }
}

private func check<Value: Comparable>(
    _ value: Value, within limits: ClosedRange<Value>, _ text: (Value) -> String
) throws(Complaint) {
    guard !limits.contains(value) else { return }
    let (limit, relation) =
        value < limits.lowerBound
        ? (limits.lowerBound, "less") : (limits.upperBound, "more")
    throw Complaint(
        "is \(text(value)), which is \(relation) than \(text(limit))",
        advice: "choose from \(text(limits.lowerBound)) to \(text(limits.upperBound))")
}

extension Scalar where Value == Bool {
    static var flag: Self {
        .choice([("true", true), ("false", false)])
    }
}

extension Scalar where Value == BrokerURL {
    static var brokerURL: Self {
        Scalar(
            accepts: "`mqtt://host:port` or `mqtts://host:port`",
            read: { text, _ throws(Complaint) in try BrokerURL(text) },
            write: \.description)
    }
}

extension Scalar where Value == MeterAddress {
    static var address: Self {
        Scalar(
            accepts: "six pairs of hexadecimal digits",
            read: { text, _ throws(Complaint) in
                guard let address = MeterAddress(text) else {
                    throw Complaint(
                        "is not a Bluetooth address: \"\(text.shown)\"",
                        advice: "write six pairs of hexadecimal digits, 00:15:A6:00:36:2F")
                }
                return address
            },
            write: \.description)
    }
}

extension Scalar where Value: Equatable {
    /// One of several words; case does not count.
    static func choice(_ words: [(word: String, value: Value)]) -> Self {
        let all = words.map(\.word)
        func list(_ items: [String]) -> String {
            items.dropLast().joined(separator: ", ") + " or " + items.suffix(1).joined()
        }
        return Scalar(
            accepts: list(all.map { "`\($0)`" }),
            read: { text, _ throws(Complaint) in
                let lower = text.lowercased()
                if let match = words.first(where: { $0.word == lower }) { return match.value }
                let meant = Suggestion.nearest(to: text, among: all)
                throw Complaint(
                    "is \"\(text.shown)\"",
                    advice: meant.map { "did you mean \"\($0)\"?" } ?? "write \(list(all))")
            },
            write: { value in words.first { $0.value == value }?.word ?? "" })
    }
}

extension Scalar where Value: RawRepresentable<String> & CaseIterable & Equatable {
    /// One of the enumeration's raw values.
    static var choice: Self { .choice(Value.allCases.map { ($0.rawValue, $0) }) }
}

extension Scalar where Value == String {
    /// Text that `rule` accepts or complains about.
    static func text(
        _ accepts: String, _ rule: @escaping (String) -> Complaint?
    ) -> Self {
        Scalar(
            accepts: accepts,
            read: { text, _ throws(Complaint) in
                if let complaint = rule(text) { throw complaint }
                return text
            }, write: { $0 })
    }

    /// A name for people.
    static var name: Self {
        .text("1 to 64 visible characters") { text in
            if text.isEmpty || text.allSatisfy(\.isWhitespace) {
                return Complaint("is empty", advice: "write 1 to 64 characters")
            }
            if text.count > 64 || text.utf8.count > 256 {
                return Complaint(
                    "is too long: \"\(text.shown)\"", advice: "write 1 to 64 characters")
            }
            if !text.unicodeScalars.allSatisfy(\.isVisible) {
                return Complaint(
                    "contains an invisible character: \"\(text.shown)\"", advice: "remove it")
            }
            if text.first?.isWhitespace == true || text.last?.isWhitespace == true {
                return Complaint(
                    "begins or ends with a blank: \"\(text.shown)\"", advice: "remove it")
            }
            return nil
        }
    }

    /// The gateway's id, which becomes a topic level.
    static var gatewayID: Self {
        .text("1 to 32 of `a` to `z`, `0` to `9` and `-`") { text in
            let isPlain = text.utf8.allSatisfy {
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                    || $0 == UInt8(ascii: "-")
            }
            return isPlain && (1...32).contains(text.utf8.count)
                ? nil
                : Complaint(
                    "cannot be \"\(text.shown)\"",
                    advice: "write 1 to 32 of the characters a to z, 0 to 9 and -")
        }
    }

    /// What stands before every topic (MQTT 5, 4.7: topic names).
    static var baseTopic: Self {
        .text("topic levels joined by `/`, no wildcards") { text in
            let rule = "write one or more words joined by /, for example home/usbmeter"
            if text.isEmpty || text.utf8.count > 128 {
                return Complaint("must have 1 to 128 bytes", advice: rule)
            }
            if text.contains("+") || text.contains("#") {
                return Complaint("contains a wildcard: \"\(text.shown)\"", advice: rule)
            }
            if text.hasPrefix("$") {
                return Complaint(
                    "begins with $, which is the broker's own: \"\(text.shown)\"", advice: rule)
            }
            if text.split(separator: "/", omittingEmptySubsequences: false).contains("") {
                return Complaint(
                    "has an empty level (a / at its start, its end, or two in a row): "
                        + "\"\(text.shown)\"", advice: rule)
            }
            if !text.unicodeScalars.allSatisfy(\.isVisible) {
                return Complaint(
                    "contains an invisible character: \"\(text.shown)\"", advice: "remove it")
            }
            return nil
        }
    }

    /// A word that the broker sees: client id or user name.
    static var brokerWord: Self {
        .text("1 to 128 visible characters") { text in
            (1...128).contains(text.utf8.count) && text.unicodeScalars.allSatisfy(\.isVisible)
                ? nil
                : Complaint(
                    "cannot be \"\(text.shown)\"", advice: "write 1 to 128 visible characters")
        }
    }

    /// A file or folder; a relative path starts at the configuration file's folder.
    static var path: Self {
        Scalar(
            accepts: "a path",
            read: { text, folder throws(Complaint) in
                if text.isEmpty { throw Complaint("is empty", advice: "write a path") }
                if text.hasPrefix("~") {
                    throw Complaint(
                        "begins with ~, which is not replaced here: \"\(text.shown)\"",
                        advice: "write the path in full")
                }
                if !text.unicodeScalars.allSatisfy(\.isVisible) {
                    throw Complaint(
                        "contains an invisible character: \"\(text.shown)\"", advice: "remove it")
                }
                if text.hasPrefix("/") || folder.isEmpty { return text }
                return folder.hasSuffix("/") ? folder + text : "\(folder)/\(text)"
            }, write: { $0 })
    }

    /// A serial device.
    static var device: Self {
        let path = Self.path
        return Scalar(
            accepts: "a path",
            read: { text, folder throws(Complaint) in
                if !text.isEmpty, !text.contains("/") {
                    throw Complaint(
                        "is not a path: \"\(text.shown)\"", advice: "write \"/dev/\(text.shown)\"")
                }
                return try path.read(text, folder)
            }, write: { $0 })
    }
}

extension Scalar where Value == Int {
    /// A whole number within limits.
    static func number(_ limits: ClosedRange<Int>) -> Self {
        let range = "\(limits.lowerBound) to \(limits.upperBound)"
        return Scalar(
            accepts: range,
            read: { text, _ throws(Complaint) in
                guard let value = Int(text), limits.contains(value) else {
                    throw Complaint(
                        "is \"\(text.shown)\"", advice: "write a whole number from \(range)")
                }
                return value
            },
            write: { String($0) })
    }
}
