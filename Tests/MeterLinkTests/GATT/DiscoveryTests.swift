import MeterCore
import Testing

@testable import MeterLink

@Suite struct DiscoveryTests {
    private func search(_ server: ServerPeer) throws -> (table: GATTTable, requests: Int) {
        var server = server
        var discovery = GATTDiscovery(wanted: GATTProfile.services)
        var requests = 0
        while let request = discovery.next {
            requests += 1
            let answer = server.respond(request.bytes)
            let packet = try #require(answer)
            var machine = ATTMachine()
            _ = machine.begin(request, at: MonotonicInstant(nanoseconds: 0))
            guard case .completed(let response) = machine.received(packet).first else {
                throw Unexpected("\(hex(packet)) did not complete \(request)")
            }
            try discovery.take(response)
        }
        return (discovery.table, requests)
    }

    @Test func aModulesTableIsFoundInFewRequests() throws {
        let (server, ffe1, ffe2) = ServerPeer.tc66New()
        let (table, requests) = try search(server)
        #expect(table.services.map(\.uuid.description) == ["1800", "1801", "180A", "FFE0"])
        let found = try #require(table.services.last).characteristics
        #expect(
            found == [
                .init(BluetoothUUID(0xffe2), .writeWithoutResponse, valueHandle: ffe2),
                .init(
                    BluetoothUUID(0xffe1), .notify, valueHandle: ffe1,
                    configurationHandle: ffe1 + 1
                ),
            ])
        // other services are not looked into
        #expect(table.services.dropLast().allSatisfy { $0.characteristics.isEmpty })
        #expect(requests <= 6)
    }

    @Test func aDescriptorIsFoundBehindOthers() throws {
        var discovery = GATTDiscovery(wanted: [BluetoothUUID(0xffe0)])
        try discovery.take(.groups([.init(handles: 1...20, value: [0xe0, 0xff])]))
        #expect(discovery.next == .readByGroupType(21...(.max), BluetoothUUID(0x2800)))
        try discovery.take(.refused(.notFound))
        try discovery.take(
            .attributes([
                .init(handle: 2, value: [0x10, 3, 0, 0xe1, 0xff]),
                .init(handle: 10, value: [0x08, 11, 0, 0xe2, 0xff]),
            ]))
        #expect(discovery.next == .readByType(11...20, BluetoothUUID(0x2803)))
        try discovery.take(.refused(.notFound))
        #expect(discovery.next == .findInformation(4...9))
        try discovery.take(
            .descriptors([.init(handle: 4, type: BluetoothUUID(0x2901))]))
        #expect(discovery.next == .findInformation(5...9))
        try discovery.take(
            .descriptors([.init(handle: 7, type: BluetoothUUID(0x2902))]))
        #expect(discovery.next == nil)
        let service = try #require(discovery.table.services.first)
        #expect(service.characteristics.map(\.configurationHandle) == [7, nil])
    }

    @Test func aServerThatRefusesTheSearchIsNoMeter() {
        var discovery = GATTDiscovery(wanted: [])
        #expect(throws: GATTDiscovery.Problem.self) {
            try discovery.take(.refused(ATTError(code: 0x08)))
        }
    }

    @Test func aSearchEndsAtTheLastHandle() throws {
        var discovery = GATTDiscovery(wanted: [BluetoothUUID(0xffe0)])
        try discovery.take(.groups([.init(handles: 0xfff0...0xffff, value: [0xe0, 0xff])]))
        #expect(discovery.next == .readByType(0xfff0...0xffff, BluetoothUUID(0x2803)))
        try discovery.take(
            .attributes([.init(handle: 0xfffe, value: [0x10, 0xff, 0xff, 0xe1, 0xff])]))
        #expect(discovery.next == .readByType(0xffff...0xffff, BluetoothUUID(0x2803)))
        try discovery.take(.refused(.notFound))
        #expect(discovery.next == nil)
    }
}
