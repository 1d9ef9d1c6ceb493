import Configuration
import Gateway
import Glibc
import LinuxIO
import MeterCore
import MeterLink
import MeterMQTT
import MeterStore

enum DoctorCommand: Command {
    static let syntax = CommandSyntax(
        name: "doctor", summary: "Says what is wrong on this machine, and what to do about it",
        options: [
            .init("--config", "FILE", "the configuration (default \(defaultConfigurationPath))"),
            .init("--json", nil, "print an array of findings"),
        ],
        notes: [
            "Looks at Bluetooth, the clock, the broker, the data directory and the links of the\n"
                + "meters, and changes nothing. Exit code 1 when something is wrong."
        ])

    /// What was looked at, how it is, and what to do.
    private struct Finding: Sendable {
        var subject: String
        var isFine: Bool
        var text: String
        var advice = ""

        init(_ subject: String, isFine: Bool, _ text: String, advice: String = "") {
            self.subject = subject
            self.isFine = isFine
            self.text = text
            self.advice = advice
        }

        init(_ subject: String, _ error: LinkError) {
            self.init(subject, isFine: false, error.message, advice: error.advice)
        }
    }

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let path = arguments.value("--config") ?? defaultConfigurationPath
        let loaded = Configuration.load(path: path)
        var findings: [Finding] = []
        let errors = loaded.problems.filter { $0.severity == .error }
        findings.append(
            errors.isEmpty
                ? Finding("configuration", isFine: true, path)
                : Finding(
                    "configuration", isFine: false, errors[0].description,
                    advice: "usbmeter check \(path) shows all"))
        let values = loaded.values ?? GatewayConfiguration()
        findings += try await bluetooth(values)
        findings.append(clock())
        if loaded.values != nil {
            if let mqtt = values.mqtt { findings.append(await broker(mqtt)) }
            findings += await data(values)
            findings += devices(values.meters)
        }
        try show(findings, asJSON: arguments.has("--json"))
        return findings.allSatisfy(\.isFine) ? ExitCode.success : ExitCode.failure
    }

    private static func show(_ findings: [Finding], asJSON: Bool) throws {
        if asJSON {
            let texts = findings.map { finding in
                JSONWriter.object { json in
                    json.string("subject", finding.subject)
                    json.bool("ok", finding.isFine)
                    json.string("text", finding.text)
                    json.string("advice", finding.advice.isEmpty ? nil : finding.advice)
                }
            }
            return try say("[" + texts.joined(separator: ",\n") + "]")
        }
        let width = (findings.map(\.subject.count).max() ?? 0) + 2
        for finding in findings {
            let padding = String(repeating: " ", count: width - finding.subject.count)
            try say("\(finding.isFine ? "ok " : "NO ") \(finding.subject)\(padding)\(finding.text)")
            if !finding.advice.isEmpty {
                try say(String(repeating: " ", count: width + 4) + "→ " + finding.advice)
            }
        }
    }

    // MARK: Bluetooth

    private static func bluetooth(_ values: GatewayConfiguration) async throws -> [Finding] {
        if values.bluetooth.adopt == .off {
            return [Finding("bluetooth", isFine: true, "switched off in the configuration")]
        }
        let clock = SystemTimekeeper()
        let log = Log(SilentLog())
        var settings = RadioSettings()
        settings.conduct = .observer
        let radio = settings
        let facts = try await Reactor.withReactor { reactor in
            try await AdapterPool.withPool(radio, reactor: reactor, clock: clock, log: log) {
                pool in
                await pool.settled(within: .seconds(5))
                return await pool.facts()
            }
        }
        if let unavailable = facts.unavailable { return [Finding("bluetooth", unavailable)] }
        var findings: [Finding] = []
        if let daemon = facts.bluetoothDaemon {
            findings.append(
                Finding(
                    "bluetoothd", isFine: true,
                    "runs (process \(daemon)): the agent is its guest; pair meters with bluetoothctl"
                ))
        } else {
            findings.append(
                Finding("bluetoothd", isFine: true, "does not run: the agent owns the adapters"))
        }
        if facts.isPrivileged == false {
            findings.append(
                Finding(
                    "permission", isFine: false,
                    "this user may not manage Bluetooth adapters (CAP_NET_ADMIN is missing)",
                    advice: "run doctor with sudo to see more; the service has it by its unit"))
        }
        if facts.adapters.isEmpty, let problem = facts.problem {
            findings.append(Finding("adapter", problem))
        }
        for adapter in facts.adapters { findings.append(finding(adapter)) }
        return findings
    }

    private static func finding(_ adapter: AdapterFacts) -> Finding {
        let index = adapter.index.map { "hci\($0)" } ?? "gone"
        let subject = "adapter \(adapter.address.map(\.description) ?? index)"
        let maker = adapter.maker.map { ", \($0)" } ?? ""
        let text = "\(index)\(maker), \(adapter.links.count) links"
        if adapter.isDuplicate {
            return Finding(
                subject, isFine: false, "\(text); another adapter has the same address",
                advice: "use only one of them: the kernel cannot tell them apart")
        }
        if adapter.isBlockedBySwitch {
            return Finding(
                subject, isFine: false, "\(text); switched off by a hardware switch",
                advice: "turn the switch on")
        }
        if adapter.isBlockedBySoftware {
            return Finding(
                subject, isFine: false, "\(text); blocked by rfkill",
                advice: "rfkill unblock bluetooth"
            )
        }
        if let error = adapter.lastError, adapter.state != .ready {
            return Finding(
                subject, isFine: false, "\(text); \(error.message)", advice: error.advice)
        }
        if !adapter.isPowered {
            // the agent switches it on as owner, so this is only worth a word
            return Finding(subject, isFine: true, "\(text); off, the agent switches it on")
        }
        return Finding(subject, isFine: true, "\(text); on")
    }

    // MARK: The rest

    private static func clock() -> Finding {
        SystemClock.isSynchronised()
            ? Finding("clock", isFine: true, "synchronised")
            : Finding(
                "clock", isFine: false, "not synchronised: sessions are dated by a doubtful clock",
                advice: "install systemd-timesyncd or chrony, and connect to the network once")
    }

    private static func broker(_ mqtt: GatewayConfiguration.MQTT) async -> Finding {
        let clock = SystemTimekeeper()
        let settings = MQTTSettings(
            host: mqtt.url.host, port: mqtt.url.port, clientID: "usbmeter-doctor-\(getpid())",
            username: mqtt.username, password: mqtt.passwordFile.flatMap { try? readSecret($0) },
            tls: mqtt.url.tls ? .init(caFile: mqtt.caFile, insecure: mqtt.insecure) : nil)
        do {
            return try await MQTTChannel.withChannel(
                settings, log: Log(SilentLog()), clock: clock, jitter: { 1 }
            ) { channel in
                await withTaskGroup(of: Finding?.self) { group in
                    group.addTask {
                        for await event in channel.events {
                            switch event {
                            case .connected:
                                return Finding("broker", isFine: true, "\(mqtt.url) lets us in")
                            case .disconnected(let reason, _):
                                return Finding("broker", isFine: false, reason)
                            case .received: continue
                            }
                        }
                        return nil
                    }
                    group.addTask {
                        try? await clock.sleep(for: .seconds(10))
                        return Finding(
                            "broker", isFine: false, "\(mqtt.url) does not answer within 10 s",
                            advice: "check the host and the firewall")
                    }
                    let first = await group.next() ?? nil
                    group.cancelAll()
                    return first ?? Finding("broker", isFine: false, "could not be asked")
                }
            }
        } catch {
            return Finding("broker", isFine: false, "\(error)")
        }
    }

    private static func data(_ values: GatewayConfiguration) async -> [Finding] {
        let directory = values.gateway.data
        do throws(StoreError) {
            let store = try await Store.openReadOnly(directory: directory)
            var findings = [Finding("data", isFine: true, directory)]
            do throws(StoreError) {
                let links = try await store.linkStates()
                findings += links.map(finding)
                let heard = Set(links.map(\.meter))
                if values.bluetooth.adopt != .off {
                    findings +=
                        values.meters
                        .filter { $0.serial == nil && !heard.contains($0.address) }
                        .map { meter in
                            Finding(
                                meter.name, isFine: false,
                                "\(meter.address) has not been heard by the agent yet",
                                advice: BluetoothMeter.neverHeard)
                        }
                }
            } catch {
                findings = [Finding("data", isFine: false, error.message, advice: error.advice)]
            }
            await store.close()
            return findings
        } catch {
            return [
                Finding(
                    "data", isFine: error.kind == .missing, error.message,
                    advice: error.kind == .missing ? "" : error.advice)
            ]
        }
    }

    private static func finding(_ link: LinkState) -> Finding {
        let since = "since \(Show.time(link.since))"
        guard let cause = link.cause else {
            return Finding(link.name, isFine: true, "\(link.state) \(since)")
        }
        return Finding(
            link.name, isFine: false,
            "\(link.state) \(since): \(FaultCategory(rawValue: cause)?.cause ?? cause)",
            advice: link.evidence ?? "")
    }

    private static func devices(_ meters: [GatewayConfiguration.Meter]) -> [Finding] {
        meters.compactMap { meter in
            guard let path = meter.serial else { return nil }
            if access(path, F_OK) != 0 {
                return Finding(
                    path, isFine: false, "is not there",
                    advice: "plug \(meter.name) in, or correct "
                        + "the path in the configuration")
            }
            if access(path, R_OK | W_OK) != 0 {
                return Finding(
                    path, isFine: false, "may not be opened by this user",
                    advice: "the agent's user must be in the group dialout")
            }
            return Finding(path, isFine: true, "is there")
        }
    }
}
