import MeterCore
import Testing

/// Kinds of answers, each with its own framing rule.
enum Answering: CaseIterable, CustomTestStringConvertible {
    case um24c, um25c, um34c, tc66c

    var testDescription: String { "\(model.name)" }
    var model: MeterModel {
        switch self {
        case .um24c: .um24c
        case .um25c: .um25c
        case .um34c: .um34c
        case .tc66c: .tc66c
        }
    }
    var length: Int { self == .tc66c ? 192 : 130 }

    /// A meter at about 5 V and 1 A, told apart by `serial`.
    func bytes(_ serial: Int = 0) -> [UInt8] {
        var um: UMAnswer
        switch self {
        case .um24c: um = UMAnswer(.um24c)
        case .um25c: um = UMAnswer(.um25c)
        case .um34c: um = UMAnswer(.um34c)
        case .tc66c:
            var answer = TC66Answer()
            answer.amperes = 100_000 + serial
            return answer.bytes
        }
        um.measure(microvolts: 5_120_000, microamperes: 1_000_000 + serial * 1_000)
        return um.bytes
    }
    func serial(of frame: MeterFrame) -> Int {
        Int(
            self == .tc66c
                ? frame.current.rawValue / 10 - 100_000 : frame.current.rawValue / 1_000 - 1_000)
    }
    /// A bench whose first frames are done with.
    func bench() -> Bench {
        var bench = Bench(MeterDriver(model: model, dialect: .bluetooth))
        _ = bench.ask(bytes())
        _ = bench.ask(bytes())
        return bench
    }
}

@Suite struct FramingTests {
    @Test(arguments: Answering.allCases)
    func strayBytesOfAnyLengthBeforeAnAnswerDoNotHideIt(kind: Answering) {
        var random = Seeded(37)
        for count in Array(0...40) + [129, 130, 131, 191, 192, 193, 1_000] {
            var bench = kind.bench()
            let before = bench.driver.statistics.strayBytes
            let frame = bench.ask(random.bytes(count) + kind.bytes(7)).frame
            #expect(frame.map(kind.serial) == 7, "after \(count) stray bytes")
            #expect(bench.driver.statistics.strayBytes - before == count)
            #expect(bench.driver.statistics.rejected == 0)
        }
    }

    @Test(arguments: Answering.allCases)
    func anAnswerMayBeSplitAtEveryPosition(kind: Answering) {
        let answer = kind.bytes(3)
        for cut in 1..<kind.length {
            var bench = kind.bench()
            #expect(bench.ask(Array(answer[..<cut])) == .incomplete)
            let frame = bench.driver.receive(Array(answer[cut...]), at: bench.now).frame
            #expect(frame.map(kind.serial) == 3, "cut at \(cut)")
        }
        var bench = kind.bench()
        #expect(bench.ask([]) == .incomplete)
        for byte in answer.dropLast() {
            #expect(bench.driver.receive([byte], at: bench.now) == .incomplete)
        }
        let frame = bench.driver.receive([answer[kind.length - 1]], at: bench.now).frame
        #expect(frame.map(kind.serial) == 3)
        #expect(bench.driver.statistics.strayBytes == 0)
    }

    @Test(arguments: Answering.allCases)
    func aCutAnswerNeverSpoilsTheNextOne(kind: Answering) {
        for cut in stride(from: 1, to: kind.length, by: kind == .tc66c ? 7 : 1) {
            // the next answer comes glued to what is left of the first
            var glued = kind.bench()
            let rest = Array(kind.bytes(1)[..<cut])
            let first = glued.ask(rest + kind.bytes(2)).frame
            #expect(first.map(kind.serial) == 2, "\(cut) bytes, then a whole answer")
            #expect(glued.driver.statistics.strayBytes == cut)

            // the next answer comes to the next request, with the rest late or never
            var asked = kind.bench()
            #expect(asked.ask(rest) == .incomplete)
            asked.driver.giveUp()
            let second = asked.ask(Array(kind.bytes(1)[cut...]) + kind.bytes(2)).frame
            #expect(second.map(kind.serial) == 2, "the rest after \(cut) bytes comes late")
            #expect(asked.driver.statistics.unanswered == 1)
        }
    }

    @Test(arguments: Answering.allCases)
    func ofGluedAnswersTheLastCounts(kind: Answering) {
        for count in 1...4 {
            var bench = kind.bench()
            let frame = bench.ask((1...count).flatMap { kind.bytes($0) }).frame
            #expect(frame.map(kind.serial) == count)
        }
    }

    @Test(arguments: Answering.allCases)
    func bytesBehindAnAnswerAreThrownAwayBeforeTheNextRequest(kind: Answering) {
        var bench = kind.bench()
        let before = bench.driver.statistics.strayBytes
        let long = bench.ask(kind.bytes(1) + Array(kind.bytes(9).prefix(60))).frame
        #expect(long.map(kind.serial) == 1)
        #expect(bench.ask(kind.bytes(2)).frame.map(kind.serial) == 2)
        #expect(bench.driver.statistics.strayBytes - before == 60)
    }

    @Test(arguments: Answering.allCases)
    func aWrongCheckIsCountedAndAskedAgain(kind: Answering) {
        let positions =
            switch kind {
            case .tc66c: Array(stride(from: 0, to: 192, by: 5))
            case .um34c: [129]
            case .um24c, .um25c: [128, 129]
            }
        for position in positions {
            var bench = kind.bench()
            var bad = kind.bytes(5)
            bad[position] ^= 0x10
            let outcome = bench.ask(bad)
            #expect(outcome.frame == nil, "byte \(position)")
            if !(kind == .tc66c && position < 16) {
                #expect(outcome.asksAgain, "byte \(position)")
                #expect(bench.driver.statistics.badChecks == 1)
                #expect(bench.driver.statistics.rejected == 1)
            }
            #expect(bench.ask(kind.bytes(6)).frame.map(kind.serial) == 6)
        }
    }

    @Test func everyByteThatTheUM34CsCheckCoversIsGuarded() {
        let kind = Answering.um34c
        for position in [1, 3, 7, 9, 15, 17, 49, 83, 97, 99, 109, 119, 121, 127] {
            var bench = kind.bench()
            var bad = kind.bytes(5)
            bad[position] ^= 0x01
            #expect(bench.ask(bad).frame == nil, "byte \(position)")
        }
    }

    @Test(arguments: Answering.allCases)
    func noiseNeverTrapsAndNeverBecomesAFrame(kind: Answering) {
        var random = Seeded(2)
        for model in [kind.model, nil] {
            var bench = Bench(MeterDriver(model: model, dialect: .bluetooth))
            for round in 0..<(kind == .tc66c ? 150 : 500) {
                if round % 3 == 0 { _ = bench.driver.request() }
                if round % 7 == 0 { bench.driver.giveUp() }
                var bytes = random.bytes(random.int(0...300))
                // now and then something that starts, or ends, as an answer does
                if bytes.count > 4, random.chance(50) {
                    let start = random.int(0...(bytes.count - 3))
                    bytes.replaceSubrange(start..<(start + 2), with: kind.bytes().prefix(2))
                }
                bench.now = bench.now + .milliseconds(100)
                #expect(bench.driver.receive(bytes, at: bench.now).frame == nil)
            }
            #expect(bench.driver.statistics.accepted == 0)
        }
    }

    @Test func whatIsGivenUpAndWhatIsRejectedIsCounted() {
        var bench = Answering.um25c.bench()
        for _ in 0..<3 {
            _ = bench.ask([0x09])
            bench.driver.giveUp()
        }
        #expect(bench.driver.statistics.unanswered == 3)
        #expect(bench.driver.statistics.strayBytes == 3)
        #expect(bench.driver.statistics.accepted == 1)
        #expect(bench.driver.statistics.heldBack == 0)
    }
}
