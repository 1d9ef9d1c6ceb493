import CBluetooth
import MeterCore

/// The kernel's addresses of Bluetooth sockets, byte by byte: a structure declared in Swift would lack
/// the padding at its end, and the kernel counts it.
enum SocketAddress {
    /// The fixed channel of the attribute protocol on an LE link.
    static let attributeChannel: UInt16 = 4
    /// The PSM of the service discovery protocol.
    static let serviceDiscoveryPSM: UInt16 = 1

    /// `sockaddr_l2`, 14 bytes. Either `psm` or `channel` is zero; the kernel refuses both.
    static func l2cap(
        _ address: MeterAddress, kind: PeerAddress.Kind, psm: UInt16 = 0, channel: UInt16 = 0
    ) -> [UInt8] {
        precondition(psm == 0 || channel == 0, "an L2CAP address has a PSM or a channel")
        return family + littleEndian(psm) + address.littleEndianBytes + littleEndian(channel)
            + [kind.rawValue, 0]
    }

    /// `sockaddr_rc`, 10 bytes. Channel 0 is for the near end.
    static func rfcomm(_ address: MeterAddress, channel: UInt8) -> [UInt8] {
        family + address.littleEndianBytes + [channel, 0]
    }

    /// In the byte order of the machine, unlike the rest.
    private static var family: [UInt8] {
        withUnsafeBytes(of: sa_family_t(AF_BLUETOOTH)) { Array($0) }
    }

    private static func littleEndian(_ value: UInt16) -> [UInt8] {
        [UInt8(value & 0xff), UInt8(value >> 8)]
    }
}
