package import MeterCore

/// What a simulated meter keeps while it is switched off.
package struct MeterMemory: Hashable, Sendable {
    /// A pair of counters in fine units; a meter shows whole mAh and mWh of it, truncated.
    package struct Counter: Hashable, Sendable {
        var nanocoulombs: Int64
        var nanojoules: Int64

        static let perShownUnit: Int64 = 3_600_000_000

        /// Starts at whole units.
        package init(charge: MilliampereHours = .zero, energy: MilliwattHours = .zero) {
            nanocoulombs = charge.rawValue * Self.perShownUnit
            nanojoules = energy.rawValue * Self.perShownUnit
        }

        package var shown: GroupCounter {
            GroupCounter(
                charge: MilliampereHours(nanocoulombs / Self.perShownUnit),
                energy: MilliwattHours(nanojoules / Self.perShownUnit))
        }

        mutating func add(_ flow: Flow) {
            nanocoulombs += flow.nanocoulombs
            nanojoules += flow.nanojoules
        }
    }

    /// Ten data groups; the TC66C has and shows the first two.
    package var groups = [Counter](repeating: Counter(), count: 10)
    package var selectedGroup = 0
    package var recording = Counter()
    package var recordedMilliseconds: Int64 = 0
    /// Recording threshold in steps of 0.01 A, 0 to 30.
    package var thresholdSteps: UInt8 = 0
    /// 0 (dim) to 5.
    package var backlight: UInt8 = 4
    /// In minutes, 0 for never, to 9.
    package var screenTimeout: UInt8 = 1
    /// TC66C: sends °F instead of °C, as set with its keys.
    package var fahrenheit = false
    /// TC66C.
    package var serial: UInt32 = 48_724
    /// TC66C: number of power-ons.
    package var runs: UInt32 = 40

    package init() {}
}
