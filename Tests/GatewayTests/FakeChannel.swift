import MeterCore
import Synchronization

/// A broker in memory: remembers what it was given, can be away, refuse topics, or take messages
/// and never answer.
final class FakeChannel: Channel {
    struct Delivery: Sendable {
        var message: Message
        /// Which connection it came over, from 1.
        var connection: Int
        var at: Moment
        var text: String { String(decoding: message.payload, as: UTF8.self) }
    }

    private struct State {
        var isOnline = false
        var connections = 0
        var deliveries: [Delivery] = []
        /// What the broker keeps, by topic.
        var retained: [String: String] = [:]
        var refusedParts: [String] = []
        var isHanging = false
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var nextID = 0
    }
    private let state = Mutex(State())
    let events: AsyncStream<ChannelEvent>
    private let continuation: AsyncStream<ChannelEvent>.Continuation
    private let clock: any Timekeeper

    init(clock: any Timekeeper) {
        self.clock = clock
        // a test makes few events, and each counts
        (events, continuation) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
    }

    // MARK: What a test does

    /// - Parameters:
    ///   - forgetful: the broker was restarted and has kept nothing.
    ///   - reporting: `false` while the gateway has not heard of it yet.
    func connect(forgetful: Bool = false, reporting: Bool = true) {
        state.withLock { state in
            state.isOnline = true
            state.connections += 1
            if forgetful { state.retained = [:] }
        }
        if reporting { reportConnection() }
    }

    func reportConnection() { continuation.yield(.connected) }

    func disconnect(_ reason: String = "the broker is away", attempts: Int = 1) {
        state.withLock { $0.isOnline = false }
        release()
        continuation.yield(.disconnected(reason: reason, attempts: attempts))
    }

    /// Another attempt to connect has failed.
    func stayAway(_ reason: String, attempts: Int) {
        continuation.yield(.disconnected(reason: reason, attempts: attempts))
    }

    /// Refuses all topics that contain one of these from now on.
    func refuse(_ parts: String...) { state.withLock { $0.refusedParts = parts } }

    /// From now on no publish is answered; `false` answers those that wait as if lost.
    func hang(_ isHanging: Bool = true) {
        state.withLock { $0.isHanging = isHanging }
        if !isHanging { release() }
    }

    private func release() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting.values.map { $0 }
        }
        for waiter in waiting { waiter.resume() }
    }

    // MARK: What a test looks at

    var deliveries: [Delivery] { state.withLock { $0.deliveries } }
    var retained: [String: String] { state.withLock { $0.retained } }
    var connections: Int { state.withLock { $0.connections } }

    func deliveries(to topic: String) -> [Delivery] {
        deliveries.filter { $0.message.topic == topic }
    }
    func deliveries(below prefix: String) -> [Delivery] {
        deliveries.filter { $0.message.topic.hasPrefix(prefix) }
    }
    func texts(of topic: String) -> [String] { deliveries(to: topic).map(\.text) }
    func deliveries(over connection: Int) -> [Delivery] {
        deliveries.filter { $0.connection == connection }
    }

    // MARK: Channel

    func publish(_ message: Message) async throws(ChannelError) {
        let (id, isRefused) = state.withLock { state -> (Int?, Bool) in
            guard state.isHanging, state.isOnline else {
                return (nil, state.refusedParts.contains { message.topic.contains($0) })
            }
            state.nextID += 1
            return (state.nextID, false)
        }
        if let id {
            await withTaskCancellationHandler {
                await withCheckedContinuation { waiter in
                    let isOver = state.withLock { state in
                        if Task.isCancelled || !state.isHanging { return true }
                        state.waiting[id] = waiter
                        return false
                    }
                    if isOver { waiter.resume() }
                }
            } onCancel: {
                state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
            }
            throw .offline
        }
        guard !isRefused else { throw .refused(reason: "not authorised for \(message.topic)") }
        guard take(message) else { throw .offline }
    }

    @discardableResult func offer(_ message: Message) -> Bool { take(message) }

    func subscribe(_ filter: String, qos: QualityOfService) async {}

    private func take(_ message: Message) -> Bool {
        let moment = clock.moment()
        return state.withLock { state in
            guard state.isOnline else { return false }
            let delivery = Delivery(message: message, connection: state.connections, at: moment)
            state.deliveries.append(delivery)
            if message.retain {
                state.retained[message.topic] = message.payload.isEmpty ? nil : delivery.text
            }
            return true
        }
    }
}
