/// A whole number of a fixed unit. Values stay integers from the wire to the payload, so that no
/// sum depends on rounding; text is made once, by `JSONWriter` or the command line.
package protocol Quantity: RawRepresentable, Hashable, Comparable, Sendable, Codable
where RawValue == Int64 {
    /// Decimal places between the stored unit and the base unit: 6 for microvolts.
    static var decimals: Int { get }
    init(rawValue: Int64)
}

extension Quantity {
    package static var zero: Self { Self(rawValue: 0) }
    package init(_ rawValue: Int64) { self.init(rawValue: rawValue) }

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    package static func + (left: Self, right: Self) -> Self {
        Self(rawValue: left.rawValue + right.rawValue)
    }
    package static func - (left: Self, right: Self) -> Self {
        Self(rawValue: left.rawValue - right.rawValue)
    }
    package static func += (left: inout Self, right: Self) { left = left + right }
    package static func -= (left: inout Self, right: Self) { left = left - right }

    /// The value in the base unit, for showing and for comparing only; sums use the integers.
    package var base: Double { Double(rawValue) / Decimals.power(Self.decimals) }

    package init(from decoder: any Decoder) throws {
        self.init(rawValue: try decoder.singleValueContainer().decode(Int64.self))
    }
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }
}

enum Decimals {
    /// 10 to the power of `count`, for counts from 0 to 12.
    static func power(_ count: Int) -> Double {
        var result = 1.0
        for _ in 0..<count { result *= 10 }
        return result
    }
}

/// Electric potential in µV.
package struct Microvolts: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 6
}

/// Current in µA. The meters send no direction; only recordings of other instruments are negative.
package struct Microamperes: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 6
}

/// Power in µW.
package struct Microwatts: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 6

    /// V·I, truncated to whole microwatts.
    package init(_ voltage: Microvolts, times current: Microamperes) {
        rawValue = voltage.rawValue * current.rawValue / 1_000_000
    }
}

/// Resistance in mΩ.
package struct Milliohms: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 3
}

/// Temperature in thousandths of a degree Celsius.
package struct MilliCelsius: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 3

    /// Converts whole degrees Fahrenheit.
    package init(fahrenheit: Int64) { rawValue = (fahrenheit - 32) * 5000 / 9 }
}

/// Energy as the meters' own counters show it, in mWh.
package struct MilliwattHours: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 3
}

/// Charge as the meters' own counters show it, in mAh.
package struct MilliampereHours: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 3
}

/// Energy in µJ, i.e. µW·s: the unit in which energy is summed. 1 Wh is 3.6·10⁹ µJ, so an `Int64`
/// holds 2.5 GWh.
package struct Microjoules: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 6

    package init(_ energy: MilliwattHours) { rawValue = energy.rawValue * 3_600_000 }
    package var wattHours: Double { Double(rawValue) / 3.6e9 }
    /// Whole micro-watt-hours, rounded to the nearest: the finest figure that is published.
    package var microwattHours: Int64 { rounded(rawValue, over: 3_600) }
}

/// Charge in µC, i.e. µA·s: the unit in which charge is summed.
package struct Microcoulombs: Quantity {
    package let rawValue: Int64
    package init(rawValue: Int64) { self.rawValue = rawValue }
    package static let decimals = 6

    package init(_ charge: MilliampereHours) { rawValue = charge.rawValue * 3_600_000 }
    package var milliampereHours: Double { Double(rawValue) / 3.6e6 }
    /// Whole micro-ampere-hours, rounded to the nearest.
    package var microampereHours: Int64 { rounded(rawValue, over: 3_600) }
}

/// `value / divisor` rounded half away from zero.
func rounded(_ value: Int64, over divisor: Int64) -> Int64 {
    (value + (value < 0 ? -divisor / 2 : divisor / 2)) / divisor
}
