enum VersionCommand: Command {
    static let syntax = CommandSyntax(name: "version", summary: "Shows the version of this program")

    static func run(_ arguments: Arguments) async throws -> Int32 {
        try say("usbmeter \(softwareVersion)")
        return ExitCode.success
    }
}
