import MeterCore
import Testing

@Suite struct SampleCodecTests {
    /// SplitMix64, so that a failure can be repeated.
    struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var z = state
            z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
            z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
            return z ^ z >> 31
        }
    }

    /// A phone charging for an hour at 1 Hz behind a UM25C: 1 mV, 0.1 mA, 1 mW, whole degrees,
    /// 10 mV on the data lines, and a radio that is now and then late.
    static func realisticCurve(count: Int) -> [Sample] {
        var generator = Generator(state: 25)
        var offset: Int64 = 0
        var temperature: Int64 = 24
        return (0..<count).map { second in
            let taper = second < count / 2 ? 0 : Int64(second - count / 2) * 20_000 / Int64(count)
            let current = max(0, 16_500 - taper + Int64.random(in: -25...25, using: &generator))
            let voltage = 5_120 - current / 90 + Int64.random(in: -3...3, using: &generator)
            if Int.random(in: 0..<180, using: &generator) == 0 { temperature += 1 }
            // The meter multiplies before it rounds, so its power is off by a milliwatt at times.
            let power =
                (voltage * current + Int64.random(in: 0...9_999, using: &generator)) / 10_000
            defer {
                let late = Int.random(in: 0..<20, using: &generator) == 0
                offset += 1000 + Int64.random(in: late ? 50...400 : -15...15, using: &generator)
            }
            return Sample(
                offset: offset, voltage: Microvolts(voltage * 1000),
                current: Microamperes(current * 100), power: Microwatts(power * 1000),
                temperature: MilliCelsius(temperature * 1000),
                dPlus: Microvolts(600_000 + (Bool.random(using: &generator) ? 10_000 : 0)),
                dMinus: Microvolts(600_000))
        }
    }

    @Test func aSampleOfAMeterCostsLessThanTenBytes() throws {
        let curve = Self.realisticCurve(count: 3584)
        var bytes = 0
        for start in stride(from: 0, to: curve.count, by: 512) {
            let chunk = Array(curve[start..<start + 512])
            let packed = SampleCodec.encode(chunk)
            #expect(try SampleCodec.decode(packed) == chunk)
            bytes += packed.count
        }
        let each = Double(bytes) / Double(curve.count)
        #expect(each < 10, "\(each) bytes a sample")
    }

    @Test func aBatchOfTenSamplesIsSmallToo() {
        let packed = SampleCodec.encode(Array(Self.realisticCurve(count: 3600)[1000..<1010]))
        #expect(packed.count < 150, "\(packed.count) bytes for ten samples")
    }

    @Test func anySamplesComeBackUnchanged() throws {
        var generator = Generator(state: 1)
        let extremes: [Int64] = [.min, .min + 1, -1, 0, 1, .max - 1, .max]
        func number() -> Int64 {
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: extremes.randomElement(using: &generator) ?? 0
            case 1: Int64.random(in: .min ... .max, using: &generator)
            case 2: Int64.random(in: -100...100, using: &generator) * 1_000_000
            case 3: 0
            default: Int64.random(in: -1000...1000, using: &generator)
            }
        }
        func perhaps(_ value: Int64, _ odds: Int) -> Int64? {
            Int.random(in: 0..<4, using: &generator) < odds ? value : nil
        }
        for _ in 0..<2000 {
            let odds = (0..<3).map { _ in Int.random(in: 0...4, using: &generator) }
            let samples = (0..<Int.random(in: 0...70, using: &generator)).map { _ in
                Sample(
                    offset: number(), voltage: Microvolts(number()),
                    current: Microamperes(number()), power: Microwatts(number()),
                    temperature: perhaps(number(), odds[0]).map { MilliCelsius($0) },
                    dPlus: perhaps(number(), odds[1]).map { Microvolts($0) },
                    dMinus: perhaps(number(), odds[2]).map { Microvolts($0) })
            }
            #expect(try SampleCodec.decode(SampleCodec.encode(samples)) == samples)
        }
    }

    @Test func theLargestStepOfAllComesBack() throws {
        let samples = [Int64(0), .min, 0, 0, .min].map { value in
            Sample(
                offset: value, voltage: Microvolts(value), current: Microamperes(value),
                power: Microwatts(value), temperature: MilliCelsius(value))
        }
        #expect(try SampleCodec.decode(SampleCodec.encode(samples)) == samples)
    }

    @Test func damagedBytesNeverTrapAndAreNeverHuge() {
        var generator = Generator(state: 7)
        let whole = SampleCodec.encode(Self.realisticCurve(count: 200))
        var refused = 0
        for round in 0..<4000 {
            var bytes = whole
            switch round % 3 {
            case 0:
                for _ in 0..<Int.random(in: 1...4, using: &generator) {
                    bytes[Int.random(in: 0..<bytes.count, using: &generator)] =
                        UInt8.random(in: 0...255, using: &generator)
                }
            case 1:
                bytes = Array(bytes.prefix(Int.random(in: 0..<bytes.count, using: &generator)))
            default:
                bytes = [1]
                for _ in 0..<Int.random(in: 0..<60, using: &generator) {
                    bytes.append(UInt8.random(in: 0...255, using: &generator))
                }
            }
            do throws(SampleCodecError) {
                let samples = try SampleCodec.decode(bytes)
                #expect(samples.count <= SampleCodec.maximumCount)
            } catch {
                refused += 1
            }
        }
        #expect(refused > 2000)
    }

    @Test func everyShorterOrLongerFormIsRefused() {
        let whole = SampleCodec.encode(Self.realisticCurve(count: 40))
        for length in 0..<whole.count {
            #expect(throws: SampleCodecError.self) {
                try SampleCodec.decode(Array(whole[..<length]))
            }
        }
        #expect(throws: SampleCodecError.malformed("more bytes than samples")) {
            try SampleCodec.decode(whole + [0])
        }
        #expect(throws: SampleCodecError.unknownVersion(9)) { try SampleCodec.decode([9, 0]) }
        // A count that would take gigabytes if it were believed.
        #expect(throws: SampleCodecError.self) {
            try SampleCodec.decode([1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0])
        }
    }
}
