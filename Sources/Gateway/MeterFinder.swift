package import MeterCore
package import MeterStore

/// A meter that is reached over Bluetooth, before it is known on which kind of it.
package struct BluetoothMeter: Sendable {
    package var address: MeterAddress
    package var name: String
    package var model: MeterModel?
    package var temperatureUnit: TemperatureUnit
    package var pollInterval: Duration
    package var rules: SessionRules
    /// `nil`: whichever it is heard on.
    package var kind: PeerAddress.Kind?
    /// RFCOMM; `nil`: to be found out.
    package var channel: UInt8?
    /// `nil`: what its services show.
    package var profile: GATTProfile?

    /// What to do about a configured meter that has not been heard yet.
    package static let neverHeard =
        "is it on, within reach and not connected to a phone, and is the address right? usbmeter scan "
        + "lists what is heard"

    package init(
        address: MeterAddress, name: String, model: MeterModel?,
        temperatureUnit: TemperatureUnit = .celsius, pollInterval: Duration = .seconds(1),
        rules: SessionRules = SessionRules(), kind: PeerAddress.Kind? = nil,
        channel: UInt8? = nil, profile: GATTProfile? = nil
    ) {
        self.address = address
        self.name = name
        self.model = model
        self.temperatureUnit = temperatureUnit
        self.pollInterval = pollInterval
        self.rules = rules
        self.kind = kind
        self.channel = channel
        self.profile = profile
    }
}

/// Turns what is heard nearby into meters of the gateway: the configured ones as soon as it is known
/// how to reach them, and those that are adopted (B12).
package actor MeterFinder {
    /// The meters that can be reached from now on, each once. One consumer.
    package nonisolated let arrivals: AsyncStream<MeterSettings>
    private nonisolated let arrival: AsyncStream<MeterSettings>.Continuation

    private let store: Store
    private let clock: any Timekeeper
    private let log: Log
    private let defaults: BluetoothMeter
    private let transport: @Sendable (BluetoothMeter, PeerAddress) -> any Transport
    private let listenFor: @Sendable ([PeerAddress]) async -> Void
    private let search: @Sendable () async throws -> Void
    private var adoption: Adoption
    /// Configured, and not heard yet.
    private var waiting: [MeterAddress: BluetoothMeter] = [:]
    private var found: [PeerAddress] = []
    private var told: Set<MeterAddress> = []

    /// - Parameters:
    ///   - configured: with an address and without a serial device.
    ///   - others: names and addresses of the meters that have a serial device.
    ///   - defaults: poll interval and rules of those that are adopted.
    ///   - transport: makes the way to a meter.
    ///   - listenFor: told of all meters that are to be listened for while they are away.
    ///   - search: looks for everything that is in range, of either kind, and returns after a while.
    package init(
        policy: Adoption.Policy, configured: [BluetoothMeter],
        others: [(address: MeterAddress, name: String)], denied: [MeterAddress],
        defaults: BluetoothMeter, store: Store, clock: any Timekeeper, log: Log,
        transport: @escaping @Sendable (BluetoothMeter, PeerAddress) -> any Transport,
        listenFor: @escaping @Sendable ([PeerAddress]) async -> Void,
        search: @escaping @Sendable () async throws -> Void
    ) {
        // one for each meter, of which there are at most a few dozen
        (arrivals, arrival) = AsyncStream.makeStream(bufferingPolicy: .unbounded)
        self.store = store
        self.clock = clock
        self.log = log
        self.defaults = defaults
        self.transport = transport
        self.listenFor = listenFor
        self.search = search
        adoption = Adoption(
            policy: policy, meters: configured.map { ($0.address, $0.name) } + others,
            denied: denied)
        for meter in configured { waiting[meter.address] = meter }
        self.policy = policy
        self.denied = Set(denied)
        self.others = others
        self.configured = configured
    }

    private let policy: Adoption.Policy
    private let denied: Set<MeterAddress>
    private let others: [(address: MeterAddress, name: String)]
    private let configured: [BluetoothMeter]

    /// Candidates that are heard and not adopted.
    package var unadopted: [Sighting] {
        adoption.others.values.sorted { $0.peer.address < $1.peer.address }
    }

    /// Works until `sightings` ends or the task is cancelled: first with what the store remembers.
    package func run(_ sightings: AsyncStream<Sighting>) async {
        await recall()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.lookAround() }
            for await sighting in sightings { await heard(sighting) }
            group.cancelAll()
        }
        arrival.finish()
    }

    /// Searches once, and again from time to time while a configured meter has not been heard. A
    /// search disturbs the links that there are, so it becomes rare.
    private func lookAround() async {
        var pause = Duration.seconds(20)
        while policy == .automatic || !waiting.isEmpty {
            do {
                try await search()
                tellOfAbsent()
            } catch {
                // no adapter, or none that may scan, is told by those who watch the adapters
            }
            repeat {
                do { try await clock.sleep(for: pause) } catch { return }
            } while waiting.isEmpty
            pause = min(pause * 2, .seconds(600))
        }
    }

    /// Once for each: a wrong address looks the same as a meter that is away.
    private func tellOfAbsent() {
        for meter in waiting.values.sorted(by: { $0.name < $1.name })
        where told.insert(meter.address).inserted {
            let advice = BluetoothMeter.neverHeard
            log.warning("\(meter.name): \(meter.address) was not heard: \(advice); listening on")
        }
    }

    private func recall() async {
        do {
            let known = Set(configured.map(\.address) + others.map(\.address))
            let adopted =
                policy == .automatic
                ? try await store.adoptedMeters().filter {
                    !known.contains($0.peer.address) && !denied.contains($0.peer.address)
                } : []
            adoption = Adoption(
                policy: policy,
                meters: configured.map { ($0.address, $0.name) } + others
                    + adopted.map { ($0.peer.address, $0.name) },
                denied: Array(denied))
            for meter in configured {
                var kind = meter.kind
                if kind == nil { kind = try await store.bluetoothKind(of: meter.address) }
                if let kind { await add(meter, PeerAddress(address: meter.address, kind: kind)) }
            }
            for meter in adopted { await add(settings(for: meter), meter.peer) }
            await listen()
        } catch {
            log.error("what is remembered of Bluetooth meters cannot be read: \(error)")
        }
    }

    private func heard(_ sighting: Sighting) async {
        if let meter = waiting[sighting.peer.address] {
            await add(meter, sighting.peer)
            return
        }
        guard let adopted = adoption.heard(sighting) else { return }
        log.notice(
            "found \(adopted.name) at \(adopted.peer), which is connected from now on; deny it in the "
                + "configuration if it is not yours")
        do {
            try await store.adopt(adopted, at: clock.moment().wall)
        } catch {
            log.error("\(adopted.name) is not remembered over a restart: \(error)")
        }
        await add(settings(for: adopted), adopted.peer)
    }

    /// Also for those of which it is not known on which kind of Bluetooth they will be heard: an LE
    /// meter that comes within reach is then noticed at once, and not by the next search only.
    private func listen() async {
        let guesses = waiting.keys.sorted().map { PeerAddress(address: $0, kind: .lePublic) }
        await listenFor(found + guesses)
    }

    private func settings(for adopted: Adoption.Adopted) -> BluetoothMeter {
        var meter = defaults
        meter.address = adopted.peer.address
        meter.name = adopted.name
        meter.model = adopted.model
        return meter
    }

    private func add(_ meter: BluetoothMeter, _ peer: PeerAddress) async {
        waiting[meter.address] = nil
        found.append(peer)
        await listen()
        do {
            try await store.rememberBluetoothKind(peer.kind, of: meter.address, named: meter.name)
        } catch {
            log.error("how \(meter.name) is reached is not remembered: \(error)")
        }
        arrival.yield(
            MeterSettings(
                address: meter.address, name: meter.name, model: meter.model,
                temperatureUnit: meter.temperatureUnit, pollInterval: meter.pollInterval,
                rules: meter.rules, transport: transport(meter, peer)))
    }
}
