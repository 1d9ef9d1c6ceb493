import MeterCore
import Testing

@testable import Gateway

/// What is kept while the disk cannot be written, and how much of it.
struct BacklogTests {
    @Test func samplesGoWithTheSessionThatTheyBelongTo() {
        var backlog = Backlog()
        backlog.add(samples(0..<5))
        #expect(backlog.complete(session(1)).isEmpty)
        backlog.add(samples(0..<3))
        #expect(backlog.completed.map(\.samples.count) == [5])
        #expect(backlog.samples.count == 3)
        backlog.stored(at: 0)
        backlog.samplesStored()
        #expect(backlog.isEmpty)
        #expect(backlog.takeLosses().isEmpty)
    }

    @Test func ofTooMuchTheOldestCurvesGoAndTheReceiptsStay() {
        var backlog = Backlog()
        for number in 1...4 {
            backlog.add(samples(0..<10_000))
            _ = backlog.complete(session(number))
        }
        #expect(backlog.completed.map(\.samples.count) == [0, 10_000, 10_000, 10_000])
        #expect(backlog.takeLosses().contains("10000 samples"))
        #expect(backlog.takeLosses().isEmpty)
    }

    @Test func aSessionOfDaysLosesItsOldestSamples() {
        var backlog = Backlog()
        for second in 0..<100_000 { backlog.add(samples(second..<second + 1)) }
        #expect(backlog.samples.count <= Backlog.mostSamples)
        #expect(backlog.samples.count > Backlog.mostSamples / 2)
        #expect(backlog.samples.last?.offset == 99_999_000)
        #expect(backlog.takeLosses().contains("\(100_000 - backlog.samples.count) samples"))
    }

    @Test func thereIsAnEndToTheReceiptsToo() {
        var backlog = Backlog()
        var given: [SessionSummary] = []
        for number in 0...Backlog.mostSessions {
            backlog.add(samples(0..<1))
            given += backlog.complete(session(number))
        }
        #expect(backlog.completed.count == Backlog.mostSessions)
        #expect(given == [session(0)])
        #expect(backlog.takeLosses().contains("1 sessions"))
    }

    private func samples(_ seconds: Range<Int>) -> [Sample] {
        seconds.map {
            Sample(
                offset: Int64($0) * 1_000, voltage: Microvolts(5_000_000),
                current: Microamperes(1_000_000), power: Microwatts(5_000_000))
        }
    }

    private func session(_ number: Int) -> SessionSummary {
        var generator = Numbers(number: UInt64(number))
        let start = WallTime(milliseconds: 1_800_000_000_000 + Int64(number))
        return SessionSummary(
            id: SessionID(at: start, using: &generator), meter: MeterAddress(localFor: "a"),
            meterName: "A", model: .um25c, gatewayID: "g", startedAt: start, clockTrusted: true,
            softwareVersion: "1")
    }

    private struct Numbers: RandomNumberGenerator {
        let number: UInt64
        func next() -> UInt64 { number }
    }
}
