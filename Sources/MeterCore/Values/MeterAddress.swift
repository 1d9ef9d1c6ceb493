/// The six bytes by which a meter is known everywhere: its Bluetooth address, or for a serial
/// meter without one a locally administered address made from its device path.
package struct MeterAddress: Hashable, Comparable, Sendable, Codable, CustomStringConvertible {
    private let value: UInt64

    /// Takes 12 hexadecimal digits, with `:` or `-` between the pairs or without; `nil` for
    /// anything else.
    package init?(_ text: some StringProtocol) {
        var value: UInt64 = 0
        var digits = 0
        var separator: Character?
        for (index, character) in text.enumerated() {
            if character == ":" || character == "-" {
                guard index % 3 == 2, separator == nil ? index == 2 : separator == character
                else { return nil }
                separator = character
            } else {
                guard character.isASCII, let digit = character.hexDigitValue,
                    separator == nil || index % 3 != 2
                else { return nil }
                value = value << 4 | UInt64(digit)
                digits += 1
                if digits > 12 { return nil }
            }
        }
        guard digits == 12, text.count == (separator == nil ? 12 : 17) else { return nil }
        self.value = value
    }

    /// Takes the six bytes as they are on the air and in the kernel's structures, lowest first;
    /// `nil` for any other number of bytes.
    package init?(littleEndian bytes: some Collection<UInt8>) {
        guard bytes.count == 6 else { return nil }
        value = bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    /// The six bytes, lowest first.
    package var littleEndianBytes: [UInt8] {
        (0..<6).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }

    /// A stable address for a meter that has none of its own: the 64-bit FNV-1a hash of the path,
    /// with the bit for "locally administered" set and the one for "group" clear (IEEE 802).
    package init(localFor path: String) {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in path.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        value = hash >> 16 & 0xfcff_ffff_ffff | 0x0200_0000_0000
    }

    /// 12 lower-case hexadecimal digits: the form in topics, identifiers and the database.
    package var compact: String { pairs.joined() }
    /// Upper case with colons, as people write it.
    package var description: String { pairs.joined(separator: ":").uppercased() }

    private var pairs: [String] {
        (0..<6).map { index in
            let byte = UInt8(truncatingIfNeeded: value >> UInt64(8 * (5 - index)))
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }

    package static func < (left: Self, right: Self) -> Bool { left.value < right.value }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let address = Self(text) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "not a device address: \(text)")
        }
        self = address
    }
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(compact)
    }
}
