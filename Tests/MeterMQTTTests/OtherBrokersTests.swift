import MeterMQTT
import Testing

/// What brokers other than Debian's mosquitto say, or say differently.
struct OtherBrokersTests {
    /// Speaks MQTT 3.1.1 and refuses 5 in the words of that: return code 1 without properties.
    private static let old: @Sendable (UInt8) -> ScriptedBroker.Answer = { level in
        level == 4
            ? .init(bytes: [0x20, 2, 0, 0], stays: true)
            : .init(bytes: [0x20, 2, 0, 1], stays: false)
    }

    private func settings(
        _ broker: ScriptedBroker, _ choice: MQTTSettings.ProtocolChoice = .auto
    ) -> MQTTSettings {
        MQTTSettings(
            host: "127.0.0.1", port: broker.port, clientID: "pi", protocolChoice: choice)
    }

    @Test func aBrokerWithoutMQTT5IsSpokenToIn311() async throws {
        try await ScriptedBroker.run(Self.old) { broker in
            let diary = Diary()
            try await withClient(settings(broker), log: diary) { _, recorder in
                try await recorder.connected()
                // It is no failure, and so no event and no pause.
                #expect(recorder.reasons.isEmpty)
            }
            #expect(broker.levels == [5, 4])
            #expect(diary.contains("using 3.1.1"))
        }
    }

    @Test func aBrokerThatRefusesMQTT5InItsOwnWordsIsToo() async throws {
        try await ScriptedBroker.run { level in
            level == 4
                ? .init(bytes: [0x20, 2, 0, 0], stays: true)
                : .init(bytes: [0x20, 3, 0, 0x84, 0], stays: false)
        } _: { broker in
            try await withClient(settings(broker)) { _, recorder in
                try await recorder.connected()
            }
            #expect(broker.levels == [5, 4])
        }
    }

    @Test func whoInsistsOnMQTT5KeepsTrying() async throws {
        try await ScriptedBroker.run(Self.old) { broker in
            try await withClient(settings(broker, .v5)) { _, recorder in
                try await recorder.disconnected(because: "MQTT")
                try await eventually("it tries again") { recorder.reasons.count >= 2 }
                #expect(Set(broker.levels) == [5])
            }
        }
    }

    @Test func aBrokersFarewellIsPassedOn() async throws {
        // Welcome, then "session taken over" (MQTT 5, §3.14.2.1).
        try await ScriptedBroker.run { _ in
            .init(bytes: [0x20, 3, 0, 0, 0, 0xe0, 1, 0x8e], stays: false)
        } _: { broker in
            try await withClient(settings(broker)) { _, recorder in
                try await recorder.disconnected(
                    because: "another client has connected with our client id \"pi\"")
            }
        }
    }

    @Test func somethingElseThanABrokerIsRecognised() async throws {
        try await ScriptedBroker.run { _ in
            .init(bytes: Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), stays: false)
        } _: { broker in
            try await withClient(settings(broker)) { _, recorder in
                try await recorder.disconnected(because: "is that a broker")
            }
        }
    }
}
