import Glibc
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct LineWriterTests {
    @Test func linesOfManyTasksDoNotMix() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, writing in
                let writer = LineWriter(descriptor: writing)
                // Longer than what a pipe takes in one piece.
                let length = 6000
                async let written: Void = withThrowingTaskGroup(of: Void.self) { group in
                    for letter in "abcdefgh" {
                        group.addTask {
                            let line = String(repeating: letter, count: length)
                            try await BlockingWorker(label: "writer").run {
                                for _ in 0..<20 { try writer.write(line) }
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                var received: [UInt8] = []
                while received.count < 8 * 20 * (length + 1) {
                    received += try await reading.read(upTo: 65_536)
                }
                try await written
                let lines = received.split(separator: 10)
                #expect(lines.count == 160)
                #expect(lines.allSatisfy { $0.count == length && Set($0).count == 1 })
            }
        }
    }

    @Test func oneCallIsOneLine() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, writing in
                try LineWriter(descriptor: writing).write("a name\nERROR forged\r\n")
                #expect(try await reading.read() == Array("a name ERROR forged  \n".utf8))
            }
        }
    }

    @Test func aNonBlockingDescriptorLosesNothing() async throws {
        try await Reactor.withReactor { reactor in
            try await withPipe(on: reactor) { reading, writing in
                try systemCall { fcntl(writing, F_SETFL, O_NONBLOCK) }
                let line = String(repeating: "x", count: 500_000)
                async let written: Void = BlockingWorker(label: "writer").run {
                    try LineWriter(descriptor: writing).write(line)
                }
                var count = 0
                while count < line.utf8.count + 1 { count += try await reading.read().count }
                try await written
            }
        }
    }
}
