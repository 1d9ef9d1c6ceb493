package import MeterCore

/// Asks one meter over an open link and waits for a frame that can be believed.
package struct MeterPoller: Sendable {
    /// For one measurement (B4).
    static let measurementLimit: Duration = .seconds(3)
    /// An answer that has begun and then stands still for so long will not be finished: the pieces
    /// of a whole one follow each other in tenths of a second.
    static let pieceLimit: Duration = .seconds(1)
    /// Requests without an answer on one link until it counts as dropped (B7).
    static let unansweredLimit = 2
    /// Answers in a row that cannot be believed until the link is opened anew: a stream that is out
    /// of step is cured by that (rd-usb issue 4).
    static let unbelievableLimit = 12
    /// How long after a late answer the one to the repeated request may come.
    static let lateLimit: Duration = .seconds(1)
    /// Before asking again for an answer that was not believed; meters drop what comes too fast.
    static let askAgainPause: Duration = .milliseconds(100)

    private var driver: MeterDriver
    private let name: String
    private let clock: any Timekeeper
    private let log: Log

    package init(_ meter: MeterSettings, clock: any Timekeeper, log: Log) {
        driver = MeterDriver(
            model: meter.model, dialect: meter.transport.dialect,
            temperatureUnit: meter.temperatureUnit)
        name = meter.transport.name
        self.clock = clock
        self.log = log
    }

    package var statistics: MeterDriver.Statistics { driver.statistics }

    /// Something that a person should know of this meter, once.
    package mutating func takeNotice() -> String? { driver.takeNotice() }

    /// To be called for each new link; what was counted before goes on.
    package mutating func linkOpened(_ link: any Link) { driver.linkOpened(link.content) }

    /// Takes one reading.
    /// - Parameters:
    ///   - link: open, and used by nobody else meanwhile.
    ///   - become: told when a request is out and when an answer comes in.
    /// - Returns: what the meter showed, and when the answer came.
    /// - Throws: `LinkError`: that of the link; `absent` when nothing answers; `incompatible` when
    ///   what answers cannot be believed.
    package mutating func measure(
        over link: any Link, become: (ConnectionState) -> Void = { _ in }
    ) async throws(LinkError) -> Reading {
        var unanswered = 0
        for _ in 0..<Self.unbelievableLimit {
            become(.polling)
            let deadline = clock.now + Self.measurementLimit
            guard try await send(driver.request(), over: link, until: deadline, by: clock) else {
                throw LinkError(
                    .transient, "\(name) takes no request",
                    advice: "unplug the meter and plug it in again if this stays so")
            }
            var answer = try await answer(from: link, until: deadline, become)
            if case .frame = answer, unanswered > 0 {
                answer = try await newest(after: answer, from: link)
            }
            switch answer {
            case .frame(let reading): return reading
            case .askAgain(let reason):
                log.debug("answer not used: \(reason)")
                do { try await clock.sleep(for: Self.askAgainPause) } catch { throw .cancelled }
            case .none:
                driver.giveUp()
                unanswered += 1
                guard unanswered < Self.unansweredLimit else {
                    throw LinkError(
                        .silent, "\(name) is open, but no meter answers",
                        advice: "is the meter powered, and is nothing else connected to it?")
                }
            }
        }
        throw LinkError(
            .incompatible, "\(name) answers, but nothing that can be believed",
            advice: "check the model in the configuration, and the contacts of the meter")
    }

    private enum Answer {
        case frame(Reading)
        case askAgain(String)
        case none
    }

    private mutating func answer(
        from link: any Link, until deadline: MonotonicInstant,
        _ become: (ConnectionState) -> Void
    ) async throws(LinkError) -> Answer {
        let limit = deadline
        var deadline = limit
        // the time is looked at too, since one that babbles always has something to say
        while clock.now < deadline,
            let bytes = try await receive(from: link, until: deadline, by: clock)
        {
            become(.receiving)
            let moment = clock.moment()
            deadline = min(limit, moment.monotonic + Self.pieceLimit)
            switch driver.receive(bytes, at: moment.monotonic) {
            case .incomplete: continue
            case .frame(let frame): return .frame(Reading(frame, at: moment))
            case .askAgain(let reason): return .askAgain(reason)
            }
        }
        return deadline < limit ? .askAgain("it was not finished") : .none
    }

    /// The first answer after a time-out may be that to the first request, come late. That to the
    /// repeated one must not be left for the next request, or all readings from then on were those
    /// of a poll before.
    private mutating func newest(
        after late: Answer, from link: any Link
    ) async throws(LinkError) -> Answer {
        let deadline = clock.now + Self.lateLimit
        let next = try await answer(from: link, until: deadline, { _ in })
        if case .none = next { return late }
        return next
    }
}
