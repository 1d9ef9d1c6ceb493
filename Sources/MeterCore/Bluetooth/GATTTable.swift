/// What a device offers over GATT, as far as it was looked at.
package struct GATTTable: Sendable, Equatable {
    package struct Properties: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        package static let read = Self(rawValue: 0x02)
        package static let writeWithoutResponse = Self(rawValue: 0x04)
        package static let write = Self(rawValue: 0x08)
        package static let notify = Self(rawValue: 0x10)
        package static let indicate = Self(rawValue: 0x20)
    }

    package struct Characteristic: Sendable, Equatable {
        package var uuid: BluetoothUUID
        package var properties: Properties
        package var valueHandle: UInt16
        /// Of the descriptor 2902, which turns notifications on; `nil` when there is none.
        package var configurationHandle: UInt16?

        package init(
            _ uuid: BluetoothUUID, _ properties: Properties, valueHandle: UInt16,
            configurationHandle: UInt16? = nil
        ) {
            self.uuid = uuid
            self.properties = properties
            self.valueHandle = valueHandle
            self.configurationHandle = configurationHandle
        }
    }

    package struct Service: Sendable, Equatable {
        package var uuid: BluetoothUUID
        package var handles: ClosedRange<UInt16>
        /// Looked for only in the services that a profile uses.
        package var characteristics: [Characteristic]

        package init(
            _ uuid: BluetoothUUID, handles: ClosedRange<UInt16>,
            characteristics: [Characteristic] = []
        ) {
            self.uuid = uuid
            self.handles = handles
            self.characteristics = characteristics
        }
    }

    package var services: [Service]

    package init(_ services: [Service] = []) { self.services = services }

    /// The first characteristic with this name in any service with that name; some modules offer a
    /// service twice.
    func characteristic(_ service: UInt16, _ characteristic: UInt16) -> Characteristic? {
        let name = BluetoothUUID(characteristic)
        return services.filter { $0.uuid == BluetoothUUID(service) }
            .lazy.flatMap(\.characteristics).first { $0.uuid == name }
    }

    /// For a message: `1800, FFE0 (FFE1 write notify)`.
    package var summary: String {
        guard !services.isEmpty else { return "no services" }
        return services.map { service in
            guard !service.characteristics.isEmpty else { return "\(service.uuid)" }
            let inside = service.characteristics.map { "\($0.uuid)\($0.properties.words)" }
            return "\(service.uuid) (\(inside.joined(separator: ", ")))"
        }.joined(separator: ", ")
    }
}

extension GATTTable.Properties {
    fileprivate var words: String {
        [
            (Self.read, " read"), (.writeWithoutResponse, " write-without-response"),
            (.write, " write"), (.notify, " notify"), (.indicate, " indicate"),
        ].filter { contains($0.0) }.map(\.1).joined()
    }
}
