import CMosquitto
import Glibc
import MeterCore

/// Sentences for people about what the library and the broker report as numbers.
struct Explanation: Sendable {
    let settings: MQTTSettings
    private var endpoint: String { settings.endpoint }

    /// What the library answered, with the system's `errno` of that moment and what the library wrote
    /// to its log, where alone it says what was wrong with a certificate.
    struct Report: Sendable {
        var code: Int32
        var errno: Int32
        var log: [String]
    }

    /// A connection that could not even be opened.
    func unreachable(_ report: Report) -> LinkError {
        if let error = certificate(report.log) { return error }
        switch mosq_err_t(report.code) {
        case MOSQ_ERR_EAI:
            let text = String(cString: gai_strerror(report.errno))
            return LinkError(
                .absent, "cannot find the address of \(settings.host) (\(text))",
                advice: report.errno == EAI_AGAIN
                    ? "is this computer on the network?" : "check the broker's name")
        case MOSQ_ERR_ERRNO: return unreachable(errno: report.errno)
        default: return lost(report, wasConnected: false)
        }
    }

    private func unreachable(errno code: Int32) -> LinkError {
        switch code {
        case ECONNREFUSED:
            LinkError(
                .absent, "no broker listens at \(endpoint) (connection refused)",
                advice: "start the broker, or check host and port")
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL:
            LinkError(
                .absent, "cannot reach \(endpoint) (\(text(code)))",
                advice: "is this computer on the network, and the broker's on?")
        case ETIMEDOUT:
            LinkError(
                .absent, "\(endpoint) does not answer",
                advice: "is the broker's computer on, and does its firewall let us in?")
        default:
            LinkError(.transient, "cannot connect to \(endpoint) (\(text(code)))")
        }
    }

    /// The broker's answer to our greeting, a reason code of MQTT 5 or a return code of 3.1.1.
    func refusal(_ reason: Int32) -> LinkError {
        let who = settings.username.map { "the user \"\($0)\"" } ?? "clients without a user name"
        switch reason {
        case Self.badLogin, 4:
            return LinkError(
                .permission, "the broker at \(endpoint) refuses our user name or password",
                advice: settings.username == nil
                    ? "give user name and password" : "check user name and password")
        case Self.notAuthorised, 5:
            // Mosquitto says this for a wrong password, too.
            return LinkError(
                .permission, "the broker at \(endpoint) does not let \(who) in",
                advice: settings.username == nil
                    ? "give user name and password"
                    : "check user name and password, and that the broker allows this user")
        case Self.badVersion, 1:
            return LinkError(
                .incompatible,
                "the broker at \(endpoint) does not speak MQTT "
                    + (settings.protocolChoice == .v5 ? "5" : "3.1.1"),
                advice: "set the protocol to auto")
        case Self.badClientID, 2:
            return LinkError(
                .configuration,
                "the broker at \(endpoint) does not accept the client id \"\(settings.clientID)\"",
                advice: "choose another gateway id")
        case Self.banned:
            return LinkError(
                .permission, "the broker at \(endpoint) has banned \(who)",
                advice: "lift the ban in the broker")
        case 3:
            return LinkError(.transient, "the broker at \(endpoint) is not available")
        default:
            return LinkError(
                .transient, "the broker at \(endpoint) refuses the connection (\(name(reason)))")
        }
    }

    /// The end of a connection that the broker explained.
    func farewell(_ reason: Int32) -> LinkError {
        switch reason {
        case Self.takenOver:
            LinkError(
                .busyElsewhere,
                "another client has connected with our client id \"\(settings.clientID)\"",
                advice: "give each gateway its own id; a copied card has the old one's")
        case Self.shuttingDown:
            LinkError(.absent, "the broker at \(endpoint) is shutting down")
        case Self.notAuthorised, Self.administrative:
            LinkError(
                .permission, "the broker at \(endpoint) has thrown us out (\(name(reason)))",
                advice: "look into the broker's log")
        case Self.tooLarge:
            LinkError(
                .transient, "the broker at \(endpoint) does not take messages as large as ours",
                advice: "raise max_packet_size in the broker")
        default:
            LinkError(
                .transient, "the broker at \(endpoint) has ended the connection (\(name(reason)))")
        }
    }

    /// The end of a connection without a word.
    func lost(_ report: Report, wasConnected: Bool) -> LinkError {
        if let error = certificate(report.log) { return error }
        var code = mosq_err_t(report.code)
        // The end of the stream in the middle of a packet.
        if code == MOSQ_ERR_ERRNO, report.errno == 0 { code = MOSQ_ERR_CONN_LOST }
        switch code {
        case MOSQ_ERR_CONN_LOST, MOSQ_ERR_NO_CONN:
            return wasConnected
                ? LinkError(.absent, "the broker at \(endpoint) closed the connection")
                : LinkError(
                    .transient, "\(endpoint) closed the connection without an answer",
                    advice: settings.tls == nil
                        ? "is that a broker, and a port without TLS?"
                        : "is that a broker, and its port for TLS?")
        case MOSQ_ERR_KEEPALIVE: return silence()
        case MOSQ_ERR_TLS where !wasConnected:
            // Newer versions of the library do not log what a port without TLS answers.
            return LinkError(
                .configuration, "TLS with \(endpoint) failed",
                advice: "use the broker's TLS port, usually 8883, or mqtt://")
        case MOSQ_ERR_ERRNO:
            return wasConnected
                ? LinkError(
                    .transient, "the connection to \(endpoint) broke (\(text(report.errno)))")
                : unreachable(errno: report.errno)
        case MOSQ_ERR_PROTOCOL, MOSQ_ERR_MALFORMED_PACKET:
            return LinkError(
                .incompatible, "\(endpoint) sends something that is not MQTT",
                advice: "is that a broker's port?")
        case MOSQ_ERR_INVAL:
            // `select` serves no descriptors from 1,024 on.
            return LinkError(.transient, "too many files are open to connect to \(endpoint)")
        default:
            return LinkError(
                .transient,
                "no connection to \(endpoint) (\(String(cString: mosquitto_strerror(report.code))))"
            )
        }
    }

    /// The broker takes bytes, or not even that, but says nothing.
    func silence() -> LinkError {
        LinkError(
            .absent, "the broker at \(endpoint) is connected but does not answer",
            advice: "is its computer overloaded or its disk full?")
    }

    /// Added when the connection broke soon after it was made, several times running: MQTT 3.1.1
    /// has no other sign of this.
    func maybeTwin(_ error: LinkError) -> LinkError {
        var error = error
        let doubt = "if this goes on, see if another client uses \"\(settings.clientID)\" as its id"
        error.advice = error.advice.isEmpty ? doubt : "\(error.advice); \(doubt)"
        return error
    }

    /// What OpenSSL complained about, if it did.
    private func certificate(_ log: [String]) -> LinkError? {
        guard settings.tls != nil, !log.isEmpty else { return nil }
        func says(_ words: String...) -> Bool {
            log.contains { line in words.contains { line.contains($0) } }
        }
        if says("host name verification failed") {
            return LinkError(
                .configuration, "the certificate of the broker is not for \"\(settings.host)\"",
                advice: "connect to it by a name that its certificate has")
        }
        if says("certificate verify failed") {
            // OpenSSL keeps to itself whether the signer or the dates were wrong.
            return LinkError(
                .configuration, "the certificate of the broker at \(endpoint) is not valid for us",
                advice: "check the CA file, and the clock of this computer, which says \(today)")
        }
        if says("wrong version number", "unexpected eof", "packet length too long", "record layer")
        {
            return LinkError(
                .configuration, "\(endpoint) does not speak TLS",
                advice: "use the broker's TLS port, usually 8883, or mqtt://")
        }
        if says(
            "alert certificate required", "alert handshake failure", "alert bad certificate",
            "alert unknown ca", "alert certificate unknown", "alert certificate expired")
        {
            return LinkError(
                .permission, "the broker at \(endpoint) does not accept our certificate",
                advice: "check the client certificate and its key")
        }
        return LinkError(
            .configuration, "TLS with \(endpoint) failed (\(log.joined(separator: "; ")))",
            advice: "check the files for TLS")
    }

    private var today: String {
        WallTime(milliseconds: Int64(time(nil)) * 1000).iso8601
    }

    /// Why the library would not take a message.
    func untransmittable(_ code: Int32, _ message: Message) -> String {
        let topic = "\"\(message.topic)\""
        switch mosq_err_t(code) {
        case MOSQ_ERR_OVERSIZE_PACKET, MOSQ_ERR_PAYLOAD_SIZE:
            return "\(message.payload.count) bytes for \(topic) are more than the broker takes: "
                + "raise max_packet_size in the broker"
        case MOSQ_ERR_QOS_NOT_SUPPORTED:
            return "the broker has no QoS \(message.qos.rawValue), which \(topic) needs"
        default:
            return "\(topic) is not a topic to publish to"
        }
    }

    /// Why the broker did not take a message (MQTT 5 only).
    func refusal(_ reason: Int32, topic: String) -> String {
        switch reason {
        case Self.notAuthorised:
            let who =
                settings.username.map { "the user \"\($0)\"" } ?? "clients without a user name"
            return "the broker does not allow \(who) to publish to \"\(topic)\": "
                + "allow it in the broker's access list"
        case Self.quota:
            return "the broker's quota is used up, it did not take \"\(topic)\""
        default:
            return "the broker did not take \"\(topic)\" (\(name(reason)))"
        }
    }

    func refusedSubscription(_ filter: String, reason: Int32) -> String {
        "the broker refuses the subscription to \"\(filter)\" (\(name(reason))): "
            + "allow it in the broker's access list"
    }

    private func name(_ reason: Int32) -> String {
        String(cString: mosquitto_reason_string(reason)).lowercased()
    }
    private func text(_ errno: Int32) -> String { String(cString: strerror(errno)) }

    // Reason codes of MQTT 5, §2.4.
    static let badVersion: Int32 = 0x84
    private static let badClientID: Int32 = 0x85
    private static let badLogin: Int32 = 0x86
    private static let notAuthorised: Int32 = 0x87
    private static let banned: Int32 = 0x8a
    private static let shuttingDown: Int32 = 0x8b
    private static let takenOver: Int32 = 0x8e
    private static let tooLarge: Int32 = 0x95
    private static let quota: Int32 = 0x97
    private static let administrative: Int32 = 0x98
    /// From here on reason codes mean failure.
    static let failures: Int32 = 0x80
}
