import MeterCore
import Testing

@Suite struct ConnectionTests {
    private let order: [ConnectionState] = [
        .absent, .disconnected, .connecting, .connected, .discoveringServices,
        .discoveringCharacteristics, .ready, .polling, .receiving,
    ]

    /// B3
    @Test func oneConnectionOnlyMovesForward() {
        for (index, from) in order.enumerated() {
            for (next, to) in order.enumerated() {
                let may = from.mayBecome(to)
                switch (from, to) {
                case (_, .disconnected): #expect(may, "a drop, from \(from)")
                case (.receiving, .polling): #expect(may)
                case (.absent, .connecting): #expect(may)
                case (.absent, _): #expect(!may, "absent to \(to)")
                case (.disconnected, .absent): #expect(may)
                case (_, .absent): #expect(!may, "\(from) to absent")
                default: #expect(may == (index < next), "\(from) to \(to)")
                }
            }
        }
        #expect(order == order.sorted())
    }

    @Test func statesAreNamedAsTheyArePublished() {
        #expect(
            order.map(\.rawValue) == [
                "absent", "disconnected", "connecting", "connected", "discovering_services",
                "discovering_characteristics", "ready", "polling", "receiving",
            ])
    }

    /// B5
    @Test func theWaitDoublesToAMinuteWithJitterAndNeverGivesUp() {
        var shortest = 2.0
        var longest = 0.0
        for seed in 0..<200 as Range<UInt64> {
            var random = Seeded(seed)
            var policy = ReconnectPolicy()
            for expected in [1, 2, 4, 8, 16, 32, 60, 60, 60] as [Double] {
                let wait = policy.failed(.transient, lasted: .zero, using: &random).delay.inSeconds
                #expect(wait >= expected * 0.8 - 1e-9 && wait <= expected * 1.2 + 1e-9)
                shortest = min(shortest, wait / expected)
                longest = max(longest, wait / expected)
            }
        }
        #expect(shortest < 0.82 && longest > 1.18, "the jitter is used")
        var random = Seeded(1)
        var policy = ReconnectPolicy()
        for _ in 0..<100_000 { _ = policy.failed(.transient, lasted: .zero, using: &random) }
        #expect(policy.failed(.transient, lasted: .zero, using: &random).delay <= .seconds(72))
        #expect(policy.isWanted)
    }

    @Test func afterThreeFailuresInARowAMeterIsAbsentUntilItIsHeard() {
        var random = Seeded(2)
        var policy = ReconnectPolicy()
        for count in 1...4 {
            _ = policy.failed(.transient, lasted: .zero, using: &random)
            #expect(policy.isAbsent == (count >= 3))
        }
        policy.heard()
        #expect(!policy.isAbsent)
        #expect(policy.failed(.transient, lasted: .zero, using: &random).delay <= .seconds(1.2))
    }

    @Test func onlyAConnectionOfAMinuteCountsAsASuccess() {
        var random = Seeded(3)
        var policy = ReconnectPolicy()
        for _ in 0..<5 { _ = policy.failed(.transient, lasted: .seconds(59), using: &random) }
        #expect(policy.failures == 5)
        #expect(policy.isAbsent)
        #expect(
            policy.failed(.transient, lasted: .seconds(60), using: &random).delay <= .seconds(1.2))
        #expect(policy.failures == 1)
    }

    /// B6
    @Test func anIntentionalDisconnectHoldsUntilAnExplicitConnect() {
        var random = Seeded(4)
        var policy = ReconnectPolicy()
        policy.disconnect()
        policy.heard()
        _ = policy.failed(.transient, lasted: .seconds(100), using: &random)
        #expect(!policy.isWanted)
        policy.connect()
        #expect(policy.isWanted)
        #expect(policy.failures == 0)
    }

    @Test func whatAnswersAndIsNoMeterIsTriedRarely() {
        var random = Seeded(5)
        var policy = ReconnectPolicy()
        var waits: [Double] = []
        for _ in 0..<8 {
            let wait = policy.failed(.incompatible, lasted: .zero, using: &random)
            #expect(wait.silence == nil)
            waits.append(wait.delay.inSeconds)
        }
        for (wait, expected) in zip(waits, [1, 2, 60, 120, 240, 480, 960, 960] as [Double]) {
            #expect((expected * 0.8 - 1e-9...expected * 1.2 + 1e-9).contains(wait))
        }
        // another cause begins with short waits again, within the count of failures
        let next = policy.failed(.transient, lasted: .zero, using: &random)
        #expect(next.delay <= .seconds(72))
    }

    @Test func aSignOfLifeEndsTheWaitWhereItIsNews() {
        var random = Seeded(6)
        func wait(
            _ policy: inout ReconnectPolicy, _ category: FaultCategory, lasted: Duration = .zero
        ) -> Duration? {
            policy.failed(category, lasted: lasted, using: &random).silence
        }
        var policy = ReconnectPolicy()
        // a link that fell: whenever it is heard
        #expect(wait(&policy, .transient, lasted: .seconds(5)) == .zero)
        // away: when it was silent up to then
        #expect(wait(&policy, .absent) == .seconds(3))
        policy.heard()
        // heard, and not to be had: it is not tried each time that it is heard
        #expect(wait(&policy, .transient) == nil)
        #expect(wait(&policy, .transient) == nil)
        // away again
        #expect(wait(&policy, .absent) == .seconds(3))
        for category in [FaultCategory.silent, .incompatible, .pairing, .permission] {
            #expect(wait(&policy, category) == nil)
        }
    }
}
