import Configuration
import Glibc
import LinuxIO

/// Something went wrong that is worth one line and an exit code.
struct Failure: Error {
    let message: String
    let code: Int32
    init(_ message: String, code: Int32 = 1) {
        self.message = message
        self.code = code
    }
}

/// Exit codes; 64 and 65 are those of sysexits.h.
enum ExitCode {
    static let success: Int32 = 0
    static let failure: Int32 = 1
    /// `check` has found an error in the configuration.
    static let finding: Int32 = 2
    /// Wrong use of the command line.
    static let usage: Int32 = 64
    /// Input that is not what it should be.
    static let data: Int32 = 65
}

protocol Command: Sendable {
    static var syntax: CommandSyntax { get }
    static func run(_ arguments: Arguments) async throws -> Int32
}

/// What the program says on standard output, a line a call.
func say(_ line: String) throws {
    do throws(Errno) {
        try standardOutput.write(line)
    } catch {
        // the reader has gone, e.g. `| head`: nothing left to do
        if error.code == EPIPE { exit(ExitCode.success) }
        throw Failure("cannot write to standard output: \(error)")
    }
}
private let standardOutput = LineWriter(descriptor: STDOUT_FILENO)

/// What the program says on standard error, a line a call. There is nowhere to report a failure to.
func complain(_ line: String) { try? standardError.write(line) }
private let standardError = LineWriter(descriptor: STDERR_FILENO)

@main
struct Program {
    static var commands: [any Command.Type] {
        [
            RunCommand.self, DemoCommand.self, SimulateCommand.self, ReadCommand.self,
            ScanCommand.self, PairCommand.self, DoctorCommand.self,
            DecodeCommand.self, SessionsCommand.self, CheckCommand.self, ReplayCommand.self,
            VersionCommand.self,
        ]
    }

    static func main() async {
        Signals.ignoreBrokenPipes()
        exit(await run(Array(CommandLine.arguments.dropFirst())))
    }

    private static func run(_ words: [String]) async -> Int32 {
        guard let name = words.first else {
            complain("usbmeter: a subcommand is missing; see usbmeter --help")
            return ExitCode.usage
        }
        if ["--help", "-h", "help"].contains(name) { return succeed { try say(lines: overview) } }
        if name == "--version" { return succeed { try say("usbmeter \(softwareVersion)") } }
        guard let command = commands.first(where: { $0.syntax.name == name }) else {
            let guess = Suggestion.nearest(to: name, among: commands.map { $0.syntax.name })
            let hint = guess.map { "did you mean \($0)?" } ?? "see usbmeter --help"
            complain("usbmeter: there is no subcommand \"\(name)\"; \(hint)")
            return ExitCode.usage
        }
        do {
            let arguments = try Arguments(Array(words.dropFirst()), command.syntax)
            if arguments.asksForHelp { return succeed { try say(lines: command.syntax.help) } }
            return try await command.run(arguments)
        } catch let error as UsageError {
            complain("usbmeter \(name): \(error.message); see usbmeter \(name) --help")
            return ExitCode.usage
        } catch let failure as Failure {
            complain("usbmeter \(name): \(failure.message)")
            return failure.code
        } catch {
            complain("usbmeter \(name): \(error)")
            return ExitCode.failure
        }
    }

    private static func succeed(_ body: () throws -> Void) -> Int32 {
        do {
            try body()
            return ExitCode.success
        } catch {
            complain("usbmeter: \(error)")
            return ExitCode.failure
        }
    }

    private static var overview: String {
        let width = (commands.map { $0.syntax.name.count }.max() ?? 0) + 2
        let list = commands.map { command in
            let name = command.syntax.name
            return "  " + name + String(repeating: " ", count: width - name.count)
                + command.syntax.summary
        }
        return """
            usage: usbmeter SUBCOMMAND [OPTION]… [OPERAND]…

            Reads USB power meters, records what is charged, and publishes it to MQTT.

            \(list.joined(separator: "\n"))

            usbmeter SUBCOMMAND --help tells more. Exit codes: 0 success, 1 failure, 2 the
            configuration has errors (check), 64 wrong use, 65 wrong data.
            """
    }
}

/// Says a text of several lines.
func say(lines text: String) throws {
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
        try say(String(line))
    }
}
