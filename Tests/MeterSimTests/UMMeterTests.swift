import MeterCore
import Testing

@testable import MeterSim

@Test(arguments: [MeterModel.um24c, .um25c, .um34c])
func anUMMeterAnswersOnlyWhenAsked(_ model: MeterModel) {
    var meter = meter(model)
    let silent = Array(UInt8.min...UInt8.max).filter { $0 != 0xf0 }
    #expect(meter.receive(silent, at: at(1)).isEmpty)
    let answers = meter.receive([0xf0], at: at(2))
    #expect(answers.count == 1)
    #expect(answers.first?.bytes.count == 130)
    #expect(answers.first?.delay == .milliseconds(135))
}

@Test func aFreshMeterAnswersWhatOneWouldWriteByHand() {
    // 5 V and 1 A, no counts, 24.041 °C after its first look, backlight 4, time-out 1 minute.
    var meter = meter(.um25c)
    var expected = bytes("09c9 1388 2710 00001388 0018 004b 0000")
    expected += [UInt8](repeating: 0, count: 80)
    expected += bytes("0000 0000 0000 00000000 00000000 0000 00000000 0000")
    expected += bytes("0001 0004 00000032 0000 fff1")
    #expect(meter.poll(at: 0) == expected)
}

@Test func anAnswerComesAtOnceByCableAndInPiecesOverBluetooth() {
    var wired = meter(.um25c, steady(volts: 5, amperes: 1), .usb)
    #expect(wired.receive([0xf0], at: at(1)).first?.pieces.map(\.count) == [130])
    var radio = meter(.um25c, steady(volts: 5, amperes: 1), .bluetooth)
    #expect(
        radio.receive([0xf0], at: at(1)).first?.pieces.map(\.count)
            == [20, 20, 20, 20, 20, 20, 10])
}

@Test func twoRequestsAtOnceAreAnsweredOneAfterTheOther() {
    var meter = meter(.um25c)
    let answers = meter.receive([0xf0, 0xf0], at: at(1))
    #expect(answers.map(\.delay) == [.milliseconds(135), .milliseconds(270)])
}

@Test func controlBytesShowInTheNextAnswer() throws {
    var meter = meter(.um25c)
    _ = meter.receive([0xa7, 0xbc, 0xd2, 0xe9, 0xf1, 0xf1], at: at(1))
    let frame = try meter.frame(at: 2)
    #expect(frame.big16(14) == 7)
    #expect(frame.big16(110) == 12)
    #expect(frame.big16(120) == 2)
    #expect(frame.big16(118) == 9)
    #expect(frame.big16(126) == 2)
}

@Test func f3SelectsTheNextGroupOnAnUM24CAndThePreviousScreenElsewhere() throws {
    var small = meter(.um24c)
    _ = small.receive([0xf1, 0xf3, 0xf3], at: at(1))
    let first = try small.frame(at: 2)
    #expect((first.big16(14), first.big16(126)) == (2, 1))
    // It does not know how to select a group by number.
    _ = small.receive([0xa7], at: at(3))
    #expect(try small.frame(at: 4).big16(14) == 2)

    var large = meter(.um34c)
    _ = large.receive([0xf1, 0xf1, 0xf3], at: at(1))
    let second = try large.frame(at: 2)
    #expect((second.big16(14), second.big16(126)) == (0, 1))
}

@Test func theSelectedGroupCountsWhatFlowsAndShowsWholeUnits() throws {
    // 1 A at 5 V: 1 mAh in 3.6 s, 5 mWh in 3.6 s.
    var meter = meter(.um25c)
    let early = try meter.frame(at: 3.5)
    #expect((early.big32(16), early.big32(20)) == (0, 4))
    let later = try meter.frame(at: 36)
    #expect((later.big32(16), later.big32(20)) == (10, 50))
    _ = meter.receive([0xa3], at: at(36))
    let end = try meter.frame(at: 72)
    #expect((end.big32(16), end.big32(20)) == (10, 50))
    #expect((end.big32(40), end.big32(44)) == (10, 50))
}

@Test func clearingEmptiesTheSelectedGroupOnly() throws {
    var meter = meter(.um25c)
    _ = meter.receive([0xa1], at: at(36))
    _ = meter.receive([0xf4], at: at(72))
    let frame = try meter.frame(at: 72)
    #expect((frame.big32(16), frame.big32(24)) == (10, 0))
}

@Test func theRecordingRunsByItselfAtItsThresholdWhateverTheGroup() throws {
    var meter = meter(.um25c, steady(volts: 5, amperes: 0.2))
    // 0.21 A is too high.
    _ = meter.receive([0xc5], at: at(1))
    let none = try meter.frame(at: 37)
    #expect((none.big16(116), none.big32(102), none.big32(112)) == (0, 0, 0))
    _ = meter.receive([0xc4, 0xf4, 0xa5], at: at(40))
    let some = try meter.frame(at: 76.5)
    // From the next look at the current on, half a second later: 36 s.
    #expect((some.big16(116), some.big32(102), some.big32(106), some.big32(112)) == (1, 2, 10, 36))
    // A threshold of zero is none.
    _ = meter.receive([0xb0], at: at(80))
    #expect(try meter.frame(at: 81).big16(116) == 0)
}

@Test func valuesRenewTwiceASecond() throws {
    var meter = meter(.um25c, profile("phone-short"))
    let first = try meter.frame(at: 100.0)
    #expect(meter.poll(at: 100.2) == first)
    #expect(meter.poll(at: 100.49) == first)
    let next = try meter.frame(at: 100.5)
    #expect(next[2..<10] != first[2..<10])
}

@Test func theShownValueIsTheMeanOfTheHalfSecondJustPast() throws {
    let profile = profile("phone-short")
    var meter = meter(.um25c, profile)
    let frame = try meter.frame(at: 60)
    let ticks = (0..<5).map { profile.load(at: .milliseconds(59_500 + 100 * $0)) }
    let mean = ticks.reduce(0) { $0 + $1.current.rawValue } / 5
    #expect(frame.big16(4) == Int(mean / 100))
    #expect(frame.big32(6) == frame.big16(2) * frame.big16(4) / 10_000)
}

@Test func afterAPowerLossGroupZeroStaysUntilSomethingHasFlowed() throws {
    var meter = meter(.um25c, faults: try faults("no-power@36s+20s"))
    let before = try meter.frame(at: 35.9)
    #expect(before.big32(16) == 9)
    #expect(meter.poll(at: 40) == nil)
    #expect(!meter.isPowered(at: at(40)))
    // Flashing: what it showed, until 1 mAh has come in 3.6 s.
    let flashing = try meter.frame(at: 59)
    #expect((flashing.big32(16), flashing.big32(20)) == (10, 50))
    let anew = try meter.frame(at: 60)
    #expect((anew.big32(16), anew.big32(20)) == (1, 5))
    let later = try meter.frame(at: 92)
    #expect((later.big32(16), later.big32(20)) == (10, 50))
}

@Test func otherGroupsGoOnAfterAPowerLoss() throws {
    var meter = meter(.um25c, faults: try faults("no-power@36s+20s"))
    _ = meter.receive([0xa2], at: at(0))
    let frame = try meter.frame(at: 92)
    #expect(frame.big32(32) == 20)
}

@Test func aMeterStartsWithTheCountersThatItIsGiven() throws {
    var memory = MeterMemory()
    memory.groups[0] = MeterMemory.Counter(
        charge: MilliampereHours(99_990), energy: MilliwattHours(99_950))
    var meter = meter(.um24c, memory: memory)
    let frame = try meter.frame(at: 36)
    #expect((frame.big32(16), frame.big32(20)) == (100_000, 100_000))
}
