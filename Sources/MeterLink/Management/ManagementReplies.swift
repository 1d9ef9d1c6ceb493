package import MeterCore

// What the kernel returns with a completed request. Each is `nil` when it is too short; more than
// is known of is let pass, since newer kernels add to the end.

package struct ManagementVersion: Hashable, Sendable, Comparable {
    package let version: UInt8
    package let revision: UInt16

    package init(version: UInt8, revision: UInt16) {
        self.version = version
        self.revision = revision
    }
    package init?(_ reply: [UInt8]) {
        var cursor = ManagementCursor(reply[...])
        guard let version: UInt8 = cursor.integer(), let revision: UInt16 = cursor.integer()
        else { return nil }
        self.init(version: version, revision: revision)
    }

    package static func < (left: Self, right: Self) -> Bool {
        (left.version, left.revision) < (right.version, right.revision)
    }
}

/// Which requests and events this kernel has.
package struct ManagementFeatures: Hashable, Sendable {
    package let commands: Set<UInt16>

    package init?(_ reply: [UInt8]) {
        var cursor = ManagementCursor(reply[...])
        guard let count: UInt16 = cursor.integer(), let _: UInt16 = cursor.integer(),
            let codes = cursor.bytes(2 * Int(count))
        else { return nil }
        var list = ManagementCursor(codes)
        var commands: Set<UInt16> = []
        while let code: UInt16 = list.integer() { commands.insert(code) }
        self.commands = commands
    }

    package func has(_ opcode: ManagementCommand.Opcode) -> Bool {
        commands.contains(opcode.rawValue)
    }
}

/// One entry of the list of adapters.
package struct ControllerEntry: Hashable, Sendable {
    package enum Bus: UInt8, Sendable {
        case virtual = 0
        case usb = 1
        case serial = 3
    }
    package let index: UInt16
    package let isConfigured: Bool
    /// `nil` for one of the rarer ones.
    package let bus: Bus?

    package init(index: UInt16, isConfigured: Bool, bus: Bus?) {
        self.index = index
        self.isConfigured = isConfigured
        self.bus = bus
    }

    /// The list of primary and unconfigured controllers; other kinds (2 is AMP) carry no links.
    package static func list(extended reply: [UInt8]) -> [ControllerEntry]? {
        var cursor = ManagementCursor(reply[...])
        guard let count: UInt16 = cursor.integer(), let bytes = cursor.bytes(4 * Int(count))
        else { return nil }
        var list = ManagementCursor(bytes)
        var entries: [ControllerEntry] = []
        while let index: UInt16 = list.integer(), let type: UInt8 = list.integer(),
            let bus: UInt8 = list.integer()
        {
            guard type <= 1 else { continue }
            entries.append(
                ControllerEntry(index: index, isConfigured: type == 0, bus: Bus(rawValue: bus)))
        }
        return entries
    }

    /// The older list, which tells no bus.
    package static func list(_ reply: [UInt8]) -> [ControllerEntry]? {
        var cursor = ManagementCursor(reply[...])
        guard let count: UInt16 = cursor.integer(), let bytes = cursor.bytes(2 * Int(count))
        else { return nil }
        var list = ManagementCursor(bytes)
        var entries: [ControllerEntry] = []
        while let index: UInt16 = list.integer() {
            entries.append(ControllerEntry(index: index, isConfigured: true, bus: nil))
        }
        return entries
    }
}

/// What an adapter is and how it is set.
package struct ControllerInfo: Hashable, Sendable {
    package let address: MeterAddress
    package let bluetoothVersion: UInt8
    package let manufacturer: UInt16
    package let supported: ControllerSettings
    package let current: ControllerSettings
    package let name: String

    package init?(_ reply: [UInt8]) {
        var cursor = ManagementCursor(reply[...])
        guard let address = cursor.address(), let version: UInt8 = cursor.integer(),
            let manufacturer: UInt16 = cursor.integer(), let supported: UInt32 = cursor.integer(),
            let current: UInt32 = cursor.integer(), cursor.bytes(3) != nil,
            let name = cursor.text(249), cursor.bytes(11) != nil
        else { return nil }
        self.address = address
        bluetoothVersion = version
        self.manufacturer = manufacturer
        self.supported = ControllerSettings(rawValue: supported)
        self.current = ControllerSettings(rawValue: current)
        self.name = name
    }

    /// Makers of the chips in common adapters, by their company numbers.
    package static func maker(_ manufacturer: UInt16) -> String? {
        switch manufacturer {
        case 2: "Intel"
        case 10: "Cambridge Silicon Radio"
        case 13: "Texas Instruments"
        case 15: "Broadcom"
        case 29: "Qualcomm"
        case 70: "MediaTek"
        case 93: "Realtek"
        case 305: "Cypress"
        case 1521: "the kernel's emulation"
        default: nil
        }
    }
}

extension ManagementCommand {
    /// The answer to Get Connections.
    package static func connections(_ reply: [UInt8]) -> [PeerAddress]? {
        var cursor = ManagementCursor(reply[...])
        guard let count: UInt16 = cursor.integer(), let bytes = cursor.bytes(7 * Int(count))
        else { return nil }
        var list = ManagementCursor(bytes)
        return (0..<Int(count)).compactMap { _ in list.peer() }
    }
    /// The answer to Set Powered and its like.
    package static func settings(_ reply: [UInt8]) -> ControllerSettings? {
        var cursor = ManagementCursor(reply[...])
        return cursor.integer(UInt32.self).map { ControllerSettings(rawValue: $0) }
    }
    /// The answer to Get Connection Information, in dBm; 127 stands for "not known".
    package static func signal(_ reply: [UInt8]) -> Int? {
        var cursor = ManagementCursor(reply[...])
        guard cursor.peer() != nil, let rssi: Int8 = cursor.integer(), rssi != 127 else {
            return nil
        }
        return Int(rssi)
    }
    /// The answer to Add Advertisement Pattern Monitor.
    package static func monitorHandle(_ reply: [UInt8]) -> UInt16? {
        var cursor = ManagementCursor(reply[...])
        return cursor.integer()
    }
}
