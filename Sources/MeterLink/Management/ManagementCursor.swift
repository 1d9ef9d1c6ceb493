import MeterCore

/// Reads little-endian fields off the front of a packet; each is `nil` once there is too little
/// left.
struct ManagementCursor {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    mutating func bytes(_ count: Int) -> ArraySlice<UInt8>? {
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
    mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) -> Value? {
        bytes(MemoryLayout<Value>.size).map { bytes in
            bytes.reversed().reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
        }
    }
    mutating func address() -> MeterAddress? {
        bytes(6).flatMap { MeterAddress(littleEndian: $0) }
    }
    /// The address and its type; `nil` also for a type that does not exist.
    mutating func peer() -> PeerAddress? {
        guard let address = address(), let type: UInt8 = integer(),
            let kind = PeerAddress.Kind(rawValue: type)
        else { return nil }
        return PeerAddress(address: address, kind: kind)
    }
    /// Text up to the first zero byte of a field.
    mutating func text(_ count: Int) -> String? {
        bytes(count).map { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}

extension Array where Element == UInt8 {
    mutating func append(littleEndian value: some FixedWidthInteger) {
        for shift in stride(from: 0, to: value.bitWidth, by: 8) {
            append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }
    mutating func append(_ peer: PeerAddress) {
        append(contentsOf: peer.address.littleEndianBytes)
        append(peer.kind.rawValue)
    }
}
