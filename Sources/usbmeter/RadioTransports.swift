import Gateway
import LinuxIO
import MeterCore
import MeterLink
import MeterStore

/// Makes the ways to meters over Bluetooth.
struct RadioTransports: Sendable {
    let pool: AdapterPool
    let reactor: Reactor
    let clock: any Timekeeper
    /// Remembers RFCOMM channels; `nil` remembers none.
    let store: Store?

    func transport(_ meter: BluetoothMeter, _ peer: PeerAddress) -> any Transport {
        let sockets = KernelSockets(on: reactor)
        guard peer.isLowEnergy else {
            return RFCOMMTransport(
                peer.address, channel: meter.channel, memory: StoredChannels(store: store),
                radio: pool, sockets: sockets, clock: clock)
        }
        return GATTTransport(
            peer, profile: meter.profile, radio: pool, sockets: sockets, clock: clock)
    }
}

/// A channel that is not remembered is found again, so a store that fails is no reason to fail.
private struct StoredChannels: ChannelMemory {
    let store: Store?

    func channel(of meter: MeterAddress) async -> UInt8? {
        guard let store else { return nil }
        return try? await store.channel(of: meter)
    }

    func remember(_ channel: UInt8, of meter: MeterAddress) async {
        try? await store?.rememberChannel(channel, of: meter)
    }
}
