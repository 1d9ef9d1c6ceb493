import MeterCore
import Testing

@testable import MeterSim

@Test(arguments: LoadProfile.names)
func everyNamedProfileIsThereAndIsTheSameForTheSameSeed(_ name: String) throws {
    let one = try #require(LoadProfile.named(name, seed: 7))
    let two = try #require(LoadProfile.named(name, seed: 7))
    #expect(one.name == name)
    #expect(!one.summary.isEmpty)
    for second in stride(from: 0, to: 2000, by: 7) {
        #expect(one.load(at: .seconds(second)) == two.load(at: .seconds(second)))
    }
    // What every modelled meter can show.
    let peak = stride(from: 0, to: one.duration.milliseconds, by: 5000)
        .map { one.load(at: .milliseconds($0)) }
    #expect(peak.allSatisfy { (4_000_000...24_000_000).contains($0.voltage.rawValue) })
    #expect(peak.allSatisfy { (0...3_000_000).contains($0.current.rawValue) })
}

@Test func anUnknownProfileIsNone() {
    #expect(LoadProfile.named("fridge") == nil)
}

@Test func anotherSeedGivesAnotherNoiseOnTheSameCourse() {
    let (one, two) = (profile("phone", seed: 1), profile("phone", seed: 2))
    #expect(one.load(at: .seconds(600)) != two.load(at: .seconds(600)))
    let energies = [one, two].map {
        $0.trueEnergy(from: .zero, to: .seconds(7200)).wattHours
    }
    #expect(abs(energies[0] - energies[1]) < 0.001 * energies[0])
}

@Test func theTruthOfASteadyLoadIsWhatArithmeticSays() {
    let flat = profile("flat")
    #expect(flat.trueEnergy(from: .zero, to: .seconds(3600)) == Microjoules(18_000_000_000))
    #expect(flat.trueCharge(from: .zero, to: .seconds(3600)) == Microcoulombs(3_600_000_000))
    #expect(
        flat.trueEnergy(from: .milliseconds(50), to: .milliseconds(120)) == Microjoules(350_000))
    #expect(flat.trueEnergy(from: .seconds(2), to: .seconds(1)) == .zero)
}

@Test func theTruthIsTheSumOverItsTicks() {
    let profile = profile("phone-short")
    var joules = 0.0
    for tick in 0..<3000 {
        let load = profile.load(at: .milliseconds(100 * tick))
        joules += load.voltage.base * load.current.base * 0.1
    }
    let truth = profile.trueEnergy(from: .zero, to: .seconds(300))
    #expect(abs(truth.base - joules) < 0.001)
}

@Test func aShortPhoneChargeHasTheShapeOfACharge() {
    let profile = profile("phone-short")
    func current(_ second: Int64) -> Double {
        let flow = profile.flow(from: second * 1000, to: second * 1000 + 1000)
        return Double(flow.nanocoulombs) / 1e9
    }
    func volts(_ second: Int64) -> Double { profile.load(at: .seconds(second)).voltage.base }
    #expect(current(5) == 0)  // nothing plugged in
    #expect((0.08...0.11).contains(current(16)))  // pre-charge
    #expect((1.0...1.15).contains(current(21)))  // at 5 V
    #expect((4.9...5.2).contains(volts(21)))
    #expect((0.2...0.4).contains(current(24)))  // going to 9 V
    #expect((8.8...9.1).contains(volts(30)))
    #expect((1.35...1.45).contains(current(30)))
    #expect((0.1...0.2).contains(current(760)))  // nearly full
    #expect((0.005...0.02).contains(current(790)))  // full, below the usual stop current
    #expect(current(850) == 0)
    // A charge of 12 to 15 minutes above the usual start current.
    let charging = (0..<985).filter { current(Int64($0)) > 0.05 }
    #expect((720...900).contains(charging.count))
}

@Test func oneProfileRepeatsAndAnotherHolds() {
    let short = profile("phone-short")
    let later = short.load(at: short.duration + .seconds(100)).current
    #expect((1_300_000...1_500_000).contains(later.rawValue))
    let long = profile("phone")
    let after = long.load(at: .seconds(48 * 3600)).current
    #expect((5_000...20_000).contains(after.rawValue))
}

@Test func aProfileCanBeEnteredLater() {
    let profile = steady(volts: 5, amperes: 1)
    let phone = MeterSimTests.profile("phone-short").entered(at: .seconds(100))
    #expect((1_300_000...1_500_000).contains(phone.load(at: .zero).current.rawValue))
    #expect(profile.entered(at: .seconds(9)).load(at: .zero) == profile.load(at: .zero))
}

@Test func theThresholdProfileCrossesTheStartCurrentOften() {
    let profile = profile("threshold")
    let above = (0..<240).map { profile.load(at: .seconds($0)).current > Microamperes(50_000) }
    let crossings = zip(above, above.dropFirst()).filter { $0 != $1 }.count
    #expect(crossings > 40)
}

@Test(arguments: [MeterModel.um24c, .um25c, .um34c])
func summingUpAnswersGivesTheTrueEnergy(_ model: MeterModel) throws {
    let profile = profile("phone-short")
    var meter = meter(model, profile)
    let length = 790
    var joules = 0.0
    var last: Double?
    for second in 0...length {
        let frame = try meter.frame(at: Double(second))
        let watts = Double(frame.big32(6)) / 1000
        if let last { joules += (last + watts) / 2 }
        last = watts
    }
    let truth = profile.trueEnergy(from: .zero, to: .seconds(length))
    #expect(meter.trueEnergy(from: start, to: at(Double(length))) == truth)
    #expect(abs(joules - truth.base) < 0.006 * truth.base)
    let counters = meter.memory.groups[0].shown
    #expect(counters.energy == MilliwattHours(truth.rawValue / 3_600_000))
    #expect(
        counters.charge
            == MilliampereHours(
                profile.trueCharge(from: .zero, to: .seconds(length)).rawValue / 3_600_000))
}

@Test func nothingFlowsWithoutPower() throws {
    var meter = meter(.um25c, faults: try faults("no-power@10s+5s", "no-power@12s+8s"))
    #expect(meter.trueEnergy(from: start, to: at(36)) == Microjoules(130_000_000))
    #expect(meter.trueCharge(from: at(12), to: at(19)) == .zero)
    #expect(meter.unreachable == [at(10)..<at(20)])
    meter.advance(to: at(36))
    #expect(meter.trueCharge(from: at(20), to: at(36)) == Microcoulombs(16_000_000))
    #expect(meter.memory.groups[0].nanocoulombs == 16_000_000_000)
}
