package import MeterCore

/// What flows through a meter at one moment.
package struct Load: Hashable, Sendable {
    package var voltage: Microvolts
    package var current: Microamperes
    package var dPlus: Microvolts
    package var dMinus: Microvolts
    /// What the data lines look like to a meter.
    package var mode: SupplyMode
}

/// The course of a charge: voltage and current as a function of the time since its start, and
/// nothing else. Equal profiles with equal seeds are equal to the last microampere on every
/// machine, since all of it is done in integers.
///
/// The load is constant within each tick of 100 ms, so sums over ticks are exact and a profile is
/// also the truth that measurements can be held against.
package struct LoadProfile: Sendable {
    /// Time in which the load does not change, in milliseconds.
    static let tick: Int64 = 100

    /// What happens after the last phase.
    package enum Ending: Sendable {
        /// The end of the last phase goes on for ever.
        case holds
        /// All begins again with the first phase.
        case repeats
    }

    enum Course: Sendable {
        case straight
        /// Steep at first and flat at the end, like a cell that is held at its final voltage.
        case taper
    }

    struct Phase: Sendable {
        /// In milliseconds.
        var length: Int64
        /// Voltage of the supply without load, in µV.
        var supply: Int64
        /// Current at the start and at the end, in µA.
        var from: Int64
        var to: Int64
        var course: Course = .straight
        /// The current is off by up to this much either way, in µA.
        var noise: Int64 = 0
        /// Data lines, in µV.
        var dPlus: Int64 = 0
        var dMinus: Int64 = 0
        var mode: SupplyMode = .unknown
    }

    package let name: String
    /// One line for a list.
    package let summary: String
    package let ending: Ending
    private let phases: [Phase]
    /// Of the supply and its cable, in mΩ.
    private let resistance: Int64
    /// The voltage is off by up to this much either way, in µV.
    private let ripple: Int64
    private let seed: UInt64
    private let total: Int64
    private let lead: Int64

    init(
        _ name: String, summary: String, ending: Ending, resistance: Int64, ripple: Int64,
        seed: UInt64, lead: Int64 = 0, phases: [Phase]
    ) {
        precondition(!phases.isEmpty && phases.allSatisfy { $0.length > 0 }, "an empty phase")
        self.name = name
        self.summary = summary
        self.ending = ending
        self.phases = phases
        self.resistance = resistance
        self.ripple = ripple
        self.seed = seed
        self.lead = lead
        total = phases.reduce(0) { $0 + $1.length }
    }

    /// From the first phase to the end of the last one.
    package var duration: Duration { .milliseconds(total) }

    /// The same course entered later, so that several meters are not all at the same point of it.
    package func entered(at lead: Duration) -> LoadProfile {
        LoadProfile(
            name, summary: summary, ending: ending, resistance: resistance, ripple: ripple,
            seed: seed, lead: self.lead + lead.milliseconds, phases: phases)
    }

    /// The load at a time since the start; before the start it is that of the start.
    package func load(at time: Duration) -> Load {
        load(tick: time.milliseconds / Self.tick)
    }

    /// The energy that flows between two times since the start: the sum over all ticks of V·I,
    /// truncated to microwatts, and exact beyond that.
    package func trueEnergy(from start: Duration, to end: Duration) -> Microjoules {
        flow(from: start.milliseconds, to: end.milliseconds).energy
    }

    /// The charge that flows between two times since the start.
    package func trueCharge(from start: Duration, to end: Duration) -> Microcoulombs {
        flow(from: start.milliseconds, to: end.milliseconds).charge
    }

    /// Sums between two times in milliseconds since the start; nothing when `end` is not later.
    func flow(from start: Int64, to end: Int64) -> Flow {
        var result = Flow()
        var time = start
        while time < end {
            let tick = time / Self.tick
            let until = min(end, (tick + 1) * Self.tick)
            result.add(load(tick: tick), for: until - time)
            time = until
        }
        return result
    }

    private func load(tick: Int64) -> Load {
        let tick = max(0, tick)
        let (phase, time) = place(of: tick * Self.tick + lead)
        var current = phase.from
        switch phase.course {
        case .straight:
            current += (phase.to - phase.from) * time / phase.length
        case .taper:
            let left = (phase.length - time) * 1_000_000 / phase.length
            let cube = left * left / 1_000_000 * left / 1_000_000
            current = phase.to + (phase.from - phase.to) * cube / 1_000_000
        }
        current = max(0, current + noise(tick, lane: 0, upTo: phase.noise))
        let sag = current * resistance / 1000
        let voltage = phase.supply - sag + noise(tick, lane: 1, upTo: ripple)
        return Load(
            voltage: Microvolts(max(0, voltage)), current: Microamperes(current),
            dPlus: Microvolts(phase.dPlus), dMinus: Microvolts(phase.dMinus), mode: phase.mode)
    }

    private func place(of time: Int64) -> (Phase, Int64) {
        var time = time
        switch ending {
        case .holds: time = min(time, total)
        case .repeats: time %= total
        }
        for phase in phases.dropLast() {
            if time < phase.length { return (phase, time) }
            time -= phase.length
        }
        return (phases[phases.count - 1], time)
    }

    private func noise(_ tick: Int64, lane: UInt64, upTo limit: Int64) -> Int64 {
        guard limit > 0 else { return 0 }
        let bits = SeededGenerator.mix(
            seed &+ SeededGenerator.mix(UInt64(bitPattern: tick) &* 2 &+ lane &+ 1))
        return Int64(bits % UInt64(2 * limit + 1)) - limit
    }
}

/// What has flowed in a stretch of time, in units that sum without rounding.
struct Flow: Hashable, Sendable {
    /// µW·ms.
    var nanojoules: Int64 = 0
    /// µA·ms.
    var nanocoulombs: Int64 = 0
    /// µV·ms.
    var voltage: Int64 = 0
    var milliseconds: Int64 = 0
    /// The last load in it.
    var last: Load?

    mutating func add(_ load: Load, for time: Int64) {
        nanojoules += Microwatts(load.voltage, times: load.current).rawValue * time
        nanocoulombs += load.current.rawValue * time
        voltage += load.voltage.rawValue * time
        milliseconds += time
        last = load
    }

    static func += (left: inout Flow, right: Flow) {
        left.nanojoules += right.nanojoules
        left.nanocoulombs += right.nanocoulombs
        left.voltage += right.voltage
        left.milliseconds += right.milliseconds
        left.last = right.last ?? left.last
    }

    var energy: Microjoules { Microjoules(nanojoules / 1000) }
    var charge: Microcoulombs { Microcoulombs(nanocoulombs / 1000) }

    /// The mean voltage and current with the state of the data lines at the end; `nil` for no time.
    var mean: Load? {
        guard var load = last, milliseconds > 0 else { return nil }
        load.voltage = Microvolts(voltage / milliseconds)
        load.current = Microamperes(nanocoulombs / milliseconds)
        return load
    }
}
