/// The name of a service, a characteristic or a descriptor: 128 bits, of which most names that the
/// meters use leave 16 to choose.
package struct BluetoothUUID: Hashable, Sendable, CustomStringConvertible {
    private let high: UInt64
    private let low: UInt64

    /// `0000xxxx-0000-1000-8000-00805f9b34fb`.
    private static let baseLow: UInt64 = 0x8000_0080_5f9b_34fb
    private static let baseHigh: UInt64 = 0x0000_0000_0000_1000

    private init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
    package init(_ short: UInt16) {
        self.init(high: UInt64(short) << 32 | Self.baseHigh, low: Self.baseLow)
    }

    /// Takes 2 or 16 bytes as they are sent, the least significant first; `nil` for any other
    /// number of bytes.
    package init?(littleEndian bytes: some BidirectionalCollection<UInt8>) {
        func number(_ bytes: some Sequence<UInt8>) -> UInt64 {
            bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
        let bytes = Array(bytes.reversed())
        switch bytes.count {
        case 2: self.init(UInt16(number(bytes)))
        case 16:
            self.init(high: number(bytes[..<8]), low: number(bytes[8...]))
        default: return nil
        }
    }

    /// The 16 bits of a short name; `nil` for a long one.
    package var short: UInt16? {
        guard low == Self.baseLow, high & 0xffff_ffff == Self.baseHigh, high >> 48 == 0 else {
            return nil
        }
        return UInt16(truncatingIfNeeded: high >> 32)
    }

    /// 2 bytes for a short name and 16 for a long one, the least significant first.
    package var littleEndian: [UInt8] {
        if let short { return [UInt8(short & 0xff), UInt8(short >> 8)] }
        return [low, high].flatMap { half in
            (0..<8).map { UInt8(truncatingIfNeeded: half >> UInt64(8 * $0)) }
        }
    }

    /// `FFE0`, or all 32 digits in the usual groups.
    package var description: String {
        if let short { return Self.digits(UInt64(short), 4) }
        return [
            Self.digits(high >> 32, 8), Self.digits(high >> 16, 4), Self.digits(high, 4),
            Self.digits(low >> 48, 4), Self.digits(low, 12),
        ].joined(separator: "-")
    }

    private static func digits(_ value: UInt64, _ count: Int) -> String {
        let text = String(value & (1 << UInt64(4 * count) - 1), radix: 16, uppercase: true)
        return String(repeating: "0", count: count - text.count) + text
    }
}
