import MeterCore
import Testing

@testable import Configuration

@Suite struct QuantityTests {
    @Test(
        arguments: [
            ("120 s", 120_000), ("120s", 120_000), ("500 ms", 500), ("10 min", 600_000),
            ("2 h", 7_200_000), ("7 d", 604_800_000), ("0.33 s", 330), ("1.5 h", 5_400_000),
            ("0.000025 h", 90), ("0", 0), ("0.0", 0), ("0 s", 0), ("1.50000000000000000 s", 1500),
            ("007 s", 7000), (" 5\t s ", 5000),
        ] as [(String, Int64)])
    func durationsBecomeWholeMilliseconds(_ text: String, _ milliseconds: Int64) throws {
        #expect(try QuantityUnits.duration.steps(in: text) == milliseconds)
    }

    @Test(
        arguments: [
            ("50 mA", 50_000), ("0.05 A", 50_000), ("0.1 A", 100_000), ("0.3 A", 300_000),
            ("1.001 mA", 1001), ("250 uA", 250), ("250 µA", 250), ("250 \u{3bc}A", 250),
            ("6 A", 6_000_000), ("0.000001 A", 1),
        ] as [(String, Int64)])
    func currentsBecomeWholeMicroamperes(_ text: String, _ microamperes: Int64) throws {
        #expect(try QuantityUnits.current.steps(in: text) == microamperes)
    }

    @Test(
        arguments: [
            ("512 MB", 512_000_000), ("1 GB", 1_000_000_000), ("1.5 kB", 1500),
            ("512 MiB", 536_870_912), ("0.5 KiB", 512), ("2 GiB", 2_147_483_648), ("42 B", 42),
        ] as [(String, Int64)])
    func sizesBecomeWholeBytes(_ text: String, _ bytes: Int64) throws {
        #expect(try QuantityUnits.size.steps(in: text) == bytes)
    }

    @Test(arguments: [
        ("50", "has no unit"), ("0.05", "has no unit"), ("1.0", "has no unit"),
        ("50 mV", "has an unknown unit"), ("50 MA", "has an unknown unit"),
        ("50 ma", "has an unknown unit"), ("1 A 5", "has an unknown unit"),
        ("-5 mA", "is negative"), ("0,05 A", "has a comma"), ("", "is not a current"),
        ("mA", "is not a current"), ("+5 mA", "is not a current"), (".5 A", "is not a current"),
        ("5. A", "is not a current"), ("1.2.3 A", "is not a current"),
        ("1e3 mA", "has an unknown unit"), ("٣ mA", "is not a current"),
        ("0.0000001 A", "is finer than 1 µA"), ("9223372036854775808 µA", "has too many digits"),
        ("9223372036854775807 mA", "has too many digits"),
        ("0.1234567890123456789012345 A", "has too many digits"),
    ])
    func whatIsNoQuantityIsSaidToBeWhat(_ text: String, _ message: String) {
        do {
            let value = try QuantityUnits.current.steps(in: text)
            Issue.record("\(text) became \(value)")
        } catch {
            #expect(error.message.hasPrefix(message), "\(error.message)")
        }
    }

    @Test(
        arguments: [
            (120_000, "120 s"), (600_000, "10 min"), (330, "330 ms"), (1000, "1 s"), (0, "0 s"),
            (3_600_000, "1 h"), (86_400_000, "1 d"), (5_400_000, "90 min"), (1500, "1500 ms"),
        ] as [(Int64, String)])
    func durationsAreWrittenAsPeopleWriteThem(_ milliseconds: Int64, _ text: String) throws {
        #expect(QuantityUnits.duration.text(milliseconds) == text)
        #expect(try QuantityUnits.duration.steps(in: text) == milliseconds)
    }

    @Test(
        arguments: [
            (50_000, "50 mA"), (100, "100 µA"), (6_000_000, "6 A"), (0, "0 mA"),
            (1_500_000, "1500 mA"),
        ] as [(Int64, String)])
    func currentsAreWrittenAsPeopleWriteThem(_ microamperes: Int64, _ text: String) throws {
        #expect(QuantityUnits.current.text(microamperes) == text)
        #expect(try QuantityUnits.current.steps(in: text) == microamperes)
    }
}

@Suite struct SuggestionTests {
    @Test(arguments: [
        ("start_curent", "start_current"), ("startCurrent", "start_current"),
        ("start-current", "start_current"), ("tsart_current", "start_current"),
        ("stop_curent", "stop_current"), ("lvel", "level"), ("LEVEL", "level"), ("ulr", "url"),
    ])
    func aSlipOfTheFingerIsRecognised(_ word: String, _ meant: String) {
        let candidates = ["url", "level", "start_current", "stop_current", "start_delay"]
        #expect(Suggestion.nearest(to: word, among: candidates) == meant)
    }

    @Test(arguments: ["", "x", "uri2", "password", "current", "ab"])
    func whatIsFarFromEverythingGetsNoSuggestion(_ word: String) {
        #expect(Suggestion.nearest(to: word, among: ["url", "level", "start_current"]) == nil)
    }

    @Test func neighboursThatAreSwappedAreOneSlip() {
        #expect(Suggestion.distance("ab", "ba") == 1)
        #expect(Suggestion.distance("kitten", "sitting") == 3)
        #expect(Suggestion.distance("", "abc") == 3)
        #expect(Suggestion.distance("abc", "abc") == 0)
    }
}

@Suite struct BrokerURLTests {
    @Test(arguments: [
        ("mqtt://127.0.0.1:1883", BrokerURL(host: "127.0.0.1", port: 1883, tls: false)),
        ("mqtt://broker.local", BrokerURL(host: "broker.local", port: 1883, tls: false)),
        ("mqtt://broker.local/", BrokerURL(host: "broker.local", port: 1883, tls: false)),
        ("MQTTS://broker", BrokerURL(host: "broker", port: 8883, tls: true)),
        ("mqtts://b_1-x:443", BrokerURL(host: "b_1-x", port: 443, tls: true)),
        ("tcp://b:1", BrokerURL(host: "b", port: 1, tls: false)),
        ("ssl://b:65535", BrokerURL(host: "b", port: 65535, tls: true)),
        ("mqtt://[::1]:1884", BrokerURL(host: "::1", port: 1884, tls: false)),
        ("mqtt://[fe80::1%eth0]", BrokerURL(host: "fe80::1%eth0", port: 1883, tls: false)),
    ])
    func hostPortAndSecurityAreRead(_ text: String, _ expected: BrokerURL) throws {
        let url = try BrokerURL(text)
        #expect(url == expected)
        #expect(try BrokerURL(url.description) == url)
    }

    @Test(arguments: [
        "", "broker", "broker:1883", "ws://b:80", "http://b", "mqtt://", "mqtt://:1883",
        "mqtt://b:", "mqtt://b:0", "mqtt://b:65536", "mqtt://b:-1", "mqtt://b:+1", "mqtt://b:18x",
        "mqtt://u@b", "mqtt://u:p@b", "mqtt://b/topic", "mqtt://b?x", "mqtt://b#x", "mqtt://a b",
        "mqtt://[::1", "mqtt://[]:1883", "mqtt://[::1]x", "mqtt://[b]:1", "mqtt://ü.de",
        "mqtt://b\u{0}:1",
    ])
    func otherAddressesAreRefused(_ text: String) {
        #expect(throws: Complaint.self) { try BrokerURL(text) }
    }
}
