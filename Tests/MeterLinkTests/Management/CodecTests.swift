import MeterCore
import MeterSim
import Testing

@testable import MeterLink

func lowEnergy(_ text: String) -> PeerAddress {
    PeerAddress(address: mac(text), kind: .lePublic)
}
func classic(_ text: String) -> PeerAddress { PeerAddress(address: mac(text), kind: .classic) }

private func hex(_ text: String) -> [UInt8] {
    text.split(separator: " ").flatMap { part in
        stride(from: 0, to: part.count, by: 2).compactMap { offset in
            UInt8(part.dropFirst(offset).prefix(2), radix: 16)
        }
    }
}

private let meter = lowEnergy("00:15:A6:00:36:2F")
private let serialMeter = classic("00:15:A6:00:36:2F")

struct CommandTests {
    @Test(
        arguments: [
            (.readVersion, "0100 FFFF 0000"),
            (.readExtendedIndexList, "3C00 FFFF 0000"),
            (.readInfo(1), "0400 0100 0000"),
            (.setPowered(0, true), "0500 0000 0100 01"),
            (.setBondable(0, true), "0900 0000 0100 01"),
            (.setSimplePairing(2, false), "0B00 0200 0100 00"),
            (.setLowEnergy(0, true), "0D00 0000 0100 01"),
            (.setClassic(0, true), "2A00 0000 0100 01"),
            (.setIOCapability(0, 3), "1800 0000 0100 03"),
            (.getConnections(0), "1500 0000 0000"),
            (.disconnect(0, meter), "1400 0000 0700 2F3600A61500 01"),
            (.getConnectionInfo(0, meter), "3100 0000 0700 2F3600A61500 01"),
            (.addDevice(0, meter), "3300 0000 0800 2F3600A61500 01 00"),
            (.removeDevice(0, meter), "3400 0000 0700 2F3600A61500 01"),
            (.startDiscovery(0, .lowEnergy), "2300 0000 0100 06"),
            (.stopDiscovery(0, .classic), "2400 0000 0100 01"),
            (.confirmName(0, serialMeter, isKnown: true), "2500 0000 0800 2F3600A61500 00 01"),
            (.pair(0, serialMeter, ioCapability: 3), "1900 0000 0800 2F3600A61500 00 03"),
            (.cancelPairing(0, serialMeter), "1A00 0000 0700 2F3600A61500 00"),
            (.unpair(0, serialMeter, disconnecting: true), "1B00 0000 0800 2F3600A61500 00 01"),
            (
                .pinReply(0, serialMeter, pin: Array("1234".utf8)),
                "1600 0000 1800 2F3600A61500 00 04 31323334 000000000000000000000000"
            ),
            (.pinRefusal(0, serialMeter), "1700 0000 0700 2F3600A61500 00"),
            (.confirm(0, serialMeter), "1C00 0000 0700 2F3600A61500 00"),
            (.confirmRefusal(0, serialMeter), "1D00 0000 0700 2F3600A61500 00"),
            (.passkeyRefusal(0, serialMeter), "1F00 0000 0700 2F3600A61500 00"),
            (.removeMonitor(0, 3), "5300 0000 0200 0300"),
            (.loadLinkKeys(0, []), "1200 0000 0300 00 0000"),
            (.loadLongTermKeys(0, []), "1300 0000 0200 0000"),
            (
                .loadConnectionParameters(
                    0, [ConnectionParameters(for: meter, amongMeters: 5)]),
                "3500 0000 1100 0100 2F3600A61500 01 1800 2800 0000 5802"
            ),
        ] as [(ManagementCommand, String)])
    func bytesAreThoseOfTheProtocol(command: ManagementCommand, expected: String) {
        #expect(command.bytes == hex(expected))
    }

    @Test func aMonitorOfFlagsHasThreePatternsOf34Bytes() {
        let bytes = ManagementCommand.addFlagsMonitor(0).bytes
        #expect(bytes.prefix(7) == hex("5200 0000 6700 03")[...])
        #expect(bytes.count == 6 + 1 + 3 * 34)
        #expect(Array(bytes[7..<12]) == [1, 0, 1, 0x06, 0])
        #expect(Array(bytes[41..<45]) == [1, 0, 1, 0x1a])
    }

    @Test func keysAreLaidOutAsTheKernelWantsThem() {
        let key = LinkKey(
            peer: serialMeter, type: 0, key: Array(1...16), pinLength: 4)
        #expect(
            ManagementCommand.loadLinkKeys(1, [key]).bytes
                == hex("1200 0100 1C00 00 0100 2F3600A61500 00 00")
                + hex("0102030405060708090A0B0C0D0E0F10 04"))
        let long = LongTermKey(
            peer: meter, type: 1, isCentral: 1, encryptionSize: 16, diversifier: 0x1234,
            random: Array(1...8), key: Array(1...16))
        #expect(
            ManagementCommand.loadLongTermKeys(1, [long]).bytes
                == hex("1300 0100 2600 0100 2F3600A61500 01 01 01 10 3412 0102030405060708")
                + hex("0102030405060708090A0B0C0D0E0F10"))
    }

    @Test func aListThatIsTooLongIsCutToWhatTheKernelTakes() {
        let keys = (0..<100).map { number in
            LinkKey(
                peer: serialMeter, type: 0, key: .init(repeating: UInt8(number), count: 16),
                pinLength: 4)
        }
        let bytes = ManagementCommand.loadLinkKeys(0, keys).bytes
        #expect(bytes.count <= 1028)
        #expect(Int(bytes[7]) == (bytes.count - 9) / 25)
        #expect(ManagementCommand.loadLinkKeys(0, keys, limit: 16_384).bytes.count == 2509)
    }

    @Test func fewMetersMayMeetMoreOften() {
        let few = ConnectionParameters(for: meter, amongMeters: 2)
        #expect(few.shortestInterval == 12 && few.longestInterval == 24 && few.timeout == 600)
    }
}

struct EventTests {
    private func event(_ bytes: String) -> ManagementEvent? {
        ManagementPacket(hex(bytes))?.event
    }

    @Test func repliesCarryStatusAndWhatIsReturned() {
        let packet = ManagementPacket(hex("0100 0100 0700 0500 00 D10A0000"))
        #expect(packet?.index == 1)
        #expect(
            packet?.event == .reply(opcode: 5, status: .success, [0xd1, 0x0a, 0, 0]))
        #expect(
            event("0200 0100 0300 0500 12") == .reply(opcode: 5, status: .blocked, []))
    }

    @Test func eventsAreRead() {
        let none = AdvertisingData()
        #expect(event("0300 0000 0100 05") == .controllerError(code: 5))
        #expect(event("0400 0000 0000") == .indexAdded(isConfigured: true, bus: nil))
        #expect(event("2000 0300 0200 00 01") == .indexAdded(isConfigured: true, bus: .usb))
        #expect(event("2000 0300 0200 01 03") == .indexAdded(isConfigured: false, bus: .serial))
        #expect(event("2000 0300 0200 02 00") == .other(code: 0x20))
        #expect(event("0500 0000 0000") == .indexRemoved)
        #expect(event("2100 0000 0200 00 01") == .indexRemoved)
        #expect(event("0600 0000 0400 01020000") == .newSettings([.powered, .lowEnergy]))
        #expect(
            event("0B00 0000 0D00 2F3600A61500 01 08000000 0000")
                == .deviceConnected(meter, startedHere: true, none))
        #expect(
            event("0C00 0000 0800 2F3600A61500 01 01")
                == .deviceDisconnected(meter, .supervisionTimeout))
        #expect(
            event("0C00 0000 0800 2F3600A61500 01 63")
                == .deviceDisconnected(meter, .unspecified))
        #expect(
            event("0D00 0000 0800 2F3600A61500 00 04")
                == .connectFailed(serialMeter, .connectFailed))
        #expect(
            event("0E00 0000 0800 2F3600A61500 00 01")
                == .pinRequest(serialMeter, isSecure: true))
        #expect(
            event("0F00 0000 0C00 2F3600A61500 00 01 40E20100")
                == .confirmationRequest(serialMeter, isPlain: true, value: 123_456))
        #expect(event("1000 0000 0700 2F3600A61500 00") == .passkeyRequest(serialMeter))
        #expect(
            event("1100 0000 0800 2F3600A61500 00 05")
                == .authenticationFailed(serialMeter, .authenticationFailed))
        #expect(event("1300 0000 0200 06 01") == .discovering(kind: 6, isOn: true))
        #expect(event("1A00 0000 0800 2F3600A61500 01 00") == .deviceAdded(meter))
        #expect(event("1B00 0000 0700 2F3600A61500 01") == .deviceRemoved(meter))
        #expect(event("2C00 0000 0200 0700") == .monitorRemoved(handle: 7))
        #expect(event("2D00 0000 0100 01") == .controllerSuspended)
        #expect(event("2E00 0000 0800 01 000000000000 00") == .controllerResumed)
        #expect(event("0800 0000 0000") == .other(code: 8))
    }

    @Test func keysAreRead() {
        let key = "0102030405060708090A0B0C0D0E0F10"
        #expect(
            event("0900 0000 1A00 01 2F3600A61500 00 00 \(key) 04")
                == .newLinkKey(
                    LinkKey(peer: serialMeter, type: 0, key: Array(1...16), pinLength: 4),
                    isToStore: true))
        #expect(
            event("0A00 0000 2500 00 2F3600A61500 01 01 01 10 3412 0102030405060708 \(key)")
                == .newLongTermKey(
                    LongTermKey(
                        peer: meter, type: 1, isCentral: 1, encryptionSize: 16,
                        diversifier: 0x1234, random: Array(1...8), key: Array(1...16)),
                    isToStore: false))
        #expect(
            event("1C00 0000 1000 2F3600A61500 01 01 1800 2800 0000 5802")
                == .newConnectionParameters(
                    ConnectionParameters(for: meter, amongMeters: 5), isToStore: true))
    }

    @Test func aDeviceThatWasHeardIsRead() throws {
        guard
            case .deviceFound(let found) = event(
                "1200 0000 1500 2F3600A61500 01 C4 20000000 0700 06 09 554D323543")
        else {
            Issue.record("no device")
            return
        }
        #expect(found.peer == meter)
        #expect(found.rssi == -60)
        #expect(found.hasScanResponse && found.isConnectable && !found.wantsNameConfirmed)
        #expect(found.data.name == "UM25C")
        guard
            case .deviceFound(let silent) = event(
                "2F00 0000 1000 0100 2F3600A61500 01 7F 05000000 0000")
        else {
            Issue.record("no device of a monitor")
            return
        }
        #expect(silent.rssi == nil)
        #expect(silent.wantsNameConfirmed && !silent.isConnectable)
    }

    @Test(arguments: [
        "", "0100", "0100 0000 0300 0500", "0100 0000 0200 0500", "0600 0000 0300 010203",
        "0600 0000 0400 0102030405", "0B00 0000 0D00 2F3600A61500 01 08000000 0500",
        "0C00 0000 0800 2F3600A61500 03 01", "1200 0000 0700 2F3600A61500 01",
        "0900 0000 0100 01", "2000 0300 0100 00",
    ])
    func whatIsNotWholeIsRefused(bytes: String) {
        #expect(ManagementPacket(hex(bytes)) == nil)
    }
}

struct ReplyTests {
    @Test func listsOfAdaptersAreRead() {
        #expect(
            ControllerEntry.list(extended: hex("0300 0000 00 01 0100 01 03 0200 02 00")) == [
                ControllerEntry(index: 0, isConfigured: true, bus: .usb),
                ControllerEntry(index: 1, isConfigured: false, bus: .serial),
            ])
        #expect(
            ControllerEntry.list(hex("0100 0400"))
                == [ControllerEntry(index: 4, isConfigured: true, bus: nil)])
        #expect(ControllerEntry.list(extended: hex("FFFF 0000")) == nil)
        #expect(ControllerEntry.list(hex("02")) == nil)
    }

    @Test func informationIsRead() throws {
        let bytes =
            hex("2F3600A61500 09 0200 FFBE0100 C10A0000 0C0100") + Array("hci-name".utf8)
            + [UInt8](repeating: 0, count: 241 + 11)
        #expect(bytes.count == 280)
        let info = try #require(ControllerInfo(bytes))
        #expect(info.address == meter.address)
        #expect(info.manufacturer == 2)
        #expect(ControllerInfo.maker(info.manufacturer) == "Intel")
        #expect(info.name == "hci-name")
        #expect(info.current.isSuperset(of: [.powered, .simplePairing, .classic, .lowEnergy]))
        #expect(ControllerInfo(Array(bytes.dropLast())) == nil)
    }

    @Test func connectionsAndTheRestAreRead() {
        #expect(ManagementCommand.connections(hex("0100 2F3600A61500 01")) == [meter])
        #expect(ManagementCommand.connections(hex("0200 2F3600A61500 01")) == nil)
        #expect(ManagementCommand.signal(hex("2F3600A61500 01 C4 00 04")) == -60)
        #expect(ManagementCommand.signal(hex("2F3600A61500 01 7F 00 04")) == nil)
        #expect(ManagementCommand.monitorHandle(hex("0500")) == 5)
        #expect(
            ManagementVersion(hex("01 1700")) == ManagementVersion(version: 1, revision: 23))
        let features = ManagementFeatures(hex("0200 0100 0100 5200 0100"))
        #expect(features?.has(.addPatternMonitor) == true)
        #expect(features?.has(.pair) == false)
    }
}

struct FuzzTests {
    private static let whole: [[UInt8]] = [
        "0100 0100 0700 0500 00 D10A0000", "0B00 0000 0F00 2F3600A61500 01 08000000 0200 0109",
        "0900 0000 1A00 01 2F3600A61500 00 00 0102030405060708090A0B0C0D0E0F10 04",
        "0F00 0000 0C00 2F3600A61500 00 01 40E20100", "2000 0300 0200 00 01",
        "1200 0000 1900 2F3600A61500 01 C4 20000000 0B00 06 09 554D323543 03 03 E0FF",
        "2F00 0000 1000 0100 2F3600A61500 01 7F 05000000 0000",
        "1C00 0000 1000 2F3600A61500 01 01 1800 2800 0000 5802",
        "0A00 0000 2500 00 2F3600A61500 01 01 01 10 3412 0102030405060708 "
            + "0102030405060708090A0B0C0D0E0F10",
    ].map(hex)

    @Test func everythingThatCanArriveIsReadOrRefused() {
        var generator = SeededGenerator(seed: 3)
        var accepted = 0
        for round in 0..<200_000 {
            var bytes = Self.whole[round % Self.whole.count]
            for _ in 0..<Int.random(in: 0...3, using: &generator) {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
                case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
                case 2: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
                default: if bytes.count > 1 { bytes.remove(at: place) }
                }
            }
            guard let packet = ManagementPacket(bytes) else { continue }
            accepted += 1
            // What is in the header is what counts, whatever else was changed.
            if bytes.count != 6 + Int(bytes[4]) + Int(bytes[5]) << 8
                || packet.index != UInt16(bytes[2]) | UInt16(bytes[3]) << 8
            {
                Issue.record("accepted against its header: \(bytes)")
                return
            }
        }
        #expect(accepted > 20_000)
    }

    @Test func repliesOfAnySizeAreReadOrRefused() {
        var generator = SeededGenerator(seed: 4)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...40, using: &generator)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let connections = ManagementCommand.connections(bytes)?.count ?? 0
            let entries = ControllerEntry.list(extended: bytes)?.count ?? 0
            #expect(connections <= count / 7 && entries <= count / 4)
            _ = (ControllerInfo(bytes), ManagementFeatures(bytes), ControllerEntry.list(bytes))
            _ = AdvertisingData(bytes)
        }
    }
}
