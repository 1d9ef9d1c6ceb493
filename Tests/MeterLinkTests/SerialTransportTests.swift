import FoundationEssentials
import Glibc
import LinuxIO
import MeterCore
import MeterLink
import Testing

@Suite(.timeLimit(.minutes(2))) struct SerialTransportTests {
    /// A serial device with both ends in sight: `far` is the meter's.
    private func withDevice(
        _ body: (_ far: PseudoTerminal, _ transport: SerialTransport, Reactor) async throws -> Void
    ) async throws {
        try await Reactor.withReactor { reactor in
            try await PseudoTerminal.withPseudoTerminal(on: reactor) { far in
                let transport = SerialTransport(path: far.path, dialect: .usb, reactor: reactor)
                try await body(far, transport, reactor)
            }
        }
    }

    private func collect(
        _ count: Int, from receive: () async throws -> [UInt8]
    ) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += try await receive() }
        return bytes
    }

    private func category(
        of transport: SerialTransport, _ body: @Sendable (any Link) async throws -> Void = { _ in }
    ) async -> FaultCategory? {
        await category(of: { try await transport.withLink(body) })
    }

    private func category(of body: () async throws -> Void) async -> FaultCategory? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? LinkError)?.category
        }
    }

    private static let awkward: [UInt8] = [
        0x0d, 0x0a, 0x00, 0x03, 0x04, 0x11, 0x13, 0x1a, 0x7f, 0xff,
    ]

    @Test func bytesThatATerminalWouldActOnPassUnchanged() async throws {
        try await withDevice { far, transport, _ in
            try makeInteractive(far.path)
            try await transport.withLink { link in
                try await link.send(Self.awkward)
                #expect(try await collect(10) { try await far.read() } == Self.awkward)
                try await far.write(Self.awkward)
                #expect(try await collect(10) { try await link.receive() } == Self.awkward)
            }
        }
    }

    /// The mode of a login terminal, in which a device may be found: echo, line editing, signals
    /// and flow control by characters.
    private func makeInteractive(_ path: String) throws(Errno) {
        let terminal = try systemCall { open(path, O_RDWR | O_NOCTTY | O_CLOEXEC) }
        var settings = termios()
        try systemCall { tcgetattr(terminal, &settings) }
        settings.c_iflag |= tcflag_t(ICRNL | IXON | ISTRIP)
        settings.c_oflag |= tcflag_t(OPOST | ONLCR)
        settings.c_lflag |= tcflag_t(ICANON | ECHO | ISIG | IEXTEN)
        try systemCall { tcsetattr(terminal, TCSANOW, &settings) }
        close(terminal)
    }

    @Test(arguments: [130, 192], [1, 20, 109])
    func anAnswerInPiecesArrivesWhole(size: Int, piece: Int) async throws {
        let answer = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 3) }
        try await withDevice { far, transport, _ in
            try await transport.withLink { link in
                try await link.send([0xf0])
                #expect(try await far.read() == [0xf0])
                var received: [UInt8] = []
                var rest = answer[...]
                while !rest.isEmpty {
                    let next = Array(rest.prefix(piece))
                    rest = rest.dropFirst(piece)
                    try await far.write(next)
                    // Each piece is handed on when it comes, not when a buffer is full.
                    received += try await collect(next.count) { try await link.receive() }
                }
                #expect(received == answer)
            }
        }
    }

    @Test func aDeviceThatVanishesIsNoticedWhileWaiting() async throws {
        try await withDevice { far, transport, reactor in
            try await transport.withLink { link in
                let lost = LinkError(
                    .absent, "\(transport.name) was unplugged or its far end has closed",
                    advice: "plug the meter in again")
                async let waiting = link.receive()
                await Task.yield()
                try far.unplug()
                do {
                    let bytes = try await waiting
                    Issue.record("received \(bytes)")
                } catch {
                    #expect(error as? LinkError == lost)
                }
                // It stays so, without waiting, both ways.
                let before = reactor.wakeCount
                for _ in 0..<100 {
                    await #expect(throws: lost) { try await link.receive() }
                    await #expect(throws: lost) { try await link.send([1]) }
                }
                #expect(reactor.wakeCount == before)
            }
        }
    }

    @Test func aMissingDeviceIsAbsent() async throws {
        try await Reactor.withReactor { reactor in
            let transport = SerialTransport(
                path: "/dev/tty-that-is-not-there", dialect: .usb, reactor: reactor)
            #expect(await category(of: transport) == .absent)
        }
    }

    @Test(arguments: ["/proc/self/exe", "/tmp", "/dev/null", "/proc/self/exe/tty"])
    func whatIsNoSerialDeviceIsAMistakeInTheConfiguration(path: String) async throws {
        try await Reactor.withReactor { reactor in
            let transport = SerialTransport(path: path, dialect: .usb, reactor: reactor)
            #expect(await category(of: transport) == .configuration)
        }
    }

    @Test func aSecondOpenerIsRefusedAndTheFirstGoesOn() async throws {
        try await withDevice { far, transport, _ in
            try await transport.withLink { link in
                #expect(await category(of: transport) == .busyElsewhere)
                try await link.send([1])
                #expect(try await far.read() == [1])
            }
            // Free again afterwards.
            #expect(await category(of: transport) == nil)
        }
    }

    @Test func theDeviceIsClaimedForAsLongAsTheLinkLasts() async throws {
        try await withDevice { far, transport, _ in
            let observer = try systemCall { open(far.path, O_RDWR | O_NOCTTY | O_CLOEXEC) }
            try await transport.withLink { _ in
                let isClaimed = try isClaimed(observer)
                #expect(isClaimed)
            }
            #expect(try !isClaimed(observer))
            close(observer)
        }
    }

    @Test func aClaimLeftByAKilledProgramDoesNotLast() async throws {
        try await withDevice { far, _, _ in
            let other = try systemCall { open(far.path, O_RDWR | O_NOCTTY | O_CLOEXEC) }
            try systemCall { ioctl(other, UInt(TIOCEXCL)) }
            async let next = far.read()
            let isFree = try await eventually { try !isClaimed(other) }
            #expect(isFree)
            try systemCall { write(other, [5], 1) }
            _ = try await next
            close(other)
        }
    }

    /// Root may open a claimed terminal all the same, so the claim itself is looked at.
    private func isClaimed(_ terminal: Int32) throws(Errno) -> Bool {
        var answer: Int32 = 0
        let claimQuery: UInt = 0x8004_5440  // TIOCGEXCL, a macro that Swift cannot import
        try systemCall { ioctl(terminal, claimQuery, &answer) }
        return answer != 0
    }

    @Test func theLinkIsUsableAgainAfterACancelledReceive() async throws {
        try await withDevice { far, transport, _ in
            try await transport.withLink { link in
                for round in 0..<UInt8(50) {
                    let waiting = Task { try await link.receive() }
                    if round % 2 == 0 { await Task.yield() }
                    waiting.cancel()
                    try await far.write([round])
                    switch await waiting.result {
                    case .success(let bytes): #expect(bytes == [round])
                    case .failure(let error):
                        #expect(error as? LinkError == .cancelled)
                        #expect(try await link.receive() == [round])
                    }
                }
            }
        }
    }

    @Test func whatWasSentBeforeTheLinkOpenedIsNotReceived() async throws {
        try await withDevice { far, transport, _ in
            try await far.write([0xaa, 0xbb, 0xcc])
            try await transport.withLink { link in
                try await far.write([1])
                #expect(try await link.receive() == [1])
            }
        }
    }

    @Test func cancellingTheTaskClosesTheLink() async throws {
        try await withDevice { far, transport, _ in
            let task = Task { try await transport.withLink { _ = try await $0.receive() } }
            let isOpen = try await eventually { try descriptors(to: far.path) == 2 }
            #expect(isOpen)
            task.cancel()
            let error = await category(of: { try await task.value })
            #expect(error == .cancelled)
            let open = try descriptors(to: far.path)
            #expect(open == 1)
        }
    }

    @Test func fiftyLinksLeaveNoDescriptorAndNoThread() async throws {
        try await withDevice { far, transport, _ in
            let before = try entries(of: "/proc/self/fd").count
            let threadsBefore = try entries(of: "/proc/self/task").count
            for round in 0..<UInt8(50) {
                try await transport.withLink { link in
                    try await link.send([round])
                    #expect(try await far.read() == [round])
                    try await far.write([round, round])
                    #expect(try await collect(2) { try await link.receive() } == [round, round])
                }
            }
            // The end that the far side keeps open is the only one.
            #expect(try descriptors(to: far.path) == 1)
            // Other tests come and go meanwhile; one leak in each round would stay.
            #expect(try await eventually { try entries(of: "/proc/self/fd").count < before + 25 })
            #expect(
                try await eventually {
                    try entries(of: "/proc/self/task").count < threadsBefore + 25
                })
        }
    }

    @Test func fiftyLossesAndReturnsLeaveNoDescriptor() async throws {
        try await withDevice { far, _, reactor in
            let before = try entries(of: "/proc/self/fd").count
            for _ in 0..<50 {
                let transport = SerialTransport(path: far.path, dialect: .usb, reactor: reactor)
                let category = await category(of: transport) { link in
                    try far.unplug()
                    _ = try await link.receive()
                }
                #expect(category == .absent)
                try far.plugIn()
            }
            #expect(try await eventually { try entries(of: "/proc/self/fd").count < before + 25 })
        }
    }

    @Test func waitingCostsNothing() async throws {
        try await withDevice { far, transport, reactor in
            try await transport.withLink { link in
                async let waiting = link.receive()
                await Task.yield()
                let before = reactor.wakeCount
                try await Task.sleep(for: .milliseconds(200))
                #expect(reactor.wakeCount <= before + 1)
                try await far.write([1])
                let received = try await waiting
                #expect(received == [1])
            }
        }
    }

    /// How many of this process's descriptors are open on `path`.
    private func descriptors(to path: String) throws -> Int {
        try entries(of: "/proc/self/fd").filter { number in
            // One that has closed meanwhile is none of ours.
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)"))
                == path
        }.count
    }

    private func entries(of folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder)
    }

    private func eventually(_ condition: () throws -> Bool) async throws -> Bool {
        // long enough for other tests, which share the process, to have come to their ends
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            if try condition() { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return try condition()
    }
}
