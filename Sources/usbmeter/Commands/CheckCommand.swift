import Configuration
import Glibc
import LinuxIO
import MeterCore

enum CheckCommand: Command {
    static let syntax = CommandSyntax(
        name: "check", summary: "Checks a configuration and says what the agent would do with it",
        operands: "[FILE]", operandCount: 0...1,
        options: [
            .init("--config", "FILE", "the configuration (default \(defaultConfigurationPath))")
        ],
        notes: [
            "Nothing is started and nothing is changed. Exit code 2 when there is an error, also\n"
                + "when a file that the configuration names cannot be read; warnings are shown and\n"
                + "leave it at 0."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let path = try configurationPath(arguments)
        let loaded = Configuration.load(path: path)
        var problems = loaded.problems
        for file in loaded.referencedFiles {
            if access(file.path, R_OK) != 0 {
                problems.append(
                    file.problem(
                        "\(file.path) cannot be read: \(Errno.current)",
                        advice: "correct the path, or let the agent's user read the file"))
            } else if file.key == "password_file", let warning = looseMode(of: file.path) {
                complain("\(path): warning: \(warning)")
            }
        }
        for problem in problems { complain(problem.description) }
        if problems.contains(where: { $0.severity == .error }) { return ExitCode.finding }
        guard let values = loaded.values else { return ExitCode.finding }
        try explain(values)
        return ExitCode.success
    }

    private static func explain(_ values: GatewayConfiguration) throws {
        try say(
            "gateway      \(values.gateway.id ?? "id made from the host name at the first start")")
        try say("sessions in  \(values.gateway.data)/usbmeter.db")
        if let mqtt = values.mqtt {
            let user = mqtt.username.map { " as \($0)" } ?? ""
            try say("publishes to \(mqtt.url)\(user), topics below \(mqtt.baseTopic)/")
        } else {
            try say("publishes    nothing: there is no mqtt group")
        }
        if values.meters.isEmpty {
            try say("reads        no meter")
        }
        for meter in values.meters {
            let model = meter.model?.name ?? "model told by its first frame"
            let device = meter.serial.map(describe) ?? "over Bluetooth"
            try say("reads        \(meter.name) (\(meter.address), \(model)): \(device)")
            let rules = SessionRules(meter.sessions)
            try say(
                "             every \(Show.interval(meter.pollInterval)), session from "
                    + "\(milliamperes(rules.startCurrent)) for \(Show.interval(rules.startDelay)) until below "
                    + "\(milliamperes(rules.stopCurrent)) for \(Show.interval(rules.endDelay)), or silent for "
                    + "\(Show.interval(rules.gapLimit))")
        }
    }

    private static func milliamperes(_ current: Microamperes) -> String {
        "\(JSONWriter.decimal(current.rawValue, decimals: 3, places: 0)) mA"
    }

    private static func describe(_ path: String) -> String {
        if access(path, F_OK) != 0 { return "\(path), which is not there now" }
        if access(path, R_OK | W_OK) != 0 {
            return "\(path), which this user may not open; the agent's user must be in the group "
                + "dialout"
        }
        return path
    }
}
