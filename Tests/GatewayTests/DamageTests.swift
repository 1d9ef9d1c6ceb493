import FoundationEssentials
import MeterCore
import Testing

@testable import Gateway
@testable import MeterSim
@testable import MeterStore

/// Answers that are damaged on their way must not become values.
struct DamageTests {
    @Test(
        arguments: MeterModel.allCases,
        [
            ["stray:n=37,p=0.3", "cut:p=0.1", "split:sizes=1/20/109,p=0.5"],
            ["bad-check:p=0.4", "silence:p=0.05"],
        ])
    func whatIsPublishedIsWhatTheMeterMeasured(_ model: MeterModel, _ faults: [String]) async throws
    {
        try await check(model, faults, tolerance: 0)
    }

    /// The UM series' frames have no check over their values, so a flipped bit shows only in what
    /// volts, amperes and watts say of each other; below their last digits and two thousandths it
    /// cannot show. The TC66C's have one.
    @Test(
        arguments: MeterModel.allCases,
        [["flip:n=1,p=0.2"], ["flip:n=3,p=0.2", "stray:n=5,p=0.1", "cut:p=0.05"]])
    func flippedBitsMoveNoValueBeyondItsLastDigits(_ model: MeterModel, _ faults: [String])
        async throws
    {
        try await check(model, faults, tolerance: model == .tc66c ? 0 : 0.0025)
    }

    private func check(_ model: MeterModel, _ faults: [String], tolerance: Double) async throws {
        try await withBench({ clock in
            // five minutes before the end of its taper
            let profile = try #require(LoadProfile.named("phone-short", seed: 7))
                .entered(at: .seconds(475))
            let meter = try simulated(clock, model, profile, faults: faults, seed: 7)
            return [meter.behind { WatchedTransport($0, clock: clock) }]
        }) { bench in
            bench.channel.connect()
            await bench.pass(.seconds(460))
            let meter = bench.meters[0]
            let requests = try #require(meter.settings.transport as? WatchedTransport).requests
            let truth = try TruthByRequest(of: meter, requests, tolerance: tolerance)
            let live = bench.live(of: meter)
            #expect(live.count > 150)
            // Without a load nothing vouches for the voltage, so that a flipped bit can show there.
            let end = tolerance == 0 ? bench.clock.now : bench.start(of: meter) + .seconds(300)
            var flaws: [String] = []
            for delivery in live where delivery.at.monotonic <= end {
                let message = try LiveMessage(delivery.text)
                if let flaw = truth.flaw(in: message, at: delivery.at.monotonic) {
                    flaws.append(flaw)
                }
            }
            #expect(flaws == [])

            let stored = try await bench.store.sessions()
            #expect(stored.count == 1)
            let session = try #require(stored.first)
            let simulated = try #require(meter.truth)
            let flowed = simulated.trueEnergy(
                from: bench.instant(of: session.startedAt),
                to: bench.instant(of: try #require(session.endedAt)))
            #expect(difference(session.energy, flowed) < 0.01)
            #expect((285_000...305_000).contains(session.durationMilliseconds))
            if faults.contains(where: { $0.hasPrefix("flip") || $0.hasPrefix("bad") }) {
                #expect(session.rejectedFrames > 0)
            }
        }
    }
}

/// What a meter would have answered to each request, were its answers not damaged.
struct TruthByRequest {
    private var frames: [(at: MonotonicInstant, frame: MeterFrame)] = []
    private let tolerance: Double

    // `tolerance` is a share of voltage, current and power, beside their last digits.
    init(of meter: BenchMeter, _ requests: [MonotonicInstant], tolerance: Double) throws {
        self.tolerance = tolerance
        let real = try #require(meter.truth)
        var sound = SimulatedMeter(
            real.model, dialect: real.dialect, profile: real.profile, start: real.start)
        let request: [UInt8] = real.model == .tc66c ? Array("getva".utf8) : [0xf0]
        for moment in requests {
            let bytes = sound.receive(request, at: moment).flatMap(\.bytes)
            let captured = try CapturedFrame(bytes, from: real.model, unit: .celsius)
            frames.append((moment, captured.frame))
        }
    }

    /// What is wrong in a message that was published at `time`; `nil` when nothing is.
    func flaw(in message: LiveMessage, at time: MonotonicInstant) -> String? {
        guard let frame = frames.last(where: { $0.at < time })?.frame else { return "no request" }
        var flaws: [String] = []
        func compare(_ name: String, _ value: Double?, _ truth: Double?, within limit: Double = 0) {
            if abs((value ?? -1) - (truth ?? -1)) > limit + 1e-9 {
                flaws.append("\(name) \(value ?? -1) for \(truth ?? -1)")
            }
        }
        func measured(_ name: String, _ value: Double, _ truth: some Quantity, decimals: Int) {
            let digit = (0..<decimals).reduce(1.0) { result, _ in result / 10 }
            let limit = tolerance == 0 ? 0 : truth.base * tolerance + 8 * digit
            compare(name, value, truth.base, within: limit)
        }
        let model = frame.model
        measured("voltage", message.voltage, frame.voltage, decimals: model.voltageDecimals)
        measured("current", message.current, frame.current, decimals: model.currentDecimals)
        measured("power", message.power, frame.power, decimals: model.powerDecimals)
        compare("temperature", message.temperatureC, frame.temperature?.base)
        if model != .tc66c {
            compare("energy", message.groupEnergyWh, frame.selectedCounter?.energy.base)
        }
        return flaws.isEmpty ? nil : flaws.joined(separator: ", ")
    }
}
