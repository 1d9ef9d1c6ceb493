/// Writes one JSON object, keys in the order given. Values come as integers with a number of decimal
/// places, so that 5.120 V has three of them in every message and in every locale; encoders that go
/// through binary floating point cannot promise that.
package struct JSONWriter {
    private var text = ""
    private var isFirst = true

    package init() {}

    /// The UTF-8 text of an object whose members `body` writes.
    package static func object(_ body: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        body(&writer)
        return "{" + writer.text + "}"
    }

    package mutating func null(_ key: String) { member(key, "null") }
    package mutating func bool(_ key: String, _ value: Bool?) {
        member(key, value.map { $0 ? "true" : "false" } ?? "null")
    }
    package mutating func integer(_ key: String, _ value: Int64?) {
        member(key, value.map(String.init) ?? "null")
    }
    package mutating func integer(_ key: String, _ value: Int) { integer(key, Int64(value)) }
    package mutating func string(_ key: String, _ value: String?) {
        member(key, value.map(Self.quoted) ?? "null")
    }
    package mutating func time(_ key: String, _ value: WallTime?) { string(key, value?.iso8601) }

    /// A quantity in its base unit, rounded half away from zero to `places` decimal places.
    package mutating func quantity(_ key: String, _ value: (some Quantity)?, places: Int) {
        member(key, value.map { Self.decimal($0, places: places) } ?? "null")
    }
    /// `value` · 10^−`decimals` with `places` decimal places.
    package mutating func decimal(_ key: String, _ value: Int64?, decimals: Int, places: Int) {
        member(key, value.map { Self.decimal($0, decimals: decimals, places: places) } ?? "null")
    }
    package mutating func object(_ key: String, _ body: (inout JSONWriter) -> Void) {
        member(key, Self.object(body))
    }
    /// Members that are JSON texts already.
    package mutating func array(_ key: String, of elements: [String]) {
        member(key, "[" + elements.joined(separator: ",") + "]")
    }

    private mutating func member(_ key: String, _ value: String) {
        if !isFirst { text += "," }
        isFirst = false
        text += Self.quoted(key) + ":" + value
    }

    /// A quantity as text in its base unit.
    package static func decimal(_ value: some Quantity, places: Int) -> String {
        decimal(value.rawValue, decimals: type(of: value).decimals, places: places)
    }

    /// `value` · 10^−`decimals` as text with exactly `places` decimal places, rounded half away from
    /// zero; never an exponent, and no −0.
    package static func decimal(_ value: Int64, decimals: Int, places: Int) -> String {
        func power(_ count: Int) -> Int64 { (0..<count).reduce(1) { result, _ in result * 10 } }
        let shown =
            places >= decimals
            ? value * power(places - decimals) : rounded(value, over: power(decimals - places))
        let digits = String(shown.magnitude)
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        let sign = shown < 0 ? "-" : ""
        guard places > 0 else { return sign + padded }
        return sign + padded.dropLast(places) + "." + padded.suffix(places)
    }

    /// A JSON string (RFC 8259 §7).
    package static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
