/// Where one value stands in a frame: a driver is a list of these, a check and a framing rule.
struct FrameField: Sendable {
    enum Quantity: Sendable {
        case voltage, current, power
        case resistance
        case temperature, temperatureFahrenheit
        case dPlus, dMinus
        case mode
        case group
        case groupCharge(Int)
        case groupEnergy(Int)
        case recordingCharge, recordingEnergy, recordingSeconds
        case recordingThreshold, recordingActive
        case backlight, screenTimeout, screen
        case serial, runs
    }
    enum Encoding: Sendable {
        case uint16BE, int16BE, uint32BE, uint32LE
        /// A sign word (1 = negative) and a magnitude, both `uint32LE` (TC66C).
        case signAndMagnitudeLE
    }

    let quantity: Quantity
    let offset: Int
    let encoding: Encoding
    /// How many of the field's units one step on the wire is worth.
    let scale: Int64

    init(_ quantity: Quantity, at offset: Int, _ encoding: Encoding, scale: Int64 = 1) {
        self.quantity = quantity
        self.offset = offset
        self.encoding = encoding
        self.scale = scale
    }

    /// The number on the wire. `bytes` must reach past the field.
    func raw(in bytes: [UInt8]) -> Int64 {
        func word(_ offset: Int, _ count: Int, bigEndian: Bool) -> UInt32 {
            var value: UInt32 = 0
            for index in 0..<count {
                value = value << 8 | UInt32(bytes[offset + (bigEndian ? index : count - 1 - index)])
            }
            return value
        }
        switch encoding {
        case .uint16BE: return Int64(word(offset, 2, bigEndian: true))
        case .int16BE:
            return Int64(Int16(truncatingIfNeeded: word(offset, 2, bigEndian: true)))
        case .uint32BE: return Int64(word(offset, 4, bigEndian: true))
        case .uint32LE: return Int64(word(offset, 4, bigEndian: false))
        case .signAndMagnitudeLE:
            let magnitude = Int64(word(offset + 4, 4, bigEndian: false))
            return word(offset, 4, bigEndian: false) == 1 ? -magnitude : magnitude
        }
    }

    /// Reads the field and puts it into `frame`.
    func read(_ bytes: [UInt8], into frame: inout MeterFrame) {
        let value = raw(in: bytes) * scale
        switch quantity {
        case .voltage: frame.voltage = Microvolts(value)
        case .current: frame.current = Microamperes(value)
        case .power: frame.power = Microwatts(value)
        case .resistance: frame.resistance = Milliohms(value)
        case .temperature: frame.temperature = MilliCelsius(value)
        case .temperatureFahrenheit: frame.temperatureFahrenheit = value
        case .dPlus: frame.dPlus = Microvolts(value)
        case .dMinus: frame.dMinus = Microvolts(value)
        case .mode: frame.mode = ChargingMode(rawValue: Int(value))
        case .group: frame.group = Int(value)
        case .groupCharge(let index): frame.groups[index].charge = MilliampereHours(value)
        case .groupEnergy(let index): frame.groups[index].energy = MilliwattHours(value)
        case .recordingCharge: frame.recording?.charge = MilliampereHours(value)
        case .recordingEnergy: frame.recording?.energy = MilliwattHours(value)
        case .recordingSeconds: frame.recording?.seconds = value
        case .recordingThreshold: frame.recording?.threshold = Microamperes(value)
        case .recordingActive: frame.recording?.active = value != 0
        case .backlight: frame.backlight = Int(value)
        case .screenTimeout: frame.screenTimeoutMinutes = Int(value)
        case .screen: frame.screen = Int(value)
        case .serial: frame.serial = UInt32(value)
        case .runs: frame.runs = UInt32(value)
        }
    }
}
