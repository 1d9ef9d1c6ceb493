import MeterCore
import MeterStore

/// Turns one meter's readings into sessions, totals and the topics that tell of them, and writes them
/// to the store in batches. Works alone on its meter's intake, in order.
actor SessionRecorder {
    private static let progressInterval: Duration = .seconds(30)
    private static let countersInterval: Duration = .seconds(60)

    private let meter: MeterSettings
    private let settings: GatewaySettings
    private let store: Store
    private let publisher: Publisher
    private let clock: any Timekeeper
    private let log: Log
    private let observe: GatewayObserver
    private let topics: Topics

    private var machine: SessionMachine
    private var availability: Availability
    /// What had flowed before this run; `nil` as long as the store cannot tell.
    private var totalsBefore: LifetimeTotals?
    private var flowed = LifetimeTotals()
    private var savedTotals: LifetimeTotals?
    private var publishedTotals: LifetimeTotals?
    private var backlog = Backlog()
    private var hasCompleted = false
    private var isStopping = false
    private var lastFlush: MonotonicInstant
    private var lastProgress: MonotonicInstant
    private var lastCounters: MonotonicInstant
    private var model: MeterModel?
    private var storeOutage = Outage()
    private var generator = SystemRandomNumberGenerator()

    init(
        meter: MeterSettings, settings: GatewaySettings, store: Store, publisher: Publisher,
        clock: any Timekeeper, log: Log, observe: @escaping GatewayObserver
    ) {
        self.meter = meter
        self.settings = settings
        self.store = store
        self.publisher = publisher
        self.clock = clock
        self.log = log
        self.observe = observe
        topics = settings.topics
        machine = SessionMachine(
            meter: .init(
                address: meter.address, name: meter.name, gatewayID: settings.gatewayID,
                softwareVersion: settings.softwareVersion),
            rules: meter.rules)
        availability = Availability(pollInterval: meter.pollInterval)
        model = meter.model
        lastFlush = clock.now
        lastProgress = lastFlush
        lastCounters = lastFlush
    }

    /// Tells where things stand before the first reading.
    func start() async {
        await publisher.set(topics.availability(meter.address), Payloads.offline)
        await publishProgress()
        await recall()
    }

    /// Since the meter is known here; `nil` as long as the store cannot tell. A figure that began at
    /// zero would make those who add up the differences count everything again (C9).
    private var totals: LifetimeTotals? {
        totalsBefore.map { before in
            LifetimeTotals(
                energy: before.energy + flowed.energy, charge: before.charge + flowed.charge)
        }
    }

    /// Asks the store how far this meter had come.
    private func recall() async {
        guard totalsBefore == nil else { return }
        do {
            totalsBefore = try await store.lifetimeTotals(of: meter.address)
            savedTotals = totalsBefore
        } catch {
            return storeFailed(error)
        }
        await publishCounters()
        guard !hasCompleted else { return }
        do {
            if let last = try await store.lastSession(of: meter.address) {
                await publisher.set(topics.lastSession(meter.address), Payloads.session(last))
            }
        } catch {
            log.error("the last session is not published: \(error)")
        }
    }

    /// Takes what comes until the intake ends, then ends the session that runs and stores all.
    func run(_ intake: Intake, endingWith reason: EndReason) async {
        for await event in intake.events {
            switch event {
            case .reading(let reading, let rejected):
                await take(reading, rejected: rejected, dropped: intake.dropped)
            case .tick(let now):
                intake.tickTaken()
                await timePassed(to: now)
            case .link(let state, let fault): await note(state, fault)
            }
        }
        isStopping = true
        await apply(machine.stop(reason))
        await flush()
        await publishUnstored()
        if totals != publishedTotals { await tellCounters() }
        if !backlog.isEmpty {
            log.error("stopped before everything could be stored")
        }
    }

    private func take(_ reading: Reading, rejected: Int, dropped: Int) async {
        let now = reading.moment.monotonic
        let actions = machine.handle(
            reading, rejected: rejected, dropped: dropped, using: &generator)
        if let step = machine.lastStep {
            flowed.energy += step.energy
            flowed.charge += step.charge
        }
        // before anything else is stored, which would take the samples for those of the session now
        await apply(actions)
        if availability.heard(at: now) || model != reading.frame.model {
            model = reading.frame.model
            await publisher.set(topics.availability(meter.address), Payloads.online)
            await publishCounters()
            do {
                try await store.rememberMeter(
                    meter.address, name: meter.name, model: model, seenAt: reading.moment.wall)
            } catch {
                storeFailed(error)
            }
        }
        await doWhatIsDue(at: now)
    }

    /// Keeps how the link is for `usbmeter doctor`, which is not connected to anything.
    private func note(_ state: ConnectionState, _ fault: LinkError?) async {
        do {
            try await store.rememberLinkState(
                state, of: meter.address, named: meter.name, cause: fault?.category.rawValue,
                evidence: fault?.description, at: clock.moment().wall)
        } catch {
            storeFailed(error)
        }
    }

    private func timePassed(to now: MonotonicInstant) async {
        await apply(machine.timePassed(to: now))
        if availability.timePassed(to: now) {
            // the link's failure has been told already, or its silence will be
            log.debug("offline: nothing heard for \(Int(availability.patience.inSeconds)) s")
            await publisher.set(topics.availability(meter.address), Payloads.offline)
        }
        await doWhatIsDue(at: now)
    }

    private func doWhatIsDue(at now: MonotonicInstant) async {
        if now - lastFlush >= settings.flushInterval {
            lastFlush = now
            await flush()
        }
        if machine.current != nil, now - lastProgress >= Self.progressInterval {
            await publishProgress()
        }
        // also between sessions, as far as something flows
        if totals != publishedTotals, now - lastCounters >= Self.countersInterval {
            await publishCounters()
        }
    }

    private func apply(_ actions: [SessionMachine.Action]) async {
        for action in actions {
            switch action {
            case .began(let summary):
                log.info("session \(summary.id) began at \(summary.startedAt.iso8601)")
                do { try await store.begin(summary) } catch { storeFailed(error) }
                observe(.session(meter.address, summary))
                await publishProgress()
            case .samples(let new):
                backlog.add(new)
                observe(.session(meter.address, machine.current))
            case .ended(let summary):
                await complete(summary)
            }
        }
    }

    private func complete(_ summary: SessionSummary) async {
        let energy = JSONWriter.decimal(summary.energy.microwattHours, decimals: 6, places: 3)
        log.info(
            "session \(summary.id) ended after \(summary.durationMilliseconds / 1_000) s with "
                + "\(energy) Wh (\(summary.endReason?.rawValue ?? "")"
                + ", \(summary.energySource.rawValue): \(summary.energySourceReason))")
        hasCompleted = true
        for given in backlog.complete(summary) {
            await publisher.forget(topics.session(meter.address, given.id))
        }
        let text = Payloads.session(summary)
        await publisher.set(topics.lastSession(meter.address), text)
        if !isStopping {  // else it comes next, and once
            _ = await finishSessions()
            await publishUnstored()
        }
        observe(.session(meter.address, nil))
        observe(.completed(summary))
        await publishProgress()
        if !isStopping { await publishCounters() }
    }

    /// Stores the completed sessions that are not stored yet, oldest first.
    /// - Returns: `false` when the store cannot be written, so that nothing else need be tried.
    private func finishSessions() async -> Bool {
        var index = 0
        while index < backlog.completed.count {
            let session = backlog.completed[index]
            do throws(StoreError) {
                try await finish(session)
                backlog.stored(at: index)
                storeWorks()
            } catch {
                storeFailed(error)
                // one that is refused for what it is must not keep the others back
                guard [.unexpected, .damagedRecord].contains(error.kind) else { return false }
                index += 1
            }
        }
        return true
    }

    /// The broker need not wait for the disk.
    private func publishUnstored() async {
        guard let summary = backlog.completed.last?.summary else { return }
        await publisher.set(topics.session(meter.address, summary.id), Payloads.session(summary))
    }

    private func finish(_ session: Backlog.Session) async throws(StoreError) {
        let summary = session.summary
        let totals = totals
        let items =
            publisher.hasChannel
            ? try await SessionMessages(topics: topics).outbox(
                summary, at: clock.moment().wall, knownTo: store) : []
        try await store.finish(
            summary, remaining: session.samples, totals: totals, outbox: items,
            endOffset: summary.durationMilliseconds)
        savedTotals = totals
        await publisher.forget(topics.session(meter.address, summary.id))
        await publisher.outboxGrew()
    }

    private func flush() async {
        await recall()
        guard await finishSessions() else { return }
        let totals = totals
        do {
            if let running = machine.current, !backlog.samples.isEmpty {
                try await store.append(backlog.samples, progress: running, totals: totals)
                backlog.samplesStored()
            } else if let totals, totals != savedTotals {
                try await store.saveLifetimeTotals(totals, of: meter.address)
            } else {
                return
            }
            savedTotals = totals
            storeWorks()
        } catch {
            storeFailed(error)
        }
    }

    private func storeFailed(_ error: any Error) {
        if let line = storeOutage.failed("not stored: \(error)", at: clock.now) {
            log.error("\(line); publishing goes on, and storing is tried again")
        }
    }

    /// Something was stored; the trouble is over when nothing is left behind.
    private func storeWorks() {
        guard backlog.isEmpty, let line = storeOutage.ended(at: clock.now) else { return }
        log.notice("storing is \(line)\(backlog.takeLosses())")
    }

    private func publishProgress() async {
        let moment = clock.moment()
        lastProgress = moment.monotonic
        await publisher.set(
            topics.currentSession(meter.address),
            Payloads.currentSession(machine.current, at: moment.wall))
    }

    private func publishCounters() async {
        // What was said of the totals must be stored, or they fall when the agent is killed.
        await flush()
        await tellCounters()
    }

    private func tellCounters() async {
        guard let totals else { return }
        let moment = clock.moment()
        lastCounters = moment.monotonic
        publishedTotals = totals
        await publisher.set(
            topics.counters(meter.address),
            Payloads.counters(totals, at: moment.wall, gatewayID: settings.gatewayID))
    }
}
