import MeterCore

/// A request of the attribute protocol (Core Specification, volume 3, part F), which the far end
/// answers with one response.
enum ATTRequest: Sendable, Equatable {
    case exchangeMTU(UInt16)
    case findInformation(ClosedRange<UInt16>)
    case findByTypeValue(ClosedRange<UInt16>, type: UInt16, value: [UInt8])
    case readByType(ClosedRange<UInt16>, BluetoothUUID)
    case readByGroupType(ClosedRange<UInt16>, BluetoothUUID)
    case read(UInt16)
    case write(UInt16, [UInt8])

    var opcode: UInt8 {
        switch self {
        case .exchangeMTU: 0x02
        case .findInformation: 0x04
        case .findByTypeValue: 0x06
        case .readByType: 0x08
        case .read: 0x0a
        case .readByGroupType: 0x10
        case .write: 0x12
        }
    }

    /// For a sentence on what went unanswered.
    var purpose: String {
        switch self {
        case .exchangeMTU: "asked for its packet size"
        case .readByGroupType, .findByTypeValue: "asked for its services"
        case .readByType: "asked for its characteristics"
        case .findInformation: "asked for its descriptors"
        case .read: "asked for a value"
        case .write: "sent a command"
        }
    }

    /// The packet.
    var bytes: [UInt8] {
        switch self {
        case .exchangeMTU(let size): [opcode] + littleEndian(size)
        case .findInformation(let handles): [opcode] + Self.bytes(handles)
        case .findByTypeValue(let handles, let type, let value):
            [opcode] + Self.bytes(handles) + littleEndian(type) + value
        case .readByType(let handles, let type), .readByGroupType(let handles, let type):
            [opcode] + Self.bytes(handles) + type.littleEndian
        case .read(let handle): [opcode] + littleEndian(handle)
        case .write(let handle, let value): [opcode] + littleEndian(handle) + value
        }
    }

    private static func bytes(_ handles: ClosedRange<UInt16>) -> [UInt8] {
        littleEndian(handles.lowerBound) + littleEndian(handles.upperBound)
    }
}

func littleEndian(_ value: UInt16) -> [UInt8] { [UInt8(value & 0xff), UInt8(value >> 8)] }
