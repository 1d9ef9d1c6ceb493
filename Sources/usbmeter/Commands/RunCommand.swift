import Configuration
import Gateway
import LinuxIO
import MeterCore
import MeterLink
import MeterMQTT
import MeterStore

enum RunCommand: Command {
    static let syntax = CommandSyntax(
        name: "run", summary: "Runs the agent: reads the meters, records and publishes",
        options: [
            .init("--config", "FILE", "the configuration (default \(defaultConfigurationPath))")
        ],
        notes: [
            "Runs until SIGTERM or SIGINT; a second one ends it at once. Logs to standard error.\n"
                + "Started by systemd as Type=notify, it reports when it is ready and feeds the\n"
                + "watchdog."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let path = arguments.value("--config") ?? defaultConfigurationPath
        let values = try loadConfiguration(path)
        let clock = SystemTimekeeper()
        let log = Log(StandardErrorLog(level: values.log.level, clock: clock))
        try await Reactor.withReactor { reactor in
            try await withStopRequest(on: reactor) { untilStopped in
                let store = try await Store.open(
                    directory: values.gateway.data, at: clock.moment().wall)
                do {
                    try await run(
                        values, store, reactor: reactor, clock: clock, log: log,
                        until: untilStopped)
                    await store.close()
                } catch {
                    await store.close()
                    throw error
                }
            }
        }
        log.info("stopped")
        return ExitCode.success
    }

    private static func run(
        _ values: GatewayConfiguration, _ store: Store, reactor: Reactor, clock: any Timekeeper,
        log: Log, until stop: @escaping @Sendable () async -> Void
    ) async throws {
        let id = try await gatewayID(configured: values.gateway.id, in: store)
        log.info("usbmeter \(softwareVersion) starts as \(id), data in \(values.gateway.data)")
        for note in await store.openingNotes { log.notice("\(note)") }
        let settings = GatewaySettings(
            gatewayID: id, baseTopic: values.mqtt?.baseTopic ?? "usbmeter",
            flushInterval: values.storage.flushInterval, softwareVersion: softwareVersion)
        let meters = values.meters.compactMap { meterSettings($0, reactor) }
        let board = StatusBoard()
        // those that are found later add themselves
        for meter in meters { board.take(.added(meter.address, name: meter.name)) }
        let run: @Sendable ((any Channel)?, AsyncStream<MeterSettings>?) async -> Void = {
            channel, arrivals in
            let gateway = Gateway(
                settings: settings, meters: meters, store: store, channel: channel, clock: clock,
                log: log, observe: board.take)
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    await tellSystemd(board, publishes: channel != nil, clock: clock, log: log)
                }
                await gateway.run(arrivals: arrivals) {
                    await stop()
                    log.info("stopping")
                    try? ServiceNotify().stopping()
                }
                group.cancelAll()
            }
        }
        try await withRadio(values, store, reactor, clock, log) { arrivals in
            guard let mqtt = values.mqtt else { return await run(nil, arrivals) }
            try await MQTTChannel.withChannel(
                mqttSettings(mqtt, settings, log), log: log.about("broker"), clock: clock,
                jitter: { Double.random(in: 0.5...1) }
            ) { channel in await run(channel, arrivals) }
        }
    }

    /// Lends the meters that are found over Bluetooth while `body` runs; none where it is left alone.
    private static func withRadio(
        _ values: GatewayConfiguration, _ store: Store, _ reactor: Reactor, _ clock: any Timekeeper,
        _ log: Log, _ body: @escaping @Sendable (AsyncStream<MeterSettings>?) async throws -> Void
    ) async throws {
        let configured = values.meters.filter { $0.serial == nil }.map(BluetoothMeter.init)
        guard values.bluetooth.adopt != .off else { return try await body(nil) }
        try await AdapterPool.withPool(
            radioSettings(values), reactor: reactor, clock: clock, log: log.about("Bluetooth")
        ) { pool in
            let transports = RadioTransports(
                pool: pool, reactor: reactor, clock: clock, store: store)
            let finder = MeterFinder(
                policy: values.bluetooth.adopt == .automatic ? .automatic : .listed,
                configured: configured,
                others: values.meters.filter { $0.serial != nil }.map { ($0.address, $0.name) },
                denied: values.bluetooth.deny, defaults: BluetoothMeter(values.sessions),
                store: store, clock: clock, log: log, transport: transports.transport,
                listenFor: { peers in
                    await pool.setKnown(
                        peers.map { KnownPeer($0, pairsByItself: !$0.isLowEnergy) })
                },
                search: { try await pool.find(for: .seconds(20), includingClassic: true) })
            let sightings = await pool.sightings()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await finder.run(sightings) }
                try await body(finder.arrivals)
                group.cancelAll()
            }
        }
    }

    private static func radioSettings(_ values: GatewayConfiguration) -> RadioSettings {
        var settings = RadioSettings()
        settings.conduct =
            switch values.bluetooth.mode {
            case .automatic: .automatic
            case .owner: .owner
            case .guest: .guest
            }
        settings.keyFile = keyFile(in: values.gateway.data)
        settings.slots = values.bluetooth.slots
        settings.looksAround = values.bluetooth.adopt == .automatic
        return settings
    }

    private static func meterSettings(
        _ meter: GatewayConfiguration.Meter, _ reactor: Reactor
    ) -> MeterSettings? {
        guard let path = meter.serial else { return nil }
        return MeterSettings(
            address: meter.address, name: meter.name, model: meter.model,
            temperatureUnit: meter.temperatureUnit, pollInterval: meter.pollInterval,
            rules: SessionRules(meter.sessions),
            transport: SerialTransport(path: path, dialect: .usb, reactor: reactor))
    }

    private static func mqttSettings(
        _ mqtt: GatewayConfiguration.MQTT, _ gateway: GatewaySettings, _ log: Log
    ) throws -> MQTTSettings {
        var password: String?
        if let file = mqtt.passwordFile {
            password = try readSecret(file)
            if let warning = looseMode(of: file) { log.warning(warning) }
        }
        var identity: MQTTSettings.TLS.Identity?
        if let certificate = mqtt.certificateFile, let key = mqtt.keyFile {
            identity = .init(certificateFile: certificate, keyFile: key)
        }
        return MQTTSettings(
            host: mqtt.url.host, port: mqtt.url.port,
            clientID: mqtt.clientID ?? "usbmeter-\(gateway.gatewayID)", username: mqtt.username,
            password: password,
            tls: mqtt.url.tls
                ? .init(caFile: mqtt.caFile, client: identity, insecure: mqtt.insecure) : nil,
            keepalive: Int(mqtt.keepalive.milliseconds / 1_000),
            will: Message(
                topic: gateway.topics.gatewayStatus, text: Payloads.offline, qos: .atLeastOnce,
                retain: true),
            protocolChoice: mqtt.protocolVersion.choice)
    }

    /// Ready now; then the status line, and the watchdog's food at half the time that it asks for.
    /// That this task still gets its turn is what the watchdog watches.
    private static func tellSystemd(
        _ board: StatusBoard, publishes: Bool, clock: any Timekeeper, log: Log
    ) async {
        let systemd = ServiceNotify()
        let watchdog = systemd.watchdogInterval
        let interval = watchdog.map { min($0 / 2, .seconds(10)) } ?? .seconds(10)
        var isReady = false
        var shown = ""
        var hasComplained = false
        while true {
            do throws(Errno) {
                if !isReady { try systemd.ready() }
                isReady = true
                if watchdog != nil { try systemd.pingWatchdog() }
                let line = board.line(publishes: publishes)
                if line != shown { try systemd.status(line) }
                shown = line
                hasComplained = false
            } catch {
                // once, and go on: without the watchdog's food the service would be killed
                if !hasComplained {
                    log.error("systemd cannot be told how the service is: \(error)")
                }
                hasComplained = true
            }
            do { try await clock.sleep(for: interval) } catch { return }
        }
    }
}

extension BluetoothMeter {
    fileprivate init(_ meter: GatewayConfiguration.Meter) {
        self.init(
            address: meter.address, name: meter.name, model: meter.model,
            temperatureUnit: meter.temperatureUnit, pollInterval: meter.pollInterval,
            rules: SessionRules(meter.sessions), kind: meter.link.map { $0.kind },
            channel: meter.channel, profile: meter.profile)
    }

    /// What an adopted meter is set up with; its address and name come with it.
    fileprivate init(_ sessions: GatewayConfiguration.Sessions) {
        self.init(
            address: MeterAddress(localFor: ""), name: "", model: nil, rules: SessionRules(sessions)
        )
    }
}

extension GatewayConfiguration.LinkKind {
    /// An LE meter has a public address, as all that were published; one with another kind of address
    /// is found by listening, without `link`.
    fileprivate var kind: PeerAddress.Kind {
        switch self {
        case .ble: .lePublic
        case .classic: .classic
        }
    }
}

extension GatewayConfiguration.ProtocolVersion {
    fileprivate var choice: MQTTSettings.ProtocolChoice {
        switch self {
        case .automatic: .auto
        case .version5: .v5
        case .version311: .v311
        }
    }
}
