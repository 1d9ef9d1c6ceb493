import FoundationEssentials
import Glibc
package import LinuxIO
package import MeterCore

/// The pairings that we made, by adapter: kept by us where no bluetoothd does, since the kernel
/// forgets them whenever an adapter goes.
///
/// A file in JSON that only its owner can read, replaced whole. Losing it means to pair again.
package actor KeyStore {
    private let executor = QueueExecutor(label: "bluetooth.keys")
    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }
    private let path: String

    package init(path: String) { self.path = path }

    package struct Bonds: Sendable, Hashable {
        /// Those made last come first.
        package var linkKeys: [LinkKey] = []
        package var longTermKeys: [LongTermKey] = []

        package init() {}
    }

    /// The pairings of one adapter; none where there is no file.
    /// - Throws: `SystemError` when the file cannot be read. One that makes no sense is renamed to
    ///   `….damaged` first, so that the next call succeeds.
    package func bonds(of adapter: MeterAddress) throws(SystemError) -> Bonds {
        try load().adapters[adapter.compact]?.bonds ?? Bonds()
    }

    package func store(_ key: LinkKey, of adapter: MeterAddress) throws(SystemError) {
        try change(adapter) { bonds in
            bonds.linkKeys.removeAll { $0.peer == key.peer }
            bonds.linkKeys.insert(key, at: 0)
        }
    }

    /// A device has one for each side and kind; another of the same replaces it.
    package func store(_ key: LongTermKey, of adapter: MeterAddress) throws(SystemError) {
        try change(adapter) { bonds in
            bonds.longTermKeys.removeAll {
                ($0.peer, $0.type, $0.isCentral) == (key.peer, key.type, key.isCentral)
            }
            bonds.longTermKeys.insert(key, at: 0)
        }
    }

    /// - Returns: whether there was one.
    @discardableResult
    package func forget(
        _ peer: PeerAddress, of adapter: MeterAddress
    ) throws(SystemError) -> Bool {
        guard try holds(peer, of: adapter) else { return false }
        try change(adapter) { bonds in
            bonds.linkKeys.removeAll { $0.peer == peer }
            bonds.longTermKeys.removeAll { $0.peer == peer }
        }
        return true
    }

    package func holds(_ peer: PeerAddress, of adapter: MeterAddress) throws(SystemError) -> Bool {
        let bonds = try bonds(of: adapter)
        return bonds.linkKeys.contains { $0.peer == peer }
            || bonds.longTermKeys.contains { $0.peer == peer }
    }

    // MARK: - The file

    private func change(
        _ adapter: MeterAddress, _ body: (inout Bonds) -> Void
    ) throws(SystemError) {
        // Two programs of ours may pair at the same time: what the other wrote is read first.
        let lock: OwnedDescriptor
        do throws(Errno) {
            lock = OwnedDescriptor(
                adopting: try systemCall {
                    open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
                })
        } catch {
            throw failure("written", error)
        }
        _ = flock(lock.number, LOCK_EX)
        do throws(Errno) { try giveToOwnerOfFolder(lock.number) } catch {
            lock.close()
            throw failure("written", error)
        }
        let result: Result<Void, SystemError>
        do throws(SystemError) {
            var file = try load()
            var bonds = file.adapters[adapter.compact]?.bonds ?? Bonds()
            body(&bonds)
            file.adapters[adapter.compact] = StoredBonds(bonds)
            try save(file)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        lock.close()
        try result.get()
    }

    private func load() throws(SystemError) -> StoredFile {
        var bytes: [UInt8] = []
        do throws(Errno) {
            let number = try systemCall { open(path, O_RDONLY | O_CLOEXEC) }
            defer { close(number) }
            var part = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = try systemCall { read(number, &part, part.count) }
                if count == 0 { break }
                bytes += part.prefix(count)
            }
        } catch {
            if error.code == ENOENT { return StoredFile() }
            throw failure("read", error)
        }
        if let file = try? JSONDecoder().decode(StoredFile.self, from: Data(bytes)),
            file.version == StoredFile.current
        {
            return file
        }
        let aside = path + ".damaged"
        guard rename(path, aside) == 0 else { throw failure("renamed", .current) }
        throw SystemError(
            "the file of Bluetooth pairings made no sense and was renamed to \(aside)",
            advice: "pair Classic meters again: usbmeter pair ADDRESS")
    }

    private func save(_ file: StoredFile) throws(SystemError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        guard let data = try? encoder.encode(file) else {
            preconditionFailure("pairings cannot be written as JSON")
        }
        let bytes = Array(data)
        let temporary = path + ".new"
        do throws(Errno) {
            // The mode counts only for a file that is made, so what a crash left has to go.
            unlink(temporary)
            let number = try systemCall {
                open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            }
            defer { close(number) }
            var done = 0
            while done < bytes.count {
                done += try systemCall {
                    bytes.withUnsafeBytes {
                        write(number, $0.baseAddress?.advanced(by: done), bytes.count - done)
                    }
                }
            }
            try giveToOwnerOfFolder(number)
            try systemCall { fsync(number) }
            try systemCall { rename(temporary, path) }
        } catch {
            throw failure("written", error)
        }
        let number = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if number >= 0 {
            fsync(number)
            close(number)
        }
    }

    private var folder: String {
        let folder = path.lastIndex(of: "/").map { path[..<$0] } ?? "."
        return folder.isEmpty ? "/" : String(folder)
    }

    /// What root writes, as in `sudo usbmeter pair`, is for the agent's user to read.
    private func giveToOwnerOfFolder(_ number: Int32) throws(Errno) {
        guard geteuid() == 0 else { return }
        var status = stat()
        try systemCall { stat(folder, &status) }
        try systemCall { fchown(number, status.st_uid, status.st_gid) }
    }

    private func failure(_ what: String, _ error: Errno) -> SystemError {
        SystemError(
            "the file of Bluetooth pairings, \(path), cannot be \(what)", error,
            advice: "let the agent's user own it and its folder")
    }
}

private struct StoredFile: Codable {
    static let current = 1
    var version = current
    var adapters: [String: StoredBonds] = [:]
}

private struct StoredBonds: Codable {
    struct Link: Codable {
        var address: MeterAddress
        var kind: UInt8
        var type: UInt8
        var key: String
        var pinLength: UInt8
    }
    struct LongTerm: Codable {
        var address: MeterAddress
        var kind: UInt8
        var type: UInt8
        var isCentral: UInt8
        var encryptionSize: UInt8
        var diversifier: UInt16
        var random: String
        var key: String
    }
    var linkKeys: [Link]
    var longTermKeys: [LongTerm]

    init(_ bonds: KeyStore.Bonds) {
        linkKeys = bonds.linkKeys.map {
            Link(
                address: $0.peer.address, kind: $0.peer.kind.rawValue, type: $0.type,
                key: hexadecimal($0.key), pinLength: $0.pinLength)
        }
        longTermKeys = bonds.longTermKeys.map {
            LongTerm(
                address: $0.peer.address, kind: $0.peer.kind.rawValue, type: $0.type,
                isCentral: $0.isCentral, encryptionSize: $0.encryptionSize,
                diversifier: $0.diversifier, random: hexadecimal($0.random),
                key: hexadecimal($0.key))
        }
    }

    /// Entries that somebody has spoiled are left out: the kernel would refuse the whole list.
    var bonds: KeyStore.Bonds {
        var bonds = KeyStore.Bonds()
        bonds.linkKeys = linkKeys.compactMap {
            guard let peer = Self.peer($0.address, $0.kind), let key = bytes($0.key, count: 16),
                $0.pinLength <= 16
            else { return nil }
            return LinkKey(peer: peer, type: $0.type, key: key, pinLength: $0.pinLength)
        }
        bonds.longTermKeys = longTermKeys.compactMap {
            guard let peer = Self.peer($0.address, $0.kind), let key = bytes($0.key, count: 16),
                let random = bytes($0.random, count: 8)
            else { return nil }
            return LongTermKey(
                peer: peer, type: $0.type, isCentral: $0.isCentral,
                encryptionSize: $0.encryptionSize, diversifier: $0.diversifier, random: random,
                key: key)
        }
        return bonds
    }

    private static func peer(_ address: MeterAddress, _ kind: UInt8) -> PeerAddress? {
        PeerAddress.Kind(rawValue: kind).map { PeerAddress(address: address, kind: $0) }
    }
}

private func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

private func bytes(_ text: String, count: Int) -> [UInt8]? {
    let digits = text.compactMap { $0.isASCII ? $0.hexDigitValue : nil }
    guard digits.count == 2 * count, text.count == digits.count else { return nil }
    return (0..<count).map { UInt8(digits[2 * $0] << 4 | digits[2 * $0 + 1]) }
}
