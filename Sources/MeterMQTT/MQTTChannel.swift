package import MeterCore

/// The connection to an MQTT broker over libmosquitto.
///
/// It is there as long as its scope; the broker may come and go. It begins offline, always with a
/// clean session: what was published to our subscriptions meanwhile is not caught up, what is
/// retained comes with each subscription.
///
///     try await MQTTChannel.withChannel(settings, log: log, clock: clock, jitter: jitter) { channel in
///         for await event in channel.events { … }
///     }
package final class MQTTChannel: Channel {
    private let line: BrokerLine
    /// Received messages beyond 1,000 that wait are dropped, as told in the log; the other events are
    /// not, they come at the pace of the reconnecting. Ends with the scope.
    package let events: AsyncStream<ChannelEvent>

    private init(_ line: BrokerLine) {
        self.line = line
        events = line.events()
    }

    /// Lends a channel to `body`, and at its end takes leave of the broker, so that it does not publish
    /// the will. Publish what it should say instead, and await that, before.
    ///
    /// The end takes less than 3 seconds even if the broker stands still, also when the task is
    /// cancelled; waiting publishes fail with `offline` at once.
    /// - Parameters:
    ///   - settings: where the broker is and who we are there.
    ///   - log: gets what concerns the connection but no single call or event: refused subscriptions,
    ///     the change to MQTT 3.1.1, dropped messages.
    ///   - clock: measures how long the broker owes an answer and how long a connection held.
    ///   - jitter: a random number from 0.5 to 1 for each pause before a new try.
    ///   - body: gets the channel, which is of no use after it.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `LinkError` when the system gives no thread.
    package static func withChannel<Result: Sendable>(
        _ settings: MQTTSettings, log: Log, clock: any Timekeeper,
        jitter: @escaping @Sendable () -> Double,
        _ body: @Sendable (MQTTChannel) async throws -> Result
    ) async throws -> Result {
        let line = BrokerLine(settings, log: log, clock: clock, jitter: jitter)
        let channel = MQTTChannel(line)
        let thread = try NetworkThread { line.run() }
        do {
            let result = try await body(channel)
            await line.end(thread)
            return result
        } catch {
            await line.end(thread)
            throw error
        }
    }

    /// Publishes and waits: for QoS 1 until the broker has acknowledged, for QoS 0 until it is handed
    /// to the system. At most 20 are with the broker at once; others wait for their turn, in the order
    /// of the calls.
    ///
    /// Cancelling the task ends the wait with `offline`; the broker may get the message all the same.
    /// - Throws: `offline` at once when not connected, and nothing is sent later; `refused` with the
    ///   topic when the broker or the library will never take this message. Under MQTT 3.1.1 a broker
    ///   cannot say that it refuses, and acknowledges.
    package func publish(_ message: Message) async throws(ChannelError) {
        let ticket = line.ticket()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                line.publish(message, ticket: ticket, waiter: waiter)
            }
        } onCancel: {
            line.giveUp(ticket)
        }
        try result.get()
    }

    /// Publishes with QoS 0 and waits for nothing; `false` when it was dropped: while offline, when 200
    /// are on their way and the broker reads none of them, and when the topic is of no use.
    @discardableResult package func offer(_ message: Message) -> Bool {
        var message = message
        message.qos = .atMostOnce
        return line.offer(message)
    }

    /// How many offers were dropped while connected, since the broker did not read.
    package var droppedOffers: Int { line.droppedOffers }

    /// How many publishes the broker has not acknowledged yet, and how many wait for their turn.
    package var load: (inFlight: Int, waiting: Int) { line.load }

    /// Subscribes now, and again after each reconnection before `connected` is reported, until the
    /// channel ends. Asked for again, a filter is renewed with the new QoS. A broker's refusal is
    /// logged.
    package func subscribe(_ filter: String, qos: QualityOfService) async {
        line.subscribe(filter, qos: qos)
    }
}
