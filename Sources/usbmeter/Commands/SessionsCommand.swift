import MeterCore
import MeterStore

enum SessionsCommand: Command {
    static let syntax = CommandSyntax(
        name: "sessions", summary: "Lists recorded sessions, or shows one",
        operands: "list | show ID", operandCount: 1...2,
        options: [
            .init(
                "--config", "FILE",
                "find the data directory there (default \(defaultConfigurationPath))"),
            .init("--data", "DIR", "the data directory itself"),
            .init("--meter", "ADDRESS", "list only the sessions of this meter"),
            .init("--limit", "N", "list only the newest N"),
            .init("--json", nil, "print JSON: list an array, oldest first; show an object"),
        ],
        notes: [
            "ID may be the beginning of an id, as long as only one session begins so. A session\n"
                + "that runs is listed with its figures so far. Works beside a running agent."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        switch (arguments.operands[0], arguments.operands.count) {
        case ("list", 1): break
        case ("list", _): throw UsageError("list takes no further words")
        case ("show", 2): break
        case ("show", _): throw UsageError("show needs the id of a session: show ID")
        case (let verb, _): throw UsageError("\"\(verb)\" is neither list nor show")
        }
        var meter: MeterAddress?
        if let text = arguments.value("--meter") {
            meter = MeterAddress(text)
            if meter == nil {
                throw UsageError("--meter is \"\(text)\", expected an address of 12 hex digits")
            }
        }
        let limit =
            arguments.has("--limit")
            ? try arguments.integer("--limit", in: 1...1_000_000, default: 1) : nil
        let directory: String
        if let data = arguments.value("--data") {
            guard !arguments.has("--config") else {
                throw UsageError("give --config or --data, not both")
            }
            directory = data
        } else {
            directory = try loadConfiguration(
                arguments.value("--config") ?? defaultConfigurationPath
            ).gateway.data
        }
        let store = try await Store.openReadOnly(directory: directory)
        do {
            let code =
                arguments.operands[0] == "list"
                ? try await list(store, meter: meter, limit: limit, arguments)
                : try await show(store, arguments.operands[1], arguments)
            await store.close()
            return code
        } catch {
            await store.close()
            throw error
        }
    }

    private static func list(
        _ store: Store, meter: MeterAddress?, limit: Int?, _ arguments: Arguments
    ) async throws -> Int32 {
        let newestFirst = try await store.sessions(meter: meter, limit: limit)
        if arguments.has("--json") {
            let texts = newestFirst.reversed().map { Payloads.session($0) }
            try say("[" + texts.joined(separator: ",\n") + "]")
            return ExitCode.success
        }
        guard !newestFirst.isEmpty else {
            try say("no sessions yet")
            return ExitCode.success
        }
        try say(lines: sessionTable(newestFirst))
        return ExitCode.success
    }

    private static func show(
        _ store: Store, _ id: String, _ arguments: Arguments
    ) async throws -> Int32 {
        let found = try await store.sessions(withIDPrefix: id)
        guard let session = found.first else {
            throw Failure("there is no session \(id); usbmeter sessions list shows all")
        }
        guard found.count == 1 else {
            throw Failure("\(found.count) sessions begin with \(id): give more of the id")
        }
        if arguments.has("--json") {
            try say(Payloads.session(session))
        } else {
            try say(lines: receipt(session))
        }
        return ExitCode.success
    }

    /// Everything that a receipt has, for people.
    private static func receipt(_ session: SessionSummary) -> String {
        var lines: [(String, String)] = [
            ("session", session.id.description),
            ("meter", "\(session.meterName) (\(session.model.name), \(session.meter))"),
        ]
        if let label = session.label { lines.append(("charged", label)) }
        let doubt = session.clockTrusted ? "" : ", by a clock that was not synchronised"
        lines.append(("started", Show.time(session.startedAt) + doubt))
        lines.append(("ended", session.endedAt.map(Show.time) ?? "runs"))
        if let reason = session.endReason { lines.append(("because", Show.reason(reason))) }
        lines.append(("lasted", Show.duration(session.durationMilliseconds)))
        lines.append(
            (
                "energy",
                "\(Show.wattHours(session.energy)) Wh, \(session.energySource.rawValue): "
                    + session.energySourceReason
            ))
        lines.append(("charge", "\(Show.milliampereHours(session.charge)) mAh"))
        let counted =
            session.energyCounted.map { counted in
                let difference = counted - session.energyIntegrated
                return "\(Show.wattHours(counted)) Wh, "
                    + "\(Show.wattHours(difference)) Wh from the sum over the samples"
            } ?? "did not run through"
        lines.append(("counter", counted))
        lines.append(
            (
                "power",
                "\(JSONWriter.decimal(session.averagePower, places: 2)) W on average, "
                    + "\(JSONWriter.decimal(session.peakPower, places: 2)) W at most"
            ))
        lines.append(
            (
                "voltage",
                "\(JSONWriter.decimal(session.minVoltage, places: 2)) to "
                    + "\(JSONWriter.decimal(session.maxVoltage, places: 2)) V"
            ))
        lines.append(("current", "\(JSONWriter.decimal(session.peakCurrent, places: 3)) A at most"))
        if let temperature = session.maxTemperature {
            lines.append(
                ("temperature", "\(JSONWriter.decimal(temperature, places: 0)) °C at most"))
        }
        lines.append(
            (
                "samples",
                "\(session.samples), \(session.rejectedFrames) frames rejected, "
                    + "\(session.droppedReadings) readings dropped"
            ))
        for gap in session.gaps {
            lines.append(
                (
                    "gap",
                    "\(Show.duration(gap.duration)) at \(Show.duration(gap.offset)), "
                        + "\(Show.wattHours(gap.energy)) Wh (\(Show.fill(gap.fill)))"
                ))
        }
        lines.append(("recorded by", "\(session.gatewayID), usbmeter \(session.softwareVersion)"))
        return lines.map { name, value in
            name + String(repeating: " ", count: 13 - name.count) + value
        }.joined(separator: "\n")
    }
}

/// Sessions as a table, in the order given.
func sessionTable(_ sessions: [SessionSummary]) -> String {
    var table = Table([
        "started", "meter", "lasted", "Wh", "mAh", "average W", "peak W", "ended by", "id",
    ])
    for session in sessions {
        table.add([
            Show.time(session.startedAt) + (session.clockTrusted ? "" : " ?"),
            session.meterName, Show.duration(session.durationMilliseconds),
            Show.wattHours(session.energy), Show.milliampereHours(session.charge),
            JSONWriter.decimal(session.averagePower, places: 2),
            JSONWriter.decimal(session.peakPower, places: 2),
            session.endReason.map(Show.reason) ?? "runs",
            String(session.id.description.prefix(13)),
        ])
    }
    guard sessions.contains(where: { !$0.clockTrusted }) else { return table.text }
    return table.text + "\n? by a clock that was not synchronised"
}

extension Show {
    static func fill(_ fill: GapFill) -> String {
        switch fill {
        case .counter: "by the meter's counter"
        case .counterRestarted: "by what the counter shows since its restart"
        case .unobserved: "nothing known"
        }
    }
}
