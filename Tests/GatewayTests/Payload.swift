import FoundationEssentials
import MeterCore

@testable import MeterSim

/// A live message as a receiver reads it.
struct LiveMessage: Decodable {
    var ts: String
    var seq: Int
    var voltage: Double
    var current: Double
    var power: Double
    var temperatureC: Double?
    var groupEnergyWh: Double?
    var groupChargeMah: Int?

    init(_ text: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
    }
}

/// The counters message.
struct CountersMessage: Decodable {
    var ts: String
    var energyTotalWh: Double
    var chargeTotalMah: Double

    init(_ text: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
    }
}

/// A session summary, as far as the tests look at it.
struct SummaryMessage: Decodable {
    var sessionId: String
    var startedAt: String
    var endedAt: String?
    var energyWh: Double
    var endReason: String?

    init(_ text: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
    }
}

extension Bench {
    /// The summaries that were published to a meter's `sessions/<id>`, as they came; empty messages
    /// are left out.
    func publishedSummaries(of meter: BenchMeter) throws -> [SummaryMessage] {
        try channel.deliveries(below: "usbmeter/meter/\(meter.address.compact)/sessions/")
            .filter { !$0.text.isEmpty }.map { try SummaryMessage($0.text) }
    }

    /// The topics of summaries that the broker keeps for a meter.
    func retainedSummaries(of meter: BenchMeter) -> [String] {
        channel.retained.keys.filter {
            $0.hasPrefix("usbmeter/meter/\(meter.address.compact)/sessions/")
        }.sorted()
    }

    /// A wall time of this run as an instant.
    func instant(of time: WallTime) -> MonotonicInstant {
        let now = clock.moment()
        return now.monotonic - (now.wall - time)
    }
}

/// How far two energies are apart, as a share of the second.
func difference(_ energy: Microjoules, _ truth: Microjoules) -> Double {
    abs(Double((energy - truth).rawValue)) / Double(truth.rawValue)
}
