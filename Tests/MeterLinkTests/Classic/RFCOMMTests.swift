import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Synchronization
import Testing

@testable import MeterLink

/// What is remembered of channels.
private final class Notebook: ChannelMemory {
    private let channels = Mutex<[MeterAddress: UInt8]>([:])

    func channel(of meter: MeterAddress) async -> UInt8? { channels.withLock { $0[meter] } }
    func remember(_ channel: UInt8, of meter: MeterAddress) async {
        channels.withLock { $0[meter] = channel }
    }
}

/// A service discovery server with one serial port, written from the specification.
private struct ServiceList {
    /// The channel; `nil` for an empty list.
    var channel: UInt8?
    /// How many bytes of the list go into one packet.
    var piece = 1000
    var answers = true

    private var list: [UInt8] {
        guard let channel else { return [0x35, 0] }
        // L2CAP, then RFCOMM with its channel
        let protocols: [UInt8] = [
            0x35, 0x0c, 0x35, 0x03, 0x19, 0x01, 0x00, 0x35, 0x05, 0x19, 0x00, 0x03, 0x08,
            channel,
        ]
        let record: [UInt8] = [0x09, 0x00, 0x04] + protocols
        return [0x35, UInt8(record.count + 2), 0x35, UInt8(record.count)] + record
    }

    func serve(_ end: FarEnd) async throws {
        while true {
            let request = try await end.read()
            guard !request.isEmpty else { return }
            guard answers else { continue }
            #expect(request[0] == 0x06)
            // the serial port's service, and the list of protocols of it
            #expect(hex(request).contains("191101"))
            #expect(hex(request).contains("090004"))
            let start = request[request.count - 2] == 1 ? Int(request[request.count - 1]) : 0
            let part = Array(list[start..<min(list.count, start + piece)])
            let next = start + part.count
            let state: [UInt8] = next < list.count ? [1, UInt8(next)] : [0]
            let body = [0, UInt8(part.count)] + part + state
            try await end.write([0x07, request[1], request[2], 0, UInt8(body.count)] + body)
        }
    }
}

@Suite(.timeLimit(.minutes(2))) struct RFCOMMTests {
    private func transport(
        _ bench: Bench, channel: UInt8? = nil, memory: any ChannelMemory = Notebook()
    ) -> RFCOMMTransport {
        RFCOMMTransport(
            classicAddress, channel: channel, memory: memory, radio: bench.radio,
            sockets: bench.sockets, clock: bench.clock)
    }

    private func attempts(_ bench: Bench) -> [String] {
        bench.sockets.state.withLock { $0.attempts }
    }

    /// A UM34C that answers each request in pieces of this size.
    private func meter(_ far: FarEnd, piece: Int = 130) async throws {
        while try await far.read() == [0xf0] {
            for start in stride(from: 0, to: 130, by: piece) {
                try await far.write(Array(Capture.um34c[start..<min(130, start + piece)]))
            }
        }
    }

    private func ask(_ link: any Link) async throws {
        try await link.send([0xf0])
        var answer: [UInt8] = []
        while answer.count < 130 { answer += try await link.receive() }
        #expect(answer == Capture.um34c)
    }

    /// Serves a list of services at the first connection and is a meter at the next.
    private func list(_ list: ServiceList, thenMeter bench: Bench) async throws {
        let first = await bench.sockets.farEnd(of: 0)
        let server = try #require(first)
        defer { server.close() }
        #expect(server.purpose == "SDP")
        try await list.serve(server)
        let second = await bench.sockets.farEnd(of: 0)
        let port = try #require(second)
        defer { port.close() }
        try await meter(port)
    }

    @Test(arguments: [1, 20, 109, 130])
    func anAnswerInPiecesArrivesWhole(piece: Int) async throws {
        try await Bench.with { bench in
            try await bench.dialogue(transport(bench)) { far in
                #expect(far.purpose == "RFCOMM 1")
                try await meter(far, piece: piece)
            } near: { link in
                try await ask(link)
                try await ask(link)
            }
            #expect(bench.radio.state.withLock { $0.ended } == [nil])
        }
    }

    @Test func theChannelThatAnsweredIsRemembered() async throws {
        try await Bench.with { bench in
            let memory = Notebook()
            bench.sockets.state.withLock { $0.openChannels = [3] }
            let transport = transport(bench, channel: 3, memory: memory)
            try await bench.dialogue(transport) {
                try await meter($0)
            } near: {
                try await ask($0)
            }
            #expect(await memory.channel(of: classicAddress) == 3)
            // and known without the configuration
            let later = self.transport(bench, memory: memory)
            try await bench.dialogue(later) {
                try await meter($0)
            } near: {
                try await ask($0)
            }
            #expect(attempts(bench) == ["RFCOMM 3", "RFCOMM 3"])
        }
    }

    /// In one packet, and in packets of a few bytes that have to be asked for one by one.
    @Test(arguments: [1000, 5])
    func aMeterOnAnotherChannelIsFoundByItsList(piece: Int) async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.openChannels = [7] }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await list(ServiceList(channel: 7, piece: piece), thenMeter: bench)
                }
                try await transport(bench).withLink { try await ask($0) }
                try await group.waitForAll()
            }
            #expect(attempts(bench) == ["RFCOMM 1", "SDP", "RFCOMM 7"])
        }
    }

    @Test func anEmptyListIsNoFailureOfItsOwn() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.openChannels = [] }
            let error = try await bench.fault(transport(bench, channel: 2)) { far in
                try await ServiceList(channel: nil).serve(far)
            }
            // what the meter itself said counts
            #expect(error.category == .busyElsewhere)
            #expect(error.message == "00:15:A6:00:36:2F refuses the connection")
            #expect(attempts(bench) == ["RFCOMM 2", "RFCOMM 1", "SDP"])
            #expect(bench.radio.state.withLock { $0.ended } == [error])
        }
    }

    @Test func aListThatDoesNotComeIsGivenUpInFiveSeconds() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.openChannels = [] }
            let asked = Signal()
            async let fault = bench.fault(transport(bench)) { far in
                _ = try await far.read()
                asked.give()
                try await far.expectEnd()
            }
            await asked.wait()
            try await bench.waitForSleep(of: .seconds(5))
            try await bench.pass(.seconds(5))
            let error = try await fault
            #expect(error.category == .busyElsewhere)
        }
    }

    @Test func aChannelThatWasOpenAndSilentComesLast() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.openChannels = [1, 4] }
            let transport = transport(bench)
            try await bench.dialogue(transport) {
                try await $0.expectEnd()
            } near: { _ in
            }
            try await bench.pass(.seconds(1), sleepers: 0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await list(ServiceList(channel: 4), thenMeter: bench)
                }
                try await transport.withLink { try await ask($0) }
                try await group.waitForAll()
            }
            #expect(attempts(bench) == ["RFCOMM 1", "SDP", "RFCOMM 4"])
        }
    }

    @Test func aBusyChannelIsTriedThreeTimes() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.failures = [EBUSY, EBUSY] }
            async let link: Void = bench.dialogue(transport(bench)) { far in
                try await meter(far)
            } near: { link in
                try await ask(link)
            }
            for _ in 1...2 {
                try await bench.waitForSleep(of: .milliseconds(100))
                try await bench.pass(.milliseconds(100))
            }
            try await link
            #expect(attempts(bench) == ["RFCOMM 1", "RFCOMM 1", "RFCOMM 1"])
        }
    }

    @Test func aMeterThatRefusesIsTriedOnceWithEncryption() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.failures = [EACCES] }
            try await bench.dialogue(transport(bench)) { far in
                #expect(far.purpose == "RFCOMM 1 secured")
                try await meter(far)
            } near: { link in
                try await ask(link)
            }
            bench.sockets.state.withLock { $0.failures = [EACCES, EACCES] }
            let error = try await bench.fault(transport(bench)) { _ in }
            #expect(error.category == .pairing)
        }
    }

    @Test func aMeterThatIsOffIsNotLookedUp() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.failures = [EHOSTDOWN] }
            let error = try await bench.fault(transport(bench)) { _ in }
            #expect(error.category == .absent)
            #expect(attempts(bench) == ["RFCOMM 1"])
        }
    }

    @Test func theFarEndMayClose() async throws {
        try await Bench.with { bench in
            bench.radio.state.withLock { $0.reason = .remote }
            let error = try await bench.fault(transport(bench)) { far in
                _ = try await far.read()
                try await far.write(Array(Capture.um34c.prefix(60)))
            } near: { link in
                try await link.send([0xf0])
                var count = 0
                while true { count += try await link.receive().count }
            }
            #expect(error.category == .transient)
            #expect(error.message.contains("closed the link"))
        }
    }

    @Test func aSecondPassesBeforeALinkIsOpenedAgain() async throws {
        try await Bench.with { bench in
            let transport = transport(bench)
            try await bench.dialogue(transport) {
                try await meter($0)
            } near: {
                try await ask($0)
            }
            async let second: Void = bench.dialogue(transport) { far in
                try await meter(far)
            } near: { link in
                try await ask(link)
            }
            try await bench.waitForSleep(of: .seconds(1))
            #expect(attempts(bench) == ["RFCOMM 1"])
            try await bench.pass(.seconds(1))
            try await second
            #expect(attempts(bench).count == 2)
        }
    }

    @Test func theOrderOfChannels() {
        func order(_ configured: UInt8?, _ remembered: UInt8?, _ silent: Set<UInt8> = [])
            -> ChannelOrder
        {
            ChannelOrder(configured: configured, remembered: remembered, silent: silent)
        }
        #expect(order(nil, nil).known == [1])
        #expect(order(2, 5).known == [2, 5, 1])
        #expect(order(nil, 1).known == [1])
        #expect(order(nil, nil, [1]).known == [])
        #expect(order(nil, nil, [1]).rest(listed: nil) == [1])
        #expect(order(nil, nil, [1]).rest(listed: 4) == [4, 1])
        #expect(order(nil, nil, [1]).rest(listed: 1) == [1])
        #expect(order(nil, nil).rest(listed: 1) == [])
    }
}
