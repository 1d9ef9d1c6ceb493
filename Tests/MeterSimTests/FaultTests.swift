import MeterCore
import Testing

@testable import MeterSim

@Test(arguments: [
    ("silence@60s+20s", Fault(.silence, start: 60_000, length: 20_000)),
    ("silence", Fault(.silence)),
    ("flip@30s+60s:p=0.1", Fault(.flip(bits: 1), start: 30_000, length: 60_000, probability: 0.1)),
    ("stray:n=37,p=0.05", Fault(.stray(bytes: 37), probability: 0.05)),
    ("stray", Fault(.stray(bytes: 16))),
    ("cut@2m:n=64", Fault(.cut(after: 64), start: 120_000)),
    ("cut:p=1", Fault(.cut(after: nil))),
    ("bad-check@500ms+1.5s", Fault(.badCheck, start: 500, length: 1500)),
    ("split:sizes=1/20/109", Fault(.split(sizes: [1, 20, 109]))),
    ("no-power@1h+20s", Fault(.noPower, start: 3_600_000, length: 20_000)),
    ("out-of-range@0s+1m", Fault(.outOfRange, length: 60_000)),
    ("counter-reset@90s", Fault(.counterReset, start: 90_000)),
    ("group-change@90s:n=3", Fault(.groupChange(to: 3), start: 90_000)),
])
func aFaultIsReadFromTextAndBack(_ text: String, _ fault: Fault) throws {
    #expect(try Fault(text) == fault)
    #expect(try Fault(fault.description) == fault)
}

@Test(arguments: [
    ("", "no fault named ''"), ("fire", "bad-check, split"), ("silence@", "'' is not a time"),
    ("silence@60", "'60' is not a time"), ("silence@-5s", "'-5s' is not a time"),
    ("silence@nans", "is not a time"), ("silence@1e300h", "is not a time"),
    ("silence@5s+0s", "'0s' is not a length"), ("silence@5s+", "'' is not a length"),
    ("no-power", "needs a time"), ("no-power@5s", "needs a length"),
    ("counter-reset@5s+5s", "at one moment"), ("counter-reset", "counter-reset@START"),
    ("flip:p=2", "probability from 0 to 1"), ("flip:n=0", "from 1 to"), ("flip:n", "no value"),
    ("flip:n=1,n=2", "given twice"), ("flip:sizes=3", "where n, p can be set"),
    ("flip:", "'' means nothing"), ("no-power@1s+1s:p=1", "where nothing can be set"),
    ("split:sizes=1//3", "list of sizes"), ("split:sizes=0", "list of sizes"),
    ("group-change@1s:n=10", "from 0 to 9"),
])
func aTextThatIsNoFaultSaysWhatIsAllowed(_ text: String, _ part: String) {
    do throws(FaultSyntaxError) {
        let fault = try Fault(text)
        Issue.record("read as \(fault)")
    } catch {
        #expect(error.description.contains(part), "\(error.description)")
        #expect(error.description.contains("'\(text)'"))
    }
}

@Test func theFormsNameEveryFaultOnce() {
    #expect(
        Fault.forms.map(\.form) == [
            "silence[@START[+LENGTH]][:p=P]", "cut[@START[+LENGTH]][:n=N,p=P]",
            "stray[@START[+LENGTH]][:n=N,p=P]", "flip[@START[+LENGTH]][:n=N,p=P]",
            "bad-check[@START[+LENGTH]][:p=P]", "split[@START[+LENGTH]][:sizes=A/B/...,p=P]",
            "no-power@START+LENGTH", "out-of-range@START+LENGTH", "counter-reset@START",
            "group-change@START[:n=N]",
        ])
}

// MARK: What each does

/// The answer at a time of a meter without faults.
private func clean(_ model: MeterModel, at seconds: Double) -> [UInt8] {
    var meter = meter(model)
    return meter.poll(at: seconds) ?? []
}

@Test func silenceLastsAsLongAsItSays() throws {
    var meter = meter(.um25c, faults: try faults("silence@60s+20s"))
    #expect(meter.poll(at: 59.9) != nil)
    #expect(meter.poll(at: 60) == nil)
    #expect(meter.poll(at: 79.9) == nil)
    #expect(meter.poll(at: 80) == clean(.um25c, at: 80))
    #expect(meter.faultCounts == ["silence": 2])
}

@Test func aCutAnswerIsItsBeginning() throws {
    var given = meter(.um25c, faults: try faults("cut:n=64"))
    #expect(given.poll(at: 1) == Array(clean(.um25c, at: 1).prefix(64)))
    var chance = meter(.um25c, faults: try faults("cut"))
    let lengths = Set((1...50).compactMap { chance.poll(at: Double($0))?.count })
    #expect(lengths.count > 10)
    #expect(lengths.allSatisfy { (1..<130).contains($0) })
}

@Test func strayBytesComeBeforeTheAnswer() throws {
    var meter = meter(.um25c, faults: try faults("stray:n=37"))
    let frame = try meter.frame(at: 1)
    #expect(frame.count == 167)
    #expect(frame.suffix(130) == clean(.um25c, at: 1)[...])
}

@Test func aFlipTurnsOverThatManyBits() throws {
    for bits in [1, 5] {
        var meter = meter(.um25c, faults: try faults("flip:n=\(bits)"))
        for second in 1...20 {
            let frame = try meter.frame(at: Double(second))
            let differing = zip(frame, clean(.um25c, at: Double(second)))
                .reduce(0) { $0 + ($1.0 ^ $1.1).nonzeroBitCount }
            #expect(differing == bits)
        }
    }
}

@Test(arguments: [MeterModel.um24c, .um25c, .um34c])
func aBadCheckSpoilsTheLastByteOnly(_ model: MeterModel) throws {
    var meter = meter(model, faults: try faults("bad-check"))
    let frame = try meter.frame(at: 1)
    let clean = clean(model, at: 1)
    #expect(frame.dropLast() == clean.dropLast())
    #expect(frame.last != clean.last)
}

@Test func aBadCheckOfATC66CIsInsideTheEncryption() throws {
    var sound = meter(.tc66c)
    var spoilt = meter(.tc66c, faults: try faults("bad-check"))
    let request = [UInt8]("getva".utf8)
    let one = try #require(sound.receive(request, at: at(1)).first?.bytes)
    let other = try #require(spoilt.receive(request, at: at(1)).first?.bytes)
    let differing = (0..<12).filter { one[16 * $0..<16 * $0 + 16] != other[16 * $0..<16 * $0 + 16] }
    #expect(differing == [3])
}

@Test func aSplitAnswerIsWholeButInPieces() throws {
    var meter = meter(.um25c, faults: try faults("split:sizes=1/20"))
    let answer = try #require(meter.receive([0xf0], at: at(1)).first)
    #expect(answer.pieces.map(\.count) == [1, 20, 109])
    #expect(answer.bytes == clean(.um25c, at: 1))
}

@Test func faultsAtOnceAllHappen() throws {
    var meter = meter(.um25c, faults: try faults("split:sizes=40", "stray:n=10", "cut:n=64"))
    let answer = try #require(meter.receive([0xf0], at: at(1)).first)
    #expect(answer.pieces.map(\.count) == [40, 34])
    #expect(answer.bytes.suffix(64) == clean(.um25c, at: 1).prefix(64))
}

@Test func aProbabilityIsKeptRoughly() throws {
    var meter = meter(.um25c, faults: try faults("silence:p=0.25"))
    let answered = (1...1000).filter { meter.poll(at: Double($0)) != nil }.count
    #expect((680...820).contains(answered))
    #expect(meter.faultCounts == ["silence": 1000 - answered])
}

@Test func countersAreResetAndGroupsChangedAtTheirTimes() throws {
    var meter = meter(
        .um25c, faults: try faults("counter-reset@36s", "group-change@72s:n=4", "group-change@90s"))
    #expect(try meter.frame(at: 35.9).big32(16) == 9)
    #expect(try meter.frame(at: 36).big32(16) == 0)
    let fourth = try meter.frame(at: 90 - 0.1)
    #expect((fourth.big16(14), fourth.big32(16), fourth.big32(48)) == (4, 10, 4))
    #expect(try meter.frame(at: 91).big16(14) == 5)
    #expect(meter.faultCounts == ["counter-reset": 1, "group-change": 2])
}

@Test func outOfRangeTheMeterGoesOnCounting() throws {
    let meter = meter(.um25c, faults: try faults("out-of-range@10s+10s"))
    #expect(meter.isPowered(at: at(15)))
    #expect(!meter.isReachable(at: at(15)))
    #expect(meter.isReachable(at: at(20)))
    #expect(meter.trueCharge(from: at(10), to: at(20)) == Microcoulombs(10_000_000))
}

@Test func theSameSeedMakesTheSameMischief() throws {
    func answers(_ seed: UInt64) throws -> [[[UInt8]]] {
        var meter = meter(
            .um25c, profile("phone-short"),
            faults: try faults("flip:p=0.2,n=3", "cut:p=0.1", "stray:p=0.1", "silence:p=0.05"),
            seed: seed)
        return (1...200).map { meter.receive([0xf0], at: at(Double($0))).flatMap(\.pieces) }
    }
    #expect(try answers(3) == answers(3))
    #expect(try answers(3) != answers(4))
}
