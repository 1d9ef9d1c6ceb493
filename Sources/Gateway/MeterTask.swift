import MeterCore
import Synchronization

/// Keeps one meter connected and polls it, for as long as its task lives. Whatever happens to the
/// link is a state and a wait, never an error that leaves the task.
struct MeterTask: Sendable {
    let meter: MeterSettings
    let clock: any Timekeeper
    let log: Log
    let intake: Intake
    /// Called with each believed frame, before anything is queued.
    let publishLive: @Sendable (Reading, _ sequence: Int) -> Void
    let observe: GatewayObserver

    /// Runs until the task is cancelled; the link is closed when it returns.
    func run() async {
        defer { intake.finish() }
        var run = Run(self)
        await run.keepConnected()
    }

    /// The state of a running task.
    private struct Run {
        let task: MeterTask
        var poller: MeterPoller
        var policy = ReconnectPolicy()
        var outage = Outage()
        let progress: Progress
        var sequence = 0
        private var reported: Report?
        var generator = SystemRandomNumberGenerator()

        init(_ task: MeterTask) {
            self.task = task
            poller = MeterPoller(task.meter, clock: task.clock, log: task.log)
            progress = Progress(of: task.meter.address, observe: task.observe)
        }

        mutating func keepConnected() async {
            while !Task.isCancelled {
                become(.connecting)
                let error = await connectOnce()
                if Task.isCancelled { break }
                let now = task.clock.now
                // a link that broke right after its first frame has given readings, too
                let lasted = error.firstFrame.map { max(now - $0, .nanoseconds(1)) } ?? .zero
                let pause = policy.failed(error.fault.category, lasted: lasted, using: &generator)
                become(.disconnected)
                if policy.isAbsent { become(.absent) }
                report(policy.isAbsent ? .absent : .disconnected, error.fault)
                let line = outage.failed(
                    error.fault.description, cause: error.fault.category.cause, at: now)
                if let line {
                    task.log.warning("\(line); trying again")
                }
                await wait(pause, since: now)
            }
            become(.disconnected)
        }

        private func become(_ next: ConnectionState) { progress.become(next) }

        /// Tells the recorder how the link is, when that has changed.
        private mutating func report(_ state: ConnectionState, _ fault: LinkError?) {
            let now = Report(state: state, category: fault?.category)
            guard now != reported else { return }
            reported = now
            task.intake.link(state, fault)
        }

        private struct Report: Equatable {
            var state: ConnectionState
            var category: FaultCategory?
        }

        /// Why a connection ended, and since when it had given readings.
        private struct End {
            var fault: LinkError
            var firstFrame: MonotonicInstant?
        }

        private mutating func connectOnce() async -> End {
            // The link is lent to a closure that must be Sendable; the state goes in and comes back.
            let start = self
            let finished = await withStateReturned(from: start)
            let end = finished.end
            self = finished.run
            return end
        }

        private func withStateReturned(from start: Run) async -> (run: Run, end: End) {
            do {
                return try await task.meter.transport.withLink(
                    progress: { [progress] in progress.become($0) }
                ) { link in
                    var run = start
                    let end = await run.poll(link)
                    return (run, end)
                }
            } catch let fault as LinkError {
                return (start, End(fault: fault))
            } catch {
                let cancelled = error is CancellationError
                return (
                    start, End(fault: cancelled ? .cancelled : LinkError(.transient, "\(error)"))
                )
            }
        }

        /// Polls at the configured rate until the link fails.
        private mutating func poll(_ link: any Link) async -> End {
            progress.reach(.connected)
            become(.ready)
            var poller = poller
            poller.linkOpened(link)
            defer { self.poller = poller }
            var firstFrame: MonotonicInstant?
            var next = task.clock.now
            do throws(LinkError) {
                while true {
                    let reading = try await poller.measure(over: link) { become($0) }
                    if firstFrame == nil {
                        firstFrame = reading.moment.monotonic
                        announce(reading)
                    }
                    if let notice = poller.takeNotice() { task.log.warning(notice) }
                    sequence += 1
                    task.publishLive(reading, sequence)
                    task.observe(.reading(task.meter.address, reading))
                    task.intake.offer(reading, rejected: poller.statistics.rejected)
                    // on a fixed grid, without catching up on what was missed
                    next = max(next + task.meter.pollInterval, task.clock.now)
                    do { try await task.clock.sleep(until: next) } catch { throw .cancelled }
                }
            } catch {
                return End(fault: error, firstFrame: firstFrame)
            }
        }

        private mutating func announce(_ reading: Reading) {
            report(.ready, nil)
            let back = outage.ended(at: reading.moment.monotonic).map { ", \($0)" } ?? ""
            task.log.info(
                "\(reading.frame.model.name) answers on \(task.meter.transport.name)\(back)")
        }

        /// Waits, but no longer than until a meter that was away is there again.
        private mutating func wait(
            _ pause: ReconnectPolicy.Wait, since: MonotonicInstant
        ) async {
            let end = since + pause.delay
            guard let silence = pause.silence else {
                try? await task.clock.sleep(until: end)
                return
            }
            let isHere = await task.meter.transport.sign(
                since: since, afterSilence: silence, until: end, by: task.clock)
            if isHere { policy.heard() }
        }
    }
}

/// How far a meter's connection has come; told by its task and by the transport while it opens the
/// link.
private final class Progress: Sendable {
    private let address: MeterAddress
    private let observe: GatewayObserver
    private let state = Mutex(ConnectionState.disconnected)

    init(of address: MeterAddress, observe: @escaping GatewayObserver) {
        self.address = address
        self.observe = observe
    }

    func become(_ next: ConnectionState) {
        let isNew = state.withLock { state in
            guard next != state else { return false }
            precondition(state.mayBecome(next), "a connection goes from \(state) to \(next)")
            state = next
            return true
        }
        if isNew { observe(.state(address, next)) }
    }

    /// Becomes `state` unless it has come further already.
    func reach(_ state: ConnectionState) {
        if self.state.withLock({ $0 < state }) { become(state) }
    }
}
