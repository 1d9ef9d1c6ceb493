package import MeterCore

/// What the whole gateway is set up with.
package struct GatewaySettings: Sendable {
    /// `[a-z0-9-]{1,32}`, in topics and receipts.
    package var gatewayID: String
    package var baseTopic: String
    /// How often samples are written to the store: what a power cut may cost.
    package var flushInterval: Duration
    /// For receipts.
    package var softwareVersion: String

    package init(
        gatewayID: String, baseTopic: String = "usbmeter",
        flushInterval: Duration = .seconds(10), softwareVersion: String
    ) {
        self.gatewayID = gatewayID
        self.baseTopic = baseTopic
        self.flushInterval = flushInterval
        self.softwareVersion = softwareVersion
    }

    package var topics: Topics { Topics(base: baseTopic, gatewayID: gatewayID) }
}

/// One meter: who it is, how it is reached and how its sessions are found.
package struct MeterSettings: Sendable {
    package var address: MeterAddress
    package var name: String
    /// `nil`: the first frame tells.
    package var model: MeterModel?
    package var temperatureUnit: TemperatureUnit
    package var pollInterval: Duration
    package var rules: SessionRules
    package var transport: any Transport

    package init(
        address: MeterAddress, name: String, model: MeterModel?,
        temperatureUnit: TemperatureUnit = .celsius, pollInterval: Duration = .seconds(1),
        rules: SessionRules = SessionRules(), transport: any Transport
    ) {
        self.address = address
        self.name = name
        self.model = model
        self.temperatureUnit = temperatureUnit
        self.pollInterval = pollInterval
        self.rules = rules
        self.transport = transport
    }
}

/// What happens in a gateway, for those who show it: a status line, the demo's table, a test.
package enum GatewayEvent: Sendable {
    /// A meter is looked after from now on.
    case added(MeterAddress, name: String)
    case state(MeterAddress, ConnectionState)
    case reading(MeterAddress, Reading)
    /// The receipt so far of the session that runs; `nil` when none does.
    case session(MeterAddress, SessionSummary?)
    case completed(SessionSummary)
    /// `reason` is empty when connected.
    case channel(connected: Bool, reason: String)
}

/// Called at once and from any task; must return quickly.
package typealias GatewayObserver = @Sendable (GatewayEvent) -> Void
