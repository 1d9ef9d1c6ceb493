import MeterCore

/// The way from a connected socket to a meter that sends: packet size, services, characteristics,
/// notifications on. No table is kept from one link to the next: finding it takes about a second, and
/// one that is out of date would cost a link.
struct GATTSetup: Sendable {
    static let mtuLimit: Duration = .seconds(5)
    /// For the services (B4).
    static let servicesLimit: Duration = .seconds(5)
    /// For services, characteristics and descriptors together.
    static let discoveryLimit: Duration = .seconds(20)
    static let subscribeLimit: Duration = .seconds(5)

    private static let genericAttribute = BluetoothUUID(0x1801)
    private static let serviceChanged = BluetoothUUID(0x2a05)
    private static let deviceName = BluetoothUUID(0x2a00)

    let client: GATTClient
    let clock: any Timekeeper
    let peer: PeerAddress
    /// As advertised; `nil` when unknown, then the device is asked.
    let name: String?
    let profile: GATTProfile?

    /// Returns how the meter is read; its values come from here on.
    /// - Throws: `LinkError`; `incompatible` when the device is not a meter that can be read.
    func run(progress: (ConnectionState) -> Void) async throws(LinkError) -> GATTPlan {
        // a refusal leaves it at the smallest size
        _ = try await client.request(
            .exchangeMTU(ATTMachine.ourMTU), within: Self.mtuLimit)
        progress(.discoveringServices)
        let table = try await discover(progress)
        let plan = try await choose(from: table)
        client.expectServiceChanges(
            at: table.services.lazy.filter { $0.uuid == Self.genericAttribute }
                .flatMap(\.characteristics).first { $0.uuid == Self.serviceChanged }?.valueHandle)
        // before they are turned on, or the first would be lost
        client.listen(to: plan.source.valueHandle)
        try await subscribe(plan)
        return plan
    }

    private func discover(
        _ progress: (ConnectionState) -> Void
    ) async throws(LinkError) -> GATTTable {
        var discovery = GATTDiscovery(
            wanted: GATTProfile.services.union([Self.genericAttribute]))
        let start = clock.now
        var isAtServices = true
        while let request = discovery.next {
            if isAtServices, !discovery.isAtServices {
                isAtServices = false
                progress(.discoveringCharacteristics)
            }
            let limit = isAtServices ? Self.servicesLimit : Self.discoveryLimit
            let left = start + limit - clock.now
            let response = try await client.request(
                request, within: max(.zero, min(left, ATTMachine.usualLimit)))
            do throws(GATTDiscovery.Problem) {
                try discovery.take(response)
            } catch {
                throw linkError(error)
            }
        }
        return discovery.table
    }

    private func linkError(_ problem: GATTDiscovery.Problem) -> LinkError {
        switch problem {
        case .refused(let error, let request):
            LinkError(
                .incompatible, "\(peer), \(request.purpose), refuses: \(error)",
                advice: "is it a meter?")
        case .malformed(let what): SocketFaults(peer).malformed(what)
        }
    }

    private func choose(from table: GATTTable) async throws(LinkError) -> GATTPlan {
        var name = name
        if name == nil { name = try await askForName() }
        do throws(GATTMismatch) {
            return try GATTProfile.choose(from: table, name: name, wanted: profile)
        } catch {
            let called = name.map { " (\($0))" } ?? ""
            throw LinkError(
                .incompatible,
                "\(peer)\(called) cannot be read as a meter: \(error.missing); it has "
                    + error.found,
                advice: profile == nil
                    ? "if it is one, set its profile in the configuration"
                    : "remove the profile from the configuration, so that it is found out")
        }
    }

    /// The name by which the device calls itself, as far as one packet holds it.
    private func askForName() async throws(LinkError) -> String? {
        let response = try await client.request(
            .readByType(1...(.max), Self.deviceName), within: Self.subscribeLimit)
        guard case .attributes(let attributes) = response, let value = attributes.first?.value
        else { return nil }
        let text = String(decoding: value.prefix { $0 != 0 }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }

    /// Turns the notifications on. Some modules refuse that and send them all the same, and an old
    /// TC66C needs nothing turned on, so only what says otherwise ends the link.
    private func subscribe(_ plan: GATTPlan) async throws(LinkError) {
        guard let handle = plan.source.configurationHandle else { return }
        let response = try await client.request(
            .write(handle, plan.configuration), within: Self.subscribeLimit)
        guard case .refused(let error) = response else { return }
        switch error {
        case .writeNotPermitted, .notSupported, .configurationImproper: return
        default:
            throw LinkError(
                .transient, "\(peer) refuses to send notifications: \(error)",
                advice: "switch the meter off and on if it goes on")
        }
    }
}
