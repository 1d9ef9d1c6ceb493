import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// C10: a recorder that cannot keep up loses the oldest readings, and says how many.
struct IntakeTests {
    @Test func theOldestReadingsAreLostAndCounted() async {
        let intake = Intake()
        for second in 1...150 { intake.offer(reading(second), rejected: second) }
        intake.finish()
        var kept: [Int] = []
        for await case .reading(_, let rejected) in intake.events { kept.append(rejected) }
        #expect(kept.count + intake.dropped == 150)
        #expect((100...101).contains(kept.count))
        #expect(kept == Array((151 - kept.count)...150))
    }

    @Test func oneTickWaitsHoweverManyThereWere() async {
        let intake = Intake()
        for second in 1...50 { intake.tick(at(second)) }
        intake.offer(reading(51), rejected: 0)
        intake.finish()
        var events = 0
        for await _ in intake.events { events += 1 }
        #expect(events == 2)
        #expect(intake.dropped == 0)
    }

    @Test func aTickThatWasPushedOutIsFollowedByAnother() async {
        let intake = Intake()
        intake.tick(at(1))
        for second in 1...101 { intake.offer(reading(second), rejected: 0) }
        intake.tick(at(102))
        intake.finish()
        var ticks = 0
        for await case .tick in intake.events { ticks += 1 }
        #expect(ticks == 1)
        // the tick took the place of a reading
        #expect(intake.dropped == 1)
    }

    @Test func aCardThatStallsCostsReadingsAndTheReceiptSaysHowMany() async throws {
        try await withFolder { folder in
            let clock = ManualClock()
            let meter = try simulated(clock, .um25c, load(of: 1, for: 400))
            try await withGateway(
                in: folder, meters: [meter], clock: clock, busyTimeout: .seconds(600)
            ) { bench in
                bench.channel.connect()
                await bench.pass(.seconds(60))
                let stall = try Connection(path: folder.path + "/usbmeter.db", .readWrite)
                defer { stall.close() }
                try stall.execute("BEGIN IMMEDIATE")
                await bench.pass(.seconds(200), storeMayWait: true)
                // what is live is not held up
                #expect(bench.live(of: meter).count >= 259)
                try stall.execute("COMMIT")
                await bench.pass(.seconds(290))

                let session = try #require(bench.completed.first)
                #expect(session.droppedReadings > 80)
                // every reading is in the session or counted as lost: it began at 5 s, ended at 405 s
                let readings = bench.readings(of: meter).filter {
                    (5.0...405.9).contains(
                        (($0.moment.monotonic - bench.start(of: meter)).inSeconds))
                }
                #expect(abs(session.samples + session.droppedReadings - readings.count) <= 2)
                // and the energy is that of the counter meanwhile
                let truth = try #require(meter.truth)
                let all = truth.trueEnergy(from: truth.start, to: clock.now)
                #expect(difference(session.energy, all) < 0.01)
                let summary = bench.channel.retained[Bench.topics.lastSession(meter.address)]
                #expect(
                    summary?.contains("\"droppedReadings\":\(session.droppedReadings),") == true)
            }
        }
    }

    private func at(_ second: Int) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: Int64(second) * 1_000_000_000)
    }
    private func reading(_ second: Int) -> Reading {
        Reading(
            MeterFrame(
                model: .um25c, voltage: Microvolts(5_000_000), current: .zero, power: .zero),
            at: Moment(
                monotonic: at(second), wall: WallTime(milliseconds: Int64(second) * 1_000),
                wallTrusted: true))
    }
}

extension Bench {
    /// When a simulated meter was switched on.
    func start(of meter: BenchMeter) -> MonotonicInstant {
        meter.truth?.start ?? MonotonicInstant(nanoseconds: 0)
    }
}
