import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Synchronization
import Testing

@testable import MeterLink

@Suite(.timeLimit(.minutes(2))) struct ConnectingTests {
    /// Which of these are open in this process.
    private func stillOpen(_ inodes: Set<UInt64>) throws -> Set<UInt64> {
        let folder = try #require(opendir("/proc/self/fd"))
        defer { closedir(folder) }
        var found: Set<UInt64> = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            var status = stat()
            if let number = Int32(name), fstat(number, &status) == 0 {
                found.insert(UInt64(status.st_ino))
            }
        }
        return found.intersection(inodes)
    }

    @Test func aFailedAttemptIsToldWithItsMeaning() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.failures = [EMLINK] }
            let error = try await bench.fault(bench.gatt()) { _ in }
            #expect(error.category == .noSlot)
            #expect(bench.radio.state.withLock { $0.ended } == [error])
        }
    }

    @Test func anAttemptEndsByOurOwnClockWhenTheKernelForgets() async throws {
        try await Bench.with { bench in
            bench.sockets.state.withLock { $0.hangs = true }
            async let fault = bench.fault(bench.gatt()) { _ in }
            try await bench.pass(.seconds(22))
            let error = try await fault
            #expect(error.category == .absent)
        }
    }

    @Test func aCancelledTaskLeavesNothingOpen() async throws {
        try await Bench.with { bench in
            let isLent = Signal()
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    let error = try? await bench.fault(bench.gatt()) { far in
                        var (server, _) = ServerPeer.um()
                        try await server.serve(far)
                    } near: { link in
                        isLent.give()
                        _ = try await link.receive()
                    }
                    #expect(error == .cancelled)
                }
                await isLent.wait()
                group.cancelAll()
            }
            // an end by our own will is no error
            #expect(bench.radio.state.withLock { $0.ended } == [nil])
        }
    }

    @Test func aConnectionThatCameWithATurnThatFailedIsClosed() async throws {
        try await Bench.with { bench in
            let lost = LinkError(.adapter, "the adapter went away")
            bench.radio.state.withLock { $0.throwsAfterBody = lost }
            let error = try await bench.fault(bench.gatt()) { far in
                try await far.expectEnd()
            }
            #expect(error == lost)
        }
    }

    @Test func aLinkThatWeClosedIsNotReopenedOnTheOldOne() async throws {
        try await Bench.with { bench in
            let transport = bench.gatt()
            @Sendable func serve(_ far: FarEnd) async throws {
                var (server, _) = ServerPeer.um()
                try await server.serve(far)
            }
            try await bench.dialogue(transport, far: serve) { _ in }
            async let second: Void = bench.dialogue(transport, far: serve) { _ in }
            try await bench.clock.waitForSleepers(count: 1)
            #expect(bench.clock.deadlines == [bench.clock.now + .milliseconds(2_500)])
            #expect(bench.sockets.state.withLock { $0.attempts } == ["ATT"])
            try await bench.pass(.milliseconds(2_500))
            try await second
            // at once when the kernel has told that the old link is gone
            bench.radio.state.withLock { $0.reason = .localHost }
            try await bench.dialogue(transport, far: serve) { _ in }
            #expect(bench.sockets.state.withLock { $0.attempts } == ["ATT", "ATT", "ATT"])
        }
    }

    @Test func aLinkThatFellIsReopenedAtOnce() async throws {
        try await Bench.with { bench in
            let transport = bench.gatt()
            _ = try await bench.fault(transport) { far in _ = try await far.read() }
            _ = try await bench.fault(transport) { far in _ = try await far.read() }
            #expect(bench.sockets.state.withLock { $0.attempts } == ["ATT", "ATT"])
        }
    }

    @Test func fiftyConnectionsLeaveNoDescriptorBehind() async throws {
        try await Bench.with { bench in
            bench.radio.state.withLock { $0.reason = .remote }
            let transport = bench.gatt()
            for number in 1...50 {
                // in turn: read and closed, dropped by the far end, refused, silent at once
                do {
                    try await bench.dialogue(transport) { far in
                        var (server, ffe1) = ServerPeer.um()
                        if number % 4 == 1 { return }
                        if number % 4 == 2 { server.refusals[ffe1 + 1] = 0x11 }
                        try await server.serve(far) { server, handle, _ in
                            handle == ffe1
                                ? server.notifications(Capture.um25c, from: ffe1) : []
                        }
                    } near: { link in
                        try await link.send([0xf0])
                        _ = try await link.receive()
                    }
                } catch is LinkError {}
            }
            let inodes = bench.sockets.state.withLock { $0.inodes }
            #expect(inodes.count == 100)
            #expect(try stillOpen(inodes).isEmpty)
            #expect(bench.radio.state.withLock { $0.ended.count } == 50)
        }
    }
}
