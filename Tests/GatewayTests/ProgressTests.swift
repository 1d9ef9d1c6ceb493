import MeterCore
import MeterSim
import Synchronization
import Testing

@testable import Gateway

/// Opens in steps, and has nothing to say then.
private struct SteppingTransport: Transport {
    let name = "stepping"
    let dialect = CommandDialect.bluetooth
    let steps: [ConnectionState]
    let fails: Bool

    struct Dead: Link {
        func send(_ bytes: [UInt8]) async throws(LinkError) {
            throw LinkError(.transient, "the link broke")
        }
        func receive() async throws(LinkError) -> [UInt8] {
            throw LinkError(.transient, "the link broke")
        }
    }

    func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await withLink(progress: { _ in }, body)
    }

    func withLink<Result: Sendable>(
        progress: @escaping @Sendable (ConnectionState) -> Void,
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        for step in steps { progress(step) }
        if fails { throw LinkError(.transient, "not found") }
        return try await body(Dead())
    }
}

@Suite(.timeLimit(.minutes(1))) struct ProgressTests {
    private func states(of transport: SteppingTransport) async throws -> [ConnectionState] {
        let states = Mutex<[ConnectionState]>([])
        let clock = ManualClock()
        let task = MeterTask(
            meter: MeterSettings(
                address: MeterAddress(localFor: "bench"), name: "bench", model: nil,
                transport: transport),
            clock: clock, log: Log(SilentLog()), intake: Intake(), publishLive: { _, _ in },
            observe: { event in
                guard case .state(_, let state) = event else { return }
                states.withLock { $0.append(state) }
            })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await task.run() }
            // it has failed once, and waits before it tries again
            try await clock.waitForSleepers(count: 1)
            group.cancelAll()
        }
        return states.withLock { $0 }
    }

    @Test func theStatesOfALinkThatOpensInStepsAreTold() async throws {
        let steps: [ConnectionState] = [
            .connected, .discoveringServices, .discoveringCharacteristics,
        ]
        #expect(
            try await states(of: SteppingTransport(steps: steps, fails: false))
                == [.connecting] + steps + [.ready, .polling, .disconnected])
    }

    @Test func aLinkThatFailsOnTheWayGoesBack() async throws {
        let steps: [ConnectionState] = [.connected, .discoveringServices]
        #expect(
            try await states(of: SteppingTransport(steps: steps, fails: true))
                == [.connecting] + steps + [.disconnected])
    }

    @Test func aLinkThatOpensAtOnceIsConnectedAndReady() async throws {
        #expect(
            try await states(of: SteppingTransport(steps: [], fails: false))
                == [.connecting, .connected, .ready, .polling, .disconnected])
    }
}
