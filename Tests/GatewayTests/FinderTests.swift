import MeterCore
import MeterStore
import Synchronization
import Testing

@testable import Gateway
@testable import MeterSim

/// What the meters are that the gateway is given, and for whom is listened meanwhile.
@Suite(.timeLimit(.minutes(1))) struct FinderTests {
    private let shelf: MeterAddress

    init() throws {
        shelf = try #require(MeterAddress("00:15:A3:00:55:01"))
    }

    private func meter(_ address: MeterAddress, _ name: String) -> BluetoothMeter {
        BluetoothMeter(address: address, name: name, model: nil)
    }

    private func sighting(of peer: PeerAddress) -> Sighting {
        Sighting(
            peer: peer, adapter: peer.address, rssi: -60, data: AdvertisingData(),
            isComplete: true, when: ManualClock().now)
    }

    @Test func aMeterThatWasNeverHeardIsListenedForAndFoundWithoutASearch() async throws {
        let shelf = PeerAddress(address: shelf, kind: .lePublic)
        try await withFinder([meter(shelf.address, "Shelf")]) { bench in
            await bench.searched()
            #expect(bench.listensFor == [shelf])
            bench.hear(sighting(of: shelf))
            let arrived = await bench.arrival()
            #expect(arrived?.name == "Shelf")
            #expect(arrived?.address == shelf.address)
        }
    }

    @Test func theKindOnWhichAMeterIsHeardIsKeptOverARestart() async throws {
        let peer = PeerAddress(address: shelf, kind: .classic)
        try await withFolder { folder in
            try await withFinder([meter(shelf, "Shelf")], in: folder) { bench in
                bench.hear(sighting(of: peer))
                #expect(await bench.arrival()?.name == "Shelf")
            }
            try await withFinder([meter(shelf, "Shelf")], in: folder) { bench in
                #expect(await bench.arrival()?.name == "Shelf")
                #expect(bench.listensFor == [peer])
            }
        }
    }

    @Test func thatAMeterWasNotHeardIsSaidOnce() async throws {
        try await withFinder([meter(shelf, "Shelf")]) { bench in
            for _ in 0..<3 {
                await bench.searched()
                try await bench.clock.advance(by: .seconds(600), sleepers: 1)
            }
            await bench.searched()
            let warnings = bench.log.lines(from: .warning)
            #expect(warnings.count == 1)
            let line = try #require(warnings.first).text
            #expect(line.hasPrefix("Shelf: 00:15:A3:00:55:01 was not heard: "))
            #expect(line.contains("usbmeter scan"))
        }
    }

    @Test func withoutAnAdapterNoMeterIsSaidToBeAway() async throws {
        try await withFinder([meter(shelf, "Shelf")], canSearch: false) { bench in
            await bench.searched()
            try await bench.clock.advance(by: .seconds(600), sleepers: 1)
            await bench.searched()
            #expect(bench.log.lines(from: .warning).isEmpty)
        }
    }

    private func withFinder(
        _ configured: [BluetoothMeter], in folder: Folder? = nil, canSearch: Bool = true,
        _ body: (FinderBench) async throws -> Void
    ) async throws {
        guard let folder else {
            return try await withFolder { folder in
                try await withFinder(configured, in: folder, canSearch: canSearch, body)
            }
        }
        let clock = ManualClock()
        let store = try await Store.open(directory: folder.path, at: clock.moment().wall)
        let bench = FinderBench(configured, store: store, clock: clock, canSearch: canSearch)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await bench.run() }
            defer { group.cancelAll() }
            try await body(bench)
        }
        await store.close()
    }
}

/// A finder, with searches that find nothing.
private final class FinderBench: Sendable {
    let clock: ManualClock
    let log = RecordedLog()
    private let finder: MeterFinder
    private let peers: Peers
    private let searches: AsyncStream<Void>
    private let sightings: AsyncStream<Sighting>
    private let ear: AsyncStream<Sighting>.Continuation

    /// Who is listened for.
    private final class Peers: Sendable {
        private let peers = Mutex<[PeerAddress]>([])
        func become(_ peers: [PeerAddress]) { self.peers.withLock { $0 = peers } }
        var now: [PeerAddress] { peers.withLock { $0 } }
    }

    init(_ configured: [BluetoothMeter], store: Store, clock: ManualClock, canSearch: Bool) {
        let peers = Peers()
        let (searches, search) = AsyncStream.makeStream(of: Void.self)
        (sightings, ear) = AsyncStream.makeStream(of: Sighting.self)
        self.searches = searches
        self.peers = peers
        self.clock = clock
        let first = configured[0]
        finder = MeterFinder(
            policy: .listed, configured: configured, others: [], denied: [], defaults: first,
            store: store, clock: clock, log: Log(log),
            transport: { _, peer in
                ScriptedTransport("\(peer)", clock: clock) { _ in throw LinkError.cancelled }
            },
            listenFor: { peers.become($0) },
            search: {
                search.yield()
                if !canSearch { throw LinkError(.adapter, "no Bluetooth adapter can scan") }
            })
    }

    var listensFor: [PeerAddress] { peers.now }
    func run() async { await finder.run(sightings) }
    func hear(_ sighting: Sighting) { ear.yield(sighting) }
    func searched() async { for await _ in searches { return } }
    func arrival() async -> MeterSettings? {
        for await arrival in finder.arrivals { return arrival }
        return nil
    }
}
