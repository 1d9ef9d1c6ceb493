/// What an adapter can do, or does now: the settings bits of the management interface.
package struct ControllerSettings: OptionSet, Sendable, Hashable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let powered = Self(rawValue: 1 << 0)
    package static let connectable = Self(rawValue: 1 << 1)
    package static let discoverable = Self(rawValue: 1 << 3)
    package static let bondable = Self(rawValue: 1 << 4)
    package static let simplePairing = Self(rawValue: 1 << 6)
    package static let classic = Self(rawValue: 1 << 7)
    package static let lowEnergy = Self(rawValue: 1 << 9)
}
