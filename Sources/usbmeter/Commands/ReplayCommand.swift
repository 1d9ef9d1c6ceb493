import LinuxIO
import MeterCore

enum ReplayCommand: Command {
    static let syntax = CommandSyntax(
        name: "replay",
        summary: "Runs a recording through the session rules and lists what is found",
        operands: "FILE.csv[.gz]|-", operandCount: 1...1,
        options: [
            .init("--config", "FILE", "use the session rules of this configuration"),
            .init("--json", nil, "print an array of summaries, oldest first"),
        ],
        notes: [
            "The recording has a header line with at least the columns t_s,voltage_v,current_a, and\n"
                + "mah,mwh if it has the meter's own counters. With -, it is read from standard input.\n"
                + "Nothing is stored."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let path = arguments.operands[0]
        var rules = SessionRules()
        if let file = arguments.value("--config") {
            rules = SessionRules(try loadConfiguration(file).sessions)
        }
        let name = path.split(separator: "/").last.map(String.init) ?? path
        var recording = Recording(named: name, rules: rules, softwareVersion: softwareVersion)
        let found: [Recording.Session]
        do {
            try TextLines.forEach(in: path) { line in try recording.take(line) }
            found = try recording.finish()
        } catch let problem as Recording.Problem {
            throw Failure("\(path): \(problem)", code: ExitCode.data)
        }
        if arguments.has("--json") {
            let texts = found.map { session in
                Payloads.session(session.summary, isRecording: true) { json in
                    json.decimal("startS", session.startMilliseconds, decimals: 3, places: 3)
                    json.decimal("endS", session.endMilliseconds, decimals: 3, places: 3)
                }
            }
            try say("[" + texts.joined(separator: ",\n") + "]")
            return ExitCode.success
        }
        try show(found, of: recording, name)
        return ExitCode.success
    }

    private static func show(
        _ found: [Recording.Session], of recording: Recording, _ name: String
    ) throws {
        let count = found.count == 1 ? "1 session" : "\(found.count) sessions"
        let repeated =
            recording.repeatedRows == 0
            ? "" : ", \(recording.repeatedRows) more without a later time not used"
        try say("\(name): \(count) in \(recording.rows) rows\(repeated)")
        guard !found.isEmpty else { return }
        var table = Table(["start s", "end s", "Wh", "by counter", "mAh", "peak W", "ended by"])
        for session in found {
            let summary = session.summary
            table.add([
                JSONWriter.decimal(session.startMilliseconds, decimals: 3, places: 1),
                JSONWriter.decimal(session.endMilliseconds, decimals: 3, places: 1),
                Show.wattHours(summary.energy),
                summary.energyCounted.map(Show.wattHours) ?? "-",
                Show.milliampereHours(summary.charge),
                JSONWriter.decimal(summary.peakPower, places: 2),
                summary.endReason.map(Show.reason) ?? "",
            ])
        }
        try say(lines: table.text)
    }
}
