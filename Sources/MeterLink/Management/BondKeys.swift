package import MeterCore

/// The secret that a Classic pairing left behind, as the kernel wants it back.
package struct LinkKey: Hashable, Sendable {
    package var peer: PeerAddress
    package var type: UInt8
    /// 16 bytes.
    package var key: [UInt8]
    package var pinLength: UInt8

    package init(peer: PeerAddress, type: UInt8, key: [UInt8], pinLength: UInt8) {
        self.peer = peer
        self.type = type
        self.key = key
        self.pinLength = pinLength
    }

    init?(_ cursor: inout ManagementCursor) {
        guard let peer = cursor.peer(), let type: UInt8 = cursor.integer(),
            let key = cursor.bytes(16), let pinLength: UInt8 = cursor.integer()
        else { return nil }
        self.init(peer: peer, type: type, key: Array(key), pinLength: pinLength)
    }

    static let size = 25
    func append(to bytes: inout [UInt8]) {
        bytes.append(peer)
        bytes.append(type)
        bytes += key
        bytes.append(pinLength)
    }
}

/// The secret that a Bluetooth LE pairing left behind.
package struct LongTermKey: Hashable, Sendable {
    package var peer: PeerAddress
    package var type: UInt8
    package var isCentral: UInt8
    package var encryptionSize: UInt8
    package var diversifier: UInt16
    /// 8 bytes.
    package var random: [UInt8]
    /// 16 bytes.
    package var key: [UInt8]

    package init(
        peer: PeerAddress, type: UInt8, isCentral: UInt8, encryptionSize: UInt8,
        diversifier: UInt16, random: [UInt8], key: [UInt8]
    ) {
        self.peer = peer
        self.type = type
        self.isCentral = isCentral
        self.encryptionSize = encryptionSize
        self.diversifier = diversifier
        self.random = random
        self.key = key
    }

    init?(_ cursor: inout ManagementCursor) {
        guard let peer = cursor.peer(), let type: UInt8 = cursor.integer(),
            let isCentral: UInt8 = cursor.integer(), let size: UInt8 = cursor.integer(),
            let diversifier: UInt16 = cursor.integer(), let random = cursor.bytes(8),
            let key = cursor.bytes(16)
        else { return nil }
        self.init(
            peer: peer, type: type, isCentral: isCentral, encryptionSize: size,
            diversifier: diversifier, random: Array(random), key: Array(key))
    }

    static let size = 36
    func append(to bytes: inout [UInt8]) {
        bytes.append(peer)
        bytes += [type, isCentral, encryptionSize]
        bytes.append(littleEndian: diversifier)
        bytes += random + key
    }
}
