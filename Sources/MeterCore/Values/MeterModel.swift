/// The meters that have a driver.
package enum MeterModel: String, CaseIterable, Sendable, Codable {
    case um24c = "UM24C"
    case um25c = "UM25C"
    case um34c = "UM34C"
    case tc66c = "TC66C"

    /// Finds a model by name, upper or lower case. The TC66 is a TC66C without Bluetooth.
    package init?(name: some StringProtocol) {
        let name = name.uppercased()
        self.init(rawValue: name == "TC66" ? "TC66C" : name)
    }

    /// The name on the meter, e.g. `UM25C`.
    package var name: String { rawValue }

    /// Decimal places that the meter resolves, for fixed-width text: volts.
    package var voltageDecimals: Int {
        switch self {
        case .um24c, .um34c: 2
        case .um25c: 3
        case .tc66c: 4
        }
    }
    /// Decimal places that the meter resolves: amperes.
    package var currentDecimals: Int {
        switch self {
        case .um24c, .um34c: 3
        case .um25c: 4
        case .tc66c: 5
        }
    }
    /// Decimal places that the meter resolves: watts.
    package var powerDecimals: Int { self == .tc66c ? 4 : 3 }
}
