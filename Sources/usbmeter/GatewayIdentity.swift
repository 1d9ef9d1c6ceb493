import Glibc
import LinuxIO
import MeterStore

/// The gateway's id: configured, or made once from the host name and four random digits and kept in
/// the store. A card that was cloned into another machine gets a new one, since two gateways under one
/// id would throw each other off the broker for ever.
func gatewayID(
    configured: String?, in store: Store, host: String = hostName(), machine: String? = machineID()
) async throws -> String {
    if let configured { return configured }
    if let known = try await store.meta("gateway_id") {
        let home = try await store.meta("gateway_machine")
        if home == nil || machine == nil || home == machine { return known }
    }
    let made = "\(namePart(of: host))-\(randomDigits())"
    try await store.setMeta("gateway_id", made)
    try await store.setMeta("gateway_machine", machine)
    return made
}

/// Lower-case letters, digits and hyphens, at most 27 of them.
func namePart(of host: String) -> String {
    let allowed = host.lowercased().prefix { $0 != "." }.map { character in
        character.isASCII && (character.isLetter || character.isNumber) ? character : "-"
    }
    let name = String(allowed.drop { $0 == "-" }.prefix(27))
    return name.isEmpty ? "usbmeter" : name
}

private func randomDigits() -> String {
    (0..<4).map { _ in String(Int.random(in: 0..<16), radix: 16) }.joined()
}

func hostName() -> String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// machine-id(5); `nil` where there is none.
func machineID() -> String? {
    var id: String?
    try? TextLines.forEach(in: "/etc/machine-id") { line in id = id ?? String(line) }
    return id.flatMap { $0.isEmpty ? nil : $0 }
}
