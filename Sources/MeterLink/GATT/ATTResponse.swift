import MeterCore

/// What the far end answered to a request.
enum ATTResponse: Sendable, Equatable {
    struct Attribute: Sendable, Equatable {
        var handle: UInt16
        var value: [UInt8]
    }
    struct Descriptor: Sendable, Equatable {
        var handle: UInt16
        var type: BluetoothUUID
    }
    struct Group: Sendable, Equatable {
        var handles: ClosedRange<UInt16>
        var value: [UInt8]
    }

    case mtu(UInt16)
    case descriptors([Descriptor])
    case found([ClosedRange<UInt16>])
    case attributes([Attribute])
    case groups([Group])
    case value([UInt8])
    case written
    case refused(ATTError)

    /// Reads the response to `request`.
    /// - Parameter packet: begins with the opcode after that of the request.
    /// - Returns: `nil` when it breaks the rules: its length, or handles that were not asked for or
    ///   do not rise.
    init?(_ packet: [UInt8], to request: ATTRequest) {
        guard packet.first == request.opcode + 1 else { return nil }
        let body = packet.dropFirst()
        switch request {
        case .exchangeMTU:
            guard body.count == 2 else { return nil }
            self = .mtu(body.word(at: 0))
        case .findInformation(let asked):
            guard let descriptors = Self.descriptors(body),
                Self.rise(descriptors.map { $0.handle...$0.handle }, within: asked)
            else { return nil }
            self = .descriptors(descriptors)
        case .findByTypeValue(let asked, _, _):
            guard let items = Self.items(body, of: 4) else { return nil }
            let found = items.compactMap { Self.range($0.word(at: 0), $0.word(at: 2)) }
            guard found.count == items.count, Self.rise(found, within: asked) else { return nil }
            self = .found(found)
        case .readByType(let asked, _):
            guard let size = body.first, size >= 2,
                let items = Self.items(body.dropFirst(), of: Int(size))
            else { return nil }
            let attributes = items.map {
                Attribute(handle: $0.word(at: 0), value: Array($0.dropFirst(2)))
            }
            guard Self.rise(attributes.map { $0.handle...$0.handle }, within: asked) else {
                return nil
            }
            self = .attributes(attributes)
        case .readByGroupType(let asked, _):
            guard let size = body.first, size >= 4,
                let items = Self.items(body.dropFirst(), of: Int(size))
            else { return nil }
            let groups = items.compactMap { item in
                Self.range(item.word(at: 0), item.word(at: 2)).map {
                    Group(handles: $0, value: Array(item.dropFirst(4)))
                }
            }
            guard groups.count == items.count, Self.rise(groups.map(\.handles), within: asked)
            else { return nil }
            self = .groups(groups)
        case .read: self = .value(Array(body))
        case .write:
            guard body.isEmpty else { return nil }
            self = .written
        }
    }

    private static func descriptors(_ body: ArraySlice<UInt8>) -> [Descriptor]? {
        guard let format = body.first, let size = [1: 4, 2: 18][format] else { return nil }
        return items(body.dropFirst(), of: size)?.compactMap { item in
            BluetoothUUID(littleEndian: item.dropFirst(2)).map {
                Descriptor(handle: item.word(at: 0), type: $0)
            }
        }
    }

    /// Items of one size; `nil` when there is none or a part of one is left.
    private static func items(_ bytes: ArraySlice<UInt8>, of size: Int) -> [ArraySlice<UInt8>]? {
        guard !bytes.isEmpty, bytes.count % size == 0 else { return nil }
        return stride(from: bytes.startIndex, to: bytes.endIndex, by: size)
            .map { bytes[$0..<($0 + size)] }
    }

    private static func range(_ first: UInt16, _ last: UInt16) -> ClosedRange<UInt16>? {
        first <= last ? first...last : nil
    }

    /// A search goes on behind the last handle, so handles that do not rise would make it endless.
    /// The last group may end at FFFF, whatever was asked for.
    private static func rise(
        _ handles: [ClosedRange<UInt16>], within asked: ClosedRange<UInt16>
    ) -> Bool {
        var next = asked.lowerBound
        for (index, range) in handles.enumerated() {
            guard range.lowerBound >= next, range.lowerBound <= asked.upperBound else {
                return false
            }
            if range.upperBound == .max { return index == handles.count - 1 }
            next = range.upperBound + 1
        }
        return true
    }
}

extension ArraySlice<UInt8> {
    /// Two bytes, the least significant first; the caller has made sure of them.
    func word(at offset: Int) -> UInt16 {
        UInt16(self[startIndex + offset]) | UInt16(self[startIndex + offset + 1]) << 8
    }
}

/// Why the far end refuses a request.
struct ATTError: Error, Sendable, Equatable, CustomStringConvertible {
    var code: UInt8

    static let writeNotPermitted = Self(code: 0x03)
    static let insufficientAuthentication = Self(code: 0x05)
    static let notSupported = Self(code: 0x06)
    static let notFound = Self(code: 0x0a)
    static let insufficientEncryption = Self(code: 0x0f)
    static let unsupportedGroup = Self(code: 0x10)
    static let configurationImproper = Self(code: 0xfd)

    /// It wants the link encrypted, or paired.
    var wantsSecurity: Bool {
        self == .insufficientAuthentication || self == .insufficientEncryption
    }

    var description: String {
        let name = Self.names[code] ?? (0x80...0x9f ~= code ? "application error" : "error")
        return "\(name), ATT error \(String(code, radix: 16, uppercase: true))"
    }

    private static let names: [UInt8: String] = [
        0x01: "invalid handle", 0x02: "reading not permitted", 0x03: "writing not permitted",
        0x04: "invalid packet", 0x05: "pairing needed", 0x06: "not supported",
        0x07: "invalid offset", 0x08: "not authorised", 0x09: "its queue is full",
        0x0a: "not found", 0x0b: "too short", 0x0c: "key too short", 0x0d: "invalid length",
        0x0e: "unlikely error", 0x0f: "encryption needed", 0x10: "unsupported group",
        0x11: "out of resources", 0x12: "out of sync", 0x13: "value not allowed",
        0xfc: "write rejected", 0xfd: "notifications cannot be turned on", 0xfe: "already busy",
        0xff: "out of range",
    ]
}
