import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim

/// B3, B5, B7, B10 with the links played by tests.
struct ConnectionTests {
    @Test func aConnectionGoesForwardThroughItsStates() async throws {
        try await withBench({ [try simulated($0, faults: ["out-of-range@20s+5s"])] }) { bench in
            await bench.pass(.seconds(60))
            let states = bench.states(of: bench.meters[0])
            #expect(
                Array(states.prefix(6)) == [
                    .connecting, .connected, .ready, .polling, .receiving, .polling,
                ])
            let steps = zip([.disconnected] + states, states)
            #expect(steps.allSatisfy { $0.mayBecome($1) })
            // within one connection nothing goes back
            for connection in states.split(separator: .disconnected) {
                let setUp = connection.filter { $0 < .polling }
                #expect(setUp == setUp.sorted())
            }
        }
    }

    @Test func aMeterThatStaysAwayIsTriedAfterOneTwoFourAndSoOnSecondsForEver() async throws {
        try await withBench({ clock in
            [imposter(clock) { _ in throw LinkError(.absent, "it is not there") }]
        }) { bench in
            await bench.pass(.seconds(600))
            let pauses = attempts(at: bench.meters[0]).pauses
            #expect(pauses.count >= 11)
            for (pause, expected) in zip(
                pauses, [1, 2, 4, 8, 16, 32] + [Double](repeating: 60, count: 20))
            {
                #expect((expected * 0.799...expected * 1.201).contains(pause.inSeconds))
            }
        }
    }

    @Test func afterThreeFailuresAMeterIsAbsentAndBackWithTheNextSuccess() async throws {
        try await withBench({ clock in
            [try simulated(clock, faults: ["out-of-range@100s+300s"])]
        }) { bench in
            let meter = bench.meters[0]
            await bench.pass(.seconds(500))
            let away = bench.changes(of: meter).drop { $0.state != .disconnected }
            let firstAbsent = try #require(away.firstIndex { $0.state == .absent })
            // lost, and tried twice without success
            let failures = away[..<firstAbsent].filter { $0.state == .disconnected }
            #expect(failures.count == 3)
            #expect([.polling, .receiving].contains(bench.states(of: meter).last))
            // heard again within one cap
            let back = try #require(away.first { $0.state == .ready }).at
            #expect(back - (bench.start(of: meter) + .seconds(400)) <= .seconds(72))
        }
    }

    @Test func aDeviceThatAppearsIsConnectedAtOnce() async throws {
        try await withBench({ clock in
            let meter = try simulated(clock, faults: ["no-power@100s+1000s"])
            let truth = try #require(meter.truth)
            return [meter.behind { VisibleTransport(way: $0, meter: truth, clock: clock) }]
        }) { bench in
            let meter = bench.meters[0]
            await bench.pass(.seconds(1099))
            #expect(bench.states(of: meter).last == .absent)
            await bench.pass(.seconds(4))
            #expect(
                bench.readings(of: meter).last?.moment.monotonic ?? .init(nanoseconds: 0)
                    > bench.clock.now - .seconds(2))
        }
    }

    @Test func aConnectionThatHeldForAMinuteBeginsTheBackOffAnew() async throws {
        try await withBench({ clock in
            [
                try simulated(
                    clock,
                    faults: [
                        "out-of-range@10s+20s", "out-of-range@150s+2s", "out-of-range@300s+2s",
                    ])
            ]
        }) { bench in
            await bench.pass(.seconds(400))
            let changes = bench.changes(of: bench.meters[0])
            let start = try #require(bench.meters[0].truth).start
            for time in [150, 300] {
                let after = changes.filter { $0.at >= start + .seconds(time) }
                let loss = try #require(after.first { $0.state == .disconnected })
                let retry = try #require(after.first { $0.state == .connecting })
                #expect((0.799...1.201).contains((retry.at - loss.at).inSeconds))
            }
        }
    }

    @Test func anUnansweredRequestIsRepeatedOnceOnTheSameLink() async throws {
        try await withBench({ clock in
            let meter = try simulated(clock, faults: ["silence@20s+1s"])
            return [meter.behind { WatchedTransport($0, clock: clock) }]
        }) { bench in
            await bench.pass(.seconds(40))
            let meter = bench.meters[0]
            let requests = try #require(meter.settings.transport as? WatchedTransport).requests
            let long = requests.pauses.filter { $0 > .seconds(1.5) }
            #expect(long == [.seconds(3)])
            #expect(!bench.states(of: meter).contains(.disconnected))
        }
    }

    @Test func aSecondRequestWithoutAnswerDropsTheLink() async throws {
        try await withBench({ clock in
            let meter = try simulated(clock, faults: ["silence@20s+6s"])
            return [meter.behind { WatchedTransport($0, clock: clock) }]
        }) { bench in
            await bench.pass(.seconds(40))
            let meter = bench.meters[0]
            let start = try #require(meter.truth).start
            let drops = bench.changes(of: meter).filter { $0.state == .disconnected }
            #expect(drops.count == 1)
            let drop = try #require(drops.first).at
            let requests = try #require(meter.settings.transport as? WatchedTransport).requests
            let unanswered = requests.filter { $0 >= start + .seconds(20) && $0 < drop }
            #expect(unanswered.count == 2)
            #expect(
                bench.readings(of: meter).last?.moment.monotonic ?? start > start + .seconds(38))
            // the loss is said once, with advice, and so is the return
            let lines = bench.log.lines.map(\.text)
            #expect(lines.filter { $0.contains("no meter answers") }.count == 1)
            #expect(lines.filter { $0.contains("back after") }.count == 1)
        }
    }

    @Test func aLinkOnWhichNothingEverAnswersIsAFailure() async throws {
        try await withBench({ clock in [imposter(clock) { _ in SilentLink() }] }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(120))
            let meter = bench.meters[0]
            // twice three seconds, then the back-off
            let first = try #require(attempts(at: meter).pauses.first).inSeconds
            #expect((6.799...7.201).contains(first))
            #expect(bench.states(of: meter).contains(.absent))
            #expect(bench.availability(of: meter).map(\.text) == ["offline"])
            #expect(bench.log.lines(from: .warning).count == 1)
        }
    }

    @Test func aLinkThatTakesNothingIsAFailure() async throws {
        try await withBench({ clock in [imposter(clock) { _ in StuckLink() }] }) { bench in
            await bench.pass(.seconds(120))
            let meter = bench.meters[0]
            #expect(attempts(at: meter).count >= 4)
            #expect(bench.states(of: meter).contains(.absent))
            #expect(bench.log.lines(from: .warning).count == 1)
        }
    }

    @Test func aLinkThatBabblesIsAFailure() async throws {
        try await withBench({ clock in
            [imposter(clock) { _ in BabblingLink(clock: clock) }]
        }) { bench in
            await bench.pass(.seconds(60))
            let meter = bench.meters[0]
            #expect(attempts(at: meter).count >= 3)
            #expect(bench.readings(of: meter).isEmpty)
            #expect(bench.log.lines(from: .warning).count == 1)
        }
    }

    @Test func aLinkThatEndsAsIfCancelledIsTriedAgain() async throws {
        try await withBench({ clock in [imposter(clock) { _ in throw LinkError.cancelled }] }) {
            bench in
            await bench.pass(.seconds(60))
            #expect(attempts(at: bench.meters[0]).count >= 5)
        }
    }

    @Test func anAnswerThatComesLateDoesNotMakeAllLaterReadingsOld() async throws {
        // the load rises by 20 mA a second, so that a value tells its age
        let rising = LoadProfile(
            "rising", summary: "", ending: .holds, resistance: 0, ripple: 0, seed: 1,
            phases: [.init(length: 100_000, supply: 5_000_000, from: 500_000, to: 2_500_000)])
        try await withBench({ clock in
            let meter = try simulated(clock, .um25c, rising)
            let truth = try #require(meter.truth)
            return [
                meter.behind { _ in SlowTransport(to: truth, clock: clock, lateAnswer: 10) }
            ]
        }) { bench in
            await bench.pass(.seconds(60))
            let meter = bench.meters[0]
            let start = try #require(meter.truth).start
            let readings = bench.readings(of: meter)
            #expect(readings.count > 40)
            #expect(!bench.states(of: meter).contains(.disconnected))
            for reading in readings {
                let time = (reading.moment.monotonic - start).inSeconds
                let age = time - (reading.frame.current.base - 0.5) / 0.02
                #expect(age < 1, "at \(time) s")
            }
        }
    }

    @Test func metersThatHangDoNotDisturbTheOthers() async throws {
        try await withBench({ clock in
            [
                imposter(clock, named: "Silent") { _ in SilentLink() },
                imposter(clock, named: "Stuck") { _ in StuckLink() },
                try simulated(clock, named: "Good"),
            ]
        }) { bench in
            await bench.pass(.seconds(100))
            let readings = bench.readings(of: bench.meters[2])
            #expect(readings.count >= 99)
            let pauses = readings.map(\.moment.monotonic).pauses
            #expect(pauses.dropFirst().allSatisfy { $0 == .seconds(1) })
        }
    }

    @Test func fiftyReconnectionsLeaveNothingBehind() async throws {
        let drops = (1...50).map { "out-of-range@\($0 * 75)s+1s" }
        try await withBench({ clock in
            [try simulated(clock, faults: drops, pollInterval: .seconds(5))]
        }) { bench in
            /// The most tasks that sleep at any time of a second.
            func sleepers() async -> Int {
                var most = 0
                for _ in 1...20 {
                    await bench.pass(.milliseconds(50))
                    most = max(most, bench.clock.deadlines.count)
                }
                return most
            }
            bench.channel.connect()
            await bench.pass(.seconds(60))
            let sleeping = await sleepers()
            await bench.pass(.seconds(50 * 75))
            #expect(bench.states(of: bench.meters[0]).filter { $0 == .connected }.count > 50)
            #expect(await sleepers() <= sleeping)
            // and the meter is still read
            let before = bench.readings(of: bench.meters[0]).count
            await bench.pass(.seconds(50))
            #expect(bench.readings(of: bench.meters[0]).count == before + 10)
        }
    }

    private func attempts(at meter: BenchMeter) -> [MonotonicInstant] {
        (meter.settings.transport as? ScriptedTransport)?.attempts ?? []
    }
}

extension [MonotonicInstant] {
    /// The times between them.
    var pauses: [Duration] { zip(self, dropFirst()).map { $1 - $0 } }
}
