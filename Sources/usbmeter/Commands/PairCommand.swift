import LinuxIO
import MeterCore
import MeterLink
import MeterStore

enum PairCommand: Command {
    static let syntax = CommandSyntax(
        name: "pair", summary: "Pairs a meter of Bluetooth Classic",
        operands: "ADDRESS", operandCount: 1...1,
        options: [
            .init("--pin", "PIN", "the meter's code (default 1234)"),
            .init("--ble", nil, "the meter is one of Bluetooth LE, which asks for a bond"),
            .init(
                "--config", "FILE",
                "keep the key in the data directory of this configuration (default "
                    + defaultConfigurationPath + ")"),
            .init("--data", "DIR", "the data directory itself"),
        ],
        notes: [
            "Needs CAP_NET_ADMIN: run it with sudo; the agent may go on running. Where bluetoothd\n"
                + "runs, it keeps the keys: pair with bluetoothctl there."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        guard let address = MeterAddress(arguments.operands[0]) else {
            throw UsageError(
                "\"\(arguments.operands[0])\" is no address: write six pairs of hexadecimal digits")
        }
        let directory =
            try arguments.value("--data")
            ?? loadConfiguration(arguments.value("--config") ?? defaultConfigurationPath).gateway
            .data
        let peer = PeerAddress(
            address: address, kind: arguments.has("--ble") ? .lePublic : .classic)
        let clock = SystemTimekeeper()
        let log = Log(StandardErrorLog(level: .warning, clock: clock))
        try Store.createDirectory(directory)
        var settings = RadioSettings()
        settings.keyFile = keyFile(in: directory)
        let radio = settings
        try await Reactor.withReactor { reactor in
            try await AdapterPool.withPool(radio, reactor: reactor, clock: clock, log: log) {
                pool in
                try await pool.pair(peer, code: arguments.value("--pin"))
            }
        }
        try say("paired with \(address)")
        return ExitCode.success
    }
}

/// Where the keys of paired meters are kept while no bluetoothd keeps them.
func keyFile(in directory: String) -> String { "\(directory)/bluetooth-keys.json" }
