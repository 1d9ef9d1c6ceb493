/// A Bluetooth device by address and kind.
package struct PeerAddress: Hashable, Sendable, CustomStringConvertible {
    package var address: MeterAddress
    package var kind: Kind

    /// The kernel's address types; the numbers are those of its management interface.
    package enum Kind: UInt8, Sendable, CaseIterable {
        case classic = 0
        case lePublic = 1
        case leRandom = 2
    }

    package init(address: MeterAddress, kind: Kind) {
        self.address = address
        self.kind = kind
    }

    package var isLowEnergy: Bool { kind != .classic }

    /// Whether the address stays the same: all but the private random ones, which a device changes
    /// every few minutes. Of a random address the two highest bits tell; 11 is static.
    package var isLasting: Bool {
        kind != .leRandom || address.littleEndianBytes[5] & 0xc0 == 0xc0
    }

    package var description: String { address.description }
}
