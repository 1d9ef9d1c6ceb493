import FoundationEssentials
import MeterCore
import Testing

@Suite struct MessageTests {
    // MARK: Numbers and text

    @Test func decimalsAreRoundedHalfAwayFromZeroAndFixed() {
        for (value, decimals, places, text) in [
            (5_120_000, 6, 3, "5.120"), (5_123_456, 6, 3, "5.123"), (5_123_500, 6, 3, "5.124"),
            (-5_123_500, 6, 3, "-5.124"), (-400, 6, 3, "0.000"), (-500, 6, 3, "-0.001"),
            (0, 6, 0, "0"), (1_499_999, 6, 0, "1"), (1_500_000, 6, 0, "2"), (7, 0, 2, "7.00"),
            (7, 3, 3, "0.007"), (-7, 3, 3, "-0.007"), (123_456, 3, 1, "123.5"),
            (99_950, 3, 1, "100.0"),
            (1, 0, 6, "1.000000"), (9_007_199_254_740_993, 3, 3, "9007199254740.993"),
        ] as [(Int64, Int, Int, String)] {
            #expect(JSONWriter.decimal(value, decimals: decimals, places: places) == text)
        }
    }

    @Test func decimalsAgreeWithTheNumberForAllSortsOfValues() {
        var random = Seeded(12)
        for _ in 0..<5_000 {
            let value = Int64(bitPattern: random.next()) >> Int64(random.int(8...60))
            let places = random.int(0...6)
            let text = JSONWriter.decimal(Microvolts(value), places: places)
            let scale = (0..<places).reduce(1.0) { result, _ in result / 10 }
            let number = Double(text) ?? .nan
            #expect(abs(number - Double(value) / 1e6) <= scale * 0.5000001 + abs(number) * 1e-15)
            #expect(text.drop { $0 != "." }.count == (places == 0 ? 0 : places + 1))
            #expect(!text.contains("e") && !text.contains(","))
        }
    }

    @Test func everyTextComesBackFromAParser() throws {
        var random = Seeded(13)
        var texts = [
            "", "Größe µ Ω 充電 🔋", "\"\\/\u{8}\u{c}\n\r\t", "\u{0}\u{1}\u{1f}\u{7f}\u{2028}\u{2029}",
            "a\u{301}\u{fffd}", "\u{feff}",
        ]
        for _ in 0..<300 {
            texts.append(
                String(
                    String.UnicodeScalarView(
                        (0..<random.int(0...20)).compactMap { _ in
                            Unicode.Scalar(UInt32(random.int(0...0x3ff)))
                        })))
        }
        for text in texts {
            let json = JSONWriter.object { $0.string(text, text) }
            let parsed = try JSONDecoder().decode([String: String].self, from: Data(json.utf8))
            #expect(parsed.map { Array($0.key.unicodeScalars) } == [Array(text.unicodeScalars)])
            #expect(parsed.map { Array($0.value.unicodeScalars) } == [Array(text.unicodeScalars)])
        }
    }

    @Test func objectsKeepTheOrderOfTheirKeys() {
        let json = JSONWriter.object { json in
            json.integer("z", 1)
            json.null("a")
            json.bool("m", true)
            json.object("o") { $0.quantity("v", Microvolts(1_500_000), places: 1) }
            json.array("l", of: ["1", "{}"])
            json.integer("n", nil)
            json.string("s", nil)
            json.time("t", nil)
            json.quantity("q", Microvolts?.none, places: 2)
            json.decimal("d", nil, decimals: 1, places: 1)
        }
        #expect(
            json
                == #"{"z":1,"a":null,"m":true,"o":{"v":1.5},"l":[1,{}],"n":null,"s":null,"t":null,"q":null,"d":null}"#
        )
        #expect(JSONWriter.object { _ in } == "{}")
    }

    // MARK: Payloads

    private var reading: Reading {
        var frame = MeterFrame(
            model: .um25c, voltage: Microvolts(5_123_000), current: Microamperes(1_002_100),
            power: Microwatts(5_134_000))
        frame.resistance = Milliohms(5_100)
        frame.temperature = MilliCelsius(27_000)
        frame.temperatureFahrenheit = 81
        frame.dPlus = Microvolts(600_000)
        frame.dMinus = Microvolts(590_000)
        frame.mode = ChargingMode(rawValue: 7)
        frame.group = 1
        frame.groups = (0..<10).map {
            GroupCounter(charge: .init(Int64($0) * 2_411), energy: .init(Int64($0) * 12_345))
        }
        return Reading(
            frame,
            at: Moment(
                monotonic: .init(nanoseconds: 1), wall: .init(milliseconds: 1_796_070_600_000),
                wallTrusted: true))
    }

    @Test func aLiveMessageReadsExactlyLikeThis() {
        #expect(
            Payloads.live(reading, sequence: 18_233, gatewayID: "pi-desk-3fa1")
                == #"{"v":1,"ts":"2026-11-30T20:30:00.000Z","seq":18233,"approximate":false,"voltage":5.123,"current":1.0021,"#
                + #""power":5.134,"resistance":5.1,"temperatureC":27,"dPlus":0.60,"dMinus":0.59,"#
                + #""mode":"dcp_1_5a","group":1,"groupEnergyWh":12.345,"groupChargeMah":2411,"#
                + #""rssi":null,"gatewayId":"pi-desk-3fa1"}"#)
    }

    @Test func aReceiptReadsExactlyLikeThis() throws {
        #expect(
            try Payloads.session(receipt())
                == #"{"v":1,"sessionId":"019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9a0b","#
                + #""macAddress":"0015a600362f","meterName":"Desk \"left\"","modelType":"UM25C","#
                + #""gatewayId":"pi-1","startedAt":"2026-11-30T20:30:00.000Z","#
                + #""endedAt":"2026-11-30T21:30:00.500Z","durationS":3600.500,"energyWh":5.0000,"#
                + #""chargeMah":1000.25,"averagePower":4.999,"peakPower":7.500,"peakCurrent":1.5000,"#
                + #""minVoltage":4.987,"maxVoltage":5.200,"maxTemperatureC":41.0,"#
                + #""endReason":"currentStopped","label":"Ümlaut","samples":3601,"complete":true,"#
                + #""revision":2,"curveSha256":null,"energySource":"integrated","#
                + #""energySourceReason":"1 gaps, all filled from the meter's counter","#
                + #""energyIntegratedWh":5.0000,"energyCounterWh":4.998,"chargeIntegratedMah":1000.25,"#
                + #""chargeCounterMah":1000,"rejectedFrames":3,"droppedReadings":0,"#
                + #""gaps":[{"offsetS":61.000,"durationS":12.500,"fill":"counter","energyWh":0.0170}],"#
                + #""clockTrusted":true,"softwareVersion":"1.0"}"#)
    }

    private func receipt() throws -> SessionSummary {
        var session = SessionSummary(
            id: try #require(SessionID("019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9a0b")),
            meter: try #require(MeterAddress("0015a600362f")),
            meterName: "Desk \"left\"", model: .um25c, gatewayID: "pi-1",
            startedAt: WallTime(milliseconds: 1_796_070_600_000), clockTrusted: true,
            softwareVersion: "1.0")
        session.durationMilliseconds = 3_600_500
        session.endedAt = session.startedAt + .milliseconds(3_600_500)
        session.endReason = .currentStopped
        session.label = "Ümlaut"
        session.energyIntegrated = Microjoules(17_999_900_000)
        session.chargeIntegrated = Microcoulombs(3_600_900_000)
        session.energyCounted = Microjoules(MilliwattHours(4_998))
        session.chargeCounted = Microcoulombs(MilliampereHours(1_000))
        session.energySourceReason = "1 gaps, all filled from the meter's counter"
        session.peakPower = Microwatts(7_500_000)
        session.peakCurrent = Microamperes(1_500_000)
        session.minVoltage = Microvolts(4_987_000)
        session.maxVoltage = Microvolts(5_200_000)
        session.maxTemperature = MilliCelsius(41_000)
        session.samples = 3_601
        session.rejectedFrames = 3
        session.gaps = [
            Gap(offset: 61_000, duration: 12_500, fill: .counter, energy: .init(MilliwattHours(17)))
        ]
        session.revision = 2
        return session
    }

    /// What is not known is `null`: no key is ever missing, and no number is made up.
    @Test func whatIsNotKnownIsNullAndEveryKeyIsThere() throws {
        var bare = MeterFrame(model: .tc66c, voltage: .zero, current: .zero, power: .zero)
        let moment = reading.moment
        let full = try keys(Payloads.live(reading, sequence: 0, gatewayID: "g"))
        let empty = Payloads.live(Reading(bare, at: moment), sequence: 0, gatewayID: "g")
        #expect(try keys(empty) == full)
        for key in [
            "resistance", "temperatureC", "dPlus", "dMinus", "mode", "group", "groupEnergyWh",
            "groupChargeMah", "rssi",
        ] {
            #expect(empty.contains("\"\(key)\":null"), "\(key)")
        }
        #expect(empty.contains("\"voltage\":0.0000,\"current\":0.00000,\"power\":0.0000"))

        let frameKeys = try keys(Payloads.frame(reading.frame, check: "ok"))
        #expect(try keys(Payloads.frame(bare, check: "ok")) == frameKeys)

        let none = Payloads.currentSession(nil, at: moment.wall)
        let some = try Payloads.currentSession(
            receipt(), at: moment.wall)
        #expect(try keys(none) == keys(some))
        #expect(
            none == #"{"v":1,"ts":"2026-11-30T20:30:00.000Z","state":"idle","sessionId":null,"#
                + #""startedAt":null,"durationS":null,"energyWh":null,"chargeMah":null,"#
                + #""averagePower":null,"peakPower":null,"peakCurrent":null,"samples":null,"#
                + #""clockTrusted":null}"#)
        #expect(some.contains(#""state":"running""#))

        var running = try receipt()
        running.endedAt = nil
        running.endReason = nil
        running.label = nil
        running.energyCounted = nil
        running.chargeCounted = nil
        running.maxTemperature = nil
        let text = Payloads.session(running)
        #expect(try keys(text) == keys(Payloads.session(receipt())))
        for key in [
            "endedAt", "endReason", "label", "energyCounterWh", "chargeCounterMah",
            "maxTemperatureC",
        ] {
            #expect(text.contains("\"\(key)\":null"), "\(key)")
        }
        #expect(text.contains(#""complete":false"#))

        // an open circuit has no resistance, and an unknown mode no name
        bare.resistance = Milliohms(9_999_900)
        bare.mode = ChargingMode(rawValue: 0)
        let open = Payloads.live(Reading(bare, at: moment), sequence: 0, gatewayID: "g")
        #expect(open.contains(#""resistance":null"#) && open.contains(#""mode":null"#))
    }

    @Test func aTemperatureFromFahrenheitHasATenth() {
        var frame = reading.frame
        frame.temperature = MilliCelsius(fahrenheit: 81)
        let text = Payloads.live(Reading(frame, at: reading.moment), sequence: 0, gatewayID: "g")
        #expect(text.contains(#""temperatureC":27.2"#))
    }

    @Test func theCountersAreThoseOfTheTotals() {
        let totals = LifetimeTotals(
            energy: Microjoules(MilliwattHours(1_234_567)), charge: Microcoulombs(360_180_000))
        let text = Payloads.counters(totals, at: reading.moment.wall, gatewayID: "g")
        #expect(
            text == #"{"v":1,"ts":"2026-11-30T20:30:00.000Z","energyTotalWh":1234.567,"#
                + #""chargeTotalMah":100.1,"gatewayId":"g"}"#)
    }

    @Test func aFrameShowsAllItsFields() throws {
        for name in PublicFrame.names {
            let known = try PublicFrame.named(name)
            let model = try #require(MeterModel(name: known.meter))
            let frame = try CapturedFrame(known.bytes, from: model).frame
            struct Shown: Decodable {
                var model: String
                var voltage: Double
                var current: Double
                var power: Double
                var groups: [[String: Double]]
                var mode: Int?
                var serial: Int?
                var check: String
            }
            let text = Payloads.frame(frame, check: "ok")
            let shown = try JSONDecoder().decode(Shown.self, from: Data(text.utf8))
            #expect(shown.model == known.meter)
            #expect(shown.voltage == known.expected.voltage)
            #expect(shown.current == known.expected.current)
            #expect(shown.power == known.expected.power)
            #expect(
                shown.groups.map { $0["chargeMah"] } == known.expected.groups.map { Double($0[0]) })
            #expect(shown.mode == known.expected.mode)
            #expect(shown.serial.map(UInt32.init) == known.expected.serial)
            #expect(shown.check == "ok")
        }
    }

    // MARK: Topics

    @Test func topicsHaveTheAddressInThemAndNoName() throws {
        let topics = Topics(base: "usbmeter", gatewayID: "pi-1")
        let meter = try #require(MeterAddress("00:15:A6:00:36:2F"))
        let id = try receipt().id
        #expect(topics.gatewayStatus == "usbmeter/gateway/pi-1/status")
        #expect(topics.availability(meter) == "usbmeter/meter/0015a600362f/availability")
        #expect(topics.live(meter) == "usbmeter/meter/0015a600362f/live")
        #expect(topics.counters(meter) == "usbmeter/meter/0015a600362f/counters")
        #expect(topics.currentSession(meter) == "usbmeter/meter/0015a600362f/session/current")
        #expect(topics.lastSession(meter) == "usbmeter/meter/0015a600362f/session/last")
        #expect(topics.session(meter, id) == "usbmeter/meter/0015a600362f/sessions/\(id)")
    }

    /// The keys of a JSON object that a parser finds, sorted.
    private func keys(_ json: String) throws -> [String] {
        struct Anything: Decodable { init(from decoder: any Decoder) throws {} }
        let object = try JSONDecoder().decode([String: Anything?].self, from: Data(json.utf8))
        return object.keys.sorted()
    }
}
