/// Random numbers that are the same for the same seed, on every machine: SplitMix64, after
/// G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators" (2014).
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        return Self.mix(state)
    }

    /// `true` with the given probability, from 0 to 1.
    mutating func happens(_ probability: Double) -> Bool {
        Double(next() >> 11) < probability * 9_007_199_254_740_992  // 2^53
    }

    /// Scatters the bits of a number over all 64 places.
    static func mix(_ value: UInt64) -> UInt64 {
        var value = value
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }
}
