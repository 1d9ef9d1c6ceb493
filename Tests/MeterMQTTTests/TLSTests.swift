import Glibc
import MeterCore
import MeterMQTT
import Testing

/// Against a real mosquitto with certificates made for the test. The broker's is for `localhost`.
@Suite(
    .serialized,
    .enabled(
        if: Broker.isInstalled && access("/usr/bin/openssl", X_OK) == 0,
        "needs the packages mosquitto and openssl"))
struct TLSTests {
    private func withBroker(
        clientCertificates: Bool = false, _ body: (Broker) async throws -> Void
    ) async throws {
        var listener = [
            "cafile FOLDER/ca.crt", "certfile FOLDER/server.crt", "keyfile FOLDER/server.key",
        ]
        if clientCertificates { listener.append("require_certificate true") }
        try await Broker.run(listener: listener, started: false) { broker in
            try makeCertificate("ca", in: broker.folder, issuer: nil)
            try makeCertificate("other", in: broker.folder, issuer: nil)
            try makeCertificate("server", in: broker.folder, issuer: "ca")
            try makeCertificate("client", in: broker.folder, issuer: "ca")
            try await broker.start()
            try await body(broker)
        }
    }

    private func makeCertificate(_ name: String, in folder: String, issuer: String?) throws {
        var arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=\(name)", "-keyout", "\(folder)/\(name).key", "-out",
            "\(folder)/\(name).crt",
        ]
        if let issuer {
            arguments += [
                "-CA", "\(folder)/\(issuer).crt", "-CAkey", "\(folder)/\(issuer).key", "-addext",
                "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
            ]
        }
        try run("/usr/bin/openssl", arguments)
    }

    private func settings(_ broker: Broker, ca: String = "ca.crt") -> MQTTSettings {
        MQTTSettings(
            host: "localhost", port: broker.port, clientID: "secret",
            tls: .init(caFile: "\(broker.folder)/\(ca)"))
    }

    @Test func aKnownSignerIsTrusted() async throws {
        try await withBroker { broker in
            try await withClient(settings(broker)) { channel, recorder in
                try await recorder.connected()
                try await channel.publish(.once("t", "x"))
            }
        }
    }

    @Test func anUnknownSignerIsNotAndTheClockIsMentioned() async throws {
        try await withBroker { broker in
            try await withClient(settings(broker, ca: "other.crt")) { _, recorder in
                try await recorder.disconnected(because: "the clock of this computer")
                #expect(recorder.connections == 0)
            }
            // Without a CA file, those of the system count, which are others.
            var settings = settings(broker)
            settings.tls = .init()
            try await withClient(settings) { _, recorder in
                try await recorder.disconnected(because: "is not valid for us")
            }
        }
    }

    @Test func anotherNameIsNotAccepted() async throws {
        try await withBroker { broker in
            var settings = settings(broker)
            settings.host = "127.0.0.1"
            try await withClient(settings) { _, recorder in
                try await recorder.disconnected(because: "is not for \"127.0.0.1\"")
                #expect(recorder.connections == 0)
            }
        }
    }

    @Test func insecureAcceptsAnything() async throws {
        try await withBroker { broker in
            var settings = settings(broker, ca: "other.crt")
            settings.host = "127.0.0.1"
            settings.tls?.insecure = true
            try await withClient(settings) { _, recorder in try await recorder.connected() }
            settings.tls = .init(insecure: true)
            try await withClient(settings) { _, recorder in try await recorder.connected() }
        }
    }

    @Test func aClientCertificateOpensTheDoor() async throws {
        try await withBroker(clientCertificates: true) { broker in
            var settings = settings(broker)
            try await withClient(settings) { _, recorder in
                try await recorder.disconnected(because: "does not accept our certificate")
            }
            settings.tls?.client = .init(
                certificateFile: "\(broker.folder)/client.crt",
                keyFile: "\(broker.folder)/client.key")
            try await withClient(settings) { _, recorder in try await recorder.connected() }
        }
    }

    @Test func aMissingFileIsNamed() async throws {
        try await withBroker { broker in
            try await withClient(settings(broker, ca: "nowhere.crt")) { _, recorder in
                try await recorder.disconnected(
                    because: "cannot read the CA file \(broker.folder)/nowhere.crt")
            }
        }
    }

    @Test func theWrongPortIsRecognised() async throws {
        try await withBroker { broker in
            var settings = settings(broker)
            settings.tls = nil
            try await withClient(settings) { _, recorder in
                try await recorder.disconnected(because: "a port without TLS?")
            }
        }
        try await Broker.run { broker in
            var settings = MQTTSettings.client("secret", of: broker)
            settings.tls = .init()
            try await withClient(settings) { _, recorder in
                try await recorder.disconnected(because: "use the broker's TLS port")
            }
        }
    }
}
