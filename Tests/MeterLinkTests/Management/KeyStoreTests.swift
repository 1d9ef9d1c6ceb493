import FoundationEssentials
import Glibc
import LinuxIO
import MeterCore
import Testing

@testable import MeterLink

struct KeyStoreTests {
    private let meter = classic("00:15:A6:00:36:2F")
    private func key(_ byte: UInt8, _ peer: PeerAddress) -> LinkKey {
        LinkKey(peer: peer, type: 0, key: .init(repeating: byte, count: 16), pinLength: 4)
    }

    @Test func keysSurviveAndAreTheOwnersAlone() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/keys.json"
            let store = KeyStore(path: path)
            #expect(try await store.bonds(of: firstAdapter) == KeyStore.Bonds())
            try await store.store(key(1, meter), of: firstAdapter)
            let long = LongTermKey(
                peer: lowEnergy("10:20:30:40:50:60"), type: 1, isCentral: 1, encryptionSize: 16,
                diversifier: 7, random: Array(1...8), key: Array(1...16))
            try await store.store(long, of: firstAdapter)
            try await store.store(key(2, meter), of: secondAdapter)

            let again = KeyStore(path: path)
            let bonds = try await again.bonds(of: firstAdapter)
            #expect(bonds.linkKeys == [key(1, meter)])
            #expect(bonds.longTermKeys == [long])
            #expect(try await again.bonds(of: secondAdapter).linkKeys == [key(2, meter)])
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }

    @Test func aNewKeyReplacesTheOldOneAndGoesFirst() async throws {
        try await withTemporaryFolder { folder in
            let store = KeyStore(path: folder + "/keys.json")
            let other = classic("00:15:A3:00:2D:BF")
            try await store.store(key(1, meter), of: firstAdapter)
            try await store.store(key(2, other), of: firstAdapter)
            try await store.store(key(3, meter), of: firstAdapter)
            #expect(
                try await store.bonds(of: firstAdapter).linkKeys == [
                    key(3, meter), key(2, other),
                ])
            #expect(try await store.forget(meter, of: firstAdapter))
            #expect(try await !store.forget(meter, of: firstAdapter))
            #expect(try await store.bonds(of: firstAdapter).linkKeys == [key(2, other)])
        }
    }

    @Test(arguments: ["", "{", "[]", "{\"version\":9,\"adapters\":{}}", "null"])
    func aFileThatMakesNoSenseIsSetAsideOnce(text: String) async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/keys.json"
            #expect(FileManager.default.createFile(atPath: path, contents: Data(text.utf8)))
            let store = KeyStore(path: path)
            await #expect(throws: SystemError.self) { try await store.bonds(of: firstAdapter) }
            #expect(FileManager.default.fileExists(atPath: path + ".damaged"))
            let bonds = try await store.bonds(of: firstAdapter)
            #expect(bonds == KeyStore.Bonds())
        }
    }

    @Test func twoProgramsLoseNeithersKey() async throws {
        try await withTemporaryFolder { folder in
            let path = folder + "/keys.json"
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...20 {
                    group.addTask {
                        let peer = PeerAddress(
                            address: MeterAddress(localFor: "\(number)"), kind: .classic)
                        let key = LinkKey(
                            peer: peer, type: 0, key: .init(repeating: 1, count: 16),
                            pinLength: 4)
                        try await KeyStore(path: path).store(key, of: firstAdapter)
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await KeyStore(path: path).bonds(of: firstAdapter).linkKeys.count == 20)
        }
    }

    @Test func aFolderThatIsNotThereIsAnErrorWithAdvice() async throws {
        let store = KeyStore(path: "/nonexistent/keys.json")
        do {
            try await store.store(key(1, meter), of: firstAdapter)
            Issue.record("no error")
        } catch {
            #expect(!error.advice.isEmpty)
        }
    }
}

struct HardwareTests {
    private func put(_ text: String, _ path: String) throws {
        let folder = path[..<(path.lastIndex(of: "/") ?? path.startIndex)]
        try FileManager.default.createDirectory(
            atPath: String(folder), withIntermediateDirectories: true)
        #expect(FileManager.default.createFile(atPath: path, contents: Data(text.utf8)))
    }

    @Test func bluetoothdIsFoundByItsName() async throws {
        try await withTemporaryFolder { root in
            try put("systemd\n", root + "/proc/1/comm")
            try put("bluetoothd-x\n", root + "/proc/70/comm")
            let hardware = LinuxHardware(root: root)
            #expect(await hardware.bluetoothDaemon() == nil)
            try put("bluetoothd\n", root + "/proc/812/comm")
            #expect(await hardware.bluetoothDaemon() == 812)
        }
    }

    @Test func blocksAreThoseOfTheAdapterAndLiftedByItsSwitch() async throws {
        try await withTemporaryFolder { root in
            for (number, name, soft) in [(0, "phy0", "1"), (3, "hci1", "1"), (5, "hci0", "0")] {
                let folder = root + "/sys/class/rfkill/rfkill\(number)"
                try put(name + "\n", folder + "/name")
                try put(soft + "\n", folder + "/soft")
                try put("0\n", folder + "/hard")
            }
            try put("", root + "/dev/rfkill")
            let hardware = LinuxHardware(root: root)
            #expect(await hardware.block(of: 0) == RadioBlock())
            #expect(await hardware.block(of: 1) == RadioBlock(bySoftware: true))
            #expect(await hardware.block(of: 2) == RadioBlock())
            try await hardware.unblock(1)
            let written = FileManager.default.contents(atPath: root + "/dev/rfkill")
            #expect(written.map(Array.init) == [3, 0, 0, 0, 2, 2, 0, 0])
            #expect(await category { try await hardware.unblock(7) } == .adapter)
            #expect(await category { try await hardware.resetUSB(7) } == .adapter)
        }
    }
}
