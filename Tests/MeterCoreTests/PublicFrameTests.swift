import MeterCore
import Testing

@Suite struct PublicFrameTests {
    @Test(arguments: PublicFrame.names)
    func everyFieldOfAPublicFrameIsReadAsPublished(name: String) throws {
        let known = try PublicFrame.named(name)
        let model = try #require(MeterModel(name: known.meter))
        let captured = try CapturedFrame(known.bytes, from: model)
        #expect(captured.check == .ok)
        #expect(captured.remark == "")
        check(captured.frame, against: known.expected)
        #expect(captured.frame.model == model)
    }

    @Test(arguments: PublicFrame.names)
    func theDriverGivesOutAPublicFrameOnceASecondOneBearsItOut(name: String) throws {
        let known = try PublicFrame.named(name)
        let model = try #require(MeterModel(name: known.meter))
        for configured in [model, nil] {
            var bench = Bench(MeterDriver(model: configured, dialect: .bluetooth))
            if configured == nil, model == .tc66c { bench.driver.giveUp() }
            _ = bench.ask(known.bytes)
            let frame = try #require(bench.ask(known.bytes).frame)
            check(frame, against: known.expected)
            #expect(bench.driver.statistics.rejected == 0)
            #expect(bench.driver.statistics.strayBytes == 0)
            #expect(bench.driver.takeNotice() == nil)
        }
    }

    @Test func aTC66AnswerThatIsDecryptedAlreadyIsReadTheSame() throws {
        let known = try PublicFrame.named("tc66c-1")
        let sent = try CapturedFrame(known.bytes, from: .tc66c)
        var plain = TC66Answer()
        plain.serial = 48_724
        let written = try CapturedFrame(plain.plain, from: .tc66c)
        #expect(written.check == .ok)
        #expect(written.frame == sent.frame)
    }

    @Test func aTC66SetToFahrenheitIsConvertedAndBelowZeroKeepsItsSign() throws {
        var answer = TC66Answer()
        answer.temperature = 81
        let warm = try CapturedFrame(answer.bytes, from: .tc66c, unit: .fahrenheit)
        #expect(warm.frame.temperature == MilliCelsius(27_222))
        answer.negative = true
        answer.temperature = 4
        let cold = try CapturedFrame(answer.bytes, from: .tc66c)
        #expect(cold.frame.temperature == MilliCelsius(-4_000))
        let colder = try CapturedFrame(answer.bytes, from: .tc66c, unit: .fahrenheit)
        #expect(colder.frame.temperature == MilliCelsius(-20_000))
    }

    @Test func aUMBelowZeroKeepsItsSign() throws {
        var answer = UMAnswer(.um34c)
        answer.measure(microvolts: 5_000_000, microamperes: 0)
        (answer.celsius, answer.fahrenheit) = (-7, 20)
        let frame = try CapturedFrame(answer.bytes, from: .um34c).frame
        #expect(answer.differences(from: frame) == [])
    }

    @Test(arguments: [MeterModel.um24c, .um25c, .um34c, .tc66c])
    func anAnswerOfAnotherLengthIsRefusedWithBothLengths(model: MeterModel) {
        let length = model == .tc66c ? 192 : 130
        for count in [0, 1, length - 1, length + 1, 2 * length] {
            let bytes = [UInt8](repeating: 0, count: count)
            #expect(throws: CapturedFrame.Problem.wrongLength(actual: count, expected: length)) {
                try CapturedFrame(bytes, from: model)
            }
        }
    }

    @Test func aCaptureWithAWrongCheckIsStillDecodedAndSaysSo() throws {
        for name in PublicFrame.names {
            let known = try PublicFrame.named(name)
            let model = try #require(MeterModel(name: known.meter))
            var bytes = known.bytes
            bytes[bytes.count - 1] ^= 1
            #expect(try CapturedFrame(bytes, from: model).check == .bad)
        }
    }

    @Test func randomCapturesNeverTrap() {
        var random = Seeded(1)
        for _ in 0..<2_000 {
            for model in MeterModel.allCases {
                let bytes = random.bytes(model == .tc66c ? 192 : 130)
                if let captured = try? CapturedFrame(bytes, from: model) {
                    let text = Payloads.frame(captured.frame, check: captured.check.rawValue)
                    #expect(text.hasPrefix("{"))
                }
            }
        }
    }

    private func check(_ frame: MeterFrame, against expected: PublicFrame.Expected) {
        func same(_ value: (some Quantity)?, _ should: Double, _ name: String) {
            #expect(abs((value?.base ?? .nan) - should) < 1e-9, "\(name)")
        }
        same(frame.voltage, expected.voltage, "voltage")
        same(frame.current, expected.current, "current")
        same(frame.power, expected.power, "power")
        same(frame.resistance, expected.resistance, "resistance")
        same(frame.temperature, expected.temperatureC, "temperature")
        same(frame.dPlus, expected.dPlus, "D+")
        same(frame.dMinus, expected.dMinus, "D-")
        #expect(frame.temperatureFahrenheit == expected.temperatureF)
        #expect(frame.group == expected.group)
        #expect(frame.groups.map { [$0.charge.rawValue, $0.energy.rawValue] } == expected.groups)
        #expect(frame.mode?.rawValue == expected.mode)
        #expect((frame.recording == nil) == (expected.recording == nil))
        if let recording = frame.recording, let should = expected.recording {
            #expect(recording.charge.rawValue == should.chargeMah)
            #expect(recording.energy.rawValue == should.energyMwh)
            #expect(recording.seconds == should.seconds)
            #expect(recording.active == should.active)
            same(recording.threshold, should.threshold, "threshold")
        }
        #expect(frame.screenTimeoutMinutes == expected.screenTimeout)
        #expect(frame.backlight == expected.backlight)
        #expect(frame.screen == expected.screen)
        #expect(frame.product == expected.product)
        #expect(frame.version == expected.version)
        #expect(frame.serial == expected.serial)
        #expect(frame.runs == expected.runs)
    }
}
