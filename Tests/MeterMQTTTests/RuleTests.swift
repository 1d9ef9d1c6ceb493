import MeterCore
import Testing

@testable import MeterMQTT

struct ReconnectDelayTests {
    @Test func pausesDoubleUpToAMinute() {
        var delay = ReconnectDelay()
        let pauses = (0..<9).map { _ in delay.afterFailure(connected: nil, share: 1).inSeconds }
        #expect(pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60])
    }

    @Test func onlyAGoodConnectionBringsThePauseBack() {
        var delay = ReconnectDelay()
        for _ in 0..<5 { _ = delay.afterFailure(connected: nil, share: 1) }
        #expect(delay.afterFailure(connected: .seconds(29), share: 1) == .seconds(16))
        #expect(delay.afterFailure(connected: .seconds(30), share: 1) == .milliseconds(500))
        #expect(delay.afterFailure(connected: nil, share: 0.5) == .milliseconds(500))
    }
}

struct PublishWindowTests {
    private func turn(_ ticket: UInt64) -> PublishWindow<Int>.Turn {
        .init(
            ticket: ticket,
            message: Message(topic: "t/\(ticket)", text: "", qos: .atLeastOnce, retain: false),
            waiter: Int(ticket))
    }
    private let now = MonotonicInstant(nanoseconds: 0)

    /// A window in which the tickets 1 to 20 are in flight under the identifiers 101 to 120, and 21
    /// to `last` wait.
    private func full(last: UInt64) -> PublishWindow<Int> {
        var window = PublishWindow<Int>()
        for ticket in 1...last { window.queue(turn(ticket)) }
        while let turn = window.nextTurn() {
            window.sent(
                turn, as: Int32(100 + turn.ticket), at: now + .seconds(Int64(turn.ticket)))
        }
        return window
    }

    @Test func atMostTwentyAreInFlightAndTheRestKeepsItsOrder() {
        var window = full(last: 25)
        #expect(window.load == (20, 5))
        #expect(window.settle(107)?.waiter == 7)
        #expect(window.nextTurn()?.waiter == 21)
        #expect(window.settle(103)?.topic == "t/3")
        #expect(window.nextTurn()?.waiter == 22)
    }

    @Test func oneThatGivesUpWhileWaitingIsNeverSent() {
        var window = full(last: 22)
        #expect(window.giveUp(21) == 21)
        #expect(window.giveUp(21) == nil)
        _ = window.settle(101)
        #expect(window.nextTurn()?.waiter == 22)
    }

    @Test func oneThatGivesUpInFlightKeepsItsPlaceAndIsToldNothing() {
        var window = full(last: 21)
        #expect(window.giveUp(5) == 5)
        #expect(window.nextTurn() == nil)
        #expect(window.settle(105)?.waiter == nil)
        #expect(window.nextTurn()?.waiter == 21)
    }

    @Test func theEndOfTheConnectionTellsAllInTheirOrder() {
        var window = full(last: 23)
        _ = window.giveUp(2)
        #expect(window.clear() == [1] + Array(3...23))
        #expect(window.load == (0, 0))
        #expect(window.oldest == nil)
    }

    @Test func theOldestUnacknowledgedIsKnown() {
        var window = full(last: 20)
        #expect(window.oldest == now + .seconds(1))
        _ = window.settle(101)
        #expect(window.oldest == now + .seconds(2))
    }

    @Test func offersThatDoNotGetAwayAreDroppedAndCounted() {
        var window = PublishWindow<Int>()
        for _ in 0..<200 where window.hasRoomForOffer() { window.sentOffer() }
        #expect(window.droppedOffers == 0)
        #expect(window.hasRoomForOffer() == false)
        #expect(window.droppedOffers == 1)
        #expect(window.settle(9) == nil)
        #expect(window.hasRoomForOffer() == true)
    }
}

struct EventQueueTests {
    private func received(_ number: Int) -> ChannelEvent {
        .received(Message(topic: "\(number)", text: "", qos: .atMostOnce, retain: false))
    }

    @Test func onlyReceivedMessagesAreDroppedBeyondAThousand() async {
        let queue = EventQueue()
        let kept = (0...1000).map { queue.add(received($0)) }
        #expect(kept == Array(repeating: true, count: 1000) + [false])
        #expect(queue.add(.connected))
        queue.finish()
        var topics: [String] = []
        var connections = 0
        for await event in queue.stream() {
            switch event {
            case .received(let message): topics.append(message.topic)
            case .connected: connections += 1
            case .disconnected: Issue.record("nothing disconnected")
            }
        }
        #expect(topics == (0..<1000).map(String.init))
        #expect(connections == 1)
    }

    @Test func takenMessagesMakeRoom() async {
        let queue = EventQueue()
        var events = queue.stream().makeAsyncIterator()
        for number in 0..<1000 { queue.add(received(number)) }
        _ = await events.next()
        #expect(queue.add(received(1000)))
        #expect(!queue.add(received(1001)))
    }

    @Test func aCancelledConsumerStopsWaiting() async {
        let queue = EventQueue()
        let stream = queue.stream()
        await withTaskGroup(of: Int.self) { group in
            group.addTask {
                var count = 0
                for await _ in stream { count += 1 }
                return count
            }
            queue.add(.connected)
            group.cancelAll()
            for await count in group { #expect(count <= 1) }
        }
    }

    @Test func fifoKeepsOrderThroughRemovals() {
        var fifo = FIFO<Int>()
        for number in 0..<300 { fifo.append(number) }
        let first = (0..<200).map { _ in fifo.popFirst() }
        #expect(first == Array(0..<200))
        let (removed, absent) = (fifo.remove { $0 == 250 }, fifo.remove { $0 == 5 })
        #expect(removed == 250)
        #expect(absent == nil)
        for number in 300..<400 { fifo.append(number) }
        #expect(fifo.count == 199)
        var rest: [Int] = []
        while let number = fifo.popFirst() { rest.append(number) }
        #expect(rest == Array(200..<400).filter { $0 != 250 })
        #expect(fifo.isEmpty)
    }
}
