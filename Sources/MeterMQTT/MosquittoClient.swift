import CMosquitto
import Glibc
import MeterCore
import Synchronization

/// One `struct mosquitto *`, for one connection only: used again after a disconnect, the library
/// would send its own copies of what was not acknowledged.
///
/// Belongs to the network thread, which alone calls this; the callbacks run inside `loop`.
final class MosquittoClient {
    enum Version {
        case v5
        case v311
    }

    /// Not thread-safe, and so called through a `static let`.
    private static let library: Int32 = mosquitto_lib_init()

    /// The part of the client that any thread may call while the client lives.
    let sender: Sender
    private let pointer: OpaquePointer
    private let settings: MQTTSettings
    private let notes = Notes()

    /// Makes a client that is not connected.
    /// - Throws: `LinkError` when the settings are of no use, or memory is short.
    init(_ settings: MQTTSettings, version: Version) throws(LinkError) {
        guard Self.library == 0 else {
            throw LinkError(.transient, "libmosquitto cannot be used on this system")
        }
        guard let pointer = mosquitto_new(settings.clientID, true, notes.asUserData) else {
            throw LinkError(
                .configuration, "\"\(settings.clientID)\" is not a client id",
                advice: "choose another gateway id")
        }
        self.pointer = pointer
        self.settings = settings
        sender = Sender(pointer: pointer)
        notes.listen(to: pointer)
        do {
            try prepare(version)
        } catch {
            mosquitto_destroy(pointer)
            throw error
        }
    }

    private func prepare(_ version: Version) throws(LinkError) {
        // Publishes come from other threads: they are only queued there, all writing happens here.
        mosquitto_threaded_set(pointer, true)
        mosquitto_int_option(
            pointer, MOSQ_OPT_PROTOCOL_VERSION,
            version == .v5 ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311)
        // Messages are small and written whole: waiting to fill a segment only delays them.
        mosquitto_int_option(pointer, MOSQ_OPT_TCP_NODELAY, 1)
        if let username = settings.username,
            mosquitto_username_pw_set(pointer, username, settings.password) != 0
        {
            throw LinkError(
                .configuration, "the user name or the password for MQTT has forbidden characters",
                advice: "choose another")
        }
        if let will = settings.will {
            let code = will.payload.withUnsafeBytes {
                mosquitto_will_set(
                    pointer, will.topic, Int32($0.count), $0.baseAddress, Int32(will.qos.rawValue),
                    will.retain)
            }
            guard code == 0 else {
                throw LinkError(
                    .configuration, "\"\(will.topic)\" is not a topic for the last will",
                    advice: "check the base topic")
            }
        }
        if let tls = settings.tls { try prepare(tls) }
    }

    private func prepare(_ tls: MQTTSettings.TLS) throws(LinkError) {
        let files = [
            ("CA file", tls.caFile), ("client certificate", tls.client?.certificateFile),
            ("client key", tls.client?.keyFile),
        ]
        for (name, path) in files {
            guard let path, access(path, R_OK) != 0 else { continue }
            let reason = String(cString: strerror(errno))
            throw LinkError(
                .configuration, "cannot read the \(name) \(path) (\(reason))",
                advice: "check its path and who may read it")
        }
        // Where Debian's ca-certificates puts what the system trusts.
        let folder = tls.caFile == nil ? "/etc/ssl/certs" : nil
        // Without a function of ours OpenSSL would ask the terminal for a key's passphrase.
        let code = mosquitto_tls_set(
            pointer, tls.caFile, folder, tls.client?.certificateFile, tls.client?.keyFile,
            { _, _, _, _ in 0 })
        guard code == 0 else {
            throw LinkError(
                .configuration, "the files for TLS are of no use", advice: "check their paths")
        }
        if tls.insecure {
            mosquitto_tls_opts_set(pointer, 0, nil, nil)  // SSL_VERIFY_NONE
            mosquitto_tls_insecure_set(pointer, true)
        }
    }

    /// Frees everything and closes the connection if it is open, without a farewell: the broker then
    /// publishes the will.
    func destroy() {
        mosquitto_destroy(pointer)
        withExtendedLifetime(notes) {}
    }

    /// Looks the name up and opens the connection. Blocks, for minutes if nobody answers.
    func connect() -> Explanation.Report {
        let report = report {
            mosquitto_connect(
                pointer, settings.host, Int32(settings.port),
                Int32(min(max(settings.keepalive, 5), 65_535)))
        }
        // The library forgets it: a child process would keep the connection open after its end here.
        if report.code == 0 { _ = fcntl(mosquitto_socket(pointer), F_SETFD, FD_CLOEXEC) }
        return report
    }

    /// Waits for the network up to `milliseconds`, reads and writes.
    func loop(milliseconds: Int32) -> Explanation.Report {
        report { mosquitto_loop(pointer, milliseconds, 1) }
    }

    /// Takes leave of the broker, so that it does not publish the will, and closes. Blocks up to two
    /// seconds when the broker reads nothing.
    func leave() {
        guard mosquitto_disconnect(pointer) == 0 else { return }
        // Not by `mosquitto_loop`: from here on the library takes an answer of the broker for a
        // breach of the protocol, and would close before our farewell is written.
        for _ in 0..<20 {
            guard mosquitto_loop_write(pointer, 1) == 0 else { return }
            let socket = mosquitto_socket(pointer)
            guard socket >= 0 else { return }
            var request = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
            poll(&request, 1, 100)
        }
    }

    func takeNotes() -> Notes.Content { notes.take() }

    private func report(_ call: () -> Int32) -> Explanation.Report {
        errno = 0
        let code = call()
        let number = errno
        return Explanation.Report(code: code, errno: number, log: code == 0 ? [] : notes.takeLog())
    }

    // Two facts make it sendable: libmosquitto lets any thread publish and subscribe beside the loop
    // (`mosquitto_threaded_set`), and the holder drops it, under its lock, before `destroy`.
    struct Sender: @unchecked Sendable {
        fileprivate let pointer: OpaquePointer

        enum Handover {
            case taken(identifier: Int32)
            case notNow
            case never(code: Int32)
        }

        /// Queues a message in the library. Waits for nothing.
        func publish(_ message: Message) -> Handover {
            handOver(to: message.topic) { identifier, topic in
                message.payload.withUnsafeBytes {
                    mosquitto_publish(
                        pointer, identifier, topic, Int32(clamping: $0.count), $0.baseAddress,
                        Int32(message.qos.rawValue), message.retain)
                }
            }
        }

        /// Queues a subscription. Waits for nothing.
        func subscribe(_ filter: String, qos: QualityOfService) -> Handover {
            handOver(to: filter) { identifier, filter in
                mosquitto_subscribe(pointer, identifier, filter, Int32(qos.rawValue))
            }
        }

        private func handOver(
            to topic: String,
            _ call: (UnsafeMutablePointer<Int32>, UnsafePointer<CChar>) -> Int32
        ) -> Handover {
            // A C string would end there, and mean another topic.
            guard !topic.utf8.contains(0) else {
                return .never(code: Int32(MOSQ_ERR_INVAL.rawValue))
            }
            var identifier: Int32 = 0
            let code = topic.withCString { call(&identifier, $0) }
            switch mosq_err_t(code) {
            case MOSQ_ERR_SUCCESS: return .taken(identifier: identifier)
            case MOSQ_ERR_INVAL, MOSQ_ERR_MALFORMED_UTF8, MOSQ_ERR_PAYLOAD_SIZE,
                MOSQ_ERR_OVERSIZE_PACKET, MOSQ_ERR_QOS_NOT_SUPPORTED:
                return .never(code: code)
            default: return .notNow
            }
        }
    }
}

extension mosq_err_t {
    fileprivate init(_ code: Int32) { self.init(rawValue: code) }
}
