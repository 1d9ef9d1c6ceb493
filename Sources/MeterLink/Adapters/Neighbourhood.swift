import MeterCore
import Synchronization

/// What all adapters share: which meters are wanted, who is connected by which, who was heard.
final class Neighbourhood: Sendable {
    private struct Heard {
        var data = AdvertisingData()
        var isComplete = false
        var firstActive: MonotonicInstant?
        var last: MonotonicInstant
        /// For how long it was not heard before that.
        var silence: Duration = .seconds(1_000_000)
        /// By adapter: signal in dBm, and when.
        var signals: [MeterAddress: (rssi: Int?, when: MonotonicInstant)] = [:]
    }
    private struct State {
        var known: [PeerAddress: KnownPeer] = [:]
        var links: [MeterAddress: Set<PeerAddress>] = [:]
        var heard: [PeerAddress: Heard] = [:]
        var lastAdapter: [PeerAddress: MeterAddress] = [:]
        var waiters: [PeerAddress: [Waiter]] = [:]
    }
    private struct Waiter {
        let isHeard: Promise<Void>
        let silence: Duration
    }
    private let state = Mutex(State())

    private static let mostHeard = 512
    /// For how long a signal says something about now.
    private static let freshness: Duration = .seconds(60)
    /// Active scanning for this long brings the answer to a scan request where there is one.
    private static let patience: Duration = .seconds(2)

    init() {}

    // MARK: - Wanted and connected

    var known: [PeerAddress: KnownPeer] {
        get { state.withLock(\.known) }
        set { state.withLock { $0.known = newValue } }
    }
    func known(_ peer: PeerAddress) -> KnownPeer? { state.withLock { $0.known[peer] } }

    /// Wanted Bluetooth LE meters that this adapter may connect and that nobody has.
    func missing(for adapter: MeterAddress) -> Set<PeerAddress> {
        state.withLock { state in
            let linked = state.links.values.reduce(into: Set()) { $0.formUnion($1) }
            let wanted = state.known.values.filter { known in
                known.peer.isLowEnergy && (known.adapter ?? adapter) == adapter
            }
            return Set(wanted.map(\.peer)).subtracting(linked)
        }
    }
    func lowEnergyMeters(for adapter: MeterAddress) -> [PeerAddress] {
        state.withLock { state in
            let meters = state.known.values.filter { known in
                known.peer.isLowEnergy && (known.adapter ?? adapter) == adapter
            }
            return meters.map(\.peer).sorted { $0.address < $1.address }
        }
    }

    func setLinks(_ links: Set<PeerAddress>, of adapter: MeterAddress) {
        state.withLock { $0.links[adapter] = links }
    }

    func connected(_ peer: PeerAddress, by adapter: MeterAddress) {
        state.withLock { state in
            // Strangers whom a person connected once are not worth remembering for long.
            if state.lastAdapter.count >= Self.mostHeard { state.lastAdapter = [:] }
            state.lastAdapter[peer] = adapter
        }
    }
    func lastAdapter(of peer: PeerAddress) -> MeterAddress? {
        state.withLock { $0.lastAdapter[peer] }
    }

    // MARK: - Heard

    /// Takes a report in and returns all that is known of the device.
    /// - Parameter isActive: the adapter asks devices for more while it scans.
    func heard(
        _ device: ManagementEvent.DeviceFound, by adapter: MeterAddress, isActive: Bool,
        at now: MonotonicInstant
    ) -> Sighting {
        let (sighting, signs) = state.withLock { state -> (Sighting, [Promise<Void>]) in
            if state.heard[device.peer] == nil, state.heard.count >= Self.mostHeard {
                // A quarter at a time, so that a crowd does not make this a search each time.
                let oldest = state.heard.sorted { $0.value.last < $1.value.last }
                for entry in oldest.prefix(Self.mostHeard / 4) { state.heard[entry.key] = nil }
            }
            var heard = state.heard[device.peer] ?? Heard(last: now)
            heard.data.merge(device.data)
            if state.heard[device.peer] != nil { heard.silence = now - heard.last }
            heard.last = now
            heard.signals[adapter] = (device.rssi, now)
            if isActive, heard.firstActive == nil { heard.firstActive = now }
            let hasWaited = heard.firstActive.map { now - $0 >= Self.patience } ?? false
            if device.hasScanResponse || device.nameIsUnknown || heard.data.name != nil
                || (isActive && hasWaited && device.peer.isLowEnergy)
            {
                heard.isComplete = true
            }
            state.heard[device.peer] = heard
            let waiters = state.waiters[device.peer] ?? []
            let sighting = Sighting(
                peer: device.peer, adapter: adapter, rssi: device.rssi, data: heard.data,
                isComplete: heard.isComplete, when: now)
            return (sighting, waiters.filter { $0.silence <= heard.silence }.map(\.isHeard))
        }
        for sign in signs { sign.keep(()) }
        return sighting
    }

    /// Waits until a device is heard that was silent for so long; it may have been already, but not
    /// before `since`.
    func sign(
        of peer: PeerAddress, since: MonotonicInstant, afterSilence silence: Duration,
        until deadline: MonotonicInstant, by clock: any Timekeeper
    ) async -> Bool {
        let isHeard = Promise<Void>()
        let wasHeard = state.withLock { state in
            if let heard = state.heard[peer], heard.last > since, heard.silence >= silence {
                return true
            }
            state.waiters[peer, default: []].append(Waiter(isHeard: isHeard, silence: silence))
            return false
        }
        if wasHeard { return true }
        let sign: Void? = await isHeard.value(until: deadline, by: clock)
        state.withLock { state in
            state.waiters[peer]?.removeAll { $0.isHeard === isHeard }
            if state.waiters[peer]?.isEmpty == true { state.waiters[peer] = nil }
        }
        return sign != nil
    }

    func name(of peer: PeerAddress) -> String? { state.withLock { $0.heard[peer]?.data.name } }

    func wasHeard(
        _ peer: PeerAddress, by adapter: MeterAddress, within time: Duration,
        before now: MonotonicInstant
    ) -> Bool {
        state.withLock { state in
            state.heard[peer]?.signals[adapter].map { now - $0.when <= time } ?? false
        }
    }

    func signal(
        of peer: PeerAddress, at adapter: MeterAddress, before now: MonotonicInstant
    ) -> Int? {
        state.withLock { state in
            guard let signal = state.heard[peer]?.signals[adapter],
                now - signal.when <= Self.freshness
            else { return nil }
            return signal.rssi
        }
    }
}
