import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Testing

@testable import MeterLink

@Suite(.timeLimit(.minutes(2))) struct FaultDialogueTests {
    /// FD, 03 and 06: clones refuse the descriptor and notify all the same.
    @Test(arguments: [0xfd, 0x03, 0x06] as [UInt8])
    func aRefusedDescriptorIsNoObstacleToNotifications(code: UInt8) async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                server.refusals[ffe1 + 1] = code
                try await server.serve(far) { server, handle, _ in
                    handle == ffe1 ? server.notifications(Capture.um25c, from: ffe1) : []
                }
            } near: { link in
                try await link.send([0xf0])
                var answer: [UInt8] = []
                while answer.count < 130 { answer += try await link.receive() }
                #expect(answer == Capture.um25c)
            }
        }
    }

    @Test func otherRefusalsOfTheDescriptorEndTheLink() async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                server.refusals[ffe1 + 1] = 0x11
                try await server.serve(far)
            }
            #expect(error.category == .transient)
            #expect(error.message.contains("out of resources"))
        }
    }

    @Test func aRefusedPacketSizeStaysAtTheSmallest() async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                server.mtu = 0
                try await server.serve(far)
                #expect(server.value(ffe1 + 1) == [1, 0])
            } near: { _ in
            }
        }
    }

    @Test func silenceAfterConnectingEndsTheLinkInFiveSeconds() async throws {
        try await Bench.with { bench in
            let asked = Signal()
            async let fault = bench.fault(bench.gatt()) { far in
                try await far.expect("02 F700")
                asked.give()
                // and nothing more, until the other side gives up
                try await far.expectEnd()
            }
            await asked.wait()
            try await bench.waitForSleep(of: .seconds(5))
            try await bench.pass(.milliseconds(4_999))
            try await bench.pass(.milliseconds(1))
            let error = try await fault
            #expect(error.category == .silent)
            #expect(error.message.contains("asked for its packet size, 5 s"), "\(error)")
            #expect(bench.radio.state.withLock { $0.ended } == [error])
        }
    }

    @Test func silenceInTheMiddleOfDiscoveryEndsTheLinkInTime() async throws {
        try await Bench.with { bench in
            let asked = Signal()
            async let fault = bench.fault(bench.gatt()) { far in
                try await far.expect("02 F700")
                try await far.write("03 1700")
                try await far.expect("10 0100FFFF 0028")
                asked.give()
                try await far.expectEnd()
            }
            await asked.wait()
            try await bench.waitForSleep(of: .seconds(5))
            try await bench.pass(.seconds(5))
            let error = try await fault
            #expect(error.message.contains("asked for its services, 5 s"), "\(error)")
        }
    }

    @Test func aLateAnswerFindsTheLinkClosed() async throws {
        try await Bench.with { bench in
            let closed = Guarded(false)
            let asked = Signal()
            async let fault = bench.fault(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um(0x18)
                while true {
                    let packet = try await far.read()
                    guard !packet.isEmpty else { break }
                    let isCommand = packet[0] == 0x12 && packet[1] == UInt8(ffe1 & 0xff)
                    if isCommand { asked.give() }
                    if let response = server.respond(packet), !isCommand {
                        try await far.write(response)
                    }
                }
                // ten seconds late; nobody is there to take it for something else
                try await far.write("13")
                closed.withLock { $0 = true }
            } near: { link in
                try await link.send([0xf0])
            }
            await asked.wait()
            try await bench.waitForSleep(of: .seconds(10))
            try await bench.pass(.seconds(10))
            let error = try await fault
            #expect(error.category == .silent)
            #expect(error.message.contains("sent a command, 10 s"), "\(error)")
            #expect(closed.withLock { $0 })
        }
    }

    @Test func aRefusedCommandIsTold() async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt(named: "TC66C")) { far in
                var (server, _, ffe9) = ServerPeer.tc66Old()
                server.refusals[ffe9] = 0x03
                try await server.serve(far)
            } near: { link in
                try await link.send(Array("bgetva\r\n".utf8))
            }
            #expect(error.category == .incompatible)
            #expect(error.message.contains("writing not permitted"))
        }
    }

    @Test func halfAFrameIsHandedOnAndSilenceIsLeftToTheCaller() async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                try await server.serve(far) { server, handle, _ in
                    guard handle == ffe1 else { return [] }
                    return Array(server.notifications(Capture.um25c, from: ffe1).prefix(3))
                }
            } near: { link in
                try await link.send([0xf0])
                var answer: [UInt8] = []
                while answer.count < 60 { answer += try await link.receive() }
                #expect(answer == Array(Capture.um25c.prefix(60)))
                // waiting for the rest can be given up, and loses nothing
                await withTaskGroup(of: Void.self) { group in
                    group.addTask {
                        await #expect(throws: LinkError.cancelled) { try await link.receive() }
                    }
                    group.cancelAll()
                }
            }
        }
    }

    @Test func theServersOwnRequestsAreAnswered() async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                try await far.expect("02 F700")
                // it asks for our size before it tells its own
                try await far.write("02 6400")
                try await far.expect("03 F700")
                try await far.write("03 6400")
                try await far.expect("10 0100FFFF 0028")
                // in the middle of our search it looks for our services, by all ways
                for (ask, answer) in [
                    ("10 0100FFFF 0028", "01 10 0100 0A"),
                    ("08 0500FFFF 0328", "01 08 0500 0A"),
                    ("04 0100FFFF", "01 04 0100 0A"),
                    ("06 0300FFFF 0028 E0FF", "01 06 0300 0A"),
                    ("0A 0300", "01 0A 0000 06"), ("12 0300 01", "01 12 0000 06"),
                    ("18 01", "01 18 0000 06"), ("02 17", "01 02 0000 04"),
                    ("20 0300 0400", "01 20 0000 06"),
                ] {
                    try await far.write(ask)
                    try await far.expect(answer)
                }
                // commands and what nobody knows are passed over; indications are confirmed
                for ignored in [
                    "52 0300 01", "D2 0300 01", "1E", "23 0300 0100 00", "FF", "13",
                ] {
                    try await far.write(ignored)
                }
                try await far.write("1D 0300 01")
                try await far.expect("1E")
                try await far.write("11 06 0100 0500 E0FF")
                var (server, _) = ServerPeer.um()
                server.mtu = 100
                // the rest of the search goes on: nothing was taken for an answer
                try await far.expect("10 0600FFFF 0028")
                try await far.write("01 10 0600 0A")
                try await far.expect("08 0100 0500 0328")
                try await far.write("09 07 0200 14 0300 E1FF")
                try await far.expect("08 0300 0500 0328")
                try await far.write("01 08 0300 0A")
                try await far.expect("04 0400 0500")
                try await far.write("05 01 0400 0229")
                try await far.expect("12 0400 0100")
                try await far.write("13")
                try await far.expectEnd()
            } near: { link in
                #expect(link.content == .um)
            }
        }
    }

    @Test func indicationsAreConfirmedAndTakenWhereThereIsNothingElse() async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um(0x24)
                try await server.serve(far) { server, handle, value in
                    if handle == ffe1 + 1 { #expect(value == [2, 0]) }
                    guard handle == ffe1 else { return [] }
                    return [[0x1d, UInt8(ffe1 & 0xff), 0, 1, 2, 3]]
                }
            } near: { link in
                try await link.send([0xf0])
                let received = try await link.receive()
                #expect(received == [1, 2, 3])
            }
        }
    }

    /// 05 and 0F: encryption is raised once, and the request made again.
    @Test(arguments: [0x05, 0x0f] as [UInt8])
    func aServerThatWantsSecurityGetsIt(code: UInt8) async throws {
        try await Bench.with { bench in
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                server.refusals[ffe1 + 1] = code
                while true {
                    let packet = try await far.read()
                    guard !packet.isEmpty else { break }
                    if let response = server.respond(packet) {
                        try await far.write(response)
                        if response.first == 0x01, response.last == code {
                            server.refusals = [:]
                        }
                    }
                }
                #expect(server.value(ffe1 + 1) == [1, 0])
            } near: { _ in
                #expect(bench.sockets.state.withLock { $0.raised } == 1)
            }
        }
    }

    @Test func aServerThatIsNotContentWithSecurityWantsPairing() async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                server.refusals[ffe1 + 1] = 0x05
                try await server.serve(far)
            }
            #expect(error.category == .pairing)
            #expect(error.advice == "usbmeter pair A4:C1:38:01:02:03")
            #expect(bench.sockets.state.withLock { $0.raised } == 1)
        }
    }

    @Test func theKernelsReasonExplainsADrop() async throws {
        for (reason, words) in [
            (DisconnectReason.supervisionTimeout, "fell silent"), (.remote, "closed the link"),
            (.localHost, "on this machine"), (.localSuspend, "slept"),
        ] {
            try await Bench.with { bench in
                bench.radio.state.withLock { $0.reason = reason }
                let error = try await bench.fault(bench.gatt()) { far in
                    var (server, ffe1) = ServerPeer.um()
                    while server.value(ffe1 + 1) != [1, 0] {
                        guard let response = server.respond(try await far.read()) else {
                            continue
                        }
                        try await far.write(response)
                    }
                } near: { link in
                    _ = try await link.receive()
                }
                #expect(error.category == .transient)
                #expect(error.message.contains(words))
                #expect(bench.radio.state.withLock { $0.ended } == [error])
            }
        }
    }

    @Test func whatCameBeforeTheEndIsStillGivenOut() async throws {
        try await Bench.with { bench in
            let isGone = Signal()
            let error = try await bench.fault(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                while server.value(ffe1 + 1) != [1, 0] {
                    guard let response = server.respond(try await far.read()) else { continue }
                    try await far.write(response)
                }
                try await far.write([0x1b, UInt8(ffe1 & 0xff), 0, 7, 8, 9])
                far.close()
                isGone.give()
            } near: { link in
                await isGone.wait()
                let received = try await link.receive()
                #expect(received == [7, 8, 9])
                _ = try await link.receive()
            }
            #expect(error.message.contains("closed the link"))
        }
    }

    @Test func aFloodKeepsTheNewest() async throws {
        try await Bench.with { bench in
            let isSent = Signal()
            try await bench.dialogue(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                while server.value(ffe1 + 1) != [1, 0] {
                    guard let response = server.respond(try await far.read()) else { continue }
                    try await far.write(response)
                }
                for number in 0..<200 {
                    try await far.write([0x1b, UInt8(ffe1 & 0xff), 0, UInt8(number)])
                }
                // confirmed only when all before it has been read
                try await far.write([0x1d, 0x63, 0, 1])
                try await far.expect("1E")
                isSent.give()
                try await far.expectEnd()
            } near: { link in
                await isSent.wait()
                let received = try await link.receive()
                #expect(received == (136..<200).map { UInt8($0) })
            }
        }
    }

    @Test func changedServicesEndTheLink() async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt()) { far in
                var (server, ffe1) = ServerPeer.um()
                let changed = try #require(server.attributes.first { $0.type == 0x2a05 }).handle
                try await server.serve(far) { _, handle, _ in
                    handle == ffe1 + 1 ? [[0x1d, UInt8(changed), 0, 1, 0, 0xff, 0xff]] : []
                }
            } near: { link in
                _ = try await link.receive()
            }
            #expect(error.message.contains("changed its services"))
        }
    }

    @Test(arguments: [
        ("03 17", "packet size"), ("11 05 0100 0500 E0", "a service"),
        ("11 06 0100 0500", "services"),
        ("11 06 0500 0100 E0FF", "services"), ("11 06 0000 0100 E0FF", "services"),
        ("11 06 0100 0500 E0FF 0500 0600 E5FF", "services"), ("11", "services"),
        ("11 00 0100", "services"), ("01 10 01", "error"),
    ])
    func nonsenseEndsTheLink(packet: String, word: String) async throws {
        try await Bench.with { bench in
            let error = try await bench.fault(bench.gatt()) { far in
                try await far.expect("02 F700")
                if packet.hasPrefix("03") { return try await far.write(packet) }
                try await far.write("03 1700")
                try await far.expect("10 0100FFFF 0028")
                try await far.write(packet)
                try await far.expectEnd()
            }
            #expect(error.category == .transient)
            #expect(error.message.contains("breaks the Bluetooth protocol"))
            #expect(error.message.contains(word), "\(error)")
        }
    }
}
