package import MeterCore

/// The way to a simulated meter, in memory: answers come when they are due by the clock, the link
/// breaks when the meter loses power, and cannot be opened until that is back. Like a real meter it
/// takes one link at a time.
package struct SimulatedTransport: Transport {
    package let name: String
    package let dialect: CommandDialect
    /// The far end, which goes on measuring between two links.
    package let device: SimulatedDevice

    /// Puts a meter at the far end; `name` is what people and the log call the way to it, e.g.
    /// `simulated UM25C`.
    package init(_ name: String, to meter: SimulatedMeter, clock: any Timekeeper) {
        self.name = name
        dialect = meter.dialect
        device = SimulatedDevice(meter, clock: clock)
    }

    package func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        let number = try await device.open()
        do {
            let result = try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await device.run() }
                defer { group.cancelAll() }
                return try await body(SimulatedLink(to: device, number: number))
            }
            await device.close()
            return result
        } catch {
            await device.close()
            throw error
        }
    }
}

private actor SimulatedLink: Link {
    private let device: SimulatedDevice
    private let number: Int
    private var isLost = false

    init(to device: SimulatedDevice, number: Int) {
        self.device = device
        self.number = number
    }

    func send(_ bytes: [UInt8]) async throws(LinkError) {
        try await device.received(bytes, over: number)
    }

    func receive() async throws(LinkError) -> [UInt8] {
        guard !isLost else { throw SimulatedDevice.absent }
        let event: SimulatedDevice.Event
        do { event = try await device.next() } catch { throw .cancelled }
        switch event {
        case .bytes(let bytes): return bytes
        case .lost, .returned:
            isLost = true
            throw SimulatedDevice.absent
        }
    }
}
