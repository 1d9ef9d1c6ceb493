package import MeterCore

/// A simulated meter in time: takes bytes when they come and hands out answers when they are due.
/// It is the far end of a `SimulatedTransport` or, with a pump in between, of a pseudo-terminal.
///
///     let device = SimulatedDevice(meter, clock: clock)
///     try await withThrowingTaskGroup(of: Void.self) { group in
///         group.addTask { try await device.run() }
///         group.addTask { for try await bytes in terminal.input { await device.received(bytes) } }
///         while true {
///             switch try await device.next() {
///             case .bytes(let bytes): try await terminal.write(bytes)
///             case .lost: terminal.vanish()
///             case .returned: terminal.appear()
///             }
///         }
///     }
package actor SimulatedDevice {
    package enum Event: Hashable, Sendable {
        /// Bytes that arrive at the far end now.
        case bytes([UInt8])
        /// The link is gone, and with it whatever was under way.
        case lost
        /// A link can be again.
        case returned
    }

    private struct Delivery: Sendable {
        var due: MonotonicInstant
        var answer: SimulatedMeter.Answer
        var link: Int
    }

    private var meter: SimulatedMeter
    private let clock: any Timekeeper
    /// Tells one link from the next, so that no answer reaches a later one.
    private var link = 0
    private var isTaken = false
    // A far end that asks 64 times without listening loses the oldest answers, like a buffer.
    private let deliveries = Mailbox<Delivery>(capacity: 64)
    private let events = Mailbox<Event>(capacity: 1024)

    package init(_ meter: SimulatedMeter, clock: any Timekeeper) {
        self.meter = meter
        self.clock = clock
    }

    /// The meter as it is now.
    package var state: SimulatedMeter {
        meter.advance(to: clock.now)
        return meter
    }

    package var isReachable: Bool { meter.isReachable(at: clock.now) }

    /// Takes bytes from the far end; without a link they are lost.
    package func received(_ bytes: [UInt8]) {
        let now = clock.now
        guard meter.isReachable(at: now) else { return }
        for answer in meter.receive(bytes, at: now) {
            deliveries.put(Delivery(due: now + answer.delay, answer: answer, link: link))
        }
    }

    /// Waits for the next event. One reader; cancelling it loses nothing. Events come only while
    /// `run` runs.
    /// - Throws: `CancellationError` when the task is cancelled.
    package nonisolated func next() async throws(CancellationError) -> Event {
        guard let event = await events.next() else { throw CancellationError() }
        return event
    }

    /// Plays the device until the task is cancelled. Begins with `lost` if there can be no link.
    /// - Throws: `CancellationError`, always.
    package func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.comeAndGo() }
            group.addTask { try await self.deliver() }
            try await group.waitForAll()
        }
    }

    private func comeAndGo() async throws {
        for absence in meter.unreachable where absence.upperBound > clock.now {
            try await clock.sleep(until: absence.lowerBound)
            link += 1
            events.put(.lost)
            try await clock.sleep(until: absence.upperBound)
            events.put(.returned)
        }
    }

    private func deliver() async throws {
        while let delivery = await deliveries.next() {
            var due = delivery.due
            for piece in delivery.answer.pieces {
                try await clock.sleep(until: due)
                guard delivery.link == link, isReachable else { break }
                events.put(.bytes(piece))
                due = due + delivery.answer.gap
            }
        }
        throw CancellationError()
    }

    // MARK: Links of a SimulatedTransport

    /// Begins a link, if there can be one and nobody else has it.
    /// - Returns: its number.
    func open() throws(LinkError) -> Int {
        guard isReachable else { throw Self.absent }
        guard !isTaken else {
            throw LinkError(
                .busyElsewhere, "the simulated meter is connected already",
                advice: "close the other connection first")
        }
        isTaken = true
        link += 1
        deliveries.removeAll()
        events.removeAll()
        return link
    }

    func close() {
        isTaken = false
        link += 1
    }

    func received(_ bytes: [UInt8], over number: Int) throws(LinkError) {
        guard number == link, isReachable else { throw Self.absent }
        received(bytes)
    }

    static let absent = LinkError(
        .absent, "the simulated meter does not answer",
        advice: "it has no power or is out of range, and will come back by itself")
}
