/// A meter's own pair of counters for one data group.
package struct GroupCounter: Hashable, Sendable, Codable {
    package var charge: MilliampereHours
    package var energy: MilliwattHours
    package init(charge: MilliampereHours, energy: MilliwattHours) {
        self.charge = charge
        self.energy = energy
    }
}

/// What the meter guesses from the levels of the data lines about the charging protocol (UM series,
/// offset 100). It may flip between two polls.
package struct ChargingMode: RawRepresentable, Hashable, Sendable {
    /// The number on the wire.
    package let rawValue: Int
    package init(rawValue: Int) { self.rawValue = rawValue }

    /// The name in payloads; `nil` for "none or unknown" (0, and 65535 on some units) and for
    /// numbers that nobody has documented. The list is rd-usb's, which the manuals agree with.
    package var name: String? {
        switch rawValue {
        case 1: "qc_2_0"
        case 2: "qc_3_0"
        case 3: "apple_2_4a"
        case 4: "apple_2_1a"
        case 5: "apple_1_0a"
        case 6: "apple_0_5a"
        case 7: "dcp_1_5a"
        case 8: "samsung"
        default: nil
        }
    }
    var isDocumented: Bool { (0...8).contains(rawValue) || rawValue == 65535 }
}

/// The UM series' recording store, which counts by itself while the current is above a threshold.
package struct RecordingCounter: Hashable, Sendable {
    package var charge: MilliampereHours
    package var energy: MilliwattHours
    package var seconds: Int64
    package var threshold: Microamperes
    package var active: Bool
    package init(
        charge: MilliampereHours, energy: MilliwattHours, seconds: Int64,
        threshold: Microamperes, active: Bool
    ) {
        self.charge = charge
        self.energy = energy
        self.seconds = seconds
        self.threshold = threshold
        self.active = active
    }
}

/// One decoded answer of a meter: everything that the frame says, and nothing else.
package struct MeterFrame: Hashable, Sendable {
    /// The model whose table and scale were used.
    package var model: MeterModel
    package var voltage: Microvolts
    package var current: Microamperes
    package var power: Microwatts
    /// `nil` where the instrument sends none. An open circuit reads 9999.9 Ω on the UM series.
    package var resistance: Milliohms?
    /// Celsius, whatever the display is set to.
    package var temperature: MilliCelsius?
    /// Whole degrees; the UM series sends both units.
    package var temperatureFahrenheit: Int64?
    package var dPlus: Microvolts?
    package var dMinus: Microvolts?
    package var mode: ChargingMode?
    /// The selected data group; the TC66C does not tell.
    package var group: Int?
    package var groups: [GroupCounter]
    package var recording: RecordingCounter?
    /// 0 (dim) to 5.
    package var backlight: Int?
    package var screenTimeoutMinutes: Int?
    package var screen: Int?
    /// TC66C: `TC66`.
    package var product: String?
    /// TC66C: firmware version, e.g. `1.18`.
    package var version: String?
    /// TC66C: serial number.
    package var serial: UInt32?
    /// TC66C: number of power-ons.
    package var runs: UInt32?
    /// Whole watts and amperes, the voltage not known: good to look at, and nothing to add up.
    package var isApproximate = false

    package init(
        model: MeterModel, voltage: Microvolts, current: Microamperes, power: Microwatts,
        groups: [GroupCounter] = []
    ) {
        self.model = model
        self.voltage = voltage
        self.current = current
        self.power = power
        self.groups = groups
    }

    /// 9999.9 Ω and above, as the meters show an open circuit.
    package var isOpenCircuit: Bool { (resistance ?? .zero) >= Milliohms(9_999_900) }
}

/// A frame, and when it was taken.
package struct Reading: Sendable, Hashable {
    package var frame: MeterFrame
    package var moment: Moment
    package init(_ frame: MeterFrame, at moment: Moment) {
        self.frame = frame
        self.moment = moment
    }
}
