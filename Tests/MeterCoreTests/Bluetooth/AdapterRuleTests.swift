import MeterCore
import Testing

private func at(_ seconds: Int64) -> MonotonicInstant {
    MonotonicInstant(nanoseconds: seconds * 1_000_000_000)
}
private func peer(_ number: UInt8, _ kind: PeerAddress.Kind = .lePublic) -> PeerAddress {
    let address = MeterAddress(littleEndian: [number, 0, 0, 0, 0, 0x10] as [UInt8])
    return PeerAddress(address: address ?? MeterAddress(localFor: "test"), kind: kind)
}

struct SlotAccountTests {
    @Test func aRefusalTeachesTheLimitAndEachDayRelaxesIt() {
        var slots = SlotAccount(limit: 7)
        #expect(slots.hasRoom(beside: 6, at: at(0)))
        #expect(!slots.hasRoom(beside: 7, at: at(0)))
        slots.refused(holding: 4, at: at(0))
        #expect(slots.limit(at: at(10)) == 4)
        #expect(slots.limit(at: at(86_400)) == 5)
        #expect(slots.limit(at: at(86_400 * 30)) == 7)
    }

    @Test func aPowerCycleGivesOneBackAtOnce() {
        var slots = SlotAccount(limit: 5)
        slots.refused(holding: 3, at: at(0))
        slots.powerCycled(at: at(1))
        #expect(slots.limit(at: at(1)) == 4)
        slots.powerCycled(at: at(2))
        #expect(slots.limit(at: at(2)) == 5)
    }

    @Test func aRefusalWithoutLinksTeachesNothing() {
        var slots = SlotAccount(limit: 5)
        slots.refused(holding: 0, at: at(0))
        #expect(slots.limit(at: at(0)) == 5)
    }
}

struct ConnectQueueTests {
    @Test func oneAtATime() {
        var queue = ConnectQueue()
        let first = queue.enter(peer(1), isPersons: false, at: at(0))
        _ = queue.enter(peer(2), isPersons: false, at: at(0))
        #expect(queue.next(at: at(0))?.id == first.id)
        queue.begin(first, at: at(0))
        #expect(queue.next(at: at(0)) == nil)
        queue.end(first.id, at: at(1))
        #expect(queue.next(at: at(1))?.peer == peer(2))
    }

    @Test func whoFailedLessOfLateGoesFirst() {
        var queue = ConnectQueue()
        queue.failed(peer(1), at: at(0))
        queue.failed(peer(1), at: at(1))
        queue.failed(peer(2), at: at(1))
        _ = queue.enter(peer(1), isPersons: false, at: at(2))
        _ = queue.enter(peer(2), isPersons: false, at: at(3))
        _ = queue.enter(peer(3), isPersons: false, at: at(4))
        #expect(order(&queue, at: at(5)) == [peer(3), peer(2), peer(1)])
    }

    @Test func whoHasWaitedAMinuteIsNotPassedAnyMore() {
        var queue = ConnectQueue()
        queue.failed(peer(1), at: at(0))
        _ = queue.enter(peer(1), isPersons: false, at: at(2))
        _ = queue.enter(peer(2), isPersons: false, at: at(50))
        #expect(queue.next(at: at(60))?.peer == peer(2))
        #expect(queue.next(at: at(62))?.peer == peer(1))
    }

    @Test func aPersonGoesAheadOfAll() {
        var queue = ConnectQueue()
        _ = queue.enter(peer(1), isPersons: false, at: at(0))
        _ = queue.enter(peer(2), isPersons: true, at: at(90))
        #expect(queue.next(at: at(90))?.peer == peer(2))
    }

    @Test func failuresAreForgottenAfterSuccessOrTenMinutes() {
        var queue = ConnectQueue()
        queue.failed(peer(1), at: at(0))
        queue.failed(peer(2), at: at(0))
        queue.succeeded(peer(1))
        _ = queue.enter(peer(2), isPersons: false, at: at(1))
        _ = queue.enter(peer(1), isPersons: false, at: at(2))
        #expect(queue.next(at: at(2))?.peer == peer(1))
        var later = queue
        later.withdraw(2)
        _ = later.enter(peer(1), isPersons: false, at: at(600))
        #expect(later.next(at: at(600))?.peer == peer(2))
    }

    @Test func aWithdrawnRequestGetsNoTurnAndAnOldEndEndsNothing() {
        var queue = ConnectQueue()
        let first = queue.enter(peer(1), isPersons: false, at: at(0))
        queue.withdraw(first.id)
        #expect(queue.next(at: at(0)) == nil)
        let second = queue.enter(peer(2), isPersons: false, at: at(0))
        queue.begin(second, at: at(0))
        queue.end(first.id, at: at(1))
        #expect(queue.inFlight?.id == second.id)
    }

    @Test func thePauseAfterATurnIsKept() {
        var queue = ConnectQueue(pause: .seconds(2))
        let first = queue.enter(peer(1), isPersons: false, at: at(0))
        _ = queue.enter(peer(2), isPersons: false, at: at(0))
        queue.begin(first, at: at(0))
        queue.end(first.id, at: at(10))
        #expect(queue.next(at: at(11)) == nil)
        #expect(queue.pauseEnd(after: at(11)) == at(12))
        #expect(queue.next(at: at(12)) != nil)
    }

    @Test func oneThatIsThereGoesBeforeThoseTriedOnTheChance() {
        var queue = ConnectQueue()
        queue.failed(peer(2), at: at(0))
        _ = queue.enter(peer(1), isPersons: false, at: at(1))
        _ = queue.enter(peer(2), isPersons: false, isHeard: true, at: at(2))
        #expect(order(&queue, at: at(5)) == [peer(2), peer(1)])
    }

    @Test func anAttemptOnTheChanceGivesWayAfterASecond() {
        var queue = ConnectQueue()
        queue.begin(queue.enter(peer(1), isPersons: false, at: at(0)), at: at(10))
        #expect(queue.givesWayAt == nil)
        _ = queue.enter(peer(2), isPersons: false, at: at(11))
        #expect(queue.givesWayAt == nil)
        _ = queue.enter(peer(3), isPersons: false, isHeard: true, at: at(12))
        #expect(queue.givesWayAt == at(11))
        if let id = queue.inFlight?.id { queue.end(id, at: at(13)) }
        let heard = queue.next(at: at(13))
        #expect(heard?.peer == peer(3))
        if let heard { queue.begin(heard, at: at(13)) }
        _ = queue.enter(peer(4), isPersons: true, at: at(14))
        #expect(queue.givesWayAt == nil)
    }

    private func order(_ queue: inout ConnectQueue, at now: MonotonicInstant) -> [PeerAddress] {
        var order: [PeerAddress] = []
        while let next = queue.next(at: now) {
            queue.begin(next, at: now)
            queue.end(next.id, at: now)
            order.append(next.peer)
        }
        return order
    }
}

struct AdapterSuspicionTests {
    @Test func fourFailuresInFiveMinutesConvict() {
        var suspicion = AdapterSuspicion()
        for second in [0, 100, 200] { suspicion.failed(at: at(Int64(second))) }
        #expect(!suspicion.isConvicted(at: at(200)))
        suspicion.failed(at: at(299))
        #expect(suspicion.isConvicted(at: at(299)))
        #expect(!suspicion.isConvicted(at: at(301)))
    }

    @Test func oneSuccessClears() {
        var suspicion = AdapterSuspicion()
        for second in 0..<4 { suspicion.failed(at: at(Int64(second))) }
        suspicion.cleared()
        #expect(suspicion.score(at: at(4)) == 0)
    }

    @Test func twoUnansweredRequestsConvictUnlessAnAnswerCameBetween() {
        var suspicion = AdapterSuspicion()
        suspicion.leftUnanswered(at: at(0))
        suspicion.answered()
        suspicion.leftUnanswered(at: at(5))
        #expect(!suspicion.isConvicted(at: at(5)))
        suspicion.leftUnanswered(at: at(10))
        #expect(suspicion.isMute)
        #expect(suspicion.isConvicted(at: at(1000)))
    }
}

struct RecoveryLadderTests {
    private let answering = RecoveryLadder.Means(
        managementAnswers: true, isBlocked: false, mayIntervene: true, mayResetUSB: true)

    @Test func stepsAreAMinuteApartThenTwoThenFour() {
        var ladder = RecoveryLadder()
        #expect(ladder.climb(at: at(0), with: answering) == .calm)
        #expect(ladder.climb(at: at(59), with: answering) == nil)
        #expect(ladder.climb(at: at(60), with: answering) == .powerCycle)
        #expect(ladder.climb(at: at(179), with: answering) == nil)
        #expect(ladder.climb(at: at(180), with: answering) == .resetUSB)
        #expect(ladder.climb(at: at(419), with: answering) == nil)
        #expect(ladder.climb(at: at(420), with: answering) == .giveUp)
        #expect(ladder.hasGivenUp)
        #expect(ladder.taken == 3)
    }

    @Test func aMuteManagementInterfaceIsGoneAround() {
        var means = answering
        means.managementAnswers = false
        means.mayResetUSB = false
        var ladder = RecoveryLadder()
        #expect(ladder.climb(at: at(0), with: means) == .bounce)
        #expect(ladder.climb(at: at(60), with: means) == .giveUp)
    }

    @Test func aBlockIsLiftedBeforeThePowerIsTouched() {
        var means = answering
        means.isBlocked = true
        var ladder = RecoveryLadder()
        #expect(ladder.climb(at: at(0), with: means) == .calm)
        #expect(ladder.climb(at: at(60), with: means) == .unblock)
        #expect(ladder.climb(at: at(180), with: means) == .powerCycle)
    }

    @Test func aGuestOnlyCeasesToScan() {
        var means = answering
        means.mayIntervene = false
        var ladder = RecoveryLadder()
        #expect(ladder.climb(at: at(0), with: means) == .calm)
        #expect(ladder.climb(at: at(60), with: means) == .giveUp)
    }

    @Test func noStepIsRepeatedWithinAnHour() {
        var ladder = RecoveryLadder()
        #expect(ladder.climb(at: at(0), with: answering) == .calm)
        #expect(ladder.climb(at: at(60), with: answering) == .powerCycle)
        ladder.proven()
        #expect(ladder.climb(at: at(600), with: answering) == .resetUSB)
        ladder.proven()
        #expect(ladder.climb(at: at(1200), with: answering) == .giveUp)
        #expect(ladder.climb(at: at(1800), with: answering) == nil)
        ladder.resume(at: at(4000))
        #expect(ladder.hasGivenUp)
        ladder.resume(at: at(4800))
        #expect(ladder.climb(at: at(4800), with: answering) == .calm)
    }
}

struct AdapterChoiceTests {
    private func candidate(
        _ number: UInt8, usable: Bool = true, room: Bool = true, links: Int = 0, rssi: Int? = nil
    ) -> AdapterCandidate {
        AdapterCandidate(
            address: peer(number).address, isUsable: usable, hasRoom: room, links: links,
            rssi: rssi)
    }
    private func address(_ number: UInt8) -> MeterAddress { peer(number).address }

    @Test func theAssignedOneIsTakenWhateverOthersHear() {
        let all = [candidate(1, usable: false), candidate(2, rssi: -40)]
        #expect(chooseAdapter(among: all, assigned: address(1), last: nil) == address(1))
        #expect(chooseAdapter(among: all, assigned: address(3), last: nil) == nil)
    }

    @Test func fiveDecibelsAreNeededToLeaveTheLastOne() {
        let near = [candidate(1, rssi: -70), candidate(2, rssi: -66)]
        #expect(chooseAdapter(among: near, assigned: nil, last: address(1)) == address(1))
        let far = [candidate(1, rssi: -70), candidate(2, rssi: -65)]
        #expect(chooseAdapter(among: far, assigned: nil, last: address(1)) == address(2))
        let unheard = [candidate(1), candidate(2, rssi: -65)]
        #expect(chooseAdapter(among: unheard, assigned: nil, last: address(1)) == address(1))
    }

    @Test func withoutAHistoryWhoHearsItGetsIt() {
        let all = [candidate(1, links: 0), candidate(2, links: 3, rssi: -80)]
        #expect(chooseAdapter(among: all, assigned: nil, last: nil) == address(2))
    }

    @Test func withoutASignalTheEmptierOneGetsIt() {
        let all = [candidate(1, links: 3), candidate(2, links: 1)]
        #expect(chooseAdapter(among: all, assigned: nil, last: nil) == address(2))
    }

    @Test func aFullOrUnusableOneIsTheLastResort() {
        let all = [candidate(1, room: false, rssi: -40), candidate(2, rssi: -90)]
        #expect(chooseAdapter(among: all, assigned: nil, last: address(1)) == address(2))
        let none = [candidate(1, usable: false), candidate(2, room: false)]
        #expect(chooseAdapter(among: none, assigned: nil, last: nil) == address(2))
        #expect(chooseAdapter(among: [], assigned: nil, last: nil) == nil)
    }
}

struct ScanPolicyTests {
    private let idle = ScanPolicy.Situation(
        isConnecting: false, hasLinks: false, speaksLowEnergy: true, speaksClassic: true)

    @Test func nothingIsScannedForUnasked() {
        let policy = ScanPolicy(looksAround: false, at: at(0))
        #expect(policy.discovery(at: at(1000), idle) == nil)
        #expect(policy.nextChange(after: at(0)) == nil)
    }

    @Test func aPersonsLookEndsWithOneInquiry() {
        var policy = ScanPolicy(looksAround: false, at: at(0))
        policy.look(for: .seconds(30), includingClassic: true, at: at(100))
        #expect(policy.discovery(at: at(100), idle) == .lowEnergy)
        policy.ended(.lowEnergy, at: at(110))
        #expect(policy.discovery(at: at(110), idle) == .lowEnergy)
        #expect(policy.discovery(at: at(120), idle) == .classic)
        var early = policy
        early.ended(.classic, at: at(125))
        #expect(early.discovery(at: at(126), idle) == .lowEnergy)
        #expect(early.discovery(at: at(130), idle) == nil)
        #expect(!early.isLooking(at: at(130)))
        // The names come after the inquiry.
        #expect(policy.discovery(at: at(135), idle) == .classic)
        #expect(policy.isLooking(at: at(135)))
        #expect(policy.discovery(at: at(136), idle) == nil)
        #expect(!policy.isLooking(at: at(136)))
        policy.ended(.classic, at: at(134))
        #expect(!policy.isLooking(at: at(134)))
    }

    @Test func aShortLookAsksForNoNames() {
        var policy = ScanPolicy(looksAround: false, at: at(0))
        policy.look(for: .seconds(8), includingClassic: true, at: at(0))
        #expect(policy.discovery(at: at(3), idle) == .lowEnergy)
        #expect(policy.discovery(at: at(4), idle) == .classic)
        #expect(policy.discovery(at: at(8), idle) == nil)
        #expect(!policy.isLooking(at: at(8)))
    }

    @Test func aConnectionAttemptGoesFirst() {
        var policy = ScanPolicy(looksAround: true, at: at(0))
        policy.look(for: .seconds(30), includingClassic: true, at: at(0))
        var connecting = idle
        connecting.isConnecting = true
        #expect(policy.discovery(at: at(1), connecting) == nil)
    }

    @Test func lookingAroundIsFrequentAtFirstAndThenRare() {
        var policy = ScanPolicy(looksAround: true, at: at(0))
        #expect(policy.discovery(at: at(0), idle) == .lowEnergy)
        policy.ended(.lowEnergy, at: at(10))
        #expect(policy.discovery(at: at(10), idle) == .classic)
        policy.ended(.classic, at: at(20))
        #expect(policy.discovery(at: at(29), idle) == nil)
        #expect(policy.nextChange(after: at(20)) == at(30))
        #expect(policy.discovery(at: at(30), idle) == .lowEnergy)
        policy.ended(.lowEnergy, at: at(140))
        #expect(policy.discovery(at: at(259), idle) == nil)
        #expect(policy.discovery(at: at(260), idle) == .lowEnergy)
    }

    @Test func anInquiryDoesNotDisturbLinks() {
        var policy = ScanPolicy(looksAround: true, at: at(0))
        policy.ended(.lowEnergy, at: at(10))
        var linked = idle
        linked.hasLinks = true
        #expect(policy.discovery(at: at(10), linked) == nil)
        #expect(policy.discovery(at: at(10), idle) == .classic)
    }

    @Test func anAdapterIsNotAskedForWhatItCannotDo() {
        var policy = ScanPolicy(looksAround: false, at: at(0))
        policy.look(for: .seconds(30), includingClassic: true, at: at(0))
        var classic = idle
        classic.speaksLowEnergy = false
        #expect(policy.discovery(at: at(0), classic) == .classic)
        var lowEnergy = idle
        lowEnergy.speaksClassic = false
        #expect(policy.discovery(at: at(25), lowEnergy) == .lowEnergy)
    }
}

struct PairingRulesTests {
    @Test func aCodeThatWasRefusedTwiceIsNotTriedForAnHourUnlessAPersonAsks() {
        var rules = PairingRules()
        rules.refused(peer(1), at: at(0))
        #expect(!rules.isParked(peer(1), at: at(0)))
        rules.refused(peer(1), at: at(40))
        #expect(rules.isParked(peer(1), at: at(3_639)))
        #expect(!rules.isParked(peer(2), at: at(40)))
        var later = rules
        #expect(!later.isParked(peer(1), at: at(3_640)))
        later.refused(peer(1), at: at(3_700))
        #expect(!later.isParked(peer(1), at: at(3_700)))
        later.refused(peer(1), at: at(3_701))
        #expect(later.isParked(peer(1), at: at(3_701)))
        rules.forgive(peer(1))
        #expect(!rules.isParked(peer(1), at: at(41)))
    }
}

struct PeerAddressTests {
    @Test func privateRandomAddressesDoNotLast() throws {
        func random(_ top: UInt8) throws -> PeerAddress {
            let address = try #require(MeterAddress(littleEndian: [1, 2, 3, 4, 5, top] as [UInt8]))
            return PeerAddress(address: address, kind: .leRandom)
        }
        #expect(try random(0xc1).isLasting)
        #expect(try !random(0x41).isLasting)
        #expect(try !random(0x01).isLasting)
        #expect(peer(1, .lePublic).isLasting)
    }

    @Test func theKernelsBytesAreLowestFirst() throws {
        let address = try #require(MeterAddress("00:15:A6:00:36:2F"))
        #expect(address.littleEndianBytes == [0x2f, 0x36, 0, 0xa6, 0x15, 0])
        #expect(MeterAddress(littleEndian: address.littleEndianBytes) == address)
        #expect(MeterAddress(littleEndian: [1, 2, 3] as [UInt8]) == nil)
    }
}
