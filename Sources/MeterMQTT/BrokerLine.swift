import CMosquitto
import MeterCore
import Synchronization

/// The line to the broker: a thread that connects, serves the connection, and after its end waits a
/// little and begins again, until the scope ends. What callers and this thread share is under one
/// lock, which is held over handing a message over and noting who waits for it, so that an
/// acknowledgement can never come too early.
final class BrokerLine: Sendable {
    /// How long the broker may owe an answer, to the greeting or to a publish, until we hold the
    /// connection for dead. The library itself would notice after twice the keepalive.
    static let patience = Duration.seconds(15)
    /// How long the library waits for the network at a time, which is how soon the end of the scope
    /// is noticed. Publishing wakes it.
    private static let turn: Int32 = 250
    /// Below this a connection was a short one; `twins` of them running are suspicious.
    private static let short = Duration.seconds(5)
    private static let twins = 3

    typealias Waiter = CheckedContinuation<Result<Void, ChannelError>, Never>
    private typealias Settlement = (waiter: Waiter, result: Result<Void, ChannelError>)

    private enum Phase {
        /// Between two tries.
        case resting
        /// In the library's blocking call.
        case dialling
        case serving
    }

    private struct State {
        var phase = Phase.resting
        var isEnding = false
        /// Only while the broker has accepted us.
        var sender: MosquittoClient.Sender?
        var window = PublishWindow<Waiter>()
        var tickets: UInt64 = 0
        /// In the order in which they were asked for.
        var subscriptions: [(filter: String, qos: QualityOfService)] = []
        /// Asked for on this connection and not yet granted, by the library's identifier.
        var askedFor: [Int32: String] = [:]
    }

    private let settings: MQTTSettings
    private let explain: Explanation
    private let log: Log
    private let clock: any Timekeeper
    private let jitter: @Sendable () -> Double
    private let state = Mutex(State())
    private let queue = EventQueue()
    private let bell = Doorbell()

    init(
        _ settings: MQTTSettings, log: Log, clock: any Timekeeper,
        jitter: @escaping @Sendable () -> Double
    ) {
        self.settings = settings
        self.log = log
        self.clock = clock
        self.jitter = jitter
        explain = Explanation(settings: settings)
    }

    // MARK: - Callers

    /// To be called once.
    func events() -> AsyncStream<ChannelEvent> { queue.stream() }

    var droppedOffers: Int { state.withLock { $0.window.droppedOffers } }

    var load: (inFlight: Int, waiting: Int) { state.withLock { $0.window.load } }

    /// A number by which a publish can be cancelled.
    func ticket() -> UInt64 {
        state.withLock { state in
            state.tickets += 1
            return state.tickets
        }
    }

    /// Hands the message over now or when its turn comes, and answers the waiter once.
    func publish(_ message: Message, ticket: UInt64, waiter: Waiter) {
        let settlements = state.withLock { state -> [Settlement] in
            // A task is marked as cancelled before `giveUp` takes the lock: one of the two sees the
            // other.
            guard state.sender != nil, !Task.isCancelled else {
                return [(waiter, .failure(.offline))]
            }
            state.window.queue(.init(ticket: ticket, message: message, waiter: waiter))
            return fill(&state)
        }
        settle(settlements)
    }

    /// Ends the wait of a publish whose task was cancelled.
    func giveUp(_ ticket: UInt64) {
        state.withLock { $0.window.giveUp(ticket) }?.resume(returning: .failure(.offline))
    }

    func offer(_ message: Message) -> Bool {
        state.withLock { state in
            guard let sender = state.sender, state.window.hasRoomForOffer(),
                case .taken = sender.publish(message)
            else { return false }
            state.window.sentOffer()
            return true
        }
    }

    func subscribe(_ filter: String, qos: QualityOfService) {
        let isTaken = state.withLock { state in
            state.subscriptions.removeAll { $0.filter == filter }
            state.subscriptions.append((filter, qos))
            return state.sender.map { ask(for: filter, qos, $0, &state) } ?? true
        }
        if !isTaken { log.error("cannot subscribe to \"\(filter)\": it is not a topic filter") }
    }

    /// Ends the thread and with it the connection. Returns when both are gone, within about 2.5
    /// seconds however the broker behaves.
    ///
    /// A thread in the middle of a name look-up or of connecting cannot be called back. It is left to
    /// itself: it will find that it is to end, free what it holds, and touch nothing else.
    func end(_ thread: NetworkThread) async {
        let (isDialling, waiters) = state.withLock { state in
            state.isEnding = true
            let waiters = state.window.clear()
            state.sender = nil
            return (state.phase == .dialling, waiters)
        }
        settle(waiters.map { ($0, .failure(.offline)) })
        bell.ring()
        if !isDialling { await thread.ended() }
        queue.finish()
    }

    // MARK: - Under the lock

    /// Hands over as many as there is room for.
    private func fill(_ state: inout State) -> [Settlement] {
        guard let sender = state.sender else { return [] }
        var settlements: [Settlement] = []
        while let turn = state.window.nextTurn() {
            switch sender.publish(turn.message) {
            case .taken(let identifier):
                state.window.sent(turn, as: identifier, at: clock.now)
            case .notNow:
                settlements.append((turn.waiter, .failure(.offline)))
            case .never(let code):
                let reason = explain.untransmittable(code, turn.message)
                settlements.append((turn.waiter, .failure(.refused(reason: reason))))
            }
        }
        return settlements
    }

    /// Returns false if there is no such filter.
    private func ask(
        for filter: String, _ qos: QualityOfService, _ sender: MosquittoClient.Sender,
        _ state: inout State
    ) -> Bool {
        switch sender.subscribe(filter, qos: qos) {
        case .taken(let identifier):
            state.askedFor[identifier] = filter
            return true
        case .notNow: return true  // the connection has just ended; the next one asks again
        case .never: return false
        }
    }

    private func settle(_ settlements: [Settlement]) {
        for (waiter, result) in settlements { waiter.resume(returning: result) }
    }

    // MARK: - The network thread

    private enum Ending {
        case scopeEnded
        /// The broker does not know MQTT 5.
        case tooNew
        /// `connected` tells for how long it was; `nil` if it never was.
        case failed(LinkError, connected: Duration?)
    }

    /// The body of the network thread.
    func run() {
        var version: MosquittoClient.Version = settings.protocolChoice == .v311 ? .v311 : .v5
        var delay = ReconnectDelay()
        var attempts = 0
        var shortOnes = 0
        while true {
            switch connection(version) {
            case .scopeEnded:
                return
            case .tooNew:
                log.notice("the broker does not know MQTT 5: using 3.1.1 until the next start")
                version = .v311
            case .failed(var error, let connected):
                if let connected {
                    attempts = 0
                    shortOnes = connected < Self.short ? shortOnes + 1 : 0
                    if shortOnes >= Self.twins { error = explain.maybeTwin(error) }
                }
                attempts += 1
                queue.add(.disconnected(reason: error.description, attempts: attempts))
                bell.pause(for: delay.afterFailure(connected: connected, share: jitter()))
            }
        }
    }

    /// One connection from dialling to its end.
    private func connection(_ version: MosquittoClient.Version) -> Ending {
        let client: MosquittoClient
        do throws(LinkError) {
            client = try MosquittoClient(settings, version: version)
        } catch {
            return state.withLock { $0.isEnding } ? .scopeEnded : .failed(error, connected: nil)
        }
        defer { client.destroy() }

        guard enter(.dialling) else { return .scopeEnded }
        let report = client.connect()
        guard enter(.serving) else { return .scopeEnded }
        guard report.code == 0 else {
            leaveLine()
            return .failed(explain.unreachable(report), connected: nil)
        }
        let ending = serve(client, version)
        leaveLine()
        return ending
    }

    private func enter(_ phase: Phase) -> Bool {
        state.withLock { state in
            if !state.isEnding { state.phase = phase }
            return !state.isEnding
        }
    }

    /// Before the client is destroyed: takes its sender from the callers and tells them.
    private func leaveLine() {
        let waiters = state.withLock { state in
            state.phase = .resting
            state.sender = nil
            state.askedFor = [:]
            return state.window.clear()
        }
        settle(waiters.map { ($0, .failure(.offline)) })
    }

    private func serve(_ client: MosquittoClient, _ version: MosquittoClient.Version) -> Ending {
        let start = clock.now
        var connectedAt: MonotonicInstant?
        var hasDropped = false
        while true {
            if state.withLock({ $0.isEnding }) {
                if connectedAt != nil { client.leave() }
                return .scopeEnded
            }
            let report = client.loop(milliseconds: Self.turn)
            let notes = client.takeNotes()
            let now = clock.now

            if let reason = notes.greeting {
                if reason != 0 {
                    if reason == Explanation.badVersion, version == .v5,
                        settings.protocolChoice == .auto
                    {
                        return .tooNew
                    }
                    return .failed(explain.refusal(reason), connected: nil)
                }
                welcome(client)
                connectedAt = now
            }
            settle(notes.settled)
            judge(notes.granted)
            for message in notes.received {
                let isKept = queue.add(.received(message))
                if !isKept, !hasDropped {
                    log.warning("more messages arrive than are handled: dropping some")
                    hasDropped = true
                }
            }

            func failed(_ error: LinkError) -> Ending {
                .failed(error, connected: connectedAt.map { now - $0 })
            }
            if let reason = notes.farewell, reason >= Explanation.failures {
                return failed(explain.farewell(reason))
            }
            if report.code != 0 || notes.farewell != nil {
                if connectedAt == nil, version == .v5, settings.protocolChoice == .auto,
                    report.isNotMQTT5
                {
                    return .tooNew
                }
                return failed(explain.lost(report, wasConnected: connectedAt != nil))
            }
            let oldest = state.withLock { $0.window.oldest }
            if let owed = connectedAt == nil ? start : oldest, now - owed > Self.patience {
                return failed(explain.silence())
            }
        }
    }

    /// The broker has accepted us: subscribes, opens the line to the callers and tells them.
    private func welcome(_ client: MosquittoClient) {
        let bad = state.withLock { state in
            let bad = state.subscriptions.filter {
                !ask(for: $0.filter, $0.qos, client.sender, &state)
            }
            if !state.isEnding { state.sender = client.sender }
            return bad
        }
        for (filter, _) in bad {
            log.error("cannot subscribe to \"\(filter)\": it is not a topic filter")
        }
        queue.add(.connected)
    }

    private func settle(_ settled: [(identifier: Int32, reason: Int32)]) {
        guard !settled.isEmpty else { return }
        let settlements = state.withLock { state in
            var settlements: [Settlement] = []
            for (identifier, reason) in settled {
                guard let flight = state.window.settle(identifier), let waiter = flight.waiter
                else { continue }
                settlements.append(
                    (
                        waiter,
                        reason < Explanation.failures
                            ? .success(())
                            : .failure(
                                .refused(reason: explain.refusal(reason, topic: flight.topic)))
                    ))
            }
            return settlements + fill(&state)
        }
        settle(settlements)
    }

    private func judge(_ granted: [(identifier: Int32, reason: Int32)]) {
        for (identifier, reason) in granted {
            let filter = state.withLock { $0.askedFor.removeValue(forKey: identifier) }
            guard let filter, reason >= Explanation.failures else { continue }
            log.warning(explain.refusedSubscription(filter, reason: reason))
        }
    }
}

extension Explanation.Report {
    /// Before the welcome: an old broker answers a greeting of MQTT 5 in the shorter form of 3.1.1,
    /// which newer versions of the library hold for malformed without another word.
    fileprivate var isNotMQTT5: Bool {
        code == MOSQ_ERR_PROTOCOL.rawValue || code == MOSQ_ERR_MALFORMED_PACKET.rawValue
    }
}
