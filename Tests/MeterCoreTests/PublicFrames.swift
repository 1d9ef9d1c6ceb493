import FoundationEssentials
import MeterCore

/// The frames in `Tests/Fixtures/frames`: published bytes, or bytes put together from published
/// values, each with what they mean and where they come from.
struct PublicFrame: Decodable {
    struct Recording: Decodable {
        var chargeMah: Int64
        var energyMwh: Int64
        var seconds: Int64
        var threshold: Double
        var active: Bool
    }
    struct Expected: Decodable {
        var voltage: Double
        var current: Double
        var power: Double
        var resistance: Double
        var dPlus: Double
        var dMinus: Double
        var temperatureC: Double
        var temperatureF: Int64?
        var group: Int?
        var groups: [[Int64]]
        var mode: Int?
        var recording: Recording?
        var screenTimeout: Int?
        var backlight: Int?
        var screen: Int?
        var product: String?
        var version: String?
        var serial: UInt32?
        var runs: UInt32?
    }

    var meter: String
    var captured: Bool
    var source: String
    var hex: String
    var expected: Expected

    var bytes: [UInt8] { MeterCoreTests.hex(hex) }

    static let names = ["um24c-1", "um25c-1", "um34c-1", "um34c-2", "tc66c-1", "tc66c-2"]

    static func named(_ name: String) throws -> PublicFrame {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Fixtures/frames/\(name).json")
        return try JSONDecoder().decode(PublicFrame.self, from: Data(contentsOf: file))
    }
}
