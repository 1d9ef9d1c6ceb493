/// How far a meter's connection has come (B3). Within one connection it only moves forward, but for
/// polling and receiving, which alternate.
package enum ConnectionState: String, Sendable, Codable, Comparable {
    /// Given up for now: not heard of in three attempts.
    case absent
    case disconnected
    case connecting
    case connected
    case discoveringServices = "discovering_services"
    case discoveringCharacteristics = "discovering_characteristics"
    case ready
    /// A request is out.
    case polling
    /// An answer is coming in.
    case receiving

    private var rank: Int {
        switch self {
        case .absent: 0
        case .disconnected: 1
        case .connecting: 2
        case .connected: 3
        case .discoveringServices: 4
        case .discoveringCharacteristics: 5
        case .ready: 6
        case .polling: 7
        case .receiving: 8
        }
    }
    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    /// Whether one connection may go from here to `next`.
    package func mayBecome(_ next: ConnectionState) -> Bool {
        switch (self, next) {
        case (_, .disconnected), (.disconnected, .absent), (.absent, .connecting): true
        case (.receiving, .polling): true
        default: self < next && self != .absent
        }
    }
}
