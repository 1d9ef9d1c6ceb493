import MeterCore
import Testing

@Suite struct GATTProfileTests {
    private func service(
        _ uuid: UInt16, _ first: UInt16, _ characteristics: (UInt16, GATTTable.Properties)...
    ) -> GATTTable.Service {
        GATTTable.Service(
            BluetoothUUID(uuid), handles: first...(first + 15),
            characteristics: characteristics.enumerated().map { index, item in
                GATTTable.Characteristic(
                    BluetoothUUID(item.0), item.1, valueHandle: first + 2 + 3 * UInt16(index))
            })
    }

    private var old: GATTTable {
        GATTTable([
            service(0xffe0, 16, (0xffe4, .notify)),
            service(0xffe5, 32, (0xffe9, [.write, .writeWithoutResponse])),
        ])
    }
    private var new: GATTTable {
        GATTTable([
            service(0xffe0, 16, (0xffe2, .writeWithoutResponse), (0xffe1, .notify))
        ])
    }
    private func um(_ properties: GATTTable.Properties = [.notify, .writeWithoutResponse])
        -> GATTTable
    {
        GATTTable([service(0xffe0, 16, (0xffe1, properties))])
    }
    private var fff0: GATTTable {
        GATTTable([
            service(0xfff0, 16, (0xfff1, [.notify, .read]), (0xfff2, [.write]))
        ])
    }
    private var heartRate: GATTTable {
        GATTTable([service(0x180d, 16, (0x2a37, .notify), (0x2a38, .read))])
    }

    private func choice(
        _ table: GATTTable, _ name: String?, wanted: GATTProfile? = nil
    ) -> GATTProfile? {
        try? GATTProfile.choose(from: table, name: name, wanted: wanted).profile
    }

    @Test func theServicesChoose() {
        #expect(choice(old, "TC66C") == .tc66Old)
        #expect(choice(old, nil) == .tc66Old)
        #expect(choice(new, "BT24-M") == .tc66New)
        #expect(choice(um(), "UM25C") == .um)
        #expect(choice(um(), nil) == .um)
    }

    @Test func theNameDecidesWhereTheServicesDoNot() {
        let both = GATTTable([
            service(0xffe0, 16, (0xffe1, [.notify, .write]), (0xffe2, .writeWithoutResponse))
        ])
        #expect(choice(both, "UM34C") == .um)
        #expect(choice(both, "TC66C") == .tc66New)
        #expect(choice(fff0, "UM25C") == .umFFF0)
        #expect(choice(fff0, "Thermometer") == nil)
        #expect(choice(heartRate, "TC66C") == .tc66HeartRate)
        #expect(choice(heartRate, "Polar H10") == nil)
        #expect(choice(heartRate, nil) == nil)
        #expect(choice(old, "FNB58-0A1B2C") == nil)
    }

    @Test func aHeartRateIsReadOnlyWhereThereIsNothingElse() {
        let both = GATTTable(new.services + heartRate.services)
        #expect(choice(both, "TC66C") == .tc66New)
    }

    @Test func theConfigurationOverridesAndIsHeldToIt() throws {
        #expect(choice(fff0, nil, wanted: .umFFF0) == .umFFF0)
        #expect(choice(heartRate, nil, wanted: .tc66HeartRate) == .tc66HeartRate)
        #expect(choice(heartRate, "Polar H10", wanted: .tc66HeartRate) == nil)
        #expect(choice(um(), "UM24C", wanted: .umWrapped) == .umWrapped)
        #expect(throws: GATTMismatch.self) {
            try GATTProfile.choose(from: um(), name: nil, wanted: .tc66New)
        }
    }

    @Test func whatIsMissingIsNamed() {
        func missing(_ table: GATTTable, _ wanted: GATTProfile? = nil) -> String? {
            do {
                _ = try GATTProfile.choose(from: table, name: nil, wanted: wanted)
                return nil
            } catch {
                return error.missing
            }
        }
        #expect(
            missing(GATTTable([service(0xffe0, 1, (0xffe3, .write))])) == "FFE0/FFE1 is missing")
        #expect(
            missing(GATTTable([service(0xffe0, 1, (0xffe4, .notify)), service(0xffe5, 20)]))
                == "FFE5/FFE9 is missing")
        #expect(missing(um([.notify, .read])) == "FFE0/FFE1 that can be written is missing")
        #expect(missing(GATTTable([service(0x180a, 1)]))?.hasPrefix("none of the services") == true)
        #expect(missing(um(), .tc66Old) == "FFE0/FFE4 and FFE5/FFE9 is missing")
    }

    @Test func anOldTC66CIsNeverSentCommands() throws {
        let plan = try GATTProfile.choose(from: old, name: nil)
        var forms = CommandForms(plan)
        let written = forms.write(Array("bgetva\r\n".utf8))
        let write = try #require(written)
        #expect(write.acknowledged)
        #expect(plan.target == 34)
    }

    @Test func formsAreTriedInTurnUntilOneIsAnswered() throws {
        let plan = try GATTProfile.choose(
            from: um([.notify, .write, .writeWithoutResponse]), name: nil)
        var forms = CommandForms(plan)
        var tried: [String] = []
        for _ in 0..<5 {
            let written = forms.write([0xf0])
            let write = try #require(written)
            tried.append("\(write.bytes.count)\(write.acknowledged ? " acknowledged" : "")")
        }
        #expect(tried == ["1", "10 acknowledged", "1 acknowledged", "1", "10 acknowledged"])
        forms.answered()
        // from now on silence is the meter's
        for _ in 0..<3 {
            let written = forms.write([0xf0])
            #expect(written?.bytes.count == 10)
        }
        let cleared = forms.write([0xf4])
        #expect(cleared?.bytes == [0xff, 0x55, 0x11, 0x03, 0xf4, 0, 0, 0, 0, 0x4c])
    }

    @Test func namesAreWrittenAndReadBothWays() throws {
        let short = BluetoothUUID(0xffe1)
        #expect(short.description == "FFE1")
        #expect(short.littleEndian == [0xe1, 0xff])
        #expect(BluetoothUUID(littleEndian: short.littleEndian) == short)
        let base: [UInt8] = [
            0xfb, 0x34, 0x9b, 0x5f, 0x80, 0, 0, 0x80, 0, 0x10, 0, 0, 0xe1, 0xff, 0, 0,
        ]
        #expect(BluetoothUUID(littleEndian: base) == short)
        let long = try #require(BluetoothUUID(littleEndian: (0..<16).map { UInt8($0) }))
        #expect(long.description == "0F0E0D0C-0B0A-0908-0706-050403020100")
        #expect(long.littleEndian == (0..<16).map { UInt8($0) })
        #expect(BluetoothUUID(littleEndian: [1, 2, 3]) == nil)
    }
}
