import MeterCore

/// The answer of an UM24C, UM25C or UM34C to `F0`: 130 bytes, all integers big-endian.
///
/// The layout is common knowledge of rdserialtool, libsigrok's rdtech-um and others; the check of
/// the UM34C is libsigrok's finding.
struct UMAnswer {
    var model: MeterModel
    var measurement: Measurement
    var memory: MeterMemory
    var recordingActive: Bool
    var screen: UInt8

    func bytes(spoilingCheck spoil: UInt8 = 0) -> [UInt8] {
        var bytes: [UInt8] = []
        func put16(_ value: Int64) {
            bytes += [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)]
        }
        func put32(_ value: Int64) {
            put16(value >> 16)
            put16(value)
        }
        func put(_ counter: MeterMemory.Counter) {
            put32(counter.shown.charge.rawValue)
            put32(counter.shown.energy.rawValue)
        }

        put16(modelNumber)
        put16(measurement.volts)
        put16(measurement.amperes)
        put32(measurement.watts)
        put16(measurement.celsius)
        put16(measurement.fahrenheit)
        put16(Int64(memory.selectedGroup))
        for group in memory.groups { put(group) }
        put16(measurement.dPlus)
        put16(measurement.dMinus)
        put16(modeNumber)
        put(memory.recording)
        put16(Int64(memory.thresholdSteps))
        // 99:59:59 is followed by 0:00:00.
        put32(memory.recordedMilliseconds / 1000 % 360_000)
        put16(recordingActive ? 1 : 0)
        put16(Int64(memory.screenTimeout))
        put16(Int64(memory.backlight))
        put32(measurement.resistance)
        put16(Int64(screen))
        if model == .um34c {
            // What this byte means is unknown: captures have 80 under load, 68 and 6B without.
            bytes.append(measurement.amperes > 0 ? 0x80 : 0x6b)
            bytes.append(Self.checked.reduce(spoil) { $0 ^ bytes[$1] })
        } else {
            bytes += [0xff, 0xf1 ^ spoil]
        }
        return bytes
    }

    /// Places that the last byte of an UM34C is the XOR of.
    private static let checked = [
        1, 3, 7, 9, 15, 17, 19, 23, 31, 39, 41, 45, 49, 53, 55, 57, 59, 63, 67, 69, 73, 79, 83, 89,
        97, 99, 109, 111, 113, 119, 121, 127,
    ]

    private var modelNumber: Int64 {
        switch model {
        case .um24c: 0x0963
        case .um25c: 0x09c9
        case .um34c: 0x0d4c
        case .tc66c: preconditionFailure("the TC66C speaks another protocol")
        }
    }

    /// The UM24C tells Quick Charge only.
    private var modeNumber: Int64 {
        let number: Int64 =
            switch measurement.mode {
            case .unknown: 0
            case .quickCharge2: 1
            case .quickCharge3: 2
            case .apple2400: 3
            case .apple2100: 4
            case .apple1000: 5
            case .apple500: 6
            case .dcp1500: 7
            case .samsung: 8
            }
        return model == .um24c && number > 2 ? 0 : number
    }
}
