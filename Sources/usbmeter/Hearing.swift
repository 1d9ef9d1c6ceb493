import MeterCore
import Synchronization

/// What was last heard of each device, for those who ask without waiting.
final class Hearing: Sendable {
    /// A meter that is there advertises several times in that time.
    private static let fresh: Duration = .seconds(3)
    /// Devices that are remembered; those heard longest ago make room.
    private static let most = 256

    private let clock: any Timekeeper
    private let heard = Mutex<[MeterAddress: Sighting]>([:])

    init(clock: any Timekeeper) { self.clock = clock }

    func note(_ sighting: Sighting) {
        heard.withLock { heard in
            if heard.count >= Self.most, heard[sighting.peer.address] == nil,
                let oldest = heard.min(by: { $0.value.when < $1.value.when })
            {
                heard[oldest.key] = nil
            }
            heard[sighting.peer.address] = sighting
        }
    }

    func last(of meter: MeterAddress) -> Sighting? { heard.withLock { $0[meter] } }

    /// Whether it advertises now.
    func isHeard(_ meter: MeterAddress) -> Bool {
        last(of: meter).map { clock.now - $0.when <= Self.fresh } ?? false
    }
}
