import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Testing

@testable import MeterLink

@Suite(.timeLimit(.minutes(2))) struct ClientTests {
    /// A client and the raw other end, which does only what the test does.
    private func withClient(
        _ body:
            @Sendable (ManagementClient, WatchedDescriptor, ManualClock) async throws -> Void
    ) async throws {
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends) == 0)
            let far = try WatchedDescriptor(OwnedDescriptor(adopting: ends[1]), on: reactor)
            defer { far.close() }
            let clock = ManualClock()
            try await ManagementClient.withClient(
                adopting: ends[0], reactor: reactor, clock: clock
            ) { client in try await body(client, far, clock) }
        }
    }
    private func reply(_ opcode: UInt8, _ index: UInt8, _ status: UInt8, _ rest: UInt8...)
        -> [UInt8]
    {
        [1, 0, index, 0, UInt8(3 + rest.count), 0, opcode, 0, status] + rest
    }

    @Test func answersFindTheirRequestsByAdapterAndOperation() async throws {
        try await withClient { client, far, _ in
            async let one = client.send(.getConnections(0))
            #expect(try await far.read()[0] == 0x15)
            async let two = client.send(.getConnections(1))
            #expect(try await far.read()[2] == 1)
            async let three = client.send(.setBondable(0, true))
            #expect(try await far.read()[0] == 0x09)
            try await far.write(reply(0x09, 0, 0, 3))
            try await far.write(reply(0x15, 1, 0, 2))
            try await far.write(reply(0x15, 0, 0, 1))
            #expect(try await one == [1])
            #expect(try await two == [2])
            #expect(try await three == [3])
        }
    }

    @Test func twoOfAKindGoOneAfterTheOther() async throws {
        try await withClient { client, far, _ in
            async let one = client.send(.getConnections(0))
            _ = try await far.read()
            async let two = client.send(.getConnections(0))
            try await far.write(reply(0x15, 0, 0, 1))
            #expect(try await one == [1])
            #expect(try await far.read()[0] == 0x15)
            try await far.write(reply(0x15, 0, 0, 2))
            #expect(try await two == [2])
        }
    }

    @Test func aStatusIsAnErrorThatSaysWhatToDo() async throws {
        try await withClient { client, far, _ in
            async let one = client.send(.startDiscovery(0, .lowEnergy))
            _ = try await far.read()
            try await far.write([2, 0, 0, 0, 3, 0, 0x23, 0, 0x14])
            do {
                _ = try await one
                Issue.record("no error")
            } catch {
                let failure = error as? ManagementFailure
                #expect(failure?.status == .permissionDenied)
                let error = failure?.error("scanning")
                #expect(error?.category == .permission)
                #expect(error?.advice.contains("AmbientCapabilities=CAP_NET_ADMIN") == true)
            }
        }
    }

    @Test func aLateAnswerIsNotTakenForTheNextOnes() async throws {
        try await withClient { client, far, clock in
            async let one = client.send(.setPowered(0, false), within: .seconds(5))
            _ = try await far.read()
            try await clock.waitForSleepers(count: 1)
            clock.step(to: clock.now + .seconds(5))
            do {
                _ = try await one
                Issue.record("an answer from nowhere")
            } catch {
                #expect(error as? ManagementFailure == .unanswered(.setPowered))
            }
            async let two = client.send(.setPowered(0, true), within: .seconds(5))
            _ = try await far.read()
            try await far.write(reply(0x05, 0, 0, 1))
            try await far.write(reply(0x05, 0, 0, 2))
            #expect(try await two == [2])
        }
    }

    @Test func aBusyKernelRefusesTheNextAndNotTheLateOne() async throws {
        try await withClient { client, far, clock in
            async let one = client.send(.setPowered(0, true), within: .seconds(5))
            _ = try await far.read()
            try await clock.waitForSleepers(count: 1)
            clock.step(to: clock.now + .seconds(5))
            _ = try? await one
            async let two = client.send(.setPowered(0, true), within: .seconds(5))
            _ = try await far.read()
            try await far.write(reply(0x05, 0, 0x0a))
            do {
                _ = try await two
                Issue.record("the refusal was lost")
            } catch {
                #expect(error as? ManagementFailure == .status(.busy, .setPowered))
            }
        }
    }

    @Test func aCancelledRequestEndsAtOnceAndLetsTheNextGo() async throws {
        try await withClient { client, far, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = try await client.send(.setBondable(0, true)) }
                _ = try await far.read()
                group.cancelAll()
                await #expect(throws: ManagementFailure.cancelled) { try await group.next() }
            }
            async let two = client.send(.setBondable(0, true))
            _ = try await far.read()
            try await far.write(reply(0x09, 0, 0, 1))
            try await far.write(reply(0x09, 0, 0, 2))
            #expect(try await two == [2])
        }
    }

    @Test func anAnswerThatNeverCameDoesNotCostEveryNextOne() async throws {
        try await withClient { client, far, clock in
            // The first stays unanswered; the second's answer is taken for the first's, once.
            for _ in 0..<2 {
                async let request = client.send(.setBondable(0, true), within: .seconds(5))
                #expect(try await far.read()[0] == 0x09)
                try await clock.waitForSleepers(count: 1)
                if await client.hasOwed { try await far.write(reply(0x09, 0, 0, 1)) }
                clock.step(to: clock.now + .seconds(5))
                _ = try? await request
            }
            async let third = client.send(.setBondable(0, true), within: .seconds(5))
            _ = try await far.read()
            try await far.write(reply(0x09, 0, 0, 3))
            #expect(try await third == [3])
        }
    }

    @Test func eventsComeInOrderAndGarbageIsCounted() async throws {
        try await withClient { client, far, _ in
            try await far.write([1, 2, 3])
            try await far.write([6, 0, 0, 0, 9, 0, 1, 0, 0, 0])
            try await far.write([4, 0, 0, 0, 0, 0])
            try await far.write([6, 0, 0, 0, 4, 0, 1, 0, 0, 0])
            var events: [ManagementEvent] = []
            while events.count < 2, let next = await client.nextEvents() {
                events += next.packets.map(\.event)
            }
            #expect(
                events == [.indexAdded(isConfigured: true, bus: nil), .newSettings(.powered)])
            #expect(await client.malformed == 2)
        }
    }

    @Test func theEndOfTheChannelEndsAllWaits() async throws {
        try await withClient { client, far, _ in
            async let one = client.send(.getConnections(0))
            _ = try await far.read()
            _ = try far.perform { (number) throws(Errno) in
                try systemCall { shutdown(number, Int32(SHUT_RDWR)) }
            }
            #expect(await client.nextEvents() == nil)
            let answer = try? await one
            #expect(answer == nil)
            await #expect(throws: ManagementFailure.self) {
                _ = try await client.send(.getConnections(0))
            }
        }
    }

    @Test func aKernelWithoutBluetoothIsSaidSoInOneSentence() throws {
        do {
            let descriptor = try ManagementSocket.open()
            OwnedDescriptor(adopting: descriptor).close()
        } catch {
            #expect(error.category == .adapter || error.category == .permission)
            #expect(!error.advice.isEmpty)
        }
    }
}

struct EventQueueTests {
    private func found(
        _ number: Int, rssi: Int? = nil, name: String? = nil
    ) -> ManagementPacket {
        let address = MeterAddress(
            littleEndian: [UInt8(number & 0xff), UInt8(number >> 8), 0, 0, 0, 0x10] as [UInt8])
        let peer = PeerAddress(address: address ?? mac("000000000000"), kind: .lePublic)
        var bytes: [UInt8] = []
        if let name { bytes = [UInt8(name.utf8.count + 1), 0x09] + name.utf8 }
        return ManagementPacket(
            index: 0,
            event: .deviceFound(
                .init(peer: peer, rssi: rssi, flags: 0, data: AdvertisingData(bytes))))
    }
    private let settings = ManagementPacket(index: 0, event: .newSettings([]))

    @Test func reportsOfOneDeviceAreJoinedWhileTheyWait() {
        var queue = ManagementEventQueue()
        queue.append(found(1, rssi: -70, name: "UM25C"))
        queue.append(found(2, rssi: -50))
        queue.append(found(1, rssi: -60))
        let packets = queue.takeAll().packets
        #expect(packets.count == 2)
        guard case .deviceFound(let first) = packets[0].event else {
            Issue.record("no report")
            return
        }
        #expect(first.rssi == -60)
        #expect(first.data.name == "UM25C")
        #expect(queue.isEmpty)
    }

    @Test func aCrowdOfDevicesDropsTheOldestAndNothingElse() {
        var queue = ManagementEventQueue()
        queue.append(settings)
        for number in 0..<1000 { queue.append(found(number)) }
        queue.append(settings)
        let (packets, hasOverflowed) = queue.takeAll()
        #expect(packets.prefix(2).map(\.event) == [.newSettings([]), .newSettings([])])
        #expect(packets.count == 2 + ManagementEventQueue.mostDevices)
        #expect(packets.last == found(999))
        #expect(!hasOverflowed)
    }

    @Test func aFloodOfOtherEventsIsAdmitted() {
        var queue = ManagementEventQueue()
        for _ in 0..<(ManagementEventQueue.mostOthers + 1) { queue.append(settings) }
        #expect(queue.takeAll().hasOverflowed)
        #expect(!queue.takeAll().hasOverflowed)
    }
}
