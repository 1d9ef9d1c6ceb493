import FoundationEssentials
import Gateway
import MeterCore
import Testing

@testable import usbmeter

struct StatusBoardTests {
    private let desk = MeterAddress(localFor: "desk")
    private let shelf = MeterAddress(localFor: "shelf")

    private var board: StatusBoard {
        let board = StatusBoard()
        for (name, address) in [("Desk", desk), ("Shelf", shelf)] {
            board.take(.added(address, name: name))
        }
        return board
    }

    private var reading: Reading {
        Reading(
            MeterFrame(
                model: .um25c, voltage: Microvolts(5_000_000), current: .zero, power: .zero),
            at: Moment(
                monotonic: MonotonicInstant(nanoseconds: 0), wall: WallTime(milliseconds: 0),
                wallTrusted: true))
    }

    @Test func theLineForSystemdCountsMetersAndNamesTheBroker() {
        let board = board
        #expect(board.line(publishes: false) == "0 of 2 meters answer, 0 charging, recording only")
        #expect(board.line(publishes: true) == "0 of 2 meters answer, 0 charging, no broker")
        board.take(.channel(connected: true, reason: ""))
        board.take(.state(desk, .receiving))
        board.take(.reading(desk, reading))
        board.take(.session(desk, session))
        #expect(board.line(publishes: true) == "1 of 2 meters answer, 1 charging, broker connected")
        board.take(.session(desk, nil))
        board.take(.state(desk, .disconnected))
        board.take(.channel(connected: false, reason: "away"))
        #expect(board.line(publishes: true) == "0 of 2 meters answer, 0 charging, no broker")
    }

    @Test func aLinkThatOpensIsNoAnswerYet() {
        let board = board
        board.take(.state(desk, .ready))
        #expect(board.line(publishes: true).hasPrefix("0 of 2"))
    }

    @Test func metersKeepTheOrderOfTheConfiguration() {
        #expect(board.now.order == [desk, shelf])
        #expect(board.now.order.map { board.now.meters[$0]?.name } == ["Desk", "Shelf"])
    }

    @Test func aGatewayThatRunsForMonthsDoesNotGrow() {
        let board = board
        for _ in 0..<1_500 { board.take(.completed(session)) }
        #expect(board.now.completed.count == 1_000)
    }
}

struct StateFolderTests {
    @Test func oneThatIsGivenIsKept() async throws {
        try await withFolder { path in
            let folder = try StateFolder(path)
            #expect(folder.path == path)
            #expect(!folder.isTemporary)
            folder.removeIfTemporary()
            #expect(FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func oneThatIsNotGivenIsPrivateAndRemoved() throws {
        let folder = try StateFolder(nil)
        let other = try StateFolder(nil)
        defer { other.removeIfTemporary() }
        #expect(folder.isTemporary)
        #expect(folder.path != other.path)
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions]
        #expect(mode as? Int == 0o700)
        try "x".write(toFile: folder.path + "/file", atomically: false, encoding: .utf8)
        folder.removeIfTemporary()
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }
}

struct SecretTests {
    @Test func aSecretIsTheFirstLineOfItsFile() async throws {
        try await withFolder { path in
            try "open sesame \nsecond\n".write(
                toFile: path + "/a", atomically: false, encoding: .utf8)
            #expect(try readSecret(path + "/a") == "open sesame ")
            try "".write(toFile: path + "/b", atomically: false, encoding: .utf8)
            #expect(throws: Failure.self) { try readSecret(path + "/b") }
            #expect(throws: (any Error).self) { try readSecret(path + "/none") }
        }
    }

    @Test func aSecretThatOthersCanReadIsNoticed() async throws {
        try await withFolder { path in
            let file = path + "/secret"
            try "x".write(toFile: file, atomically: false, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: file)
            #expect(looseMode(of: file)?.contains("chmod 600 \(file)") == true)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            #expect(looseMode(of: file) == nil)
        }
    }
}

private struct NoTransport: Transport {
    let name = "none"
    let dialect = CommandDialect.usb
    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        throw LinkError(.absent, "none")
    }
}
