/// A way in which a meter offers its bytes over GATT. The raw value is its name in the
/// configuration.
package enum GATTProfile: String, Sendable, CaseIterable {
    /// Newer genuine UM meters: FFE0 with FFE1 for both ways (ayufan, floriandotorg), and clones
    /// that take the same command in an Atorch frame.
    case um = "um"
    /// The Atorch A3-B that is sold with the UM24C's app: wrapped commands only (moormaster).
    case umWrapped = "um-atorch"
    /// UM on FFF0 with FFF1 and FFF2. From the original documents; no public hardware shows it.
    case umFFF0 = "um-fff0"
    /// TC66C up to firmware 1.14: FFE5 with FFE9 to write, FFE0 with FFE4 (Ralim, thijsputman).
    case tc66Old = "tc66-old"
    /// TC66C from firmware 1.15 on, `BT24-M`: FFE0 with FFE2 to write, and FFE1.
    case tc66New = "tc66-new"
    /// A TC66C that poses as a heart-rate sensor. From the original documents, like `um-fff0`.
    case tc66HeartRate = "tc66-hrm"

    private struct Place {
        let service: UInt16
        let characteristic: UInt16
        var name: String { "\(BluetoothUUID(service))/\(BluetoothUUID(characteristic))" }
    }

    private var notifies: Place {
        switch self {
        case .um, .umWrapped, .tc66New: Place(service: 0xffe0, characteristic: 0xffe1)
        case .umFFF0: Place(service: 0xfff0, characteristic: 0xfff1)
        case .tc66Old: Place(service: 0xffe0, characteristic: 0xffe4)
        case .tc66HeartRate: Place(service: 0x180d, characteristic: 0x2a37)
        }
    }

    private var writes: Place? {
        switch self {
        case .um, .umWrapped: Place(service: 0xffe0, characteristic: 0xffe1)
        case .umFFF0: Place(service: 0xfff0, characteristic: 0xfff2)
        case .tc66Old: Place(service: 0xffe5, characteristic: 0xffe9)
        case .tc66New: Place(service: 0xffe0, characteristic: 0xffe2)
        case .tc66HeartRate: nil
        }
    }

    /// The services that any profile uses; the others are counted and not looked into.
    package static let services: Set<BluetoothUUID> = Set(
        allCases.flatMap { profile in
            [profile.notifies.service, profile.writes?.service].compactMap(\.self)
                .map(BluetoothUUID.init)
        })

    /// Chooses the profile and the characteristics that carry it.
    ///
    /// - Parameters:
    ///   - name: as advertised; `nil` when it is not known. It only decides where the services
    ///     leave it open.
    ///   - wanted: from the configuration, instead of what the services suggest.
    /// - Throws: `GATTMismatch` when the device offers none, or not the wanted one.
    package static func choose(
        from table: GATTTable, name: String?, wanted: GATTProfile? = nil
    ) throws(GATTMismatch) -> GATTPlan {
        let order = wanted.map { [$0] } ?? [.tc66Old, .tc66New, .um, .umFFF0, .tc66HeartRate]
        for profile in order where profile.suits(name, asked: wanted != nil) {
            if case .complete(let plan) = profile.look(in: table) { return plan }
        }
        if wanted == nil, isForeign(name) {
            throw GATTMismatch(missing: "it is another maker's meter", found: table.summary)
        }
        throw GATTMismatch(missing: missing(of: order, in: table), found: table.summary)
    }

    /// Whether the name allows the profile. FNIRSI's meters have the services of an old TC66C, and
    /// UART modules in anything those of the UM series' second form.
    private func suits(_ name: String?, asked: Bool) -> Bool {
        switch self {
        case .tc66HeartRate: name.map { $0.uppercased().hasPrefix("TC66") } ?? asked
        case .umFFF0: asked || Self.isUM(name)
        case .tc66New: asked || !Self.isUM(name) && !Self.isForeign(name)
        case .um, .umWrapped, .tc66Old: asked || !Self.isForeign(name)
        }
    }

    private static func isUM(_ name: String?) -> Bool {
        name?.uppercased().hasPrefix("UM") ?? false
    }
    private static func isForeign(_ name: String?) -> Bool {
        guard let name = name?.uppercased() else { return false }
        return name.hasPrefix("FNB") || name.hasPrefix("FNIRSI")
    }

    private enum Look {
        case complete(GATTPlan)
        /// What there is not, of the places that the profile needs, and how near it comes.
        case lacking([String], nearness: Int)
    }

    private func look(in table: GATTTable) -> Look {
        var missing: [String] = []
        var nearness = 0
        func lack(_ what: String) {
            if !missing.contains(what) { missing.append(what) }
        }
        func find(
            _ place: Place?, _ properties: GATTTable.Properties, _ use: String
        ) -> GATTTable.Characteristic? {
            guard let place else { return nil }
            guard let found = table.characteristic(place.service, place.characteristic) else {
                if table.services.contains(where: { $0.uuid == BluetoothUUID(place.service) }) {
                    nearness += 1
                }
                lack(place.name)
                return nil
            }
            guard !found.properties.isDisjoint(with: properties) else {
                nearness += 2
                lack("\(place.name) \(use)")
                return nil
            }
            nearness += 3
            return found
        }
        let source = find(notifies, [.notify, .indicate], "that notifies")
        let target = find(writes, [.write, .writeWithoutResponse], "that can be written")
        guard let source, missing.isEmpty else {
            return .lacking(missing, nearness: nearness - missing.count)
        }
        return .complete(
            GATTPlan(
                profile: self, source: source, target: target?.valueHandle,
                forms: target.map { forms($0.properties) } ?? []))
    }

    private func forms(_ properties: GATTTable.Properties) -> [GATTPlan.Form] {
        let canAcknowledge = properties.contains(.write)
        let canCommand = properties.contains(.writeWithoutResponse)
        let usual = GATTPlan.Form(wrapped: false, request: !canCommand, control: !canCommand)
        let wrapped = GATTPlan.Form(wrapped: true, request: canAcknowledge, control: !canCommand)
        switch self {
        case .tc66Old:
            // accepts a command as well, and ignores it without a word
            return [.init(wrapped: false, request: canAcknowledge, control: canAcknowledge)]
        case .umWrapped: return [wrapped]
        case .um:
            guard canCommand, canAcknowledge else { return [usual, wrapped] }
            return [
                .init(wrapped: false, request: false, control: true), wrapped,
                .init(wrapped: false, request: true, control: true),
            ]
        case .umFFF0: return [.init(wrapped: false, request: !canCommand, control: canAcknowledge)]
        case .tc66New, .tc66HeartRate: return [usual]
        }
    }

    /// What the profiles that come nearest lack.
    private static func missing(of profiles: [GATTProfile], in table: GATTTable) -> String {
        let looks = profiles.compactMap { profile -> (missing: [String], nearness: Int)? in
            guard case .lacking(let missing, let nearness) = profile.look(in: table) else {
                return nil
            }
            return (missing, nearness)
        }
        guard let most = looks.map(\.nearness).max() else {
            return "its name is not that of a meter with these services"
        }
        // a stranger has none of the services
        guard profiles.count == 1 || most >= 0 else {
            return "none of the services FFE0, FFE5 and FFF0 of a meter is there"
        }
        let near = looks.filter { $0.nearness == most }.map {
            $0.missing.joined(separator: " and ")
        }
        return "\(near.joined(separator: ", or ")) is missing"
    }
}

/// Why none of the profiles fits.
package struct GATTMismatch: Error, Sendable, Equatable {
    /// A clause on what is missing.
    package var missing: String
    /// The services and characteristics that are there.
    package var found: String
}

/// How one meter is read over GATT.
package struct GATTPlan: Sendable, Equatable {
    /// How a command is written.
    package struct Form: Sendable, Hashable {
        /// In an Atorch frame.
        package var wrapped: Bool
        /// Whether the request for a frame is written with a response.
        package var request: Bool
        /// Whether other commands are.
        package var control: Bool
    }

    package var profile: GATTProfile
    /// What notifies.
    package var source: GATTTable.Characteristic
    /// The value handle to write to; `nil` when nothing is asked.
    package var target: UInt16?
    /// The forms that may work, in the order of trying.
    package var forms: [Form]

    /// What to write to the source's descriptor 2902: notifications, or indications where there are
    /// no others.
    package var configuration: [UInt8] {
        source.properties.contains(.notify) ? [1, 0] : [2, 0]
    }

    package var content: LinkContent {
        switch profile {
        case .um, .umWrapped, .umFFF0: .um
        case .tc66Old, .tc66New: .tc66
        case .tc66HeartRate: .heartRate
        }
    }
}
