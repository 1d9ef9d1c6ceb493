import MeterCore
import Synchronization
import Testing

@testable import Gateway
@testable import MeterSim

/// A simulated meter that is switched on now.
func simulated(
    _ clock: ManualClock, _ model: MeterModel = .um25c, _ profile: String = "flat",
    named name: String = "Bench", faults: [String] = [], seed: UInt64 = 1,
    rules: SessionRules = SessionRules(), pollInterval: Duration = .seconds(1)
) throws -> BenchMeter {
    let profile = try #require(LoadProfile.named(profile, seed: seed))
    return try simulated(
        clock, model, profile, named: name, faults: faults, seed: seed, rules: rules,
        pollInterval: pollInterval)
}

func simulated(
    _ clock: ManualClock, _ model: MeterModel = .um25c, _ profile: LoadProfile,
    named name: String = "Bench", faults: [String] = [], seed: UInt64 = 1,
    rules: SessionRules = SessionRules(), pollInterval: Duration = .seconds(1)
) throws -> BenchMeter {
    let meter = SimulatedMeter(
        model, dialect: .usb, profile: profile, faults: try faults.map { try Fault($0) },
        seed: seed, start: clock.now)
    let way = SimulatedTransport("simulated \(model.name)", to: meter, clock: clock)
    return BenchMeter(
        settings: MeterSettings(
            address: MeterAddress(localFor: name), name: name, model: model,
            pollInterval: pollInterval, rules: rules, transport: way),
        truth: meter)
}

extension BenchMeter {
    /// The same meter behind another transport.
    func behind(_ wrap: (any Transport) -> any Transport) -> BenchMeter {
        var settings = settings
        settings.transport = wrap(settings.transport)
        return BenchMeter(settings: settings, truth: truth)
    }
}

/// What is not a meter, at the end of a way of its own.
func imposter(
    _ clock: ManualClock, named name: String = "Imposter",
    _ open: @escaping @Sendable (ScriptedTransport) async throws -> any Link
) -> BenchMeter {
    BenchMeter(
        settings: MeterSettings(
            address: MeterAddress(localFor: name), name: name, model: .um25c,
            transport: ScriptedTransport(name, clock: clock, open: open)),
        truth: nil)
}

/// A way that a test plays itself. Notes when it was tried.
final class ScriptedTransport: Transport {
    let name: String
    let dialect = CommandDialect.usb
    private let clock: ManualClock
    private let open: @Sendable (ScriptedTransport) async throws -> any Link
    private let tried = Mutex<[MonotonicInstant]>([])

    init(
        _ name: String, clock: ManualClock,
        open: @escaping @Sendable (ScriptedTransport) async throws -> any Link
    ) {
        self.name = name
        self.clock = clock
        self.open = open
    }

    var attempts: [MonotonicInstant] { tried.withLock { $0 } }

    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        let now = clock.now
        tried.withLock { $0.append(now) }
        return try await body(try await open(self))
    }
}

/// Takes everything and never answers.
struct SilentLink: Link {
    func send(_ bytes: [UInt8]) async throws(LinkError) {}
    func receive() async throws(LinkError) -> [UInt8] { throw await waitForCancellation() }
}

/// Does not even take what is sent.
struct StuckLink: Link {
    func send(_ bytes: [UInt8]) async throws(LinkError) { throw await waitForCancellation() }
    func receive() async throws(LinkError) -> [UInt8] { throw await waitForCancellation() }
}

/// Never stops to talk, and says nothing that is an answer.
struct BabblingLink: Link {
    let clock: ManualClock
    func send(_ bytes: [UInt8]) async throws(LinkError) {}
    func receive() async throws(LinkError) -> [UInt8] {
        do { try await clock.sleep(for: .milliseconds(5)) } catch { throw .cancelled }
        return Array("babble".utf8)
    }
}

private func waitForCancellation() async -> LinkError {
    // nothing is ever sent: it ends when the task is cancelled
    let (never, _) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    for await _ in never {}
    return .cancelled
}

/// A way that shows from outside whether the meter is there, like a path in `/dev`.
struct VisibleTransport: Transport {
    let way: any Transport
    let meter: SimulatedMeter
    let clock: ManualClock
    var name: String { way.name }
    var dialect: CommandDialect { way.dialect }

    func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool {
        var wasThere = meter.isReachable(at: clock.now)
        while clock.now < deadline {
            let next = min(deadline, clock.now + .seconds(1))
            do { try await clock.sleep(until: next) } catch { return false }
            let isThere = meter.isReachable(at: clock.now)
            if isThere, !wasThere { return true }
            wasThere = isThere
        }
        return false
    }
    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await way.withLink(body)
    }
}

/// A way that notes at which times a meter was asked.
final class WatchedTransport: Transport {
    private let way: any Transport
    private let clock: ManualClock
    private let asked = Mutex<[MonotonicInstant]>([])
    var name: String { way.name }
    var dialect: CommandDialect { way.dialect }
    var requests: [MonotonicInstant] { asked.withLock { $0 } }

    init(_ way: any Transport, clock: ManualClock) {
        self.way = way
        self.clock = clock
    }

    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await way.withLink { link in
            try await body(
                WatchedLink(link: link) {
                    let now = self.clock.now
                    self.asked.withLock { $0.append(now) }
                })
        }
    }
}

private struct WatchedLink: Link {
    let link: any Link
    let note: @Sendable () -> Void
    func send(_ bytes: [UInt8]) async throws(LinkError) {
        note()
        try await link.send(bytes)
    }
    func receive() async throws(LinkError) -> [UInt8] { try await link.receive() }
}

/// A load that stays as it is until a time, then stops; seconds and amperes at 5 V.
func load(of amperes: Double, for seconds: Int64, thenOf rest: Double = 0) -> LoadProfile {
    let (current, after) = (Int64(amperes * 1e6), Int64(rest * 1e6))
    return LoadProfile(
        "load", summary: "", ending: .holds, resistance: 0, ripple: 0, seed: 1,
        phases: [
            .init(length: 5_000, supply: 5_000_000, from: 0, to: 0),
            .init(length: seconds * 1_000, supply: 5_000_000, from: current, to: current),
            .init(length: 1_000, supply: 5_000_000, from: after, to: after),
        ])
}

/// The same, over and over, with a pause of four minutes.
func loads(of amperes: Double, for seconds: Int64) -> LoadProfile {
    let current = Int64(amperes * 1e6)
    return LoadProfile(
        "loads", summary: "", ending: .repeats, resistance: 0, ripple: 0, seed: 1,
        phases: [
            .init(length: 5_000, supply: 5_000_000, from: 0, to: 0),
            .init(length: seconds * 1_000, supply: 5_000_000, from: current, to: current),
            .init(length: 235_000, supply: 5_000_000, from: 0, to: 0),
        ])
}

/// A meter that answers one request, counted from 1, after three and a half seconds.
final class SlowTransport: Transport {
    let name = "slow meter"
    let dialect = CommandDialect.usb
    fileprivate struct State {
        var meter: SimulatedMeter
        var requests = 0
        var answers: [(due: MonotonicInstant, bytes: [UInt8])] = []
    }
    fileprivate let state: Mutex<State>
    fileprivate let clock: ManualClock
    private let lateAnswer: Int

    init(to meter: SimulatedMeter, clock: ManualClock, lateAnswer: Int) {
        state = Mutex(State(meter: meter))
        self.clock = clock
        self.lateAnswer = lateAnswer
    }

    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await body(SlowLink(way: self))
    }

    fileprivate func ask(_ bytes: [UInt8]) {
        let now = clock.now
        state.withLock { state in
            state.requests += 1
            let delay: Duration = state.requests == lateAnswer ? .seconds(3.5) : .milliseconds(135)
            let answer = state.meter.receive(bytes, at: now).flatMap(\.bytes)
            // one after the other
            let due = max(now + delay, (state.answers.last?.due ?? now) + .milliseconds(200))
            state.answers.append((due, answer))
        }
    }

    fileprivate func take() -> [UInt8]? {
        let now = clock.now
        return state.withLock { state in
            guard let first = state.answers.first, first.due <= now else { return nil }
            return state.answers.removeFirst().bytes
        }
    }
}

private struct SlowLink: Link {
    let way: SlowTransport
    func send(_ bytes: [UInt8]) async throws(LinkError) { way.ask(bytes) }
    func receive() async throws(LinkError) -> [UInt8] {
        while true {
            if let bytes = way.take() { return bytes }
            do { try await way.clock.sleep(for: .milliseconds(5)) } catch { throw .cancelled }
        }
    }
}
