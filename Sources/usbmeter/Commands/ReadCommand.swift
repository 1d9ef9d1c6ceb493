import Configuration
import Gateway
import LinuxIO
import MeterCore
import MeterLink

enum ReadCommand: Command {
    static let syntax = CommandSyntax(
        name: "read", summary: "Shows readings of one meter; nothing is stored or published",
        operands: "PATH|ADDRESS", operandCount: 1...1,
        options: [
            .init("--model", "MODEL", "\(MeterModel.list) (default: what answers)"),
            .init("--count", "N", "so many readings (default 1)"),
            .init("--interval", "TIME", "from one reading to the next (default 1 s)"),
            .init(
                "--temperature-unit", "UNIT",
                "what a TC66C's display is set to: celsius (default) or fahrenheit"),
            .init(
                "--link", "KIND", "of an ADDRESS: ble or classic (default: on which it is heard)"),
            .init("--json", nil, "print each reading as a JSON object on a line of its own"),
        ],
        notes: [
            "PATH is a serial device: /dev/ttyACM0 for a TC66C on USB, /dev/rfcomm0 for a meter that\n"
                + "was bound with rfcomm(1), or a pseudo-terminal of usbmeter simulate. ADDRESS is a\n"
                + "Bluetooth address; that needs CAP_NET_ADMIN, so run it with sudo."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let path = arguments.operands[0]
        let model = try arguments.value("--model").map { name throws(UsageError) in
            guard let model = MeterModel(name: name) else {
                throw UsageError("there is no model \"\(name)\": known are \(MeterModel.list)")
            }
            return model
        }
        guard
            let unit = TemperatureUnit(
                rawValue: arguments.value("--temperature-unit") ?? "celsius")
        else { throw UsageError("--temperature-unit is celsius or fahrenheit") }
        let count = try arguments.integer("--count", in: 1...Int(Int32.max), default: 1)
        let interval = try arguments.duration("--interval", default: .seconds(1))
        let isJSON = arguments.has("--json")
        let clock = SystemTimekeeper()
        let log = Log(StandardErrorLog(level: .warning, clock: clock))
        let link = arguments.value("--link")
        guard link == nil || link == "ble" || link == "classic" else {
            throw UsageError("--link is ble or classic")
        }
        let poll: @Sendable (any Transport) async throws -> Void = { transport in
            let meter = MeterSettings(
                address: MeterAddress(path) ?? MeterAddress(localFor: path), name: path,
                model: model, temperatureUnit: unit, transport: transport)
            try await transport.withLink { link in
                var poller = MeterPoller(meter, clock: clock, log: log)
                poller.linkOpened(link)
                var next = clock.now
                for number in 1...count {
                    let reading = try await poller.measure(over: link)
                    if let notice = poller.takeNotice() { log.warning(notice) }
                    try show(reading, asJSON: isJSON)
                    next = max(next + interval, clock.now)
                    if number < count { try await clock.sleep(until: next) }
                }
            }
        }
        try await Reactor.withReactor { reactor in
            guard let address = MeterAddress(path) else {
                return try await poll(SerialTransport(path: path, dialect: .usb, reactor: reactor))
            }
            try await AdapterPool.withPool(
                RadioSettings(), reactor: reactor, clock: clock, log: log
            ) { pool in
                let kind: PeerAddress.Kind? =
                    link.map { $0 == "ble" ? .lePublic : .classic }
                let sighting = kind == nil ? try await find(address, pool) : nil
                let peer = PeerAddress(
                    address: address, kind: kind ?? sighting?.peer.kind ?? .lePublic)
                let transports = RadioTransports(
                    pool: pool, reactor: reactor, clock: clock, store: nil)
                let meter = BluetoothMeter(address: address, name: path, model: model)
                try await poll(transports.transport(meter, peer))
            }
        }
        return ExitCode.success
    }

    /// Listens for a meter until it is heard.
    private static func find(_ address: MeterAddress, _ pool: AdapterPool) async throws -> Sighting
    {
        let sightings = await pool.sightings()
        return try await withThrowingTaskGroup(of: Sighting?.self) { group in
            group.addTask { await sightings.first { $0.peer.address == address } }
            group.addTask {
                try await pool.find(for: .seconds(20), includingClassic: true)
                return nil
            }
            defer { group.cancelAll() }
            guard let first = try await group.next(), let sighting = first else {
                throw LinkError(
                    .absent, "\(address) is not heard",
                    advice: "is it powered, in range, and no phone connected to it? usbmeter scan "
                        + "lists what is heard")
            }
            return sighting
        }
    }

    private static func show(_ reading: Reading, asJSON: Bool) throws {
        let frame = reading.frame
        guard !asJSON else {
            let check = frame.isApproximate ? "none" : "ok"
            return try say(Payloads.frame(frame, check: check, at: reading.moment.wall))
        }
        guard !frame.isApproximate else {
            let current = JSONWriter.decimal(frame.current, places: 0)
            let power = JSONWriter.decimal(frame.power, places: 0)
            return try say("\(frame.model.name)  about \(current) A  about \(power) W")
        }
        var line = [
            frame.model.name,
            JSONWriter.decimal(frame.voltage, places: frame.model.voltageDecimals) + " V",
            JSONWriter.decimal(frame.current, places: frame.model.currentDecimals) + " A",
            JSONWriter.decimal(frame.power, places: frame.model.powerDecimals) + " W",
        ]
        if let temperature = frame.temperature {
            line.append(JSONWriter.decimal(temperature, places: 0) + " °C")
        }
        if let counter = frame.selectedCounter {
            line.append(JSONWriter.decimal(counter.energy, places: 3) + " Wh")
            line.append("\(counter.charge.rawValue) mAh")
        }
        if let mode = frame.mode?.name { line.append(mode) }
        try say(line.joined(separator: "  "))
    }
}

extension Arguments {
    /// A time such as `90 s` or `10min`; a bare number is seconds. `fallback` when the option is not
    /// given.
    func duration(_ name: String, default fallback: Duration) throws(UsageError) -> Duration {
        guard let text = value(name) else { return fallback }
        let duration: Duration
        do throws(QuantityText.Problem) {
            duration = try QuantityText.duration(text)
        } catch {
            throw UsageError("\(name) \(error)")
        }
        guard duration > .zero else { throw UsageError("\(name) must be more than zero") }
        return duration
    }
}
