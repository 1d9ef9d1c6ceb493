import LinuxIO
import MeterCore
import MeterLink

enum ScanCommand: Command {
    static let syntax = CommandSyntax(
        name: "scan", summary: "Lists the meters that are in range of Bluetooth",
        options: [
            .init("--seconds", "N", "how long to look (default 20; the last 10 are for Classic)"),
            .init("--all", nil, "list everything that is heard, strangers too"),
            .init("--json", nil, "print an array of objects"),
        ],
        notes: [
            "Needs CAP_NET_ADMIN: run it with sudo. A meter that is connected, here or to a phone, is\n"
                + "not heard."
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        let seconds = try arguments.integer("--seconds", in: 1...300, default: 20)
        let clock = SystemTimekeeper()
        let log = Log(StandardErrorLog(level: .warning, clock: clock))
        let heard = try await Reactor.withReactor { reactor in
            try await withStopRequest(on: reactor) { untilStopped in
                try await AdapterPool.withPool(
                    RadioSettings(), reactor: reactor, clock: clock, log: log
                ) { pool in try await look(for: .seconds(seconds), pool, until: untilStopped) }
            }
        }
        let shown = heard.filter { arguments.has("--all") || $0.guess != nil }
        if arguments.has("--json") {
            try say("[" + shown.map(json).joined(separator: ",\n") + "]")
        } else if shown.isEmpty {
            try say(
                "no meter is heard (\(heard.count) other devices are); is it powered, and no phone "
                    + "connected to it?")
        } else {
            try show(shown)
        }
        return ExitCode.success
    }

    /// All that is heard, the strongest first.
    private static func look(
        for duration: Duration, _ pool: AdapterPool,
        until stop: @escaping @Sendable () async -> Void
    ) async throws -> [Sighting] {
        let sightings = await pool.sightings()
        let heard = try await withThrowingTaskGroup(of: [PeerAddress: Sighting]?.self) { group in
            group.addTask {
                var heard: [PeerAddress: Sighting] = [:]
                for await sighting in sightings { heard[sighting.peer] = sighting }
                return heard
            }
            group.addTask {
                try await pool.find(for: duration, includingClassic: true)
                return nil
            }
            group.addTask {
                await stop()
                return nil
            }
            var heard: [PeerAddress: Sighting] = [:]
            // the end of the search or a request to stop, whichever comes first
            if let first = try await group.next(), let all = first { heard = all }
            group.cancelAll()
            while let result = try? await group.next() {
                if let all = result { heard = all }
            }
            return heard
        }
        return heard.values.sorted { ($0.rssi ?? -200) > ($1.rssi ?? -200) }
    }

    private static func kind(_ peer: PeerAddress) -> String {
        switch peer.kind {
        case .classic: "classic"
        case .lePublic: "le-public"
        case .leRandom: "le-random"
        }
    }

    private static func model(_ guess: ModelGuess?) -> String? {
        guard let guess else { return nil }
        return guess.model?.name ?? (guess.family == .tc66 ? "TC66C" : "UM series")
    }

    private static func configuration(_ sighting: Sighting) -> String? {
        guard let guess = sighting.guess else { return nil }
        let model = guess.model.map { ", model: \($0.name.lowercased())" } ?? ""
        let name = model.isEmpty ? "Meter" : guess.model?.name ?? "Meter"
        let link = sighting.peer.isLowEnergy ? "ble" : "classic"
        return "- { name: \(name), address: \"\(sighting.peer.address)\", link: \(link)\(model) }"
    }

    private static func json(_ sighting: Sighting) -> String {
        JSONWriter.object { json in
            json.string("address", sighting.peer.address.description)
            json.string("type", kind(sighting.peer))
            json.string("name", sighting.name)
            json.string("model", model(sighting.guess))
            json.bool("candidate", sighting.guess?.isCandidate ?? false)
            json.integer("rssi", sighting.rssi.map(Int64.init))
            json.string("adapter", sighting.adapter.description)
            json.string("configuration", configuration(sighting))
        }
    }

    private static func show(_ heard: [Sighting]) throws {
        var table = Table(["address", "type", "name", "model", "dBm"])
        for sighting in heard {
            table.add([
                sighting.peer.address.description, kind(sighting.peer), sighting.name ?? "",
                model(sighting.guess) ?? "-", sighting.rssi.map(String.init) ?? "-",
            ])
        }
        try say(lines: table.text)
        let lines = heard.compactMap(configuration)
        guard !lines.isEmpty else { return }
        try say("")
        try say(
            "they are adopted by themselves; to name them, write under meters: in the configuration"
        )
        for line in lines { try say("  " + line) }
    }
}
