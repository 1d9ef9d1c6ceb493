import MeterCore
import MeterStore
import Synchronization

/// Brings messages to the broker: the newest of each retained topic whenever it is connected, and
/// what waits in the store's outbox, each until the broker has acknowledged it. After each connection
/// all that is retained is published again, since a broker that was restarted may have kept nothing.
/// Live readings go past all of that.
actor Publisher {
    private let channel: (any Channel)?
    private let store: Store
    private let topics: Topics
    private var meters: [MeterAddress] = []
    private let clock: any Timekeeper
    private let log: Log
    private let observe: GatewayObserver

    /// The newest message of each retained topic, and the topics in the order they came up.
    private var retained: [String: Message] = [:]
    private var order: [String] = []
    /// Topics whose newest message the broker does not have.
    private var pending: [String] = []
    private var outboxWaits = true
    private var outboxGrowth = 0
    /// Messages of the outbox that the broker has, but that the store could not forget yet.
    private var acknowledged: Set<Int64> = []
    /// Summaries of earlier sessions that are still to be published on this connection.
    private var summaries: [Message] = []
    /// Meters whose summaries are still to be looked up on this connection.
    private var unsearched: [MeterAddress] = []
    private var isConnected = false
    /// Tells one connection from the next.
    private var connections = 0
    /// Whether the broker knows of this connection that the gateway is online, so that live readings
    /// may follow.
    private let isAnnounced = Atomic(false)
    private var isClosing = false
    private var outage = Outage()
    private var complaints: Set<String> = []

    /// Remembered, so as not to repeat them.
    private static let mostComplaints = 1_000
    /// How often what could not be delivered is tried again without another reason.
    private static let retryInterval: Duration = .seconds(15)

    private let wakes: AsyncStream<Void>
    private let waker: AsyncStream<Void>.Continuation

    /// Works once `run` runs; without a channel never.
    init(
        channel: (any Channel)?, store: Store, topics: Topics, clock: any Timekeeper, log: Log,
        observe: @escaping GatewayObserver
    ) {
        self.channel = channel
        self.store = store
        self.topics = topics
        self.clock = clock
        self.log = log
        self.observe = observe
        // one wake is as good as many: each looks at everything that waits
        (wakes, waker) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Whether messages are worth putting into the outbox.
    nonisolated var hasChannel: Bool { channel != nil }

    /// A meter whose availability is told here and whose summaries the broker is to keep.
    func add(_ meter: MeterAddress) {
        meters.append(meter)
        unsearched.append(meter)
        waker.yield()
    }

    /// Hands a live reading over, or drops it when there is no connection. The status goes before.
    nonisolated func offer(_ message: Message) {
        guard isAnnounced.load(ordering: .relaxed) else { return }
        channel?.offer(message)
    }

    /// Publishes a retained state now or as soon as there is a connection; a newer one of the same
    /// topic takes its place.
    func set(_ topic: String, _ text: String) {
        guard channel != nil else { return }
        let message = Message(topic: topic, text: text, qos: .atLeastOnce, retain: true)
        let before = retained.updateValue(message, forKey: topic)
        // what is the same is with the broker or on its way
        guard before != message else { return }
        if before == nil { order.append(topic) }
        if !pending.contains(topic) { pending.append(topic) }
        waker.yield()
    }

    /// Has nothing to do with a topic any more, which the outbox takes care of from now on.
    func forget(_ topic: String) {
        guard retained.removeValue(forKey: topic) != nil else { return }
        order.removeAll { $0 == topic }
        pending.removeAll { $0 == topic }
    }

    /// Something was put into the store's outbox.
    func outboxGrew() {
        outboxWaits = true
        outboxGrowth += 1
        waker.yield()
    }

    /// Works until the task is cancelled.
    func run() async {
        guard let channel else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.follow(channel.events) }
            group.addTask { await self.deliver(channel) }
            group.addTask { await self.tryAgain() }
            await group.waitForAll()
        }
    }

    /// Delivers what waits, then says that the meters and the gateway are offline, all within `limit`.
    func close(within limit: Duration) async {
        guard let channel else { return }
        let deadline = clock.now + limit
        while isConnected, !pending.isEmpty || outboxWaits, clock.now < deadline - limit / 3 {
            guard await pause() else { break }
        }
        isClosing = true
        // Behind what still waits, and in this order, for the gateway's word is to be the last.
        let last = meters.map(topics.availability) + [topics.gatewayStatus]
        pending.removeAll { last.contains($0) }
        for topic in last {
            retained[topic] = Message(
                topic: topic, text: Payloads.offline, qos: .atLeastOnce, retain: true)
        }
        guard isConnected else { return }
        pending += last
        waker.yield()
        while isConnected, !pending.isEmpty, clock.now < deadline {
            guard await pause() else { break }
        }
        guard !pending.isEmpty else { return }
        log.warning("stopping before the broker has acknowledged all")
        // An orderly leave, once the broker reads it, takes back the will. This is read before it.
        for case let message? in pending.filter(last.contains).map({ retained[$0] }) {
            channel.offer(message)
        }
    }

    /// - Returns: `false` when the task is cancelled.
    private func pause() async -> Bool {
        do { try await clock.sleep(for: .milliseconds(20)) } catch { return false }
        return true
    }

    private func follow(_ events: AsyncStream<ChannelEvent>) async {
        for await event in events {
            switch event {
            case .connected:
                isConnected = true
                connections += 1
                isAnnounced.store(false, ordering: .relaxed)
                // the broker may have lost everything: publish all again, the status first, or last
                let others = order.filter { $0 != topics.gatewayStatus }
                if isClosing {
                    pending = others + [topics.gatewayStatus]
                } else {
                    set(topics.gatewayStatus, Payloads.online)
                    pending = [topics.gatewayStatus] + others
                }
                outboxWaits = true
                unsearched = meters
                summaries = []
                waker.yield()
                let back = outage.ended(at: clock.now).map { ", \($0)" } ?? ""
                log.info("connected to the broker\(back)")
                observe(.channel(connected: true, reason: ""))
            case .disconnected(let reason, _):
                isConnected = false
                isAnnounced.store(false, ordering: .relaxed)
                if let line = outage.failed(reason, at: clock.now) {
                    log.warning("\(line); recording goes on")
                }
                observe(.channel(connected: false, reason: reason))
            case .received:
                break  // nothing is subscribed
            }
        }
    }

    private func tryAgain() async {
        while true {
            do { try await clock.sleep(for: Self.retryInterval) } catch { return }
            waker.yield()
        }
    }

    private func deliver(_ channel: any Channel) async {
        for await _ in wakes {
            while isConnected, !Task.isCancelled {
                if let topic = pending.first {
                    guard await deliver(topic, channel) else { break }
                } else if isClosing {
                    break
                } else if !unsearched.isEmpty {
                    await findSummaries()
                } else if outboxWaits {
                    guard await deliverOutbox(channel) else { break }
                } else if let summary = summaries.first {
                    guard await deliver(summary, channel) else { break }
                } else {
                    break
                }
            }
            if Task.isCancelled { return }
        }
    }

    /// - Returns: whether to go on.
    private func deliver(_ topic: String, _ channel: any Channel) async -> Bool {
        guard let message = retained[topic] else {
            pending.removeAll { $0 == topic }
            return true
        }
        let connection = connections
        guard await isSettled(message, channel) else { return false }
        // a newer message may have come meanwhile, or a newer connection
        guard retained[topic] == message, connections == connection else { return true }
        pending.removeAll { $0 == topic }
        if topic == topics.gatewayStatus { isAnnounced.store(isConnected, ordering: .relaxed) }
        return true
    }

    /// Looks up which summaries the broker should have.
    private func findSummaries() async {
        let wanted = unsearched
        unsearched = []
        for meter in wanted {
            do {
                let known = try await store.sessions(
                    meter: meter, limit: SessionMessages.retainedSummaries, includeRunning: false)
                summaries += known.reversed().map { session in
                    Message(
                        topic: topics.session(meter, session.id), text: Payloads.session(session),
                        qos: .atLeastOnce, retain: true)
                }
            } catch {
                complain("summaries of earlier sessions", "\(error)")
            }
        }
    }

    /// Publishes a summary of an earlier session. What the outbox has for the same topic went before
    /// it, and has taken it off the list.
    private func deliver(_ summary: Message, _ channel: any Channel) async -> Bool {
        guard await isSettled(summary, channel) else { return false }
        summaries.removeAll { $0.topic == summary.topic }
        return true
    }

    /// Publishes a message.
    /// - Returns: whether that was the end of it: `false` while there is no connection.
    private func isSettled(_ message: Message, _ channel: any Channel) async -> Bool {
        do throws(ChannelError) {
            try await channel.publish(message)
        } catch {
            guard case .refused(let reason) = error else { return false }
            complain(message.topic, reason)
            return true
        }
        complaints.remove(message.topic)
        return true
    }

    /// Sends the oldest messages of the outbox in order.
    /// - Returns: whether to go on.
    private func deliverOutbox(_ channel: any Channel) async -> Bool {
        let growth = outboxGrowth
        do {
            try await forgetAcknowledged()
            let rows = try await store.outbox(limit: 10)
            for row in rows where !isClosing {
                let connection = connections
                do throws(ChannelError) {
                    try await channel.publish(row.item.message)
                } catch {
                    guard case .refused(let reason) = error else { return false }
                    complain(row.item.message.topic, reason)
                    try await store.refuseOutbox(row.id, reason: reason)
                    continue
                }
                if connections == connection {
                    summaries.removeAll { $0.topic == row.item.message.topic }
                }
                acknowledged.insert(row.id)
                try await forgetAcknowledged()
            }
            complaints.remove(Self.outbox)
            // it may have grown behind the reading of its end
            if rows.isEmpty, growth == outboxGrowth { outboxWaits = false }
            return true
        } catch {
            // not before the next wake, so that a disk that cannot be written does not make us send
            // the same messages over and over
            complain(Self.outbox, "\(error)")
            return false
        }
    }

    private func forgetAcknowledged() async throws(StoreError) {
        guard !acknowledged.isEmpty else { return }
        let ids = acknowledged
        try await store.removeFromOutbox(Array(ids))
        acknowledged.subtract(ids)
    }

    private static let outbox = "messages that wait in the database"

    /// Says once what is wrong with something, until that is right again.
    private func complain(_ subject: String, _ reason: String) {
        // each refused summary has a topic of its own
        if complaints.count >= Self.mostComplaints { complaints = [] }
        guard complaints.insert(subject).inserted else { return }
        log.error("\(subject): \(reason)")
    }
}
