import MeterCore

/// The answer of a TC66C to `getva`: three blocks of 64 bytes, all integers little-endian, each
/// block with a CRC-16/MODBUS of its first 60 bytes, the whole encrypted with a key that is the
/// same in all devices and all public tools.
///
/// The layout is common knowledge of libsigrok's rdtech-tc, TheHWcave/TC66 and others.
struct TC66CAnswer {
    var measurement: Measurement
    var memory: MeterMemory

    func bytes(spoilingCheck spoil: UInt8 = 0) -> [UInt8] {
        Self.encryptor.encrypt(plain(spoilingCheck: spoil))
    }

    /// Before encryption.
    func plain(spoilingCheck spoil: UInt8 = 0) -> [UInt8] {
        identity(spoil) + values() + [UInt8]("pac3".utf8).closed(by: 0)
    }

    private func identity(_ spoil: UInt8) -> [UInt8] {
        var block = [UInt8]("pac1TC661.18".utf8)
        block.put(Int64(memory.serial))
        block += Self.unknown
        block.put(Int64(memory.runs))
        block.put(measurement.volts)
        block.put(measurement.amperes)
        block.put(measurement.watts)
        return block.closed(by: spoil)
    }

    private func values() -> [UInt8] {
        var block = [UInt8]("pac2".utf8)
        block.put(measurement.resistance)
        for group in memory.groups.prefix(2) {
            block.put(group.shown.charge.rawValue)
            block.put(group.shown.energy.rawValue)
        }
        let temperature = memory.fahrenheit ? measurement.fahrenheit : measurement.celsius
        block.put(temperature < 0 ? 1 : 0)
        block.put(abs(temperature))
        block.put(measurement.dPlus)
        block.put(measurement.dMinus)
        return block.closed(by: 0)
    }

    /// Bytes 16 to 43 mean something that nobody knows and never change; these are of the answer
    /// published by jedie/tc66c2mqtt.
    private static let unknown: [UInt8] = [
        0x62, 0x85, 0x4a, 0x4a, 0x36, 0x32, 0x35, 0x0c, 0x35, 0x36, 0x37, 0x32, 0x41, 0x50,
        0x85, 0x20, 0xce, 0x4c, 0x3e, 0x6d, 0x83, 0xc4, 0x0b, 0xc4, 0xb3, 0x6b, 0x31, 0x59,
    ]

    private static let encryptor = Encryptor(key: [
        0x58, 0x21, 0xfa, 0x56, 0x01, 0xb2, 0xf0, 0x26, 0x87, 0xff, 0x12, 0x04, 0x62, 0x2a, 0x4f,
        0xb0, 0x86, 0xf4, 0x02, 0x60, 0x81, 0x6f, 0x9a, 0x0b, 0xa7, 0xf1, 0x06, 0x61, 0x9a, 0xb8,
        0x72, 0x88,
    ])
}

extension [UInt8] {
    fileprivate mutating func put(_ value: Int64) {
        for shift in [0, 8, 16, 24] { append(UInt8(truncatingIfNeeded: value >> Int64(shift))) }
    }

    /// Fills up to 60 bytes and adds the check, spoilt by the bits of `spoil`.
    fileprivate func closed(by spoil: UInt8) -> [UInt8] {
        var block = self + [UInt8](repeating: 0, count: 60 - count)
        block.put(Int64(block.modbusCheck ^ UInt16(spoil)))
        return block
    }

    /// CRC-16/MODBUS: polynomial 8005 read backwards, starting from FFFF.
    var modbusCheck: UInt16 {
        reduce(0xffff) { check, byte in
            (0..<8).reduce(check ^ UInt16(byte)) { check, _ in
                check & 1 == 0 ? check >> 1 : check >> 1 ^ 0xa001
            }
        }
    }
}
