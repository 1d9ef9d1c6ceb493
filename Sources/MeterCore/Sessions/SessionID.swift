/// Names a session over all gateways: a UUID of version 7 (RFC 9562 §5.7), so that ids sort by the
/// time at which they were made.
package struct SessionID: Hashable, Comparable, Sendable, Codable, CustomStringConvertible {
    private let high: UInt64
    private let low: UInt64

    /// Makes a new id.
    /// - Parameters:
    ///   - time: its first 48 bits.
    ///   - generator: gives the other 74 free bits.
    package init(at time: WallTime, using generator: inout some RandomNumberGenerator) {
        let stamp = UInt64(truncatingIfNeeded: max(0, time.milliseconds)) & 0xffff_ffff_ffff
        high = stamp << 16 | 0x7000 | UInt64.random(in: 0...0xfff, using: &generator)
        low = 0x8000_0000_0000_0000 | generator.next() >> 2
    }

    /// Takes the 36-character text form in either case; `nil` for anything else.
    package init?(_ text: some StringProtocol) {
        let characters = Array(text.utf8)
        guard characters.count == 36 else { return nil }
        var words: [UInt64] = [0, 0]
        var digits = 0
        for (index, character) in characters.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard character == UInt8(ascii: "-") else { return nil }
            } else {
                guard let digit = Character(UnicodeScalar(character)).hexDigitValue else {
                    return nil
                }
                words[digits / 16] = words[digits / 16] << 4 | UInt64(digit)
                digits += 1
            }
        }
        (high, low) = (words[0], words[1])
    }

    /// The lower-case text form, e.g. `019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9a0b`.
    package var description: String {
        let digits = [high, low].map { word in
            let text = String(word, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
        var result = ""
        for (index, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(index) { result.append("-") }
            result.append(digit)
        }
        return result
    }

    package static func < (left: Self, right: Self) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let id = Self(text) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "not a session id: \(text)")
        }
        self = id
    }
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
