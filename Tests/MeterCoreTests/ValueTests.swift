import FoundationEssentials
import MeterCore
import Testing

@Suite struct ValueTests {
    @Test func timesAreWrittenAsFoundationWritesThem() {
        var random = Seeded(4)
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        // From 1583, before which Foundation counts by the Julian calendar, and in whole seconds,
        // which it keeps in floating point.
        for _ in 0..<5_000 {
            let seconds = Int64.random(in: -12_212_553_600..<253_402_300_800, using: &random)
            let expected = Date(timeIntervalSince1970: Double(seconds)).formatted(style)
            let written = WallTime(milliseconds: seconds * 1_000).iso8601
            #expect(written == expected)
            let milliseconds = random.int(0...999)
            let fine = WallTime(milliseconds: seconds * 1_000 + Int64(milliseconds)).iso8601
            let digits = String(milliseconds + 1_000).dropFirst()
            #expect(fine == written.dropLast(4) + digits + "Z")
        }
    }

    @Test func knownTimesAreWrittenRight() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ] as [(Int64, String)] {
            #expect(WallTime(milliseconds: milliseconds).iso8601 == text)
        }
    }

    @Test func addressesAreTakenInTheFormsThatPeopleWrite() {
        for text in [
            "00:15:a6:00:36:2f", "00:15:A6:00:36:2F", "00-15-A6-00-36-2F", "0015a600362f",
            "0015A600362F",
        ] {
            let address = MeterAddress(text)
            #expect(address?.compact == "0015a600362f", "\(text)")
            #expect(address?.description == "00:15:A6:00:36:2F", "\(text)")
        }
        for text in [
            "", "0", "00:15:A6:00:36", "00:15:A6:00:36:2F:00", "00:15:A6:00:36:2F:",
            ":00:15:A6:00:36:2F", "00:15-A6:00:36:2F", "0015:A600:362F", "001:5A:60:03:62:F0",
            "00::15:A6:00:36:2F", "00:15:A6:00:36:2G", "0015a600362", "0015a600362f0",
            "00 15 A6 00 36 2F", "００15a600362f", "0015a600362f ", "00:15:A6:0:36:2F",
            "00:15:A600:36:2F",
        ] {
            #expect(MeterAddress(text) == nil, "\(text)")
        }
    }

    @Test func aPathHasAStableAddressOfItsOwn() {
        let paths = (0..<200).map { "/dev/ttyACM\($0)" }
        let addresses = paths.map { MeterAddress(localFor: $0) }
        #expect(Set(addresses).count == paths.count)
        for (path, address) in zip(paths, addresses) {
            #expect(MeterAddress(localFor: path) == address)
            #expect(MeterAddress(address.description) == address)
            let first = UInt8(address.compact.prefix(2), radix: 16) ?? 0
            #expect(first & 0b11 == 0b10, "locally administered, and no group")
        }
        // in every later version too, for topics and the database are named by it
        #expect(MeterAddress(localFor: "/dev/ttyACM0").compact == "4271931f359c")
    }

    @Test func sessionIdsSortByTimeAndAreVersion7() {
        var random = Seeded(9)
        var last: SessionID?
        for step in 0..<2_000 {
            let id = SessionID(
                at: WallTime(milliseconds: 1_790_000_000_000 + Int64(step) * 7), using: &random)
            let text = id.description
            #expect(text.count == 36)
            let characters = Array(text)
            #expect(characters[14] == "7")
            #expect("89ab".contains(characters[19]))
            if let last { #expect(last < id && last.description < text) }
            #expect(SessionID(text) == id)
            #expect(SessionID(text.uppercased()) == id)
            last = id
        }
        let early = SessionID(at: WallTime(milliseconds: -5), using: &random)
        #expect(early.description.hasPrefix("00000000-0000-7"))
        #expect(
            SessionID(at: WallTime(milliseconds: 0x0123_4567_89ab), using: &random).description
                .hasPrefix("01234567-89ab-7"))
    }

    @Test func onlyTheTextFormOfAnIdIsTaken() {
        let good = "019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9a0b"
        #expect(SessionID(good)?.description == good)
        for text in [
            "", String(good.dropLast()), good + "0", good.replacing("-", with: ""),
            "{" + good.dropFirst(2) + "}", "019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9a0g",
            "019a8f2e6-b1c-7d3e-9a4b-5c6d7e8f9a0b", "019a8f2e-6b1c-7d3e-9a4b-5c6d7e8f9aé",
        ] {
            #expect(SessionID(text) == nil, "\(text)")
        }
    }

    @Test func valuesSurviveJSONAsTheyAre() throws {
        struct Everything: Codable, Equatable {
            var voltage = Microvolts(-5)
            var energy = Microjoules(.max)
            var time = WallTime(milliseconds: 12)
            var address = MeterAddress(localFor: "x")
            var id: SessionID
            var totals = LifetimeTotals(energy: Microjoules(7), charge: Microcoulombs(8))
        }
        var random = Seeded(1)
        let value = Everything(id: SessionID(at: WallTime(milliseconds: 1), using: &random))
        let data = try JSONEncoder().encode(value)
        #expect(try JSONDecoder().decode(Everything.self, from: data) == value)
        let text = String(decoding: data, as: UTF8.self)
        #expect(text.contains("\"voltage\":-5") && text.contains("\"time\":12"))
        for bad in ["\"zz\"", "12", "\"\""] {
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(MeterAddress.self, from: Data(bad.utf8))
            }
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(SessionID.self, from: Data(bad.utf8))
            }
        }
    }

    @Test func modelsAreFoundByNameInAnyCase() {
        for (name, model) in [
            ("UM24C", MeterModel.um24c), ("um25c", .um25c), ("Um34C", .um34c), ("tc66c", .tc66c),
            ("TC66", .tc66c),
        ] {
            #expect(MeterModel(name: name) == model)
        }
        for name in ["", "UM24", "UM25C ", "BT24-M", "UM26C"] {
            #expect(MeterModel(name: name) == nil)
        }
    }

    @Test func unitsConvertExactly() {
        #expect(Microjoules(MilliwattHours(1)).rawValue == 3_600_000)
        #expect(Microjoules(3_600_000_000).wattHours == 1)
        #expect(Microjoules(5_400).microwattHours == 2)
        #expect(Microjoules(5_399).microwattHours == 1)
        #expect(Microcoulombs(MilliampereHours(2)).milliampereHours == 2)
        #expect(Microcoulombs(-1_800).microampereHours == -1)
        #expect(Microwatts(Microvolts(5_000_000), times: Microamperes(1_500_000)).base == 7.5)
        #expect(MilliCelsius(fahrenheit: 32) == .zero)
        #expect(MilliCelsius(fahrenheit: 212) == MilliCelsius(100_000))
        #expect(MilliCelsius(fahrenheit: -40) == MilliCelsius(-40_000))
        #expect(Duration.seconds(1.5).milliseconds == 1_500)
        #expect(Duration.milliseconds(-1_500).nanoseconds == -1_500_000_000)
    }
}
