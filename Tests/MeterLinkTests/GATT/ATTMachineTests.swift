import MeterCore
import Testing

@testable import MeterLink

@Suite struct ATTMachineTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    @Test func requestsAreWrittenAsTheSpecificationSays() {
        let long = BluetoothUUID(littleEndian: (1...16).map { UInt8($0) })
        for (request, packet) in [
            (ATTRequest.exchangeMTU(247), "02 F700"),
            (.findInformation(4...9), "04 0400 0900"),
            (
                .findByTypeValue(1...(.max), type: 0x2800, value: [0xe0, 0xff]),
                "06 0100FFFF 0028 E0FF"
            ),
            (.readByType(2...0x1234, BluetoothUUID(0x2803)), "08 0200 3412 0328"),
            (
                .readByType(1...2, long ?? BluetoothUUID(0)),
                "08 0100 0200 0102030405060708090A0B0C0D0E0F10"
            ),
            (.read(0x0102), "0A 0201"),
            (.readByGroupType(1...(.max), BluetoothUUID(0x2800)), "10 0100FFFF 0028"),
            (.write(5, [0xf0]), "12 0500 F0"),
        ] {
            var machine = ATTMachine()
            #expect(machine.begin(request, at: start) == .send(bytes(packet)))
        }
        #expect(ATTMachine().command(0x0203, [1, 2]) == bytes("52 0302 0102"))
    }

    @Test func theSmallerOfBothSizesCounts() {
        for (theirs, agreed) in [
            (0, 23), (22, 23), (23, 23), (185, 185), (517, 247), (65535, 247),
        ] {
            var machine = ATTMachine()
            _ = machine.begin(.exchangeMTU(ATTMachine.ourMTU), at: start)
            #expect(
                machine.received([0x03] + littleEndian(UInt16(theirs)))
                    == [.completed(.mtu(UInt16(theirs)))])
            #expect(machine.mtu == agreed)
        }
    }

    @Test func aResponseThatFitsNoRequestIsIgnored() {
        var machine = ATTMachine()
        #expect(machine.received(bytes("13")) == [])
        #expect(machine.received(bytes("01 12 0300 0A")) == [])
        _ = machine.begin(.write(3, [1]), at: start)
        for packet in ["03 1700", "01 10 0100 0A", "0B 01", "11 06 0100 0500 E0FF"] {
            #expect(machine.received(bytes(packet)) == [])
        }
        #expect(machine.received(bytes("13")) == [.completed(.written)])
        #expect(machine.received(bytes("13")) == [])
    }

    @Test func afterItsLimitARequestEndsTheLink() {
        var machine = ATTMachine()
        _ = machine.begin(.read(3), at: start)
        #expect(machine.deadline == start + .seconds(10))
        #expect(machine.timePassed(to: start + .milliseconds(9_999)) == [])
        let fault = ATTMachine.Fault.unanswered(.read(3), after: .seconds(10))
        #expect(machine.timePassed(to: start + .seconds(10)) == [.failed(fault)])
        // the response that is late is taken for nothing
        #expect(machine.received(bytes("0B 01")) == [])
        #expect(machine.received(bytes("1D 0300 01")) == [])
        #expect(machine.timePassed(to: start + .seconds(60)) == [])
    }

    @Test func noRequestWaitsLongerThanTheProtocolAllows() {
        var machine = ATTMachine()
        _ = machine.begin(.read(3), at: start, limit: .seconds(100))
        #expect(machine.deadline == start + .seconds(30))
    }

    @Test func packetsThatAreTooLongEndTheLink() {
        var machine = ATTMachine()
        #expect(machine.received([0x1b] + [UInt8](repeating: 0, count: 516)).count == 1)
        guard case .failed = machine.received([0x1b] + [UInt8](repeating: 0, count: 517)).first
        else {
            Issue.record("518 bytes were taken")
            return
        }
    }
}
