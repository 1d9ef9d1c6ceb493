import MeterCore

extension Key<GatewayConfiguration> {
    static var meters: Self {
        Key(
            name: "meters", summary: "The meters to read, one entry for each.", accepts: "a list",
            preset: { _ in nil },
            children: MeterEntry.keys.flatMap { $0.described(for: MeterEntry(), after: "[].") }
        ) { node, configuration, given, reading in
            let errors = reading.report.errorCount
            configuration.meters = reading.meters(
                in: node, common: configuration.sessions, commonIsSound: given.isSound("sessions"))
            return reading.report.errorCount == errors
        }
    }
}

/// A meter's entry while it is read.
struct MeterEntry {
    var name: String?
    var serial: String?
    var address: MeterAddress?
    var link: GatewayConfiguration.LinkKind?
    var channel: Int?
    var profile: GATTProfile?
    var model: MeterModel?
    var pollInterval = Duration.seconds(1)
    var temperatureUnit = TemperatureUnit.celsius
    var sessions = GatewayConfiguration.Sessions()

    static var keys: [Key<Self>] {
        [
            .value(
                "name", \.name, .name,
                "For people; every meter needs one of its own."),
            .value(
                "serial", \.serial, .device,
                "The serial device, for example `/dev/ttyACM0` of a TC66C or `/dev/rfcomm0`."),
            .value(
                "address", \.address, .address,
                "The Bluetooth address, by which the meter is known in topics and records; made "
                    + "from `serial` if left out."),
            .value(
                "link", \.link,
                .choice(GatewayConfiguration.LinkKind.allCases.map { ($0.rawValue, $0) }),
                "The kind of Bluetooth; whichever the meter is heard on if left out."),
            .value(
                "channel", \.channel, .number(1...30),
                "The RFCOMM channel of a `classic` link; the one that worked before, 1, or what "
                    + "the meter says if left out."),
            .value(
                "profile", \.profile, .choice(GATTProfile.allCases.map { ($0.rawValue, $0) }),
                "The GATT profile of a `ble` link; what the meter's services show if left out."),
            .value(
                "model", \.model, .choice(MeterModel.allCases.map { ($0.name.lowercased(), $0) }),
                "The model; told from the meter's first answer if left out."),
            .value(
                "poll_interval", \.pollInterval, .duration(.milliseconds(330)...(.seconds(5))),
                "The time from one reading to the next."),
            .value(
                "temperature_unit", \.temperatureUnit, .choice,
                "What a TC66C's display is set to, since it reports in that unit without saying so."
            ),
        ]
            + GatewayConfiguration.Sessions.keys.map {
                $0.lifted(to: \.sessions, "Overrides `sessions.\($0.name)` for this meter.")
            }
    }
}

extension SchemaReading {
    fileprivate mutating func meters(
        in node: YAMLNode, common: GatewayConfiguration.Sessions, commonIsSound: Bool
    ) -> [GatewayConfiguration.Meter] {
        let items: [YAMLNode]
        switch node.content {
        case .sequence(let nodes): items = nodes
        case .null: items = []
        case .refused: return []
        case .scalar, .mapping:
            report.error(
                node.mark, "meters must be a list", advice: "begin each meter's entry with \"- \"")
            return []
        }
        var taken = Taken()
        var result: [GatewayConfiguration.Meter] = []
        for item in items where !report.isFull {
            if let meter = meter(in: item, common, commonIsSound, &taken) { result.append(meter) }
        }
        return result
    }

    private mutating func meter(
        in node: YAMLNode, _ common: GatewayConfiguration.Sessions, _ commonIsSound: Bool,
        _ taken: inout Taken
    ) -> GatewayConfiguration.Meter? {
        var entry = MeterEntry()
        entry.sessions = common
        guard let given = fields(of: node, named: "a meter", into: &entry, MeterEntry.keys) else {
            return nil
        }
        if commonIsSound, given["start_current"] ?? given["stop_current"] != nil {
            GatewayConfiguration.Sessions.checkCurrents(
                entry.sessions, given, &self, inherited: "that of all meters")
        }
        if let mark = given["temperature_unit"], let model = entry.model, model != .tc66c {
            report.warning(
                mark, "temperature_unit has no effect on a \(model.name)",
                advice: "only a TC66C reports in the unit of its display: remove it")
        }
        if given["name"] == nil {
            report.error(node.mark, "a meter has no name", advice: "add \"name: …\"")
        }
        if given["serial"] == nil {
            if given["address"] == nil {
                report.error(
                    node.mark, "a meter has neither an address nor a serial device",
                    advice: "add \"address: …\" for Bluetooth, or \"serial: /dev/…\"")
            }
        } else {
            for name in ["link", "channel", "profile"] {
                guard let mark = given[name] else { continue }
                report.warning(
                    mark, "\(name) has no effect on a meter with a serial device",
                    advice: "remove it, or remove serial to use Bluetooth")
            }
        }
        taken.claim(entry, given, &report)

        guard let name = entry.name,
            let address = entry.address ?? entry.serial.map(MeterAddress.init(localFor:))
        else { return nil }
        var meter = GatewayConfiguration.Meter(name: name, address: address)
        meter.serial = entry.serial
        meter.link = entry.link
        meter.channel = entry.channel.map(UInt8.init)
        meter.profile = entry.profile
        meter.model = entry.model
        meter.pollInterval = entry.pollInterval
        meter.temperatureUnit = entry.temperatureUnit
        meter.sessions = entry.sessions
        return meter
    }
}

/// What the meters so far have, each of which no other may have.
private struct Taken {
    var names: [String: Mark] = [:]
    var serials: [String: Mark] = [:]
    var addresses: [MeterAddress: Mark] = [:]

    mutating func claim(_ entry: MeterEntry, _ given: Fields, _ report: inout ProblemReport) {
        if let name = entry.name, let mark = given["name"] {
            claim(name.lowercased(), in: \.names, mark, "the name \"\(name)\"", &report)
        }
        if let serial = entry.serial, let mark = given["serial"] {
            let isFree = claim(
                serial, in: \.serials, mark, "the device \(serial.shown)", &report)
            // Two meters on one device also share the address made from it: one complaint is enough.
            if isFree, given["address"] == nil {
                let address = MeterAddress(localFor: serial)
                claim(address, in: \.addresses, mark, "the address \(address)", &report)
            }
        }
        if let address = entry.address, let mark = given["address"] {
            claim(address, in: \.addresses, mark, "the address \(address)", &report)
        }
    }

    @discardableResult
    private mutating func claim<Value: Hashable>(
        _ value: Value, in path: WritableKeyPath<Taken, [Value: Mark]>, _ mark: Mark,
        _ what: String, _ report: inout ProblemReport
    ) -> Bool {
        if let first = self[keyPath: path][value] {
            report.error(
                mark, "\(what) is already that of the meter on line \(first.line)",
                advice: "every meter needs its own")
            return false
        }
        self[keyPath: path][value] = mark
        return true
    }
}
