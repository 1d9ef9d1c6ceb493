package import MeterCore

/// One packet from the kernel's management interface.
package struct ManagementPacket: Hashable, Sendable {
    /// The adapter's number, or `ManagementCommand.noIndex`.
    package let index: UInt16
    package let event: ManagementEvent

    package init(index: UInt16, event: ManagementEvent) {
        self.index = index
        self.event = event
    }

    /// Reads one datagram. `nil` when it is not whole: its length disagrees with its header, or
    /// something in it is missing or out of range.
    package init?(_ datagram: [UInt8]) {
        var cursor = ManagementCursor(datagram[...])
        guard let code: UInt16 = cursor.integer(), let index: UInt16 = cursor.integer(),
            let length: UInt16 = cursor.integer(), cursor.rest.count == Int(length),
            let event = ManagementEvent(code, &cursor)
        else { return nil }
        self.init(index: index, event: event)
    }
}

package enum ManagementEvent: Hashable, Sendable {
    /// The answer to a request: `status` and, where it was completed, what it returns.
    case reply(opcode: UInt16, status: ManagementStatus, [UInt8])
    case controllerError(code: UInt8)
    /// The older form of the announcement has no bus.
    case indexAdded(isConfigured: Bool, bus: ControllerEntry.Bus?)
    case indexRemoved
    case newSettings(ControllerSettings)
    case newLinkKey(LinkKey, isToStore: Bool)
    case newLongTermKey(LongTermKey, isToStore: Bool)
    case deviceConnected(PeerAddress, startedHere: Bool, AdvertisingData)
    case deviceDisconnected(PeerAddress, DisconnectReason)
    case connectFailed(PeerAddress, ManagementStatus)
    case pinRequest(PeerAddress, isSecure: Bool)
    /// `isPlain`: yes or no suffices, there is no number to compare.
    case confirmationRequest(PeerAddress, isPlain: Bool, value: UInt32)
    case passkeyRequest(PeerAddress)
    case authenticationFailed(PeerAddress, ManagementStatus)
    case deviceFound(DeviceFound)
    case discovering(kind: UInt8, isOn: Bool)
    /// Another program's doing.
    case deviceAdded(PeerAddress)
    case deviceRemoved(PeerAddress)
    case newConnectionParameters(ConnectionParameters, isToStore: Bool)
    case monitorRemoved(handle: UInt16)
    case controllerSuspended
    case controllerResumed
    /// One that we do not use.
    case other(code: UInt16)

    /// A device was heard.
    package struct DeviceFound: Hashable, Sendable {
        package var peer: PeerAddress
        /// In dBm; `nil` when the kernel has none.
        package var rssi: Int?
        /// Classic: the kernel asks whether it is to look the name up.
        package var wantsNameConfirmed: Bool
        package var isConnectable: Bool
        /// The report holds the answer to a scan request.
        package var hasScanResponse: Bool
        /// Classic: the kernel asked for the name and got none.
        package var nameIsUnknown: Bool
        package var data: AdvertisingData

        package init(
            peer: PeerAddress, rssi: Int?, flags: UInt32, data: AdvertisingData
        ) {
            self.peer = peer
            self.rssi = rssi
            wantsNameConfirmed = flags & 1 != 0
            isConnectable = flags & 1 << 2 == 0
            hasScanResponse = flags & 1 << 5 != 0
            nameIsUnknown = flags & 1 << 4 != 0
            self.data = data
        }

        /// The later report of the same device, with what this one had besides.
        func followed(by newer: DeviceFound) -> DeviceFound {
            var merged = newer
            merged.data = data
            merged.data.merge(newer.data)
            merged.rssi = newer.rssi ?? rssi
            merged.wantsNameConfirmed = newer.wantsNameConfirmed || wantsNameConfirmed
            merged.nameIsUnknown = newer.nameIsUnknown || nameIsUnknown
            merged.hasScanResponse = newer.hasScanResponse || hasScanResponse
            return merged
        }
    }

    /// Longer reports are cut: no advertisement is, and the kernel takes what is sent to it.
    private static let mostData = 1024

    fileprivate init?(_ code: UInt16, _ cursor: inout ManagementCursor) {
        switch code {
        case 0x0001, 0x0002:
            guard let opcode: UInt16 = cursor.integer(), let status: UInt8 = cursor.integer()
            else { return nil }
            self = .reply(opcode: opcode, status: ManagementStatus(status), Array(cursor.rest))
        case 0x0003:
            guard let code: UInt8 = cursor.integer() else { return nil }
            self = .controllerError(code: code)
        case 0x0004: self = .indexAdded(isConfigured: true, bus: nil)
        case 0x0020:
            guard let type: UInt8 = cursor.integer(), let bus: UInt8 = cursor.integer()
            else { return nil }
            guard type <= 1 else {
                self = .other(code: code)
                return
            }
            self = .indexAdded(isConfigured: type == 0, bus: .init(rawValue: bus))
        case 0x0005, 0x0021: self = .indexRemoved
        case 0x0006:
            guard let settings: UInt32 = cursor.integer() else { return nil }
            self = .newSettings(ControllerSettings(rawValue: settings))
        case 0x0009:
            guard let store: UInt8 = cursor.integer(), let key = LinkKey(&cursor) else {
                return nil
            }
            self = .newLinkKey(key, isToStore: store != 0)
        case 0x000a:
            guard let store: UInt8 = cursor.integer(), let key = LongTermKey(&cursor) else {
                return nil
            }
            self = .newLongTermKey(key, isToStore: store != 0)
        case 0x000f:
            guard let peer = cursor.peer(), let hint: UInt8 = cursor.integer(),
                let value: UInt32 = cursor.integer()
            else { return nil }
            self = .confirmationRequest(peer, isPlain: hint == 1, value: value)
        case 0x0013:
            guard let kind: UInt8 = cursor.integer(), let on: UInt8 = cursor.integer() else {
                return nil
            }
            self = .discovering(kind: kind, isOn: on != 0)
        case 0x001c:
            guard let peer = cursor.peer(), let store: UInt8 = cursor.integer(),
                let shortest: UInt16 = cursor.integer(), let longest: UInt16 = cursor.integer(),
                let latency: UInt16 = cursor.integer(), let timeout: UInt16 = cursor.integer()
            else { return nil }
            let parameters = ConnectionParameters(
                peer: peer, shortestInterval: shortest, longestInterval: longest,
                latency: latency, timeout: timeout)
            self = .newConnectionParameters(parameters, isToStore: store != 0)
        case 0x002c:
            guard let handle: UInt16 = cursor.integer() else { return nil }
            self = .monitorRemoved(handle: handle)
        case 0x002d: self = .controllerSuspended
        case 0x002e: self = .controllerResumed
        default:
            guard let event = Self.aboutPeer(code, &cursor) else { return nil }
            self = event
        }
    }

    /// Those that begin with a device's address, but for the ones that are longer in themselves.
    private static func aboutPeer(_ code: UInt16, _ cursor: inout ManagementCursor) -> Self? {
        switch code {
        case 0x000b, 0x000c, 0x000d, 0x000e, 0x0010, 0x0011, 0x0012, 0x001a, 0x001b: break
        case 0x002f:
            // The handle of the monitor; all we have reports to the same.
            guard cursor.bytes(2) != nil else { return nil }
        default: return .other(code: code)
        }
        guard let peer = cursor.peer() else { return nil }
        switch code {
        case 0x000b:
            guard let flags: UInt32 = cursor.integer(), let data = advertising(&cursor) else {
                return nil
            }
            return .deviceConnected(peer, startedHere: flags & 1 << 3 != 0, data)
        case 0x0010: return .passkeyRequest(peer)
        case 0x0012, 0x002f:
            guard let rssi: Int8 = cursor.integer(), let flags: UInt32 = cursor.integer(),
                let data = advertising(&cursor)
            else { return nil }
            return .deviceFound(
                DeviceFound(
                    peer: peer, rssi: rssi == 127 ? nil : Int(rssi), flags: flags, data: data))
        case 0x001a: return .deviceAdded(peer)
        case 0x001b: return .deviceRemoved(peer)
        default: break
        }
        guard let byte: UInt8 = cursor.integer() else { return nil }
        switch code {
        case 0x000c:
            // A reason that is newer than we are.
            return .deviceDisconnected(peer, DisconnectReason(rawValue: byte) ?? .unspecified)
        case 0x000d: return .connectFailed(peer, ManagementStatus(byte))
        case 0x000e: return .pinRequest(peer, isSecure: byte != 0)
        default: return .authenticationFailed(peer, ManagementStatus(byte))
        }
    }

    private static func advertising(_ cursor: inout ManagementCursor) -> AdvertisingData? {
        guard let length: UInt16 = cursor.integer(), let data = cursor.bytes(Int(length)) else {
            return nil
        }
        return AdvertisingData(data.prefix(mostData))
    }
}
