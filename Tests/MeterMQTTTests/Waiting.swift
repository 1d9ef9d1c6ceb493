import Glibc
import MeterCore
import MeterMQTT
import Synchronization

struct NeverHappened: Error, CustomStringConvertible {
    var description: String
}

/// Returns as soon as the condition holds, and gives up after a long time.
func eventually(
    _ what: @autoclosure () -> String, _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw NeverHappened(description: what()) }
        await pauseShortly()
    }
}

func pauseShortly() async { try? await Task.sleep(for: .milliseconds(10)) }

/// The real clock, and a hand to turn it forward.
final class PushedClock: Timekeeper {
    private let pushed = Mutex(Duration.zero)
    private let start = ContinuousClock.now

    func push(_ duration: Duration) { pushed.withLock { $0 += duration } }

    func moment() -> Moment {
        let elapsed = start.duration(to: .now) + pushed.withLock { $0 }
        return Moment(
            monotonic: MonotonicInstant(nanoseconds: elapsed.nanoseconds),
            wall: WallTime(milliseconds: 0), wallTrusted: false)
    }
    func sleep(until deadline: MonotonicInstant) async throws {
        try await Task.sleep(for: deadline - now)
    }
}

/// A log that remembers.
final class Diary: LogSink {
    private let lines = Mutex<[String]>([])
    func write(_ level: LogLevel, _ line: String) { lines.withLock { $0.append(line) } }
    func contains(_ words: String) -> Bool {
        lines.withLock { $0.contains { $0.contains(words) } }
    }
}

/// What a channel has reported so far.
final class Recorder: Sendable {
    private let events = Mutex<[ChannelEvent]>([])

    func add(_ event: ChannelEvent) { events.withLock { $0.append(event) } }

    var connections: Int {
        events.withLock { $0.count { if case .connected = $0 { true } else { false } } }
    }
    var messages: [Message] {
        events.withLock {
            $0.compactMap { if case .received(let message) = $0 { message } else { nil } }
        }
    }
    var reasons: [String] {
        events.withLock {
            $0.compactMap { if case .disconnected(let reason, _) = $0 { reason } else { nil } }
        }
    }
    var attempts: [Int] {
        events.withLock {
            $0.compactMap { if case .disconnected(_, let attempts) = $0 { attempts } else { nil } }
        }
    }

    func connected(times: Int = 1) async throws {
        try await eventually("\(times) connections; \(reasons.suffix(3))") { connections >= times }
    }
    func received(_ topic: String, _ text: String) async throws {
        try await eventually("\(text) at \(topic); \(messages.suffix(3))") {
            messages.contains { $0.topic == topic && $0.payload == Array(text.utf8) }
        }
    }
    func disconnected(because words: String) async throws {
        try await eventually("a reason with \"\(words)\"; \(reasons.suffix(3))") {
            reasons.contains { $0.contains(words) }
        }
    }
}

/// Lends a channel whose events are recorded. Its pauses between tries are a thousandth of the usual.
func withClient(
    _ settings: MQTTSettings, log: any LogSink = SilentLog(), clock: PushedClock = PushedClock(),
    _ body: @escaping @Sendable (MQTTChannel, Recorder) async throws -> Void
) async throws {
    try await MQTTChannel.withChannel(settings, log: Log(log), clock: clock, jitter: { 0.001 }) {
        channel in
        let recorder = Recorder()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await event in channel.events { recorder.add(event) } }
            try await body(channel, recorder)
            group.cancelAll()
        }
    }
}

extension MQTTSettings {
    static func client(
        _ id: String, of broker: Broker, protocolChoice: ProtocolChoice = .auto
    ) -> MQTTSettings {
        MQTTSettings(
            host: "127.0.0.1", port: broker.port, clientID: id, protocolChoice: protocolChoice)
    }
}

extension Message {
    static func once(_ topic: String, _ text: String, retain: Bool = false) -> Message {
        Message(topic: topic, text: text, qos: .atLeastOnce, retain: retain)
    }
}

/// What publishing came to.
func outcome(_ channel: MQTTChannel, _ message: Message) async -> ChannelError? {
    do throws(ChannelError) {
        try await channel.publish(message)
        return nil
    } catch {
        return error
    }
}
