import FoundationEssentials
import Gateway
import Glibc
import LinuxIO
import MeterCore
import MeterMQTT
import MeterSim
import MeterStore
import Synchronization

enum DemoCommand: Command {
    static let syntax = CommandSyntax(
        name: "demo", summary: "Shows everything with three simulated meters, faster than life",
        options: [
            .init("--speed", "N", "how many times faster time runs (default 20, at most 100)"),
            .init("--duration", "TIME", "how long the demo lasts by your watch (default 60 s)"),
            .init("--broker", "HOST:PORT", "publish there (default: a private mosquitto)"),
            .init("--state-dir", "DIR", "keep the recorded sessions there"),
        ],
        notes: [
            "The meters are simulated; drivers, session rules, database and MQTT are those of the\n"
                + "agent. A meter's clock starts so far in the past that it arrives at now when the demo\n"
                + "ends. Without --duration a whole charge is seen at the default speed."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let speed = try arguments.integer("--speed", in: 1...100, default: 20)
        let duration = try arguments.duration("--duration", default: .seconds(60))
        let broker = try arguments.value("--broker").map { text throws(UsageError) in
            do throws(MQTTSettings.AddressError) {
                return try MQTTSettings.Address(
                    url: text.contains("://") ? text : "mqtt://\(text)")
            } catch {
                throw UsageError("--broker \(text): \(error)")
            }
        }
        let folder = try StateFolder(arguments.value("--state-dir"))
        defer { folder.removeIfTemporary() }
        let base = SystemTimekeeper()
        let start = base.moment().wall - duration * speed
        let demo = Demo(
            speed: speed, clock: ScaledClock(speed: speed, base: base, wallStart: start),
            realClock: base,
            duration: duration, folder: folder, broker: broker,
            log: Log(StandardErrorLog(level: .warning, clock: base)))
        try await Reactor.withReactor { reactor in
            try await withStopRequest(on: reactor) { untilStopped in
                try await demo.run(reactor, until: untilStopped)
            }
        }
        return ExitCode.success
    }
}

private struct Demo: Sendable {
    let speed: Int
    let clock: ScaledClock
    let realClock: SystemTimekeeper
    let duration: Duration
    let folder: StateFolder
    let broker: MQTTSettings.Address?
    let log: Log

    func run(_ reactor: Reactor, until stop: @escaping @Sendable () async -> Void) async throws {
        if let broker {
            try say("publishing to \(broker.host):\(broker.port)")
            return try await run(broker.host, broker.port, until: stop)
        }
        guard let program = Self.mosquitto else {
            log.warning(
                "no mosquitto is installed, so nothing is published: apt install mosquitto, or name "
                    + "a broker with --broker")
            return try await record(nil, until: stop)
        }
        let port = try Loopback.freePort()
        let configuration = "\(folder.path)/mosquitto.conf"
        try FileManager.default.createDirectory(
            atPath: folder.path, withIntermediateDirectories: true)
        try "listener \(port) 127.0.0.1\nallow_anonymous true\npersistence false\n"
            .write(toFile: configuration, atomically: true, encoding: .utf8)
        try await ChildProcess.withChildProcess(
            program, ["-c", configuration], output: .discarded, errors: .discarded,
            stopWithin: .seconds(3), on: reactor
        ) { _ in
            try await waitUntilItListens(at: port)
            try say("a private broker runs; see what arrives there with:")
            try say("  mosquitto_sub -h 127.0.0.1 -p \(port) -t 'usbmeter/#' -v")
            try await run("127.0.0.1", port, until: stop)
        }
        try? FileManager.default.removeItem(atPath: configuration)
    }

    private func waitUntilItListens(at port: UInt16) async throws {
        let deadline = realClock.now + .seconds(5)
        while try await !Loopback.canConnect(to: port) {
            guard realClock.now < deadline else {
                throw Failure(
                    "the private mosquitto does not listen: name a broker with --broker HOST:PORT")
            }
            try await realClock.sleep(for: .milliseconds(20))
        }
    }

    private static var mosquitto: String? {
        ["/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto"].first {
            access($0, X_OK) == 0
        }
    }

    private func run(
        _ host: String, _ port: UInt16, until stop: @escaping @Sendable () async -> Void
    ) async throws {
        let settings = MQTTSettings(
            host: host, port: port, clientID: "usbmeter-\(Self.settings.gatewayID)-\(getpid())",
            username: broker?.user,
            will: Message(
                topic: Self.settings.topics.gatewayStatus, text: Payloads.offline,
                qos: .atLeastOnce, retain: true))
        try await MQTTChannel.withChannel(
            settings, log: log.about("broker"), clock: realClock,
            jitter: { Double.random(in: 0.5...1) }
        ) { channel in try await record(channel, until: stop) }
    }

    private static let settings = GatewaySettings(
        gatewayID: "demo", softwareVersion: softwareVersion)

    private func record(
        _ channel: (any Channel)?, until stop: @escaping @Sendable () async -> Void
    ) async throws {
        let store = try await Store.open(directory: folder.path, at: clock.moment().wall)
        let meters = meters
        let display = Display(StatusBoard(), clock: clock)
        let gateway = Gateway(
            settings: Self.settings, meters: meters, store: store, channel: channel, clock: clock,
            log: log, observe: display.take)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await display.run(realClock) }
            await gateway.run(endingWith: .manual, deliveryLimit: .seconds(2 * speed)) {
                await withTaskGroup(of: Void.self) { race in
                    race.addTask { await stop() }
                    race.addTask { try? await realClock.sleep(for: duration) }
                    await race.next()
                    race.cancelAll()
                }
                display.isEnding.store(true, ordering: .relaxed)
            }
            group.cancelAll()
        }
        let sessions: [SessionSummary]
        do { sessions = try await store.sessions() } catch {
            await store.close()
            throw error
        }
        await store.close()
        try conclude(sessions, display.board.now.completed)
    }

    private func conclude(_ stored: [SessionSummary], _ seen: [SessionSummary]) throws {
        let new = stored.filter { session in seen.contains { $0.id == session.id } }
        try say("")
        guard !new.isEmpty else {
            return try say(
                "no session was completed: a longer --duration or a higher --speed helps")
        }
        try say("completed in this demo:")
        try say(lines: sessionTable(new.reversed()))
        let place = "\(folder.path)/usbmeter.db"
        try say(
            folder.isTemporary
                ? "they were stored in \(place), which is removed now; --state-dir DIR keeps it"
                : "they are stored in \(place); usbmeter sessions list --data \(folder.path) "
                    + "shows them again")
    }

    /// A phone on each of two meters, the second one plugged in later, and earbuds on the third.
    private var meters: [MeterSettings] {
        [
            ("Desk", MeterModel.um25c, "phone-short", "00:15:A3:00:55:01", UInt64(1)),
            ("Shelf", .um34c, "earbuds", "00:15:A3:00:55:02", 2),
            ("Bench", .tc66c, "phone-short", "00:15:A3:00:55:03", 3),
        ].compactMap { name, model, profileName, address, seed in
            guard let address = MeterAddress(address),
                let profile = LoadProfile.named(profileName, seed: seed)
            else { return nil }
            let meter = SimulatedMeter(
                model, dialect: .usb,
                profile: seed == 3 ? profile.entered(at: .seconds(280)) : profile, seed: seed,
                start: clock.now)
            return MeterSettings(
                address: address, name: name, model: model,
                transport: SimulatedTransport("simulated \(model.name)", to: meter, clock: clock))
        }
    }
}

/// What a person sees of a demo: a table that is drawn again and again on a terminal, otherwise a line
/// for each event.
private final class Display: Sendable {
    let board: StatusBoard
    private let clock: any Timekeeper
    /// Set when the demo ends, so that its own disconnecting is not shown as an event.
    let isEnding = Atomic(false)
    private let isTerminal = isatty(STDOUT_FILENO) == 1

    init(_ board: StatusBoard, clock: any Timekeeper) {
        self.board = board
        self.clock = clock
    }

    func take(_ event: GatewayEvent) {
        let before = board.now
        board.take(event)
        guard !isTerminal, let line = line(event, before) else { return }
        try? say("\(Show.time(clock.moment().wall))  \(line)")
    }

    private func line(_ event: GatewayEvent, _ before: StatusBoard.Contents) -> String? {
        switch event {
        case .added: return nil
        case .reading(let address, let reading):
            guard let meter = before.meters[address], meter.reading == nil else { return nil }
            return "\(meter.name): \(reading.frame.model.name) answers"
        case .state(let address, let state):
            guard let meter = before.meters[address], meter.reading != nil,
                state == .disconnected, !isEnding.load(ordering: .relaxed)
            else { return nil }
            return "\(meter.name): disconnected"
        case .session(let address, let session):
            guard let meter = before.meters[address], meter.session == nil, let session
            else { return nil }
            return "\(meter.name): session began \(Show.time(session.startedAt))"
        case .completed(let session):
            return "\(session.meterName): session ended, \(Show.wattHours(session.energy)) Wh, "
                + "\(Show.milliampereHours(session.charge)) mAh in "
                + Show.duration(session.durationMilliseconds)
        case .channel(let connected, let reason):
            return connected ? "connected to the broker" : reason
        }
    }

    /// Draws the table twice a second until the task is cancelled.
    func run(_ realClock: any Timekeeper) async {
        guard isTerminal else { return }
        var drawn = 0
        while !Task.isCancelled {
            let lines = table.split(separator: "\n", omittingEmptySubsequences: false)
            // up to the table's first line; each line is cleared to its end
            let up = drawn > 0 ? "\u{1b}[\(drawn)A" : ""
            for (index, line) in lines.enumerated() {
                try? say((index == 0 ? up : "") + line + "\u{1b}[K")
            }
            drawn = lines.count
            try? await realClock.sleep(for: .milliseconds(500))
        }
    }

    private var table: String {
        let board = board.now
        var table = Table([
            "meter", "model", "V", "A", "W", "°C", "session", "Wh", "mAh",
        ])
        for address in board.order {
            guard let meter = board.meters[address] else { continue }
            let frame = meter.reading?.frame
            table.add([
                meter.name, frame?.model.name ?? meter.state.rawValue,
                frame.map { JSONWriter.decimal($0.voltage, places: 3) } ?? "-",
                frame.map { JSONWriter.decimal($0.current, places: 4) } ?? "-",
                frame.map { JSONWriter.decimal($0.power, places: 3) } ?? "-",
                frame?.temperature.map { JSONWriter.decimal($0, places: 0) } ?? "-",
                meter.session.map { Show.duration($0.durationMilliseconds) } ?? "idle",
                meter.session.map { Show.wattHours($0.energy) } ?? "-",
                meter.session.map { Show.milliampereHours($0.charge) } ?? "-",
            ])
        }
        return
            "\(Show.time(clock.moment().wall)), completed: \(board.completed.count)\n\(table.text)"
    }
}
