// RDTech TC66C (and the TC66, which has USB only): an ASCII command asks, 192 bytes answer, which
// are three blocks of 64 under AES-256-ECB, all integers little-endian. Layout, key and checks as
// sigrok's rdtech-tc, TheHWcave, rd-usb, jedie and others agree on them.
enum TC66 {
    static let length = 192
    static let blockLength = 64
    static let groupCount = 2

    /// The same 32 bytes in every meter and every public tool.
    private static let key: [UInt8] = [
        0x58, 0x21, 0xfa, 0x56, 0x01, 0xb2, 0xf0, 0x26, 0x87, 0xff, 0x12, 0x04, 0x62, 0x2a, 0x4f,
        0xb0, 0x86, 0xf4, 0x02, 0x60, 0x81, 0x6f, 0x9a, 0x0b, 0xa7, 0xf1, 0x06, 0x61, 0x9a, 0xb8,
        0x72, 0x88,
    ]

    static func request(_ dialect: CommandDialect) -> [UInt8] { command("getva", dialect) }

    /// Over Bluetooth a command has a `b` before it and ends with CR LF; over USB neither.
    static func command(_ name: String, _ dialect: CommandDialect) -> [UInt8] {
        switch dialect {
        case .bluetooth: Array("b\(name)\r\n".utf8)
        case .usb: Array(name.utf8)
        }
    }

    private static let channels: [FrameField] = [
        FrameField(.serial, at: 12, .uint32LE),
        FrameField(.runs, at: 44, .uint32LE),
        FrameField(.voltage, at: 48, .uint32LE, scale: 100),
        FrameField(.current, at: 52, .uint32LE, scale: 10),
        FrameField(.power, at: 56, .uint32LE, scale: 100),
        // ÷10, as the one public capture shows (5.1609 V / 0.0199 A against raw 2593); several
        // tools divide by 100
        FrameField(.resistance, at: 68, .uint32LE, scale: 100),
        FrameField(.groupCharge(0), at: 72, .uint32LE),
        FrameField(.groupEnergy(0), at: 76, .uint32LE),
        FrameField(.groupCharge(1), at: 80, .uint32LE),
        FrameField(.groupEnergy(1), at: 84, .uint32LE),
        FrameField(.temperature, at: 88, .signAndMagnitudeLE, scale: 1_000),
        FrameField(.dPlus, at: 96, .uint32LE, scale: 10_000),
        FrameField(.dMinus, at: 100, .uint32LE, scale: 10_000),
    ]

    /// Whether an answer starts here: the first 16 bytes decrypt to `pac1TC66…`.
    /// - Parameter bytes: at least 16.
    static func startsAnswer(_ bytes: ArraySlice<UInt8>) -> Bool {
        AES.decryptECB(bytes.prefix(AES.blockSize), key: key).starts(with: "pac1TC66".utf8)
    }

    static func decrypt(_ bytes: [UInt8]) -> [UInt8] { AES.decryptECB(bytes[...], key: key) }

    /// Each block ends with the CRC of its first 60 bytes, in the low half of a word.
    static func checks(plain: [UInt8]) -> Bool {
        guard plain.count == length else { return false }
        return (0..<3).allSatisfy { index in
            let block = plain[(index * blockLength)..<((index + 1) * blockLength)]
            let crc = crc16Modbus(block.prefix(60))
            return block.starts(with: "pac\(index + 1)".utf8)
                && Array(block.suffix(4)) == [UInt8(crc & 0xff), UInt8(crc >> 8), 0, 0]
        }
    }

    /// Reads every field of the 192 decrypted bytes.
    /// - Parameter unit: what the meter's display is set to, since the frame does not tell.
    static func decode(plain: [UInt8], unit: TemperatureUnit) -> MeterFrame {
        precondition(plain.count == length, "a TC66C answer has 192 bytes")
        var frame = MeterFrame(
            model: .tc66c, voltage: .zero, current: .zero, power: .zero,
            groups: Array(
                repeating: GroupCounter(charge: .zero, energy: .zero), count: groupCount))
        for channel in channels { channel.read(plain, into: &frame) }
        if unit == .fahrenheit, let shown = frame.temperature {
            frame.temperature = MilliCelsius(fahrenheit: shown.rawValue / 1_000)
        }
        frame.product = ascii(plain[4..<8])
        frame.version = ascii(plain[8..<12])
        return frame
    }

    /// Whether the values are within the meter's ranges (24 V, 5 A) and a good deal more. A right check
    /// says that they are what the meter sent, not that they make sense, and sums must not overflow.
    static func canMeasure(_ frame: MeterFrame) -> Bool {
        frame.voltage <= Microvolts(50_000_000) && frame.current <= Microamperes(10_000_000)
            && frame.power <= Microwatts(500_000_000)
    }

    private static func ascii(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes.filter { (0x20...0x7e).contains($0) }, as: UTF8.self)
    }
}

/// The unit that a TC66C's display is set to, which is the unit that it sends.
package enum TemperatureUnit: String, Sendable, Codable, CaseIterable {
    case celsius, fahrenheit
}
