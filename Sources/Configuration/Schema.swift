import MeterCore

// The tables of all keys. The order here is the order in the documentation.

extension GatewayConfiguration {
    static var keys: [Key<Self>] {
        [
            .group(
                "gateway", \.gateway, Gateway.keys, default: Gateway(),
                "This agent among others."),
            .mqtt,
            .group(
                "bluetooth", \.bluetooth, Bluetooth.keys, default: Bluetooth(),
                "Which meters are connected over Bluetooth, and whose the adapters are."),
            .group(
                "sessions", \.sessions, Sessions.keys, default: Sessions(),
                "What makes a charge session, for all meters.", check: Sessions.check),
            .group("storage", \.storage, Storage.keys, default: Storage(), "The database."),
            .group("log", \.log, Log.keys, default: Log(), "What the agent writes about itself."),
            .meters,
        ]
    }
}

extension GatewayConfiguration.Gateway {
    fileprivate static var keys: [Key<Self>] {
        [
            .value(
                "id", \.id, .gatewayID,
                "Names this agent in topics and records; made from the host name if left out."),
            .value("data", \.data, .path, "The folder of the database."),
        ]
    }
}

extension GatewayConfiguration.Bluetooth {
    fileprivate static var keys: [Key<Self>] {
        [
            .value(
                "adopt", \.adopt, .choice,
                "`automatic` connects every meter that is heard, `listed` those under `meters` "
                    + "only, `off` leaves Bluetooth alone."),
            .value(
                "mode", \.mode, .choice,
                "`owner` switches adapters on and keeps keys, `guest` leaves that to bluetoothd; "
                    + "`auto` is guest while bluetoothd runs."),
            .list(
                "deny", \.deny, .address, "Addresses that are never connected to."),
            .value(
                "slots", \.slots, .number(1...32),
                "How many links an adapter can hold, if known better than by the agent, which begins "
                    + "with 7 (4 on a serial line) and learns from a refusal."),
        ]
    }
}

extension GatewayConfiguration.MQTT {
    fileprivate static var keys: [Key<Self>] {
        [
            .value(
                "url", \.url, .brokerURL,
                "The broker; `mqtts` for TLS, and the port is 1883 or 8883 if left out."),
            .value("base_topic", \.baseTopic, .baseTopic, "Stands before every topic."),
            .value(
                "client_id", \.clientID, .brokerWord,
                "Names the connection; `usbmeter-` and the gateway's id if left out."),
            .value("username", \.username, .brokerWord, "The user name for the broker."),
            .file(
                "password_file", \.passwordFile,
                "A file with the password in its first line."),
            .file(
                "ca_file", \.caFile,
                "The certificates, in PEM form, of the authorities that may vouch for the broker; "
                    + "those that the system trusts if left out."),
            .file(
                "certificate_file", \.certificateFile,
                "Our own certificate in PEM form, for brokers that ask for one."),
            .file(
                "key_file", \.keyFile,
                "The private key of `certificate_file` in PEM form, without a passphrase."),
            .value(
                "insecure", \.insecure, .flag,
                "Accepts any certificate of the broker, so that anybody can pose as it: for tests only."
            ),
            .value(
                "keepalive", \.keepalive,
                .duration(.seconds(5)...(.seconds(3600)), whole: .seconds(1)),
                "After this much silence the connection is probed; the broker gives it up after "
                    + "one and a half times as long."),
            .value(
                "protocol", \.protocolVersion, .choice,
                "The MQTT version; `auto` tries 5 and falls back to 3.1.1."),
        ]
    }

    fileprivate static func check(_ mqtt: Self, _ given: Fields, _ reading: inout SchemaReading) {
        if let mark = given["certificate_file"], given["key_file"] == nil {
            reading.report.error(
                mark, "certificate_file is given without key_file", advice: "add its private key")
        }
        if let mark = given["key_file"], given["certificate_file"] == nil {
            reading.report.error(
                mark, "key_file is given without certificate_file",
                advice: "add the certificate that it belongs to")
        }
        if let mark = given["password_file"], given["username"] == nil {
            reading.report.error(
                mark, "password_file is given without username",
                advice: "add the user whose password it is")
        }
        guard !mqtt.url.tls, given.isSound("url") else { return }
        for name in ["ca_file", "certificate_file", "key_file", "insecure"] {
            guard let mark = given[name], name != "insecure" || mqtt.insecure else { continue }
            reading.report.warning(
                mark, "\(name) has no effect without TLS",
                advice: "write mqtts:// in url, or remove it")
        }
    }
}

extension Key<GatewayConfiguration> {
    /// Present with any key below it: publish. Absent: record only.
    fileprivate static var mqtt: Self {
        let name = "mqtt"
        let keys = GatewayConfiguration.MQTT.keys
        return Key(
            name: name,
            summary: "The broker to publish to; if left out, sessions are only recorded.",
            accepts: "",
            preset: { _ in nil },
            children: keys.flatMap { $0.described(for: GatewayConfiguration.MQTT(), after: ".") }
        ) { node, configuration, _, reading in
            if node.content == .null {
                reading.report.warning(
                    node.mark, "mqtt has nothing below it, so nothing is published",
                    advice: "write its url, or remove the line")
                return true
            }
            var mqtt = GatewayConfiguration.MQTT()
            let errors = reading.report.errorCount
            if let fields = reading.fields(of: node, named: name, into: &mqtt, keys) {
                GatewayConfiguration.MQTT.check(mqtt, fields, &reading)
            }
            configuration.mqtt = mqtt
            return reading.report.errorCount == errors
        }
    }
}

extension GatewayConfiguration.Sessions {
    /// All of these can be overridden for one meter.
    static var keys: [Key<Self>] {
        let currents = Microamperes(100)...Microamperes(6_000_000)
        return [
            .value(
                "start_current", \.startCurrent, .current(currents),
                "A session begins when the current has been at least this high for `start_delay`."),
            .value(
                "start_delay", \.startDelay, .duration(.zero...(.seconds(600))),
                "How long the current must stay at `start_current` or above."),
            .value(
                "stop_current", \.stopCurrent, .current(currents),
                "A session ends when the current has been lower than this for `end_delay`; "
                    + "less than `start_current`."),
            .value(
                "end_delay", \.endDelay, .duration(.seconds(1)...(.seconds(86_400))),
                "How long the current must stay below `stop_current`; the session then ends at the "
                    + "moment at which it fell."),
            .value(
                "gap_limit", \.gapLimit, .duration(.seconds(10)...(.seconds(86_400))),
                "A session ends when the meter has been silent for longer than this."),
        ]
    }

    fileprivate static func check(
        _ sessions: Self, _ given: Fields, _ reading: inout SchemaReading
    ) {
        checkCurrents(sessions, given, &reading, inherited: "the default")
    }

    /// Complains if sessions would end at a current at which they begin; `inherited` says where a
    /// current comes from that is not given here.
    static func checkCurrents(
        _ sessions: Self, _ given: Fields, _ reading: inout SchemaReading, inherited: String
    ) {
        guard given.isSound("start_current"), given.isSound("stop_current"),
            let mark = given["stop_current"] ?? given["start_current"],
            sessions.stopCurrent >= sessions.startCurrent
        else { return }
        let start = QuantityUnits.current.text(sessions.startCurrent.rawValue)
        let stop = QuantityUnits.current.text(sessions.stopCurrent.rawValue)
        let missing = ["start_current", "stop_current"].first { given[$0] == nil }
        reading.report.error(
            mark, "stop_current (\(stop)) must be less than start_current (\(start))",
            advice: missing.map { "\($0) is \(inherited): give it too" } ?? "lower stop_current")
    }
}

extension GatewayConfiguration.Storage {
    fileprivate static var keys: [Key<Self>] {
        [
            .value(
                "flush_interval", \.flushInterval, .duration(.seconds(1)...(.seconds(600))),
                "How often samples are written to the disk; a power cut loses at most those of "
                    + "one interval.")
        ]
    }
}

extension GatewayConfiguration.Log {
    fileprivate static var keys: [Key<Self>] {
        [
            .value(
                "level", \.level, .choice(LogLevel.allCases.map { ("\($0)", $0) }),
                "The least level that is logged.")
        ]
    }
}
