import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Testing

@testable import MeterLink

private func readFrame(
    _ link: any Link, _ driver: inout MeterDriver, times: Int = 1
) async throws -> MeterFrame {
    driver.linkOpened(link.content)
    for attempt in 1...times {
        try await link.send(driver.request())
        while true {
            let now = MonotonicInstant(nanoseconds: Int64(attempt) * 1_000_000_000)
            let outcome = driver.receive(try await link.receive(), at: now)
            if case .frame(let frame) = outcome { return frame }
            if case .askAgain = outcome { break }
        }
    }
    throw Unexpected("no answer was believed")
}

@Suite(.timeLimit(.minutes(2))) struct ProfileDialogueTests {
    private func isOneOf(_ packet: [UInt8], _ values: [UInt8]...) -> Bool {
        values.contains(packet)
    }

    @Test func aUMMeterAnswersInSevenNotifications() async throws {
        try await Bench.with { bench in
            let sizes = Guarded<[Int]>([])
            let frame = try await bench.dialogue(bench.gatt(named: "UM25C")) { far in
                var (server, ffe1) = ServerPeer.um()
                server.mtu = 23
                try await server.serve(far) { server, handle, value in
                    guard handle == ffe1, value == [0xf0] else { return [] }
                    let pieces = server.notifications(Capture.um25c, from: ffe1)
                    sizes.withLock { $0 = pieces.map { $0.count - 3 } }
                    return pieces
                }
                #expect(server.value(ffe1 + 1) == [1, 0], "notifications were turned on")
                // a characteristic that only takes commands gets commands
                #expect(server.writes.allSatisfy { $0.handle != ffe1 || !$0.acknowledged })
            } near: { link in
                var driver = MeterDriver(model: nil, dialect: .bluetooth)
                // the first of a link has to be borne out by a second
                return try await readFrame(link, &driver, times: 2)
            }
            #expect(sizes.withLock { $0 } == [20, 20, 20, 20, 20, 20, 10])
            #expect(frame.model == .um25c)
            #expect(frame.voltage == Microvolts(5_062_000))
            #expect(frame.current == Microamperes(114_600))
        }
    }

    @Test func theStatesComeInOrder() async throws {
        try await Bench.with { bench in
            let states = Guarded<[ConnectionState]>([])
            try await bench.dialogue(bench.gatt()) { far in
                var (server, _) = ServerPeer.um()
                try await server.serve(far)
            } progress: { state in
                states.withLock { $0.append(state) }
            } near: { _ in
                // all of them were told of before the link was lent
                #expect(
                    states.withLock { $0 }
                        == [.connected, .discoveringServices, .discoveringCharacteristics])
            }
        }
    }

    @Test func anOldTC66CIsWrittenWithResponse() async throws {
        try await Bench.with { bench in
            let frame = try await bench.dialogue(bench.gatt(named: "TC66C")) { far in
                var (server, ffe4, ffe9) = ServerPeer.tc66Old()
                try await server.serve(far) { server, handle, value in
                    // a plain command is accepted and ignored without a word
                    guard handle == ffe9, server.writes.last?.acknowledged == true,
                        value == Array("bgetva\r\n".utf8)
                    else { return [] }
                    return server.notifications(Capture.tc66c, from: ffe4)
                }
            } near: { link in
                var driver = MeterDriver(model: nil, dialect: .bluetooth)
                return try await readFrame(link, &driver)
            }
            #expect(frame.model == .tc66c)
            #expect(frame.voltage == Microvolts(5_160_900))
            #expect(frame.current == Microamperes(19_900))
        }
    }

    /// 23 gives ten notifications, 247 one.
    @Test(arguments: [23, 100, 247])
    func aNewTC66CIsWrittenWithoutResponse(mtu: Int) async throws {
        try await Bench.with { bench in
            let count = Guarded(0)
            let frame = try await bench.dialogue(bench.gatt(named: "BT24-M")) { far in
                var (server, ffe1, ffe2) = ServerPeer.tc66New()
                server.mtu = mtu
                server.refusals[ffe2] = 0x03
                try await server.serve(far) { server, handle, value in
                    guard handle == ffe2, value == Array("bgetva\r\n".utf8) else { return [] }
                    let pieces = server.notifications(Capture.tc66c, from: ffe1)
                    count.withLock { $0 = pieces.count }
                    return pieces
                }
            } near: { link in
                #expect(link.content == .tc66)
                var driver = MeterDriver(model: .tc66c, dialect: .bluetooth)
                return try await readFrame(link, &driver)
            }
            let packets = count.withLock { $0 }
            let expected: [Int: Int] = [23: 10, 100: 2, 247: 1]
            #expect(packets == expected[mtu])
            #expect(frame.power == Microwatts(102_600))
        }
    }

    @Test func theCloneIsAskedInItsOwnWayAfterSilence() async throws {
        try await Bench.with { bench in
            let transport = bench.gatt(named: "UM24C")
            let requests = Guarded<[String]>([])
            @Sendable func clone(_ far: FarEnd) async throws {
                var (server, ffe1) = ServerPeer.um(0x1c)
                try await server.serve(far) { server, handle, value in
                    guard handle == ffe1 else { return [] }
                    let how = server.writes.last?.acknowledged == true ? " acknowledged" : ""
                    requests.withLock { $0.append(hex(value) + how) }
                    guard value == bytes("FF551103F00000000040") else { return [] }
                    return server.notifications(Capture.um34c, from: ffe1)
                }
            }
            try await bench.dialogue(transport, far: clone) { link in
                try await link.send([0xf0])
                // no answer within the caller's patience, so it asks again
                try await link.send([0xf0])
                var answer: [UInt8] = []
                while answer.count < 130 { answer += try await link.receive() }
                #expect(answer == Capture.um34c)
                try await link.send([0xf1])
            }
            // what worked is kept for the next link
            try await bench.clock.advance(by: .seconds(3), sleepers: 0)
            try await bench.dialogue(transport, far: clone) { link in
                try await link.send([0xf0])
                _ = try await link.receive()
            }
            #expect(
                requests.withLock { $0 } == [
                    "F0", "FF551103F00000000040 acknowledged", "FF551103F10000000041",
                    "FF551103F00000000040 acknowledged",
                ])
        }
    }

    @Test func umOnFFF0CanBeSelected() async throws {
        try await Bench.with { bench in
            let frame = try await bench.dialogue(bench.gatt(named: nil, profile: .umFFF0)) {
                far in
                var (server, fff1, fff2) = ServerPeer.umFFF0()
                try await server.serve(far) { server, handle, value in
                    guard handle == fff2, value == [0xf0] else { return [] }
                    return server.notifications(Capture.um34c, from: fff1)
                }
            } near: { link in
                var driver = MeterDriver(model: .um34c, dialect: .bluetooth)
                return try await readFrame(link, &driver, times: 3)
            }
            #expect(frame.voltage == Microvolts(5_010_000))
        }
    }

    @Test func aHeartRateMeterGivesApproximateFrames() async throws {
        try await Bench.with { bench in
            let frames = try await bench.dialogue(bench.gatt(named: "TC66C")) { far in
                var (server, measurement) = ServerPeer.heartRate()
                try await server.serve(far) { _, handle, value in
                    guard handle == measurement + 1, value == [1, 0] else { return [] }
                    let low = UInt8(measurement & 0xff)
                    // the second carries more than it has to, the third is cut
                    return [
                        [0x1b, low, 0, 0x00, 12, 3], [0x1b, low, 0, 0x10, 18, 2, 0xaa, 0xbb],
                        [0x1b, low, 0, 0x00],
                    ]
                }
            } near: { link -> [MeterFrame] in
                var driver = MeterDriver(model: nil, dialect: .bluetooth)
                driver.linkOpened(link.content)
                #expect(driver.request().isEmpty)
                try await link.send(driver.request())
                var frames: [MeterFrame] = []
                var count = 0
                while count < 6 {
                    let bytes = try await link.receive()
                    count += bytes.count
                    let now = MonotonicInstant(nanoseconds: 0)
                    guard case .frame(let frame) = driver.receive(bytes, at: now) else {
                        continue
                    }
                    frames.append(frame)
                }
                return frames
            }
            let last = try #require(frames.last)
            #expect(last.isApproximate)
            #expect(last.power == Microwatts(18_000_000))
            #expect(last.current == Microamperes(2_000_000))
        }
    }

    @Test func aNameThatWasNotHeardIsAskedFor() async throws {
        try await Bench.with { bench in
            // with the services of an old TC66C, the name tells it from another maker's meter
            let error = try await bench.fault(bench.gatt(named: nil)) { far in
                var server = ServerPeer()
                server.service(0x1800)
                server.characteristic(0x2a00, 0x02, value: Array("FNB58-0A1B2C".utf8))
                server.service(0xffe0)
                server.characteristic(0xffe4, 0x10, cccd: true)
                server.service(0xffe5)
                server.characteristic(0xffe9, 0x0c)
                try await server.serve(far)
            }
            #expect(error.category == .incompatible)
            #expect(error.message.contains("FNB58-0A1B2C"))
        }
    }

    @Test func aMissingCharacteristicIsNamedWithWhatIsThere() async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt(named: "UM25C")) { far in
                var server = ServerPeer()
                server.service(0x180a)
                server.service(0xffe0)
                server.characteristic(0xffe3, 0x08)
                try await server.serve(far)
            }
            #expect(error.category == .incompatible)
            #expect(error.message.contains("FFE0/FFE1"), "\(error)")
            #expect(error.message.contains("180A, FFE0 (FFE3 write)"), "\(error)")
        }
    }

    @Test func aServerWithoutGroupsIsAskedByName() async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, _) = ServerPeer.um()
                server.refusedOpcodes[0x10] = 0x10
                try await server.serve(far)
            } near: { link in
                #expect(link.content == .um)
            }
        }
    }
}
