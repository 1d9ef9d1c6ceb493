import FoundationEssentials
import Glibc
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct PseudoTerminalTests {
    private func openTerminal(_ path: String) throws(Errno) -> Int32 {
        try systemCall { open(path, O_RDWR | O_NOCTTY | O_CLOEXEC) }
    }

    private func watch(_ path: String, on reactor: Reactor) throws(Errno) -> WatchedDescriptor {
        try WatchedDescriptor(OwnedDescriptor(adopting: openTerminal(path)), on: reactor)
    }

    private func receive(_ count: Int, from client: WatchedDescriptor) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += try await client.read() }
        return bytes
    }

    @Test func everyByteValuePassesBothWays() async throws {
        try await Reactor.withReactor { reactor in
            try await PseudoTerminal.withPseudoTerminal(on: reactor) { terminal in
                let client = try watch(terminal.path, on: reactor)
                defer { client.close() }
                let bytes = (0...255).map { UInt8($0) }
                try await terminal.write(bytes)
                #expect(try await receive(256, from: client) == bytes)
                try await client.write(bytes)
                var received: [UInt8] = []
                while received.count < 256 { received += try await terminal.read() }
                #expect(received == bytes)
            }
        }
    }

    @Test func clientsComeAndGo() async throws {
        try await Reactor.withReactor { reactor in
            try await PseudoTerminal.withPseudoTerminal(on: reactor) { terminal in
                for round in 0..<UInt8(20) {
                    async let request = terminal.read()
                    let client = try watch(terminal.path, on: reactor)
                    try await client.write([round])
                    let received = try await request
                    #expect(received == [round])
                    client.close()
                }
                // Nobody is there: silence, not a busy wait.
                async let request = terminal.read()
                let before = reactor.wakeCount
                try await Task.sleep(for: .milliseconds(100))
                #expect(reactor.wakeCount <= before + 1)
                let client = try openTerminal(terminal.path)
                put("back", into: client)
                let received = try await request
                #expect(received == Array("back".utf8))
                close(client)
            }
        }
    }

    @Test func theLinkAppearsAndVanishes() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/tty"
            try await Reactor.withReactor { reactor in
                try await PseudoTerminal.withPseudoTerminal(linkedAt: path, on: reactor) {
                    terminal in
                    #expect(terminal.path == path)
                    let client = try openTerminal(path)
                    #expect(isatty(client) == 1)
                    close(client)
                }
            }
            #expect(try entries(of: folder) == [])
        }
    }

    @Test(arguments: ["/dev/pts/ptmx", "/nowhere/at/all"])
    func aLinkOfAnEarlierRunIsReplaced(target: String) async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/tty"
            try systemCall { symlink(target, path) }
            try await Reactor.withReactor { reactor in
                try await PseudoTerminal.withPseudoTerminal(linkedAt: path, on: reactor) { _ in
                    let client = try openTerminal(path)
                    #expect(isatty(client) == 1)
                    close(client)
                }
            }
            #expect(try entries(of: folder) == [])
        }
    }

    @Test func whatIsNotOursIsRefusedAndKept() async throws {
        try await withTemporaryFolder { folder in
            let file = folder + "/file"
            let link = folder + "/link"
            try #require(FileManager.default.createFile(atPath: file, contents: Data("kept".utf8)))
            try systemCall { symlink(file, link) }
            try await Reactor.withReactor { reactor in
                for path in [file, link, "/dev/null"] {
                    let refusal = SystemError(
                        "\(path) exists and is not a link of ours",
                        advice: "choose another path, or remove it")
                    await #expect(throws: refusal) {
                        try await PseudoTerminal.withPseudoTerminal(linkedAt: path, on: reactor) {
                            _ in
                            Issue.record("it was made")
                        }
                    }
                }
                await #expect(throws: SystemError.self) {
                    try await PseudoTerminal.withPseudoTerminal(
                        linkedAt: folder + "/missing/tty", on: reactor
                    ) { _ in }
                }
            }
            #expect(try text(of: link) == "kept")
            #expect(try entries(of: folder).sorted() == ["file", "link"])
        }
    }

    @Test func unpluggingEndsTheClientAndPluggingInBringsItBack() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/tty"
            try await Reactor.withReactor { reactor in
                try await PseudoTerminal.withPseudoTerminal(linkedAt: path, on: reactor) {
                    terminal in
                    async let request = terminal.read()
                    let first = try watch(path, on: reactor)
                    async let end = first.read()
                    try terminal.unplug()
                    // A hung-up terminal reads as ended or as EIO.
                    do {
                        let rest = try await end
                        #expect(rest == [])
                    } catch {
                        #expect(error as? Errno == Errno(EIO))
                    }
                    first.close()
                    #expect(throws: Errno(ENOENT)) { try openTerminal(path) }
                    try await terminal.write([1, 2, 3])

                    try terminal.plugIn()
                    let second = try watch(path, on: reactor)
                    try await second.write([9])
                    // The read that began before the plug was pulled.
                    let received = try await request
                    #expect(received == [9])
                    try await terminal.write([4])
                    #expect(try await second.read() == [4])
                    second.close()
                }
            }
            #expect(try entries(of: folder) == [])
        }
    }
}
