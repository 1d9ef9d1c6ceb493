import MeterCore
import Testing

@Suite struct EnergyAccountantTests {
    /// A reading `time` after the start of the clock.
    private func reading(
        _ time: Duration, milliamperes: Int64 = 1_000, millivolts: Int64 = 5_000,
        model: MeterModel = .um25c, counters: [(mah: Int64, mwh: Int64)] = []
    ) -> Reading {
        var frame = MeterFrame(
            model: model, voltage: Microvolts(millivolts * 1_000),
            current: Microamperes(milliamperes * 1_000),
            power: Microwatts(millivolts * milliamperes))
        frame.groups = counters.map {
            GroupCounter(charge: MilliampereHours($0.mah), energy: MilliwattHours($0.mwh))
        }
        let instant = MonotonicInstant(nanoseconds: time.nanoseconds)
        return Reading(
            frame, at: Moment(monotonic: instant, wall: .init(milliseconds: 0), wallTrusted: false))
    }

    /// Walks over readings and returns the steps.
    private func steps(_ readings: [Reading]) -> [EnergyAccountant.Step] {
        var accountant = EnergyAccountant()
        return readings.compactMap { accountant.advance(to: $0) }
    }

    @Test func theFirstReadingHasNothingBeforeIt() {
        var accountant = EnergyAccountant()
        #expect(accountant.advance(to: reading(.seconds(5))) == nil)
        #expect(accountant.lastReading?.moment.monotonic.nanoseconds == 5_000_000_000)
    }

    @Test func aMillionStepsLoseNotOneMicrojoule() {
        var accountant = EnergyAccountant()
        var random = Seeded(21)
        var (energy, charge) = (Microjoules.zero, Microcoulombs.zero)
        var (time, lastTime, lastCurrent): (Int64, Int64, Int64) = (0, 0, 0)
        // twice the sums in µW·µs and µA·µs, in two words each
        var (energyHigh, energyLow, chargeHigh, chargeLow): (Int64, Int64, Int64, Int64) = (
            0, 0, 0, 0
        )
        for index in 0..<1_000_000 {
            time += Int64(random.next() % 200_000) + 1
            let current = Int64(random.next() % 3_000_001)
            var frame = MeterFrame(
                model: .um25c, voltage: Microvolts(5_000_000), current: Microamperes(current),
                power: .zero)
            frame.groups = []
            let step = accountant.advance(
                to: Reading(
                    frame,
                    at: Moment(
                        monotonic: .init(nanoseconds: time * 1_000), wall: .init(milliseconds: 0),
                        wallTrusted: false)))
            if let step, index > 0 {
                energy += step.energy
                charge += step.charge
                let span = time - lastTime
                energyLow += (current * 5 + lastCurrent * 5) * span
                chargeLow += (current + lastCurrent) * span
                energyHigh += energyLow / 2_000_000
                energyLow %= 2_000_000
                chargeHigh += chargeLow / 2_000_000
                chargeLow %= 2_000_000
            }
            (lastTime, lastCurrent) = (time, current)
        }
        #expect(energy.rawValue == energyHigh)
        #expect(charge.rawValue == chargeHigh)
    }

    @Test func theTrapezoidRuleHoldsForARamp() {
        let all = steps((0...10).map { reading(.seconds($0), milliamperes: Int64($0) * 100) })
        // 0 to 1 A in 10 s at 5 V
        #expect(all.reduce(0) { $0 + $1.energy.rawValue } == 25_000_000)
        #expect(all.reduce(0) { $0 + $1.charge.rawValue } == 5_000_000)
        #expect(all.allSatisfy { $0.fill == nil && $0.countedEnergy == nil })
    }

    @Test func duplicatesAndBackwardTimesAddNothing() {
        var accountant = EnergyAccountant()
        var sum = Microjoules.zero
        for time in [0, 1, 1, 0, 2, 1, 2, 3] {
            if let step = accountant.advance(to: reading(.seconds(time))) { sum += step.energy }
        }
        #expect(sum == Microjoules(15_000_000))
    }

    @Test func negativeCurrentAndVoltageAddNothing() {
        let all = steps([
            reading(.seconds(0), milliamperes: -500), reading(.seconds(1), milliamperes: -500),
            reading(.seconds(2), millivolts: -20), reading(.seconds(3), millivolts: -20),
        ])
        #expect(all[0].energy == .zero)
        #expect(all[0].charge == .zero)
        #expect(all.allSatisfy { $0.energy >= .zero })
    }

    @Test func tenSecondsAreAStepAndMoreAreAGap() {
        let near = steps([reading(.zero), reading(.seconds(10))])
        #expect(near[0].fill == nil)
        #expect(near[0].energy == Microjoules(50_000_000))
        let far = steps([reading(.zero), reading(.milliseconds(10_001))])
        #expect(far[0].fill == .unobserved)
        #expect(far[0].energy == .zero)
    }

    @Test func aGapIsFilledFromTheCounters() {
        let all = steps([
            reading(.zero, counters: [(100, 500), (7, 35)]),
            reading(.seconds(600), counters: [(100, 500), (174, 870)]),
        ])
        #expect(all[0].fill == .counter)
        #expect(all[0].energy == Microjoules(MilliwattHours(835)))
        #expect(all[0].charge == Microcoulombs(MilliampereHours(167)))
    }

    @Test func moreThanTheMeterCanPassIsNotBelieved() {
        for (model, watts) in [
            (MeterModel.um24c, 72), (.um34c, 96), (.um25c, 120), (.tc66c, 120),
        ] as [(MeterModel, Int64)] {
            for (extra, filled) in [(-10, true), (60, false)] as [(Int64, Bool)] {
                let all = steps([
                    reading(.zero, milliamperes: 6_000, model: model, counters: [(0, 0)]),
                    reading(
                        .seconds(3_600), milliamperes: 6_000, model: model,
                        counters: [(1_000, watts * 1_000 + extra)]),
                ])
                #expect(all[0].fill == (filled ? .counter : .unobserved))
            }
            let charge = steps([
                reading(.zero, model: model, counters: [(0, 0)]),
                reading(.seconds(3_600), model: model, counters: [(6_100, 30_000)]),
            ])
            #expect(charge[0].fill == .unobserved)
            #expect(charge[0].energy == .zero)
        }
    }

    @Test func aChangeOfTheSelectedGroupAddsNothingByItself() {
        let all = steps([
            reading(.seconds(0), counters: [(100, 500), (9_000, 44_000), (3, 4)]),
            reading(.seconds(1), counters: [(100, 501), (9_000, 44_000), (3, 4)]),
            reading(.seconds(2), counters: [(100, 501), (9_000, 44_002), (3, 4)]),
        ])
        #expect(all.map(\.countedEnergy) == [MilliwattHours(1), MilliwattHours(2)])
        #expect(all.allSatisfy { !$0.counterRestarted })
    }

    @Test func aRestartedCounterCountsFromItsRestart() {
        let all = steps([
            reading(.seconds(0), counters: [(1_200, 6_000)]),
            reading(.seconds(1), counters: [(1_200, 6_001)]),
            reading(.seconds(21), counters: [(1, 5)]),
            reading(.seconds(22), counters: [(1, 6)]),
        ])
        #expect(all.map(\.counterRestarted) == [false, true, false])
        #expect(all[1].fill == .counterRestarted)
        #expect(all[1].energy == Microjoules(MilliwattHours(5)))
        #expect(all.map(\.countedEnergy?.rawValue) == [1, 5, 1])
    }

    @Test func aCounterThatWrapsCountsAsRestarted() {
        let all = steps([
            reading(.seconds(0), counters: [(20_000, 99_999)]),
            reading(.seconds(1), counters: [(0, 1)]),
        ])
        #expect(all[0].counterRestarted)
        #expect(all[0].countedEnergy == MilliwattHours(1))
    }

    /// What a dip in the counters must never do: add what they show, once or twice.
    @Test(arguments: [1, 30, 200, 3_000] as [Int])
    func aCounterThatDipsAndReturnsNeverJumpsFallsOrDoubles(pause: Int) {
        for dip in [(0, 0), (1_190, 5_990), (600, 3_000), (1_199, 5_996)] as [(Int64, Int64)] {
            // over most of an hour of 5 W a restart would explain all of these
            let all = steps(
                [
                    (0, (1_200, 6_000)), (pause, dip), (2 * pause, dip),
                    (3 * pause, (1_201, 6_003)),
                    (3 * pause + 1, (1_201, 6_004)),
                ].map { (second: Int, shown: (Int64, Int64)) in
                    reading(
                        .seconds(second), milliamperes: pause > 1_000 ? 0 : 1_000, counters: [shown]
                    )
                })
            let counted = all.compactMap(\.countedEnergy).reduce(MilliwattHours.zero, +)
            #expect(counted <= MilliwattHours(5), "dip to \(dip)")
            let filled = all.filter { $0.fill != nil }.reduce(Microjoules.zero) { $0 + $1.energy }
            #expect(filled <= Microjoules(MilliwattHours(5)), "dip to \(dip)")
            #expect(all.allSatisfy { $0.energy >= .zero })
            #expect(all.allSatisfy { ($0.countedEnergy ?? .zero) >= .zero })
        }
    }

    @Test func aStoredCounterThatIsABitOldAfterALossOfPowerIsNotAddedWhole() {
        // the meter kept 390 mWh, cleared them as soon as something flowed, and went on
        let all = steps([
            reading(.seconds(0), counters: [(80, 400)]),
            reading(.seconds(20), counters: [(78, 390)]),
            reading(.seconds(21), counters: [(78, 390)]),
            reading(.seconds(22), counters: [(1, 5)]),
            reading(.seconds(23), counters: [(1, 6)]),
        ])
        #expect(all[0].fill == .unobserved)
        #expect(all[0].energy == .zero)
        #expect(all.compactMap(\.countedEnergy?.rawValue).reduce(0, +) == 6)
    }

    @Test func aRestartedCounterGoesOnPastWhatItShowedBefore() {
        // 5 W for 600 s: 833 mWh, which passes the 400 shown before the restart
        var readings = [reading(.seconds(0), counters: [(80, 400)])]
        for second in 1...600 as ClosedRange<Int64> {
            readings.append(
                reading(
                    .seconds(second), counters: [(second * 1_000 / 3_600, second * 5_000 / 3_600)]))
        }
        let counted = steps(readings).compactMap(\.countedEnergy?.rawValue).reduce(0, +)
        #expect(counted == 833)
    }

    @Test func withoutCountersOrWithAnotherModelNothingIsCounted() {
        let none = steps([reading(.seconds(0)), reading(.seconds(1))])
        #expect(none[0].countedEnergy == nil)
        let other = steps([
            reading(.seconds(0), model: .um24c, counters: [(1, 1)]),
            reading(.seconds(1), model: .um34c, counters: [(1, 1)]),
        ])
        #expect(other[0].countedEnergy == nil)
    }
}
