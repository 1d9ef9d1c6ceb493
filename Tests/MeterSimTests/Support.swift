import MeterCore
import Testing

@testable import MeterSim

/// When the meters of these tests are switched on.
let start = MonotonicInstant(nanoseconds: 5_000_000_000)

func at(_ seconds: Double) -> MonotonicInstant {
    start + .milliseconds(Int64((seconds * 1000).rounded()))
}

func bytes(_ hex: String) -> [UInt8] {
    var digits = hex.compactMap(\.hexDigitValue)[...]
    var result: [UInt8] = []
    while let high = digits.popFirst(), let low = digits.popFirst() {
        result.append(UInt8(high << 4 | low))
    }
    return result
}

func faults(_ texts: String...) throws -> [Fault] { try texts.map { try Fault($0) } }

/// A load that stays as it is.
func steady(volts: Double, amperes: Double) -> LoadProfile {
    let microamperes = Int64((amperes * 1e6).rounded())
    return LoadProfile(
        "steady", summary: "", ending: .holds, resistance: 0, ripple: 0, seed: 1,
        phases: [
            LoadProfile.Phase(
                length: 1000, supply: Int64((volts * 1e6).rounded()), from: microamperes,
                to: microamperes)
        ])
}

func profile(_ name: String, seed: UInt64 = 1) -> LoadProfile {
    guard let profile = LoadProfile.named(name, seed: seed) else { fatalError("no \(name)") }
    return profile
}

func meter(
    _ model: MeterModel, _ profile: LoadProfile = steady(volts: 5, amperes: 1),
    _ dialect: CommandDialect = .usb, faults: [Fault] = [], seed: UInt64 = 1,
    memory: MeterMemory = MeterMemory()
) -> SimulatedMeter {
    SimulatedMeter(
        model, dialect: dialect, profile: profile, faults: faults, seed: seed, start: start,
        memory: memory)
}

extension SimulatedMeter {
    /// Asks an UM meter once.
    mutating func poll(at seconds: Double) -> [UInt8]? {
        receive([0xf0], at: MeterSimTests.at(seconds)).first?.bytes
    }

    /// Asks an UM meter once, when it has to answer.
    mutating func frame(at seconds: Double) throws -> [UInt8] {
        let answer = poll(at: seconds)
        return try #require(answer)
    }
}

extension [UInt8] {
    func big16(_ offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }
    func big32(_ offset: Int) -> Int { big16(offset) << 16 | big16(offset + 2) }
    func little32(_ offset: Int) -> Int {
        (0..<4).reduce(0) { $0 | Int(self[offset + $1]) << (8 * $1) }
    }
}
