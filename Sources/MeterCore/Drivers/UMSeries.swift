// RDTech / Ruideng UM24C, UM25C, UM34C: one byte asks, 130 bytes answer, all integers big-endian.
// Layout, ids and checks as rdserialtool, sigrok's rdtech-um, rd-usb and others agree on them; the
// manuals give the ranges.

/// What differs between the three meters.
struct UMSeries: Sendable {
    let model: MeterModel
    /// The first two bytes of an answer. Units are on record that send another model's id, so it
    /// is a hint for the scale, and no reason to refuse a frame.
    let id: UInt16
    /// µV and µA for one step of the voltage and current fields.
    let voltageStep: Int64
    let currentStep: Int64

    static let um24c = UMSeries(model: .um24c, id: 0x0963, voltageStep: 10_000, currentStep: 1_000)
    static let um25c = UMSeries(model: .um25c, id: 0x09c9, voltageStep: 1_000, currentStep: 100)
    static let um34c = UMSeries(model: .um34c, id: 0x0d4c, voltageStep: 10_000, currentStep: 1_000)
    static let all = [um24c, um25c, um34c]

    static func of(_ model: MeterModel) -> UMSeries? { all.first { $0.model == model } }
    static func withID(in bytes: [UInt8]) -> UMSeries? {
        guard bytes.count >= 2 else { return nil }
        let id = UInt16(bytes[0]) << 8 | UInt16(bytes[1])
        return all.first { $0.id == id }
    }

    static let length = 130
    static let request: [UInt8] = [0xf0]
    static let groupCount = 10
    static let powerStep: Int64 = 1_000

    /// The part of the table that tells the scale.
    private var electrical: [FrameField] {
        [
            FrameField(.voltage, at: 2, .uint16BE, scale: voltageStep),
            FrameField(.current, at: 4, .uint16BE, scale: currentStep),
            FrameField(.power, at: 6, .uint32BE, scale: Self.powerStep),
        ]
    }

    /// The table. Temperatures are read with a sign: the manuals go down to −10 °C, and above zero
    /// it makes no difference. The current has none: a UM25C sends up to 5 A as 50,000.
    private var channels: [FrameField] {
        electrical + [
            FrameField(.temperature, at: 10, .int16BE, scale: 1_000),
            FrameField(.temperatureFahrenheit, at: 12, .int16BE),
            FrameField(.group, at: 14, .uint16BE),
            FrameField(.dPlus, at: 96, .uint16BE, scale: 10_000),
            FrameField(.dMinus, at: 98, .uint16BE, scale: 10_000),
            FrameField(.mode, at: 100, .uint16BE),
            FrameField(.recordingCharge, at: 102, .uint32BE),
            FrameField(.recordingEnergy, at: 106, .uint32BE),
            FrameField(.recordingThreshold, at: 110, .uint16BE, scale: 10_000),
            FrameField(.recordingSeconds, at: 112, .uint32BE),
            FrameField(.recordingActive, at: 116, .uint16BE),
            FrameField(.screenTimeout, at: 118, .uint16BE),
            FrameField(.backlight, at: 120, .uint16BE),
            FrameField(.resistance, at: 122, .uint32BE, scale: 100),
            FrameField(.screen, at: 126, .uint16BE),
        ]
            + (0..<Self.groupCount).flatMap { group in
                [
                    FrameField(.groupCharge(group), at: 16 + 8 * group, .uint32BE),
                    FrameField(.groupEnergy(group), at: 20 + 8 * group, .uint32BE),
                ]
            }
    }
    private static let tables: [MeterModel: [FrameField]] = Dictionary(
        uniqueKeysWithValues: all.map { ($0.model, $0.channels) })

    /// Reads every field of a frame of 130 bytes, with this model's scale.
    func decode(_ bytes: [UInt8]) -> MeterFrame {
        precondition(bytes.count == Self.length, "a UM frame has 130 bytes")
        var frame = MeterFrame(
            model: model, voltage: .zero, current: .zero, power: .zero,
            groups: Array(
                repeating: GroupCounter(charge: .zero, energy: .zero), count: Self.groupCount))
        frame.recording = RecordingCounter(
            charge: .zero, energy: .zero, seconds: 0, threshold: .zero, active: false)
        for channel in Self.tables[model] ?? [] { channel.read(bytes, into: &frame) }
        return frame
    }

    // MARK: Check

    /// The bytes whose XOR stands in byte 129 of a UM34C frame (sigrok's rdtech-um; it holds on the
    /// one public capture).
    private static let xorPositions = [
        1, 3, 7, 9, 15, 17, 19, 23, 31, 39, 41, 45, 49, 53, 55, 57, 59, 63, 67, 69, 73, 79, 83, 89,
        97, 99, 109, 111, 113, 119, 121, 127,
    ]

    /// UM24C and UM25C end with the constant FF F1; the last byte of a UM34C is an XOR, and the one
    /// before it varies with no known meaning.
    func checks(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == Self.length else { return false }
        if model == .um34c {
            return Self.xorPositions.reduce(0) { $0 ^ bytes[$1] } == bytes[129]
        }
        return bytes[128] == 0xff && bytes[129] == 0xf1
    }

    // MARK: Scale

    /// The model whose scale fits the frame.
    enum Judgement: Equatable {
        /// The power field, or with no load the voltage's range, leaves one scale.
        case frame(MeterModel)
        /// The frame fits either scale, as it does without load and with an odd voltage.
        case undecided
        /// No scale makes V·I agree with the power: a value is damaged.
        case contradiction
    }

    /// With the wrong scale V·I is off by 100 from the power field; without load the meters' range
    /// of 4 to 24 V leaves one scale as well, since the two readings of one number do not overlap.
    static func judgeScale(of bytes: [UInt8]) -> Judgement {
        func measured(_ series: UMSeries) -> MeterFrame {
            var frame = MeterFrame(
                model: series.model, voltage: .zero, current: .zero, power: .zero)
            for channel in series.electrical { channel.read(bytes, into: &frame) }
            return frame
        }
        let coarse = measured(um34c)
        let fine = measured(um25c)
        // of the two models with the coarse scale the id names one, or else the end of the frame
        let coarseModel =
            switch withID(in: bytes)?.model {
            case .um24c: MeterModel.um24c
            case .um34c: MeterModel.um34c
            default: um24c.checks(bytes) && !um34c.checks(bytes) ? MeterModel.um24c : .um34c
            }
        let power = coarse.power.rawValue
        // 50 mW, where both products are known to better than a few per cent
        if power >= 50_000 {
            func agrees(_ frame: MeterFrame) -> Bool {
                let product = Microwatts(frame.voltage, times: frame.current).rawValue
                return abs(product - power) * 3 < power
            }
            switch (agrees(coarse), agrees(fine)) {
            case (true, false): return .frame(coarseModel)
            case (false, true): return .frame(.um25c)
            default: return .contradiction
            }
        }
        let range: ClosedRange<Int64> = 3_500_000...26_000_000
        switch (range.contains(coarse.voltage.rawValue), range.contains(fine.voltage.rawValue)) {
        case (true, false): return .frame(coarseModel)
        case (false, true): return .frame(.um25c)
        default: return .undecided
        }
    }
}
