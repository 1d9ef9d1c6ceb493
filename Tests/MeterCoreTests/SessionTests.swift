import MeterCore
import Testing

@Suite struct SessionTests {
    // MARK: Start

    @Test func aSessionStartsAtTheFirstReadingWithCurrentOnceThatHasLasted() throws {
        var bench = SessionBench()
        bench.run(30, at: 0)
        let start = bench.now + 1_000
        bench.run(3, at: 1_000)
        #expect(!bench.isRunning)
        bench.run(1, at: 1_000)
        #expect(bench.isRunning)
        #expect(bench.limits(try #require(bench.machine.current)).start == start)
        #expect(bench.actions == ["began", "samples"])
        #expect(bench.curves.values.first?.map(\.offset) == [0, 1_000, 2_000, 3_000])
    }

    @Test(arguments: [200, 500, 1_000, 2_000, 5_000] as [Int64])
    func itStartsAtAnyRateOfPolling(step: Int64) throws {
        var bench = SessionBench()
        bench.run(60, every: step, at: 0)
        let start = bench.now + step
        bench.run(60, every: step, at: 400)
        bench.run(130, every: step, at: 0)
        #expect(bench.ended.count == 1)
        #expect(bench.limits(bench.ended[0]).start == start)
    }

    @Test func lessThanTheStartCurrentOrTooShortIsNone() {
        var bench = SessionBench()
        bench.run(600, at: 49)
        bench.run(60, at: 0)
        for _ in 0..<20 {
            bench.run(2, at: 3_000)
            bench.run(20, at: 0)
        }
        #expect(bench.actions == [])
    }

    @Test func aSteadyCurrentJustAboveAnyStartCurrentIsEnough() {
        for milliamperes in [11, 50, 51, 77] as [Int64] {
            let rules = SessionRules(
                startCurrent: Microamperes(milliamperes * 1_000 - 300),
                stopCurrent: Microamperes(5_000))
            var bench = SessionBench(rules)
            bench.run(10, at: 0)
            bench.run(10, at: milliamperes)
            #expect(bench.isRunning, "\(milliamperes) mA")
        }
    }

    @Test func oneLowReadingInTheStartDelayDoesNotPreventIt() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(1, at: 2_000)
        bench.run(1, at: 0)
        bench.run(10, at: 2_000)
        #expect(bench.began.count == 1)
    }

    @Test func itStartsWithTheFirstReadingIfThatCarriesCurrent() {
        var bench = SessionBench()
        let start = bench.now + 1_000
        bench.run(600, at: 960)
        #expect(bench.machine.current.map { bench.limits($0).start } == start)
    }

    // MARK: End

    @Test func itEndsWhereTheCurrentFellAndNotWhenTheDelayRanOut() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(600, at: 1_000)
        let fall = bench.now + 1_000
        bench.run(121, at: 5)
        #expect(bench.ended.count == 1)
        #expect(bench.limits(bench.ended[0]).end == fall)
        #expect(bench.ended[0].endReason == .currentStopped)
        #expect(bench.now - fall <= 121_000)
    }

    @Test func itEndsByTimeIfNoReadingComesAfterTheFall() {
        var bench = SessionBench()
        bench.run(600, at: 1_000)
        bench.run(2, at: 0)
        let fall = bench.now - 1_000
        bench.silence(117)
        #expect(bench.ended.isEmpty)
        bench.silence(3)
        #expect(bench.ended.map(\.endReason) == [.currentStopped])
        #expect(bench.limits(bench.ended[0]).end == fall)
    }

    @Test func aMeterThatIsSilentForTooLongEndsItAtItsLastReading() {
        var bench = SessionBench()
        bench.run(600, at: 1_000)
        let last = bench.now
        bench.silence(600)
        #expect(bench.ended.isEmpty)
        bench.silence(2)
        #expect(bench.ended.map(\.endReason) == [.meterUnreachable])
        #expect(bench.limits(bench.ended[0]).end == last)
        // and when it is back, with the device still charging, that is another one
        bench.run(600, at: 900)
        #expect(bench.began.count == 2)
    }

    @Test func theReadingAfterTooLongASilenceEndsItEvenWithoutATimer() {
        var bench = SessionBench()
        bench.run(600, at: 1_000)
        bench.run(1, every: 700_000, at: 1_000)
        #expect(bench.ended.map(\.endReason) == [.meterUnreachable])
    }

    @Test(arguments: [5, 30, 60, 100, 118] as [Double])
    func aPauseShorterThanTheDelayDoesNotSplit(pause: Double) throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(1_000, at: 1_500)
        bench.run(pause, at: 0)
        bench.run(1_000, at: 1_500)
        bench.run(200, at: 0)
        #expect(bench.ended.count == 1)
        let session = try #require(bench.ended.first)
        #expect(session.durationMilliseconds > 2_000_000)
        expectEnergy(of: session, in: bench)
    }

    @Test func aPauseLongerThanTheDelaySplits() {
        var bench = SessionBench()
        bench.run(1_000, at: 1_500)
        bench.run(125, at: 0)
        bench.run(1_000, at: 1_500)
        bench.run(125, at: 0)
        #expect(bench.ended.count == 2)
    }

    @Test func aSlowTaperIsOneSessionToItsEnd() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(3_600, at: 1_000)
        // down to 19 mA in three hours, with a ripple
        bench.run(10_800) { second in
            Int64(1_000 * (1 - second / 10_800) + 19 * second / 10_800)
                + (Int64(second) % 7 == 0 ? 4 : 0)
        }
        bench.run(200, at: 3)
        #expect(bench.ended.count == 1)
        let session = try #require(bench.ended.first)
        #expect(session.endReason == .currentStopped)
        #expect(session.durationMilliseconds > 14_300_000)
        expectEnergy(of: session, in: bench)
    }

    @Test func hoveringAtTheThresholdsDoesNotMakeMany() {
        for (low, high) in [(45, 55), (15, 25), (18, 60), (40, 52), (19, 21)] as [(Int64, Int64)] {
            for charge in [0, 1_000] as [Int64] {
                var bench = SessionBench()
                var random = Seeded(UInt64(low))
                bench.run(10, at: 0)
                bench.run(1_000, at: charge)
                bench.run(4_000) { _ in random.chance(50) ? low : high }
                bench.run(300, at: 0)
                #expect(bench.began.count <= 1, "between \(low) and \(high) mA")
                #expect(bench.ended.count == bench.began.count)
            }
        }
    }

    @Test(arguments: [1_000, 100, 40] as [Double])
    func singleDropoutsDoNotSplitOrEndIt(current: Double) throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(60, at: 1_000)
        bench.run(6_000) { second in
            Int64(second) % 450 == 0 ? 0 : Int64(current * (1 - second / 13_000))
        }
        let end = bench.now
        bench.run(200, at: 0)
        #expect(bench.ended.count == 1)
        #expect(abs(bench.limits(bench.ended[0]).end - end) <= 2_000)
        expectEnergy(of: bench.ended[0], in: bench)
    }

    @Test func aChangeOfVoltageDoesNotSplit() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(5, volts: 5_000, at: 1_000)
        bench.run(1, volts: 5_000, at: 0)
        bench.run(600, volts: 9_000, at: 1_600)
        bench.run(2, volts: 9_000, at: 10)
        bench.run(600, volts: 12_000, at: 1_400)
        bench.run(200, volts: 12_000, at: 1)
        #expect(bench.ended.count == 1)
        #expect(bench.ended[0].maxVoltage == Microvolts(12_000_000))
        expectEnergy(of: bench.ended[0], in: bench)
    }

    @Test func midnightAndAWallClockThatIsSetBackDoNotMatter() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(600, at: 1_000)
        bench.wallAhead -= 7_200_000
        bench.run(600, at: 1_000)
        bench.wallAhead += 86_400_000
        bench.run(600, at: 1_000)
        bench.run(200, at: 0)
        #expect(bench.ended.count == 1)
        #expect(bench.ended[0].durationMilliseconds == 1_800_000)
    }

    // MARK: Full devices

    @Test func topUpsOfAFullDeviceAreNoSessions() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(3_600, at: 1_500)
        for _ in 0..<30 {
            bench.run(300, at: 6)
            bench.run(30, at: 180)
        }
        bench.run(600, at: 6)
        #expect(bench.ended.count == 1)
    }

    /// A link that comes back after a short while has not forgotten that the device is full.
    @Test func topUpsAfterAReconnectionAreNoSessionsEither() {
        var bench = SessionBench()
        bench.run(3_600, at: 1_500)
        bench.run(600, at: 6)
        for _ in 0..<5 {
            bench.silence(25, flowing: 6)
            bench.run(20, at: 6)
            bench.run(30, at: 400)
            bench.run(300, at: 6)
        }
        #expect(bench.ended.count == 1)
    }

    @Test func blipsOfAStandbyLoadAreNoSessions() {
        var bench = SessionBench()
        var random = Seeded(8)
        bench.run(12_000) { _ in random.chance(2) ? Int64(random.int(50...290)) : 43 }
        #expect(bench.actions == [])
    }

    @Test func aChargeFromAStandbyLoadStarts() {
        var bench = SessionBench()
        bench.run(600, at: 30)
        bench.run(10, at: 900)
        #expect(bench.isRunning)
        var weak = SessionBench()
        weak.run(600, at: 30)
        let start = weak.now + 1_000
        weak.run(310, at: 80)
        #expect(weak.machine.current.map { weak.limits($0).start } == start)
    }

    @Test func aDeviceThatIsSwappedForAnotherStartsItsOwn() {
        var bench = SessionBench()
        bench.run(3_600, at: 1_500)
        bench.run(300, at: 40)
        bench.run(150, at: 0)
        bench.run(10, at: 60)
        #expect(bench.began.count == 2)
        // out for ten seconds only, after a device that drew a little all the time
        var quick = SessionBench()
        quick.run(600, at: 40)
        quick.run(10, at: 0)
        quick.run(10, at: 60)
        #expect(quick.isRunning)
    }

    @Test func aDeviceThatNeverFallsBelowTheStopCurrentEndsWhereItsPlateauBegan() throws {
        var bench = SessionBench()
        bench.run(30, at: 0)
        bench.run(7_200, at: 440)
        bench.run(3_000) { Int64(440 - $0 / 3_000 * 340) }
        let full = bench.now
        bench.run(2_400) { Int64($0) % 90 == 0 ? 75 : 66 }
        #expect(bench.ended.map(\.endReason) == [.standby])
        let session = try #require(bench.ended.first)
        #expect(abs(bench.limits(session).end - full) < 120_000)
        expectEnergy(of: session, in: bench)
        // it stays like that for a day, and nothing more is counted as a session
        bench.run(86_400, every: 5_000) { Int64($0) % 90 == 0 ? 75 : 66 }
        #expect(bench.began.count == 1)
        // but a charge is
        bench.run(1_800, at: 1_000)
        #expect(bench.began.count == 2)
    }

    @Test func aSteadyLowChargeIsNoPlateau() {
        var bench = SessionBench()
        bench.run(30, at: 0)
        bench.run(7_200, at: 60)
        #expect(bench.isRunning)
        bench.run(200, at: 0)
        #expect(bench.ended.map(\.endReason) == [.currentStopped])
    }

    // MARK: Gaps

    @Test func aGapIsFilledFromTheCounterAndSaysSo() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(600, at: 1_000)
        bench.silence(300, flowing: 1_000)
        bench.run(600, at: 1_000)
        bench.run(200, at: 0)
        let session = try #require(bench.ended.first)
        #expect(session.gaps.map(\.fill) == [.counter])
        #expect(session.gaps[0].duration == 301_000)
        #expect(abs(session.energy.wattHours - 5.0 * 1_501 / 3_600) < 0.003)
        #expect(session.energySource == .integrated)
        #expect(session.energySourceReason.contains("1 gaps, all filled"))
    }

    @Test func aGapWithoutCountersAddsNothingAndSaysSo() throws {
        var bench = SessionBench()
        bench.hasCounters = false
        bench.run(600, at: 1_000)
        bench.silence(300, flowing: 1_000)
        bench.run(600, at: 1_000)
        bench.run(200, at: 0)
        let session = try #require(bench.ended.first)
        #expect(session.gaps.map(\.fill) == [.unobserved])
        #expect(session.energyCounted == nil)
        #expect(session.energySourceReason.contains("301 s could not be filled"))
        expectEnergy(of: session, in: bench)
    }

    @Test func anEndInsideAGapIsWhereTheCountedEnergyWasUsedUp() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(600, at: 1_000)
        let last = bench.now
        bench.silence(100, flowing: 1_000)
        bench.silence(300, flowing: 0)
        bench.run(2, at: 0)
        #expect(bench.ended.count == 1)
        let end = bench.limits(bench.ended[0]).end
        #expect(abs(end - last - 100_000) < 2_000)
        #expect(abs(bench.ended[0].energy.wattHours - 5.0 * 700 / 3_600) < 0.003)
    }

    /// The supply was switched off for 20 s: the meter started again, its counters too.
    @Test func aLossOfPowerWithACounterRestartIsOneSessionWithTheRightEnergy() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(1_200, at: 1_000)
        bench.silence(20)
        bench.clearCounters()
        bench.run(3, at: 0)
        bench.run(1_200, at: 1_000)
        bench.run(200, at: 0)
        #expect(bench.ended.count == 1)
        let session = try #require(bench.ended.first)
        #expect(session.gaps.map(\.fill) == [.counterRestarted])
        expectEnergy(of: session, in: bench)
        #expect(abs(session.energy.wattHours - 5.0 * 2_400 / 3_600) < 0.01)
        #expect((session.energyCounted?.wattHours ?? 0) <= session.energy.wattHours + 0.003)
    }

    @Test func aVeryLongGapWithAFullCounterDoesNotTrap() {
        var bench = SessionBench(SessionRules(gapLimit: .seconds(400_000)))
        bench.run(60, at: 3_000)
        bench.silence(300_000, volts: 20_000, flowing: 3_000)
        bench.run(200, volts: 20_000, at: 0)
        #expect(bench.ended.count == 1)
    }

    // MARK: By command

    @Test func aManualSessionStartsAndEndsByCommandWhateverFlows() {
        var bench = SessionBench()
        bench.startManually()
        #expect(bench.actions == [], "nothing has been read yet")
        bench.run(10, at: 0)
        bench.startManually()
        #expect(bench.isRunning)
        bench.run(600, at: 0)
        bench.run(600, at: 800)
        bench.run(600, at: 0)
        bench.startManually()
        bench.stop(.manual)
        #expect(bench.ended.map(\.endReason) == [.manual])
        #expect(bench.ended[0].durationMilliseconds == 1_800_000)
        expectEnergy(of: bench.ended[0], in: bench)
        bench.stop(.manual)
        #expect(bench.ended.count == 1)
    }

    @Test func aManualSessionOfNoTimeStillEndsAfterItsStart() {
        var bench = SessionBench()
        bench.run(10, at: 1_000)
        bench.stop(.manual)
        bench.startManually()
        bench.stop(.manual)
        #expect(bench.ended.count == 2)
        #expect(bench.ended[1].averagePower == .zero)
    }

    @Test func aManualSessionNeedsAMeterThatIsThere() {
        var bench = SessionBench()
        bench.run(60, at: 0)
        bench.silence(3_600)
        bench.startManually()
        #expect(!bench.isRunning)
        bench.run(1, at: 0)
        bench.startManually()
        #expect(bench.isRunning)
        bench.silence(601)
        #expect(bench.ended.map(\.endReason) == [.meterUnreachable])
    }

    @Test func aStopInTheMiddleEndsAtTheLastReadingAndInAFallWhereItFell() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(600, at: 1_000)
        bench.stop(.interrupted)
        #expect(bench.limits(bench.ended[0]).end == bench.now)
        bench.run(30, at: 0)
        bench.run(600, at: 1_000)
        bench.run(1, at: 0)
        let fall = bench.now
        bench.run(60, at: 0)
        bench.stop(.manual)
        #expect(bench.limits(bench.ended[1]).end == fall)
    }

    @Test func aChargeThatWasStoppedByHandDoesNotStartAgainByItself() {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(60, at: 1_000)
        bench.stop(.manual)
        bench.run(7_200) { Int64(1_000 - $0 / 8) }
        #expect(bench.began.count == 1)
        // unplugged, the next one starts as ever
        bench.run(10, at: 0)
        bench.run(10, at: 1_000)
        #expect(bench.began.count == 2)
    }

    // MARK: Receipt

    @Test func theWallClockIsCorrectedOnceItIsTrusted() throws {
        var bench = SessionBench()
        bench.wallAhead = -4_000_000
        bench.wallTrusted = false
        bench.run(10, at: 0)
        bench.run(300, at: 1_000)
        #expect(bench.machine.current?.clockTrusted == false)
        #expect(bench.began[0].clockTrusted == false)
        bench.wallAhead = 1_790_000_000_000
        bench.wallTrusted = true
        bench.run(300, at: 1_000)
        #expect(bench.machine.current?.clockTrusted == true)
        bench.run(200, at: 0)
        let session = try #require(bench.ended.first)
        #expect(session.clockTrusted)
        #expect(session.startedAt.milliseconds == 5_011_000 + bench.wallAhead)
        #expect(session.endedAt == session.startedAt + .milliseconds(session.durationMilliseconds))
        #expect(session.durationMilliseconds == 600_000)
    }

    @Test func theReceiptCountsWhatWasRejectedAndDroppedInTheSessionOnly() {
        var bench = SessionBench()
        (bench.rejected, bench.dropped) = (7, 2)
        bench.run(30, at: 0)
        bench.run(60, at: 1_000)
        (bench.rejected, bench.dropped) = (12, 3)
        bench.run(60, at: 1_000)
        bench.run(200, at: 0)
        #expect(bench.ended.map(\.rejectedFrames) == [5])
        #expect(bench.ended.map(\.droppedReadings) == [1])
    }

    @Test func theReceiptSaysWhoseItIsAndWhatItSaw() throws {
        var bench = SessionBench()
        bench.run(10, at: 0)
        bench.run(100, volts: 5_000, at: 1_000)
        bench.temperature = 41
        bench.run(100, volts: 9_000, at: 2_000)
        bench.temperature = 30
        bench.run(100, volts: 5_000, at: 500)
        bench.run(200, at: 0)
        let session = try #require(bench.ended.first)
        #expect(session.meter == SessionBench.meter.address)
        #expect(session.meterName == "Bench")
        #expect(session.gatewayID == "pi-1")
        #expect(session.softwareVersion == "1.0")
        #expect(session.model == .um34c)
        #expect(session.maxTemperature == MilliCelsius(41_000))
        #expect(session.peakPower == Microwatts(18_000_000))
        #expect(session.minVoltage == Microvolts(5_000_000))
        #expect(session.revision == 1)
        #expect(session.id == bench.began[0].id)
        #expect(session.energySourceReason == "readings without a gap")
        let mean = session.energy.wattHours * 3.6e6 / Double(session.durationMilliseconds)
        #expect(abs(session.averagePower.base - mean) < 0.001)
    }

    @Test func theMostGapsThatAReceiptListsAreAHundred() throws {
        var bench = SessionBench()
        bench.run(10, at: 1_000)
        for _ in 0..<150 {
            bench.silence(15, flowing: 1_000)
            bench.run(3, at: 1_000)
        }
        bench.stop(.manual)
        let session = try #require(bench.ended.first)
        #expect(session.gaps.count == 100)
        #expect(session.energySourceReason.contains("150"))
    }

    @Test func aSmallCurrentIsFollowedForADayWithoutKeepingItAll() {
        // above the start current, but no session: twice the standby would be 80 mA
        var bench = SessionBench()
        bench.run(600, at: 40)
        bench.run(86_400, every: 5_000, at: 70)
        #expect(bench.actions == [])
        bench.run(310, at: 1_000)
        #expect(bench.isRunning)
        // no more than five minutes of what was before are part of it
        #expect((bench.machine.current?.durationMilliseconds ?? .max) <= 610_000)
    }

    private func expectEnergy(of session: SessionSummary, in bench: SessionBench) {
        let (start, end) = bench.limits(session)
        let expected = bench.wattHours(from: start, to: end)
        #expect(abs(session.energyIntegrated.wattHours - expected) < 1e-9)
    }
}
