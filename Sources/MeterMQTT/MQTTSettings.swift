package import MeterCore

/// How to reach a broker and as whom.
package struct MQTTSettings: Sendable {
    /// A name or address as in `Address.host`.
    package var host: String
    package var port: UInt16
    /// Must be one client's alone: a broker throws out the older of two with the same id.
    package var clientID: String
    package var username: String?
    /// In clear. Used with a user name only.
    package var password: String?
    /// `nil` for a connection without TLS.
    package var tls: TLS?
    /// Seconds after which an idle connection is tested; the broker publishes the will after 1.5 times
    /// as many without a sign of us. The library takes no less than 5.
    package var keepalive: Int
    /// What the broker publishes for us when we vanish without a word.
    package var will: Message?
    package var protocolChoice: ProtocolChoice

    package init(
        host: String, port: UInt16 = 1883, clientID: String, username: String? = nil,
        password: String? = nil, tls: TLS? = nil, keepalive: Int = 20, will: Message? = nil,
        protocolChoice: ProtocolChoice = .auto
    ) {
        self.host = host
        self.port = port
        self.clientID = clientID
        self.username = username
        self.password = password
        self.tls = tls
        self.keepalive = keepalive
        self.will = will
        self.protocolChoice = protocolChoice
    }

    package enum ProtocolChoice: String, Sendable, CaseIterable {
        /// MQTT 5, and 3.1.1 from the moment at which the broker says that it does not know 5.
        case auto
        case v5
        /// A broker then has no way to say that it refuses a publish.
        case v311
    }

    package struct TLS: Sendable {
        /// Certificates in PEM of those who may sign the broker's; `nil` for those that the system
        /// trusts.
        package var caFile: String?
        /// Our own certificate in PEM with its key, or neither.
        package var client: Identity?
        /// Accepts any certificate for any name: the traffic is hidden from those who only listen,
        /// not from those who answer in the broker's place.
        package var insecure: Bool

        package init(caFile: String? = nil, client: Identity? = nil, insecure: Bool = false) {
            self.caFile = caFile
            self.client = client
            self.insecure = insecure
        }

        package struct Identity: Sendable {
            package var certificateFile: String
            /// Without a passphrase.
            package var keyFile: String

            package init(certificateFile: String, keyFile: String) {
                self.certificateFile = certificateFile
                self.keyFile = keyFile
            }
        }
    }

    /// Host and port for people, e.g. `broker.lan:1883` or `[fe80::1]:1883`.
    var endpoint: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
