package import MeterCore
package import MeterStore

/// Meters → sessions → store → channel: the task tree of a running gateway.
package struct Gateway: Sendable {
    private let settings: GatewaySettings
    private let meters: [MeterSettings]
    private let store: Store
    private let channel: (any Channel)?
    private let clock: any Timekeeper
    private let log: Log
    private let observe: GatewayObserver

    /// Nothing is started before `run`. The store stays open: the caller closes it after that. Without
    /// a channel the gateway records only.
    package init(
        settings: GatewaySettings, meters: [MeterSettings], store: Store,
        channel: (any Channel)?, clock: any Timekeeper, log: Log,
        observe: @escaping GatewayObserver = { _ in }
    ) {
        self.settings = settings
        self.meters = meters
        self.store = store
        self.channel = channel
        self.clock = clock
        self.log = log
        self.observe = observe
    }

    /// Runs until `stop` returns, then in order: no more readings, links closed, the running
    /// sessions ended and everything stored, what waits for the broker delivered as far as it goes
    /// in time, and everything said to be offline (A3).
    /// - Parameters:
    ///   - reason: why sessions that still run end: `interrupted` for an agent that stops.
    ///   - deliveryLimit: for what the broker is to get at the end, by the gateway's clock.
    ///   - arrivals: meters that are found while it runs, each once.
    ///   - stop: returns when the gateway is to end.
    package func run(
        endingWith reason: EndReason = .interrupted, deliveryLimit: Duration = .seconds(2),
        arrivals: AsyncStream<MeterSettings>? = nil,
        until stop: @escaping @Sendable () async -> Void
    ) async {
        let publisher = Publisher(
            channel: channel, store: store, topics: settings.topics, clock: clock, log: log,
            observe: observe)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await publisher.run() }
            await closeLeftOvers(publisher)
            await runMeters(publisher, endingWith: reason, arrivals: arrivals, until: stop)
            await publisher.close(within: deliveryLimit)
            group.cancelAll()
        }
    }

    /// Sessions that had no end when the agent last stopped, as after a power cut, end at their last
    /// stored reading.
    private func closeLeftOvers(_ publisher: Publisher) async {
        let leftOver: [SessionSummary]
        do {
            leftOver = try await store.openSessions()
        } catch {
            return log.error("sessions of an earlier run are still open: \(error)")
        }
        for session in leftOver {
            let log = log.about(session.meterName)
            do {
                try await close(session, publisher)
                log.notice(
                    "session \(session.id) was running when the agent ended: closed at its last "
                        + "stored reading")
            } catch {
                log.error("session \(session.id) of an earlier run is still open: \(error)")
            }
        }
    }

    private func close(_ open: SessionSummary, _ publisher: Publisher) async throws {
        var session = open
        session.endedAt = session.startedAt + .milliseconds(session.durationMilliseconds)
        session.endReason = .interrupted
        let items =
            publisher.hasChannel
            ? try await SessionMessages(topics: settings.topics).outbox(
                session, at: clock.moment().wall, knownTo: store) : []
        try await store.finish(session, outbox: items, endOffset: session.durationMilliseconds)
        await publisher.outboxGrew()
        await publisher.set(settings.topics.lastSession(session.meter), Payloads.session(session))
    }

    private func runMeters(
        _ publisher: Publisher, endingWith reason: EndReason,
        arrivals: AsyncStream<MeterSettings>?, until stop: @escaping @Sendable () async -> Void
    ) async {
        // one for each meter, of which there are not many; its end is the request to stop
        let (meters, more) = AsyncStream<MeterSettings>.makeStream(bufferingPolicy: .unbounded)
        for meter in self.meters { more.yield(meter) }
        await withTaskGroup(of: Void.self) { recorders in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    await stop()
                    more.finish()
                }
                if let arrivals {
                    group.addTask { for await meter in arrivals { more.yield(meter) } }
                }
                for await meter in meters {
                    let log = log.about(meter.name)
                    let intake = Intake()
                    let recorder = SessionRecorder(
                        meter: meter, settings: settings, store: store, publisher: publisher,
                        clock: clock, log: log, observe: observe)
                    observe(.added(meter.address, name: meter.name))
                    await publisher.add(meter.address)
                    await recorder.start()
                    let task = meterTask(meter, intake, publisher, log)
                    recorders.addTask { await recorder.run(intake, endingWith: reason) }
                    group.addTask { await task.run() }
                    group.addTask { await tick(intake) }
                }
                group.cancelAll()
            }
            // The intakes have ended with the meter tasks; what is in them is still recorded.
        }
    }

    private func meterTask(
        _ meter: MeterSettings, _ intake: Intake, _ publisher: Publisher, _ log: Log
    ) -> MeterTask {
        let topic = settings.topics.live(meter.address)
        let gatewayID = settings.gatewayID
        return MeterTask(
            meter: meter, clock: clock, log: log, intake: intake,
            publishLive: { reading, sequence in
                publisher.offer(
                    Message(
                        topic: topic,
                        text: Payloads.live(reading, sequence: sequence, gatewayID: gatewayID),
                        qos: .atMostOnce, retain: false))
            },
            observe: observe)
    }

    private func tick(_ intake: Intake) async {
        while true {
            do { try await clock.sleep(for: .seconds(1)) } catch { return }
            intake.tick(clock.now)
        }
    }
}
