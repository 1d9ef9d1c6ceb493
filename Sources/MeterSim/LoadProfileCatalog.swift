import MeterCore

extension LoadProfile {
    /// All profiles by name, in the order in which to list them.
    package static let names = [
        "phone", "phone-short", "power-bank", "earbuds", "flat", "threshold",
    ]

    /// Finds a profile by its name; `nil` if there is none. Another `seed` gives another noise on
    /// the same course.
    package static func named(_ name: String, seed: UInt64 = 1) -> LoadProfile? {
        switch name {
        case "phone": phone(seed)
        case "phone-short": phoneShort(seed)
        case "power-bank": powerBank(seed)
        case "earbuds": earbuds(seed)
        case "flat": flat(seed)
        case "threshold": threshold(seed)
        default: nil
        }
    }

    private static func phone(_ seed: UInt64) -> LoadProfile {
        LoadProfile(
            "phone", summary: "a full charge at 5 V, then 9 V, in about 2 hours; then stays full",
            ending: .holds, resistance: 90, ripple: 3000, seed: seed,
            phases: pluggedIn(after: 20)
                + quickCharge(constant: 55 * 60, taper: 60 * 60)
                + [full(for: 600)])
    }

    private static func phoneShort(_ seed: UInt64) -> LoadProfile {
        LoadProfile(
            "phone-short", summary: "a full charge at 5 V, then 9 V, in 13 minutes; repeats",
            ending: .repeats, resistance: 90, ripple: 3000, seed: seed,
            phases: pluggedIn(after: 15)
                + quickCharge(constant: 5 * 60, taper: 450)
                + [full(for: 30), unplugged(for: 180)])
    }

    private static func powerBank(_ seed: UInt64) -> LoadProfile {
        LoadProfile(
            "power-bank", summary: "2.1 A at 5 V for 2.5 hours with a short taper; then stays full",
            ending: .holds, resistance: 70, ripple: 4000, seed: seed,
            phases: [
                unplugged(for: 15),
                Phase(
                    length: 9_000_000, supply: 5_190_000, from: 2_120_000, to: 2_040_000,
                    noise: 30_000, dPlus: 2_710_000, dMinus: 2_710_000, mode: .apple2400),
                Phase(
                    length: 1_500_000, supply: 5_190_000, from: 2_040_000, to: 150_000,
                    course: .taper, noise: 15_000, dPlus: 2_710_000, dMinus: 2_710_000,
                    mode: .apple2400),
                Phase(
                    length: 600_000, supply: 5_190_000, from: 3000, to: 3000, noise: 500,
                    dPlus: 2_710_000, dMinus: 2_710_000, mode: .apple2400),
            ])
    }

    private static func earbuds(_ seed: UInt64) -> LoadProfile {
        LoadProfile(
            "earbuds", summary: "60 mA and less, just above the usual thresholds; repeats",
            ending: .repeats, resistance: 90, ripple: 20_000, seed: seed,
            phases: [
                unplugged(for: 10),
                Phase(
                    length: 540_000, supply: 5_050_000, from: 60_500, to: 59_000, noise: 800,
                    dPlus: 20_000, dMinus: 10_000, mode: .dcp1500),
                Phase(
                    length: 240_000, supply: 5_050_000, from: 59_000, to: 24_000, course: .taper,
                    noise: 600, dPlus: 20_000, dMinus: 10_000, mode: .dcp1500),
                Phase(
                    length: 210_000, supply: 5_050_000, from: 1000, to: 1000, noise: 200,
                    dPlus: 20_000, dMinus: 10_000, mode: .dcp1500),
            ])
    }

    private static func flat(_ seed: UInt64) -> LoadProfile {
        LoadProfile(
            "flat", summary: "exactly 5 V and 1 A, for ever", ending: .holds, resistance: 0,
            ripple: 0, seed: seed,
            phases: [Phase(length: 1000, supply: 5_000_000, from: 1_000_000, to: 1_000_000)])
    }

    private static func threshold(_ seed: UInt64) -> LoadProfile {
        let rise = Phase(
            length: 60_000, supply: 5_080_000, from: 40_000, to: 60_000, noise: 40_000)
        let fall = Phase(
            length: 60_000, supply: 5_080_000, from: 60_000, to: 40_000, noise: 40_000)
        return LoadProfile(
            "threshold", summary: "a restless 50 mA, to and fro over the start current; repeats",
            ending: .repeats, resistance: 90, ripple: 3000, seed: seed, phases: [rise, fall])
    }

    // A phone as recordings show it: a moment of pre-charge, full current at 5 V, a dip while the
    // supply goes to 9 V, constant current that sags a little, a taper, and a few milliamperes when
    // full. The data lines are those of Quick Charge 2.0: D+ at 0.6 V to ask, 3.3 V and 0.6 V for
    // 9 V.

    private static func unplugged(for seconds: Int64) -> Phase {
        Phase(length: seconds * 1000, supply: 5_160_000, from: 0, to: 0)
    }

    private static func pluggedIn(after seconds: Int64) -> [Phase] {
        [
            unplugged(for: seconds),
            Phase(length: 4000, supply: 5_160_000, from: 94_000, to: 94_000, noise: 4000),
            Phase(
                length: 5000, supply: 5_160_000, from: 1_070_000, to: 1_070_000, noise: 20_000,
                dPlus: 600_000, mode: .dcp1500),
            Phase(
                length: 1000, supply: 5_160_000, from: 290_000, to: 290_000, noise: 20_000,
                dPlus: 600_000, mode: .quickCharge2),
        ]
    }

    private static func quickCharge(constant: Int64, taper: Int64) -> [Phase] {
        [
            Phase(
                length: constant * 1000, supply: 9_080_000, from: 1_420_000, to: 1_240_000,
                noise: 25_000, dPlus: 3_300_000, dMinus: 600_000, mode: .quickCharge2),
            Phase(
                length: taper * 1000, supply: 9_080_000, from: 1_240_000, to: 105_000,
                course: .taper, noise: 10_000, dPlus: 3_300_000, dMinus: 600_000,
                mode: .quickCharge2),
        ]
    }

    private static func full(for seconds: Int64) -> Phase {
        Phase(
            length: seconds * 1000, supply: 9_080_000, from: 12_000, to: 12_000, noise: 2000,
            dPlus: 3_300_000, dMinus: 600_000, mode: .quickCharge2)
    }
}
