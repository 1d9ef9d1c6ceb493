import MeterSim
import Testing

@testable import MeterLink

@Suite(.timeLimit(.minutes(30))) struct ATTFuzzTests {
    /// Packets of a good search, as the fuzzer writes them, to start from.
    private static let seeds: [[UInt8]] = [
        packet("03 6400"), packet("11 06 0100 0500 E0FF 0600 0900 E5FF"),
        packet("01 10 0A00 0A"),
        packet("09 07 0200 14 0300 E1FF 0400 08 0500 E2FF"), packet("01 08 0600 0A"),
        packet("05 01 0400 0229"), packet("13"), packet("1B 0300 0102030405"),
        packet("1D 0300 01"),
        packet("02 1700"), packet("10 0100FFFF 0028"), packet("01 12 0300 05"),
    ]

    private static func packet(_ hex: String) -> [UInt8] {
        let packet = bytes(hex)
        return [UInt8(packet.count)] + packet
    }

    @Test func noServerBringsTheMachineDown() {
        var generator = SeededGenerator(seed: 20_261_130)
        for round in 0..<200_000 {
            var input: [UInt8] = []
            if round % 4 == 0 {
                // noise
                let size = Int.random(in: 0...80, using: &generator)
                input = (0..<size).map { _ in UInt8.random(in: 0...255, using: &generator) }
            } else {
                // a good beginning, then a search with a few bytes changed
                let good = Int.random(in: 0...7, using: &generator)
                input = Self.seeds.prefix(good).flatMap(\.self)
                for _ in 0..<Int.random(in: 1...6, using: &generator) {
                    input += Self.seeds.randomElement(using: &generator) ?? []
                }
                for _ in 0..<Int.random(in: 0...4, using: &generator) {
                    let index = Int.random(in: 0..<input.count, using: &generator)
                    input[index] = UInt8.random(in: 0...255, using: &generator)
                }
            }
            exerciseAttributes(with: input)
        }
    }

    @Test func aServerThatNeverEndsIsLimited() throws {
        for (opcode, size) in [(0x11, 6), (0x09, 7)] as [(UInt8, UInt8)] {
            var discovery = GATTDiscovery(wanted: [.init(0xffe0)])
            if opcode == 0x09 {
                try discovery.take(.groups([.init(handles: 1...(.max), value: [0xe0, 0xff])]))
            }
            var requests = 0
            #expect(throws: GATTDiscovery.Problem.self) {
                while let request = discovery.next {
                    requests += 1
                    let handle = UInt16(requests)
                    var packet: [UInt8] = [opcode, size]
                    packet += littleEndian(handle)
                    if opcode == 0x11 {
                        packet += littleEndian(handle)
                        packet += [0, 0x18]
                    } else {
                        packet += [0x02]
                        packet += littleEndian(handle + 1)
                        packet += [0, 0x2a]
                    }
                    try discovery.take(try #require(ATTResponse(packet, to: request)))
                }
            }
            #expect(requests <= 257)
        }
    }
}
