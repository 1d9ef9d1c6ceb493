import MeterCore
import Synchronization
import Testing

/// A GATT server, written from the specification's table of packets and sharing nothing with the
/// client: a list of attributes and what is to go wrong.
struct ServerPeer: Sendable {
    struct Attribute: Sendable {
        var handle: UInt16
        var type: UInt16
        var value: [UInt8]
    }

    private(set) var attributes: [Attribute] = []
    private var serviceEnds: [UInt16: UInt16] = [:]
    /// What the server is ready to receive; 0: it refuses to tell.
    var mtu = 23
    /// Errors for writes, by handle.
    var refusals: [UInt16: UInt8] = [:]
    /// Errors for requests, by opcode.
    var refusedOpcodes: [UInt8: UInt8] = [:]
    /// Every write that came, with how.
    private(set) var writes: [(handle: UInt16, value: [UInt8], acknowledged: Bool)] = []
    /// The MTU that both agreed on.
    private(set) var agreed = 23

    private func word(_ value: UInt16) -> [UInt8] { [UInt8(value % 256), UInt8(value / 256)] }
    private func number(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        UInt16(bytes[offset]) + 256 * UInt16(bytes[offset + 1])
    }

    /// Adds a service; its handles begin `gap` behind the last one.
    mutating func service(_ uuid: UInt16, gap: UInt16 = 0) {
        let handle = (attributes.last?.handle ?? 0) + 1 + gap
        attributes.append(Attribute(handle: handle, type: 0x2800, value: word(uuid)))
        serviceEnds[handle] = handle
    }

    /// Adds a characteristic to the last service; returns the handle of its value.
    @discardableResult
    mutating func characteristic(
        _ uuid: UInt16, _ properties: UInt8, value: [UInt8] = [], cccd: Bool = false
    ) -> UInt16 {
        let handle = (attributes.last?.handle ?? 0) + 1
        let declared = [properties] + word(handle + 1) + word(uuid)
        attributes.append(Attribute(handle: handle, type: 0x2803, value: declared))
        attributes.append(Attribute(handle: handle + 1, type: uuid, value: value))
        if cccd {
            attributes.append(Attribute(handle: handle + 2, type: 0x2902, value: [0, 0]))
        }
        if let last = attributes.last,
            let service = attributes.last(where: { $0.type == 0x2800 })
        {
            serviceEnds[service.handle] = last.handle
        }
        return handle + 1
    }

    func value(_ handle: UInt16) -> [UInt8]? { attributes.first { $0.handle == handle }?.value }

    /// The response to one packet; `nil` when none is due.
    mutating func respond(_ packet: [UInt8]) -> [UInt8]? {
        let opcode = packet[0]
        func error(_ handle: UInt16, _ code: UInt8) -> [UInt8] {
            [0x01, opcode] + word(handle) + [code]
        }
        if let code = refusedOpcodes[opcode] { return error(0, code) }
        switch opcode {
        case 0x02:
            guard mtu > 0 else { return error(0, 0x06) }
            agreed = max(23, min(mtu, Int(number(packet, 1))))
            return [0x03] + word(UInt16(mtu))
        case 0x10:
            let found = listed(in: packet).filter { $0.type == 0x2800 }
            guard !found.isEmpty else { return error(number(packet, 1), 0x0a) }
            let items = found.prefix((agreed - 2) / 6)
            return [0x11, 6]
                + items.flatMap {
                    word($0.handle) + word(serviceEnds[$0.handle] ?? 0) + $0.value
                }
        case 0x06:
            let wanted = Array(packet.dropFirst(7))
            let found = listed(in: packet).filter { $0.type == 0x2800 && $0.value == wanted }
            guard !found.isEmpty else { return error(number(packet, 1), 0x0a) }
            return [0x07]
                + found.flatMap { word($0.handle) + word(serviceEnds[$0.handle] ?? 0) }
        case 0x08:
            let type = number(packet, 5)
            let found = listed(in: packet).filter { $0.type == type }
            guard let first = found.first else { return error(number(packet, 1), 0x0a) }
            let size = 2 + first.value.count
            let items = found.prefix { $0.value.count == first.value.count }
                .prefix(max(1, (agreed - 2) / size))
            return [0x09, UInt8(size)] + items.flatMap { word($0.handle) + $0.value }
        case 0x04:
            let found = listed(in: packet)
            guard !found.isEmpty else { return error(number(packet, 1), 0x0a) }
            return [0x05, 1]
                + found.prefix((agreed - 2) / 4).flatMap { word($0.handle) + word($0.type) }
        case 0x12, 0x52:
            let handle = number(packet, 1)
            let value = Array(packet.dropFirst(3))
            if opcode == 0x12, let code = refusals[handle] { return error(handle, code) }
            writes.append((handle, value, opcode == 0x12))
            if let index = attributes.firstIndex(where: { $0.handle == handle }) {
                attributes[index].value = value
            }
            return opcode == 0x12 ? [0x13] : nil
        default: return opcode % 2 == 0 ? error(0, 0x06) : nil
        }
    }

    private func listed(in packet: [UInt8]) -> [Attribute] {
        let range = number(packet, 1)...number(packet, 3)
        return attributes.filter { range.contains($0.handle) }
    }

    /// Notifications of `bytes` in pieces that fit the agreed size.
    func notifications(_ bytes: [UInt8], from handle: UInt16) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: agreed - 3).map { start in
            [0x1b] + word(handle) + bytes[start..<min(bytes.count, start + agreed - 3)]
        }
    }

    /// Serves until the other side closes; `wrote` is asked for what to send after each write, and
    /// may change the server.
    mutating func serve(
        _ end: FarEnd,
        _ wrote: (inout ServerPeer, _ handle: UInt16, _ value: [UInt8]) -> [[UInt8]] = {
            _, _, _ in
            []
        }
    ) async throws {
        while true {
            let packet = try await end.read()
            if packet.isEmpty { return }
            let before = writes.count
            if let response = respond(packet) { try await end.write(response) }
            if writes.count > before, let write = writes.last {
                for next in wrote(&self, write.handle, write.value) {
                    try await end.write(next)
                }
            }
        }
    }
}

/// The tables of the meters, with the values of their handles.
extension ServerPeer {
    private static func module() -> ServerPeer {
        var server = ServerPeer()
        server.service(0x1800)
        server.characteristic(0x2a00, 0x02, value: Array("BT module".utf8))
        server.service(0x1801)
        server.characteristic(0x2a05, 0x20, cccd: true)
        return server
    }

    /// FFE0 with FFE1 for everything.
    static func um(_ properties: UInt8 = 0x14) -> (server: ServerPeer, ffe1: UInt16) {
        var server = module()
        server.service(0xffe0, gap: 3)
        let handle = server.characteristic(0xffe1, properties, cccd: true)
        return (server, handle)
    }

    static func umFFF0() -> (server: ServerPeer, fff1: UInt16, fff2: UInt16) {
        var server = module()
        server.service(0xfff0)
        let notify = server.characteristic(0xfff1, 0x12, cccd: true)
        let write = server.characteristic(0xfff2, 0x0c)
        return (server, notify, write)
    }

    static func tc66Old() -> (server: ServerPeer, ffe4: UInt16, ffe9: UInt16) {
        var server = module()
        server.service(0xffe0)
        let notify = server.characteristic(0xffe4, 0x10)
        server.service(0xffe5)
        let write = server.characteristic(0xffe9, 0x0c)
        return (server, notify, write)
    }

    static func tc66New() -> (server: ServerPeer, ffe1: UInt16, ffe2: UInt16) {
        var server = module()
        server.service(0x180a)
        server.characteristic(0x2a29, 0x02)
        server.service(0xffe0)
        let write = server.characteristic(0xffe2, 0x04)
        let notify = server.characteristic(0xffe1, 0x10, cccd: true)
        return (server, notify, write)
    }

    static func heartRate() -> (server: ServerPeer, measurement: UInt16) {
        var server = module()
        server.service(0x180d)
        let handle = server.characteristic(0x2a37, 0x10, cccd: true)
        return (server, handle)
    }
}
