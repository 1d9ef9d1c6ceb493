import FoundationEssentials
import MeterCore
import Testing

@testable import Configuration

@Suite struct LoadingTests {
    @Test func whatIsLeftOutHasItsDefault() throws {
        let loaded = try values(of: oneMeter)
        var expected = GatewayConfiguration()
        var meter = GatewayConfiguration.Meter(
            name: "A", address: MeterAddress(localFor: "/dev/ttyACM0"))
        meter.serial = "/dev/ttyACM0"
        expected.meters = [meter]
        #expect(loaded == expected)
        #expect(loaded.mqtt == nil)
        #expect(loaded.sessions.endDelay == .seconds(120))
        #expect(meter.pollInterval == .seconds(1))
    }

    @Test func everyKeyReachesItsPlace() throws {
        let loaded = try values(
            of: """
                gateway: {id: lab-1, data: db}
                mqtt:
                  url: mqtts://broker.lan
                  base_topic: home/power
                  client_id: lab
                  username: me
                  password_file: secret/password
                  ca_file: /ca.pem
                  certificate_file: ./c.pem
                  key_file: k.pem
                  insecure: true
                  keepalive: 1 min
                  protocol: 3.1.1
                sessions:
                  start_current: 0.1 A
                  start_delay: 0
                  stop_current: 30 mA
                  end_delay: 5 min
                  gap_limit: 1 h
                storage: {flush_interval: 1 min}
                log: {level: Debug}
                meters:
                  - name: "5"
                    serial: /dev/rfcomm0
                    address: 00-15-a6-00-36-2f
                    model: UM25C
                    poll_interval: 0.5 s
                  - name: No
                    serial: links/tc66
                    model: tc66c
                    temperature_unit: fahrenheit
                """)
        var expected = GatewayConfiguration()
        expected.gateway.id = "lab-1"
        expected.gateway.data = "/etc/usbmeter/db"
        var mqtt = GatewayConfiguration.MQTT()
        mqtt.url = BrokerURL(host: "broker.lan", port: 8883, tls: true)
        mqtt.baseTopic = "home/power"
        mqtt.clientID = "lab"
        mqtt.username = "me"
        mqtt.passwordFile = "/etc/usbmeter/secret/password"
        mqtt.caFile = "/ca.pem"
        mqtt.certificateFile = "/etc/usbmeter/./c.pem"
        mqtt.keyFile = "/etc/usbmeter/k.pem"
        mqtt.insecure = true
        mqtt.keepalive = .seconds(60)
        mqtt.protocolVersion = .version311
        expected.mqtt = mqtt
        expected.sessions.startCurrent = Microamperes(100_000)
        expected.sessions.startDelay = .zero
        expected.sessions.stopCurrent = Microamperes(30_000)
        expected.sessions.endDelay = .seconds(300)
        expected.sessions.gapLimit = .seconds(3600)
        expected.storage.flushInterval = .seconds(60)
        expected.log.level = .debug
        var first = GatewayConfiguration.Meter(
            name: "5", address: try #require(MeterAddress("0015A600362F")))
        first.serial = "/dev/rfcomm0"
        first.model = .um25c
        first.pollInterval = .milliseconds(500)
        first.sessions = expected.sessions
        var second = GatewayConfiguration.Meter(
            name: "No", address: MeterAddress(localFor: "/etc/usbmeter/links/tc66"))
        second.serial = "/etc/usbmeter/links/tc66"
        second.model = .tc66c
        second.temperatureUnit = .fahrenheit
        second.sessions = expected.sessions
        expected.meters = [first, second]
        #expect(loaded == expected)
    }

    @Test func aMeterOverridesWhatItNamesAndInheritsTheRestWhereverTheRulesStand() throws {
        let loaded = try values(
            of: """
                meters:
                  - name: Watch
                    serial: /dev/a
                    start_current: 5 mA
                    stop_current: 2 mA
                    gap_limit: 1 min
                  - name: Phone
                    serial: /dev/b
                sessions:
                  end_delay: 60 s
                """)
        let (watch, phone) = (loaded.meters[0].sessions, loaded.meters[1].sessions)
        #expect(watch.startCurrent == Microamperes(5000))
        #expect(watch.stopCurrent == Microamperes(2000))
        #expect(watch.gapLimit == .seconds(60))
        #expect(watch.endDelay == .seconds(60))
        #expect(watch.startDelay == .seconds(3))
        #expect(phone == loaded.sessions)
    }

    @Test func mqttWithDefaultsOnlyStillPublishes() throws {
        #expect(try values(of: "mqtt: {}\n" + oneMeter).mqtt == GatewayConfiguration.MQTT())
    }

    @Test func theOrderOfKeysLineEndsAndTheByteOrderMarkMakeNoDifference() throws {
        let text = "log:\r\n  level: error\r\n" + oneMeter
        #expect(try values(of: "\u{feff}" + text) == values(of: oneMeter + "log: {level: error}"))
        #expect(try values(of: "%YAML 1.1\n---\n" + text + "...\n") == values(of: text))
    }

    @Test func theFilesToBeReadAreListedWithTheirPlace() throws {
        let loaded = Configuration.parse(
            text: """
                mqtt:
                  url: mqtts://b
                  username: me
                  password_file: pw
                  ca_file: /ca.pem
                """, file: "conf/m.yaml")
        #expect(loaded.referencedFiles.map(\.path) == ["conf/pw", "/ca.pem"])
        #expect(loaded.referencedFiles.map(\.key) == ["password_file", "ca_file"])
        let problem = try #require(loaded.referencedFiles.first).problem(
            "no such file", advice: "write the password into it")
        #expect(
            problem.description
                == "conf/m.yaml:4:18: error: password_file: no such file (write the password into it)"
        )
    }

    @Test func aFileOnDiskIsReadAndItsFolderIsWhereRelativePathsStart() throws {
        try withTemporaryFolder { folder in
            let path = folder + "/usbmeter.yaml"
            try write("gateway: {data: db}\n" + oneMeter, to: path)
            let loaded = Configuration.load(path: path)
            #expect(loaded.problems == [])
            #expect(loaded.values?.gateway.data == folder + "/db")

            try FileManager.default.createSymbolicLink(
                atPath: folder + "/link.yaml", withDestinationPath: path)
            #expect(Configuration.load(path: folder + "/link.yaml").values == loaded.values)
        }
    }

    @Test func aFileThatCannotBeReadIsOneProblem() throws {
        try withTemporaryFolder { folder in
            let missing = folder + "/missing.yaml"
            #expect(
                Configuration.load(path: missing).problems.map(\.description) == [
                    "\(missing): error: no such file (docs/configuration.md tells how to write one)"
                ])
            #expect(
                Configuration.load(path: folder).problems.map(\.description) == [
                    "\(folder): error: a folder, not a file (name the file in it)"
                ])
            #expect(
                Configuration.load(path: "/dev/zero").problems.map(\.description) == [
                    "/dev/zero: error: a device, not a file (name the configuration file)"
                ])
            let empty = folder + "/empty.yaml"
            try write("", to: empty)
            #expect(Configuration.load(path: empty).problems.count == 1)
            #expect(Configuration.load(path: empty).values == nil)
            let large = folder + "/large.yaml"
            try write(String(repeating: "#\n", count: 600_000), to: large)
            #expect(Configuration.load(path: large).problems.count == 1)
            #expect(Configuration.load(path: "").problems.count == 1)
            #expect(Configuration.load(path: empty + "/below").problems.count == 1)
        }
    }

    private func withTemporaryFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("usbmeter-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try body(folder)
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }
}
