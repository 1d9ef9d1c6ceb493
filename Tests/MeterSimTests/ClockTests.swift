import MeterCore
import Synchronization
import Testing

@testable import MeterSim

/// What happened, in order.
private final class Notes: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

@Suite(.timeLimit(.minutes(1)))
struct ManualClockTests {
    @Test func timeStandsStillUntilItIsMoved() async throws {
        let clock = ManualClock(
            start: MonotonicInstant(nanoseconds: 7), wall: WallTime(milliseconds: 1000))
        #expect(
            clock.moment()
                == Moment(
                    monotonic: MonotonicInstant(nanoseconds: 7), wall: WallTime(milliseconds: 1000),
                    wallTrusted: true))
        try await clock.advance(by: .seconds(2), sleepers: 0)
        #expect(clock.moment().wall == WallTime(milliseconds: 3000))
        #expect(clock.now == MonotonicInstant(nanoseconds: 2_000_000_007))
        // The past is no reason to wait.
        try await clock.sleep(until: clock.now)
        try await clock.sleep(until: MonotonicInstant(nanoseconds: 0))
    }

    @Test func sleepersWakeAtTheirOwnTimesInOrder() async throws {
        let clock = ManualClock(start: MonotonicInstant(nanoseconds: 0))
        let notes = Notes()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (name, period) in [("a", 3), ("b", 2)] {
                group.addTask {
                    for _ in 1...10 {
                        try await clock.sleep(for: .seconds(period))
                        notes.add("\(clock.now.nanoseconds / 1_000_000_000)\(name)")
                    }
                }
            }
            try await clock.advance(by: .seconds(5), sleepers: 2)
            #expect(notes.all == ["2b", "3a", "4b"])
            try await clock.advance(by: .seconds(5), sleepers: 2)
            #expect(notes.all.prefix(3) + notes.all[5...] == ["2b", "3a", "4b", "8b", "9a", "10b"])
            #expect(Set(notes.all[3..<5]) == ["6a", "6b"])
            #expect(clock.now.nanoseconds == 10_000_000_000)
            #expect(clock.deadlines.map(\.nanoseconds) == [12_000_000_000, 12_000_000_000])
            group.cancelAll()
            await #expect(throws: CancellationError.self) { try await group.waitForAll() }
        }
        #expect(clock.deadlines.isEmpty)
    }

    @Test func oneStepGoesToTheNextSleeperOrToTheLimit() async throws {
        let clock = ManualClock(start: MonotonicInstant(nanoseconds: 0))
        let limit = MonotonicInstant(nanoseconds: 5)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await clock.sleep(until: MonotonicInstant(nanoseconds: 3)) }
            try await clock.waitForSleepers(count: 1)
            #expect(clock.step(to: limit) == 1)
            #expect(clock.now.nanoseconds == 3)
            try await group.waitForAll()
        }
        #expect(clock.step(to: limit) == 0)
        #expect(clock.now == limit)
        #expect(clock.step(to: MonotonicInstant(nanoseconds: 1)) == 0)
        #expect(clock.now == limit)
    }

    @Test func aCancelledSleeperLeavesAtOnce() async throws {
        let clock = ManualClock()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await #expect(throws: CancellationError.self) {
                    try await clock.sleep(for: .seconds(1))
                }
            }
            try? await clock.waitForSleepers(count: 1)
            group.cancelAll()
        }
        #expect(clock.deadlines.isEmpty)
    }

    @Test func waitingForSleepersThatNeverComeCanBeCancelled() async {
        let clock = ManualClock()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await #expect(throws: CancellationError.self) {
                    try await clock.advance(by: .seconds(1), sleepers: 9)
                }
            }
            group.cancelAll()
        }
    }

    @Test func theWallClockStepsWithoutTheOther() async throws {
        let clock = ManualClock()
        let before = clock.now
        clock.setWall(WallTime(milliseconds: 0), trusted: false)
        #expect(clock.now == before)
        #expect(clock.moment().wall == WallTime(milliseconds: 0))
        #expect(!clock.moment().wallTrusted)
        try await clock.advance(by: .milliseconds(1500), sleepers: 0)
        #expect(clock.moment().wall == WallTime(milliseconds: 1500))
    }
}

@Suite(.timeLimit(.minutes(1)))
struct ScaledClockTests {
    @Test func aFastClockShowsMoreTime() async throws {
        let base = ManualClock(start: MonotonicInstant(nanoseconds: 100))
        let fast = ScaledClock(speed: 60, base: base, wallStart: WallTime(milliseconds: 5000))
        #expect(fast.now == base.now)
        try await base.advance(by: .seconds(2), sleepers: 0)
        #expect(fast.now == MonotonicInstant(nanoseconds: 120_000_000_100))
        #expect(fast.moment().wall == WallTime(milliseconds: 125_000))
        #expect(fast.moment().wallTrusted)
    }

    @Test func itsSleepersWakeWhenTheirTimeHasCome() async throws {
        let base = ManualClock(start: MonotonicInstant(nanoseconds: 100))
        let fast = ScaledClock(speed: 7, base: base)
        let due = fast.now + .nanoseconds(1000)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await fast.sleep(until: due) }
            try await base.waitForSleepers(count: 1)
            #expect(base.deadlines == [MonotonicInstant(nanoseconds: 100 + 143)])
            base.step(to: base.now + .seconds(1))
            try await group.waitForAll()
        }
        #expect(fast.now >= due)
        try await fast.sleep(until: due)
    }

    @Test func withoutATimeOfDayItTakesThatOfItsBase() {
        let base = ManualClock(wallTrusted: false)
        let fast = ScaledClock(speed: 2, base: base)
        #expect(fast.moment() == base.moment())
    }
}
