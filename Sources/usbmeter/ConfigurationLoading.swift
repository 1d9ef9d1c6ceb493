import Configuration
import Glibc
import LinuxIO
import MeterCore

let defaultConfigurationPath = "/etc/usbmeter.yaml"

func configurationPath(_ arguments: Arguments) throws(UsageError) -> String {
    if let operand = arguments.operands.first {
        guard !arguments.has("--config") else {
            throw UsageError("the configuration is given twice")
        }
        return operand
    }
    return arguments.value("--config") ?? defaultConfigurationPath
}

/// Loads a configuration that must be right. All problems are shown; errors end the command.
func loadConfiguration(_ path: String) throws -> GatewayConfiguration {
    let loaded = Configuration.load(path: path)
    for problem in loaded.problems { complain(problem.description) }
    guard let values = loaded.values else {
        throw Failure("the configuration cannot be used; usbmeter check \(path) shows more")
    }
    return values
}

extension SessionRules {
    init(_ sessions: GatewayConfiguration.Sessions) {
        self.init(
            startCurrent: sessions.startCurrent, startDelay: sessions.startDelay,
            stopCurrent: sessions.stopCurrent, endDelay: sessions.endDelay,
            gapLimit: sessions.gapLimit)
    }
}

/// The first line of a secret's file.
func readSecret(_ path: String) throws -> String {
    var first: String?
    try TextLines.forEach(in: path) { line in
        if first == nil { first = String(line) }
    }
    guard let first, !first.isEmpty else {
        throw Failure("\(path) is empty: its first line must be the password")
    }
    return first
}

/// A sentence when others than the owner may read a secret's file; `nil` when all is well.
func looseMode(of path: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return nil }
    return "\(path) can be read by others: chmod 600 \(path)"
}
