// The few protocols that the outer rooms implement: time, bytes to a meter, the channel, the log.

/// The clocks. Nothing below the program reads a clock or sleeps in any other way, so that tests
/// can turn time by hand.
package protocol Timekeeper: Sendable {
    func moment() -> Moment
    /// Returns once the monotonic clock has reached `deadline`, at once if it has passed.
    /// - Throws: `CancellationError` when the task is cancelled.
    func sleep(until deadline: MonotonicInstant) async throws
}

extension Timekeeper {
    package var now: MonotonicInstant { moment().monotonic }
    package func sleep(for duration: Duration) async throws {
        try await sleep(until: now + duration)
    }
}

/// Why something outside failed, named by what can be done about it.
package enum FaultCategory: String, Sendable {
    /// Worth another try by itself.
    case transient
    /// Not there: switched off, unplugged, out of range.
    case absent
    /// Another program or phone holds it.
    case busyElsewhere
    /// The adapter has no free connection.
    case noSlot
    case permission
    /// The meter and this machine have to be paired, or paired anew, first.
    case pairing
    /// The Bluetooth adapter is missing, off, blocked or wedged.
    case adapter
    /// Answers, but is not a meter that we can read.
    case incompatible
    /// The link is open, and nothing comes over it.
    case silent
    case configuration
    /// A mistake of this program.
    case bug
    case cancelled
}

extension FaultCategory {
    /// The cause of a meter's outage, for people: as doctor and the log name it.
    package var cause: String {
        switch self {
        case .transient: "bad link"
        case .absent: "off or out of range"
        case .busyElsewhere: "held elsewhere"
        case .noSlot: "no free slot"
        case .permission: "not permitted"
        case .pairing: "pairing needed"
        case .adapter: "adapter"
        case .incompatible: "incompatible"
        case .silent: "silent"
        case .configuration: "configuration"
        case .bug: "bug"
        case .cancelled: "cancelled"
        }
    }
}

/// A link that could not be opened, or that ended.
package struct LinkError: Error, Sendable, Equatable, CustomStringConvertible {
    package var category: FaultCategory
    /// What happened, one sentence without a full stop.
    package var message: String
    /// What a person can do about it; empty when nothing needs doing.
    package var advice: String

    package init(_ category: FaultCategory, _ message: String, advice: String = "") {
        self.category = category
        self.message = message
        self.advice = advice
    }
    package static let cancelled = LinkError(.cancelled, "cancelled")

    package var description: String { advice.isEmpty ? message : "\(message): \(advice)" }
}

/// What the bytes of a link are, as far as the way to the meter tells.
package enum LinkContent: Sendable, Equatable {
    case unknown
    /// Answers of the UM series.
    case um
    /// Answers of a TC66C.
    case tc66
    /// Nothing is asked: the far end sends watts and amperes in whole numbers by itself, three
    /// bytes each time (`HeartRate`).
    case heartRate
}

/// An open byte stream to one meter.
package protocol Link: Sendable {
    /// What the far end's services say that it is; `unknown` where there are none to look at.
    var content: LinkContent { get }
    /// Hands all bytes to the system; does nothing when there are none.
    func send(_ bytes: [UInt8]) async throws(LinkError)
    /// Waits for bytes and returns what has arrived, never an empty array. The end of the stream
    /// is an error (`absent` or `transient`), not an empty answer.
    ///
    /// Cancelling the task ends the wait with `LinkError.cancelled` and loses no bytes.
    func receive() async throws(LinkError) -> [UInt8]
}

extension Link {
    package var content: LinkContent { .unknown }
}

/// A way to reach one meter: opens a link, lends it, closes it.
package protocol Transport: Sendable {
    /// For people and the log, e.g. `/dev/ttyACM0`.
    var name: String { get }
    /// Which form of the TC66C's commands the far end expects.
    var dialect: CommandDialect { get }
    /// Waits, without a link, for a sign that the meter is there: a serial device's path appears, a
    /// scan hears it. Where there are no signs it waits for the deadline.
    /// - Parameters:
    ///   - since: signs from before do not count.
    ///   - silence: for how long it must have given none before that one.
    /// - Returns: whether one came; `false` at the deadline, and when the task is cancelled.
    func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool
    /// Opens the link, runs `body` with it and closes it again, also when `body` throws or the
    /// task is cancelled.
    /// - Throws: `LinkError` when it cannot be opened; whatever `body` throws.
    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result
    /// The same, for a link that opens in steps.
    /// - Parameter progress: told of each state from `connected` up to, and without, `ready`, in
    ///   order, before `body` runs. A transport that has nothing to tell never calls it.
    func withLink<Result: Sendable>(
        progress: @escaping @Sendable (ConnectionState) -> Void,
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result
}

extension Transport {
    package func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool {
        try? await clock.sleep(until: deadline)
        return false
    }
    package func withLink<Result: Sendable>(
        progress: @escaping @Sendable (ConnectionState) -> Void,
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await withLink(body)
    }
}

/// The TC66C takes its commands in two forms; the UM series has one.
package enum CommandDialect: Sendable {
    case bluetooth
    case usb
}

package enum QualityOfService: Int, Sendable, Codable {
    case atMostOnce = 0
    case atLeastOnce = 1
}

/// One MQTT message.
package struct Message: Sendable, Hashable {
    package var topic: String
    package var payload: [UInt8]
    package var qos: QualityOfService
    package var retain: Bool

    package init(topic: String, payload: [UInt8], qos: QualityOfService, retain: Bool) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
    }
    package init(topic: String, text: String, qos: QualityOfService, retain: Bool) {
        self.init(topic: topic, payload: Array(text.utf8), qos: qos, retain: retain)
    }
}

package enum ChannelEvent: Sendable {
    /// The broker has accepted us. Everything retained is to be published again.
    case connected
    /// The connection ended or could not be made; the channel goes on trying. `attempts` counts
    /// the failures since it was last connected. `reason` is one sentence with advice.
    case disconnected(reason: String, attempts: Int)
    case received(Message)
}

package enum ChannelError: Error, Sendable, Equatable {
    /// Not connected now, or lost before the broker acknowledged: publish again when connected.
    case offline
    /// The broker refuses this message for good, e.g. not authorised or too large.
    case refused(reason: String)
}

/// The connection to the broker as the gateway sees it. It queues nothing while offline.
package protocol Channel: Sendable {
    /// One consumer. Nothing but `received` may be dropped, and those only beyond 1,000 waiting.
    var events: AsyncStream<ChannelEvent> { get }
    /// Publishes and waits: for QoS 1 until the broker has acknowledged, for QoS 0 until it is
    /// handed to the system.
    func publish(_ message: Message) async throws(ChannelError)
    /// Publishes with QoS 0 and waits for nothing; `false` when it was dropped, as it is while
    /// offline.
    @discardableResult func offer(_ message: Message) -> Bool
    /// Subscribes now, and again after each reconnection, until the channel ends.
    func subscribe(_ filter: String, qos: QualityOfService) async
}

package enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug, info, notice, warning, error
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Where log lines go. One call is one line.
package protocol LogSink: Sendable {
    func write(_ level: LogLevel, _ line: String)
}

/// A log with a subject, usually a meter's name, before each line.
package struct Log: Sendable {
    private let sink: any LogSink
    private let subject: String

    package init(_ sink: any LogSink, subject: String = "") {
        self.sink = sink
        self.subject = subject
    }
    package func about(_ subject: String) -> Log { Log(sink, subject: subject) }

    package func debug(_ line: String) { write(.debug, line) }
    package func info(_ line: String) { write(.info, line) }
    package func notice(_ line: String) { write(.notice, line) }
    package func warning(_ line: String) { write(.warning, line) }
    package func error(_ line: String) { write(.error, line) }

    private func write(_ level: LogLevel, _ line: String) {
        sink.write(level, subject.isEmpty ? line : "\(subject): \(line)")
    }
}

/// A log that goes nowhere, for tests and one-shot commands.
package struct SilentLog: LogSink {
    package init() {}
    package func write(_ level: LogLevel, _ line: String) {}
}
