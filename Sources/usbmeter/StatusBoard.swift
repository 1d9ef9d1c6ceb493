import Gateway
import MeterCore
import Synchronization

/// What a gateway is doing now, gathered from its events.
final class StatusBoard: Sendable {
    struct Meter: Sendable {
        var name: String
        var state = ConnectionState.disconnected
        var reading: Reading?
        var session: SessionSummary?
    }

    struct Contents: Sendable {
        var meters: [MeterAddress: Meter] = [:]
        var order: [MeterAddress] = []
        var isConnected = false
        var completed: [SessionSummary] = []
    }

    private let contents = Mutex(Contents())

    var now: Contents { contents.withLock { $0 } }

    func take(_ event: GatewayEvent) {
        contents.withLock { board in
            switch event {
            case .added(let address, let name):
                guard board.meters.updateValue(Meter(name: name), forKey: address) == nil
                else { return }
                board.order.append(address)
            case .state(let address, let state):
                board.meters[address]?.state = state
                if state < .connected { board.meters[address]?.reading = nil }
            case .reading(let address, let reading): board.meters[address]?.reading = reading
            case .session(let address, let session): board.meters[address]?.session = session
            case .completed(let session):
                // the demo shows them at its end; a gateway that runs for months must not grow
                if board.completed.count < 1_000 { board.completed.append(session) }
            case .channel(let connected, _): board.isConnected = connected
            }
        }
    }

    /// One line for `systemctl status`.
    func line(publishes: Bool) -> String {
        let board = now
        let answering = board.meters.values.filter { $0.reading != nil }.count
        let charging = board.meters.values.filter { $0.session != nil }.count
        let broker =
            publishes ? (board.isConnected ? "broker connected" : "no broker") : "recording only"
        return
            "\(answering) of \(board.meters.count) meters answer, \(charging) charging, \(broker)"
    }
}
