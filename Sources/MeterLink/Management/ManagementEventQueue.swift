import MeterCore

/// Events on their way from the kernel to whoever acts on them.
///
/// Reports of one device are joined into one while they wait, and of too many devices the longest
/// waiting are dropped: the next report brings it again. Nothing else is ever dropped; if somebody
/// manages to make that many, the reader is told to look at everything anew.
struct ManagementEventQueue {
    private struct Key: Hashable {
        let index: UInt16
        let peer: PeerAddress
    }
    static let mostDevices = 256
    static let mostOthers = 4096

    private var others: [ManagementPacket] = []
    private var found: [Key: ManagementEvent.DeviceFound] = [:]
    private var order: [Key] = []
    /// Reports that were dropped.
    private(set) var dropped = 0
    private(set) var hasOverflowed = false

    var isEmpty: Bool { others.isEmpty && found.isEmpty }

    mutating func append(_ packet: ManagementPacket) {
        guard case .deviceFound(let device) = packet.event else {
            if others.count < Self.mostOthers {
                others.append(packet)
            } else {
                hasOverflowed = true
            }
            return
        }
        let key = Key(index: packet.index, peer: device.peer)
        if let waiting = found[key] {
            found[key] = waiting.followed(by: device)
        } else {
            found[key] = device
            order.append(key)
        }
        if order.count > Self.mostDevices {
            found[order.removeFirst()] = nil
            dropped += 1
        }
    }

    /// Takes all that waits: first what happened, then who was heard.
    mutating func takeAll() -> (packets: [ManagementPacket], hasOverflowed: Bool) {
        let reports = order.compactMap { key in
            found[key].map { ManagementPacket(index: key.index, event: .deviceFound($0)) }
        }
        let packets = others + reports
        let overflow = hasOverflowed
        others = []
        order = []
        found = [:]
        hasOverflowed = false
        return (packets, overflow)
    }
}
