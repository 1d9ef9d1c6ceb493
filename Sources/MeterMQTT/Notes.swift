import CMosquitto
import MeterCore
import Synchronization

/// What the library has called back about since the last look. The callbacks only write down here;
/// whoever called `mosquitto_loop` acts on it afterwards, since the library holds its locks in them.
///
/// All of it runs on the network thread, the log apart.
final class Notes {
    struct Content {
        /// The broker's answer to our greeting; zero is a welcome.
        var greeting: Int32?
        /// The broker's reason for ending the connection (MQTT 5), or the library's code.
        var farewell: Int32?
        var settled: [(identifier: Int32, reason: Int32)] = []
        var granted: [(identifier: Int32, reason: Int32)] = []
        var received: [Message] = []
    }
    private var content = Content()
    private let log = Mutex<[String]>([])

    func take() -> Content {
        defer { content = Content() }
        return content
    }

    func takeLog() -> [String] {
        log.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }

    /// Unretained: the client keeps the notes until after it has destroyed the C object.
    var asUserData: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }

    private static func at(_ pointer: UnsafeMutableRawPointer?) -> Notes? {
        pointer.map { Unmanaged<Notes>.fromOpaque($0).takeUnretainedValue() }
    }

    func listen(to client: OpaquePointer) {
        mosquitto_connect_v5_callback_set(client) { _, notes, reason, _, _ in
            Notes.at(notes)?.content.greeting = reason
        }
        mosquitto_disconnect_v5_callback_set(client) { _, notes, reason, _ in
            Notes.at(notes)?.content.farewell = reason
        }
        mosquitto_publish_v5_callback_set(client) { _, notes, identifier, reason, _ in
            Notes.at(notes)?.content.settled.append((identifier, reason))
        }
        mosquitto_subscribe_v5_callback_set(client) { _, notes, identifier, count, reasons, _ in
            guard let reasons, count == 1 else { return }
            Notes.at(notes)?.content.granted.append((identifier, reasons[0]))
        }
        mosquitto_message_callback_set(client) { _, notes, message in
            guard let message = message?.pointee, let topic = message.topic else { return }
            Notes.at(notes)?.content.received.append(
                Message(
                    topic: String(cString: topic),
                    payload: Array(
                        UnsafeRawBufferPointer(
                            start: message.payload, count: Int(message.payloadlen))),
                    qos: message.qos == 0 ? .atMostOnce : .atLeastOnce, retain: message.retain))
        }
        mosquitto_log_callback_set(client) { _, notes, level, line in
            guard level == MOSQ_LOG_ERR, let line else { return }
            Notes.at(notes)?.note(String(cString: line))
        }
    }

    /// Other threads may get here in the middle of a publish, so this has a lock of its own. The last
    /// lines tell most; more than a few are not kept.
    private func note(_ line: String) {
        log.withLock { lines in
            if lines.count == 8 { lines.removeFirst() }
            lines.append(line)
        }
    }
}
