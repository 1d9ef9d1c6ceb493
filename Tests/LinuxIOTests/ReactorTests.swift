import FoundationEssentials
import Glibc
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct ReactorTests {
    @Test func aReadWaitsForBytesAndThenForTheEnd() async throws {
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
            defer { reading.close() }
            async let first = reading.read()
            put("hello", into: ends[1])
            let greeting = try await first
            #expect(greeting == Array("hello".utf8))
            async let last = reading.read()
            OwnedDescriptor(adopting: ends[1]).close()
            let end = try await last
            #expect(end == [])
        }
    }

    @Test func aWriteLargerThanThePipeArrivesWhole() async throws {
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
            let writing = try WatchedDescriptor(OwnedDescriptor(adopting: ends[1]), on: reactor)
            defer {
                reading.close()
                writing.close()
            }
            let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            async let sent: Void = writing.write(bytes)
            var received: [UInt8] = []
            while received.count < bytes.count { received += try await reading.read() }
            try await sent
            #expect(received == bytes)
        }
    }

    @Test func oneTaskMayReadWhileAnotherWrites() async throws {
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            let here = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
            let there = try WatchedDescriptor(OwnedDescriptor(adopting: ends[1]), on: reactor)
            defer {
                here.close()
                there.close()
            }
            let bytes = [UInt8](repeating: 42, count: 1_000_000)
            async let answer = here.read()
            async let sent: Void = here.write(bytes)
            var received = 0
            while received < bytes.count { received += try await there.read().count }
            try await sent
            try await there.write([7])
            let reply = try await answer
            #expect(reply == [7])
        }
    }

    @Test func aCancelledWaitLosesNoBytes() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, writing in
                for round in 0..<200 {
                    let word = "round \(round)"
                    let reader = Task { () throws(Errno) in try await reading.read() }
                    // In every order: bytes and cancellation race with the start of the wait.
                    if round % 3 == 0 { await Task.yield() }
                    if round % 2 == 0 { put(word, into: writing) }
                    reader.cancel()
                    if round % 2 == 1 { put(word, into: writing) }
                    let received: [UInt8]
                    switch await reader.result {
                    case .success(let bytes): received = bytes
                    case .failure(let error):
                        #expect(error as? Errno == .cancelled)
                        received = try await reading.read()
                    }
                    #expect(received == Array(word.utf8))
                }
            }
        }
    }

    @Test func aTaskThatIsCancelledAlreadyDoesNotWait() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, _ in
                let reader = Task {
                    while !Task.isCancelled { await Task.yield() }
                    try await reading.readable()
                }
                reader.cancel()
                await #expect(throws: Errno.cancelled) { try await reader.value }
            }
        }
    }

    @Test func closingEndsTheWaitOfAnotherTask() async throws {
        try await Reactor.withReactor { reactor in
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
            async let waiting = reading.read()
            await Task.yield()
            reading.close()
            do {
                let bytes = try await waiting
                Issue.record("read \(bytes)")
            } catch {
                #expect(error as? Errno == .cancelled)
            }
            await #expect(throws: Errno.cancelled) { try await reading.read() }
            OwnedDescriptor(adopting: ends[1]).close()
        }
    }

    @Test func aNumberUsedAgainIsNotMistakenForTheOldFile() async throws {
        try await Reactor.withReactor { reactor in
            for round in 0..<100 {
                try await withPipe(on: reactor) { reading, writing in
                    async let waiting = reading.read()
                    put("old \(round)", into: writing)
                    _ = try await waiting
                }
                // Mostly gets the numbers that were just closed.
                try await withPipe(on: reactor) { reading, writing in
                    async let waiting = reading.read()
                    put("new \(round)", into: writing)
                    let received = try await waiting
                    #expect(received == Array("new \(round)".utf8))
                }
            }
        }
    }

    @Test func waitingWakesNobody() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, writing in
                async let waiting = reading.read()
                let before = reactor.wakeCount
                try await Task.sleep(for: .milliseconds(200))
                #expect(reactor.wakeCount <= before + 1)
                put("x", into: writing)
                _ = try await waiting
            }
        }
    }

    @Test func aFileOnDiskCannotBeWatched() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/file"
            try await Reactor.withReactor { reactor in
                let file = try systemCall { open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }
                #expect(throws: Errno(EPERM)) {
                    let descriptor = OwnedDescriptor(adopting: file)
                    _ = try WatchedDescriptor(descriptor, on: reactor)
                }
            }
            // It was closed with the error.
            let targets = try entries(of: "/proc/self/fd").map {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
            }
            #expect(!targets.contains(path))
        }
    }

    @Test func fiftyReactorsLeaveNoDescriptorAndNoThread() async throws {
        let before = try entries(of: "/proc/self/fd").count
        for _ in 0..<50 {
            try await Reactor.withReactor(named: "fifty") { reactor in
                #expect(try threadNames().contains("fifty"))
                try await withPipe(on: reactor) { reading, writing in
                    async let waiting = reading.read()
                    put("x", into: writing)
                    _ = try await waiting
                }
            }
        }
        // Other tests open files meanwhile, but not one for each round for ever.
        #expect(try await eventually { try entries(of: "/proc/self/fd").count < before + 25 })
        #expect(try await eventually { try !threadNames().contains("fifty") })
    }

    @Test func anErrorOfTheBodyEndsTheThreadToo() async throws {
        struct Failure: Error {}
        await #expect(throws: Failure.self) {
            try await Reactor.withReactor(named: "failing") { _ in throw Failure() }
        }
        #expect(try await eventually { try !threadNames().contains("failing") })
    }
}
