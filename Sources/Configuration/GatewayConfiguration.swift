package import MeterCore

/// Everything that the configuration file says, checked, with defaults filled in.
package struct GatewayConfiguration: Sendable, Equatable {
    package var gateway = Gateway()
    /// `nil`: nothing is published, sessions are recorded all the same.
    package var mqtt: MQTT?
    package var bluetooth = Bluetooth()
    package var sessions = Sessions()
    package var storage = Storage()
    package var log = Log()
    package var meters: [Meter] = []

    /// All defaults and no meters: records nothing, publishes nothing.
    package init() {}

    /// This agent among others.
    package struct Gateway: Sendable, Equatable {
        /// 1 to 32 of `a-z0-9-`; `nil`: to be made from the host name.
        package var id: String?
        /// The folder of the database.
        package var data = "/var/lib/usbmeter"

        package init() {}
    }

    /// The broker, and how to present ourselves to it.
    package struct MQTT: Sendable, Equatable {
        package var url = BrokerURL(host: "127.0.0.1", port: 1883, tls: false)
        /// One or more topic levels without wildcards.
        package var baseTopic = "usbmeter"
        /// `nil`: `usbmeter-` and the gateway's id.
        package var clientID: String?
        package var username: String?
        package var passwordFile: String?
        /// `nil`: the authorities that the system trusts.
        package var caFile: String?
        /// Given together with `keyFile` or not at all.
        package var certificateFile: String?
        package var keyFile: String?
        /// Whether the broker's certificate is not looked at.
        package var insecure = false
        /// Whole seconds.
        package var keepalive = Duration.seconds(20)
        package var protocolVersion = ProtocolVersion.automatic

        package init() {}
    }

    package enum ProtocolVersion: String, Sendable, CaseIterable {
        /// 5, and 3.1.1 with a broker that does not know 5.
        case automatic = "auto"
        case version5 = "5"
        case version311 = "3.1.1"
    }

    /// Which meters are connected over Bluetooth, and whose the adapters are.
    package struct Bluetooth: Sendable, Equatable {
        package var adopt = Adopt.automatic
        package var mode = Mode.automatic
        /// Never connected to, whatever they look like.
        package var deny: [MeterAddress] = []
        /// How many links each adapter can hold; `nil`: what is usual for its kind.
        package var slots: Int?

        package init() {}

        package enum Adopt: String, Sendable, CaseIterable {
            /// Whatever is heard and is surely a meter.
            case automatic
            /// Those that are listed.
            case listed
            /// None: Bluetooth is left alone.
            case off
        }

        package enum Mode: String, Sendable, CaseIterable {
            /// `guest` while bluetoothd runs, else `owner`.
            case automatic = "auto"
            /// Adapters are switched on and set up, keys are kept here.
            case owner
            /// bluetoothd does that.
            case guest
        }
    }

    /// What makes a charge session (C4).
    package struct Sessions: Sendable, Equatable {
        package var startCurrent = Microamperes(50_000)
        package var startDelay = Duration.seconds(3)
        /// Less than `startCurrent`.
        package var stopCurrent = Microamperes(20_000)
        package var endDelay = Duration.seconds(120)
        package var gapLimit = Duration.seconds(600)

        package init() {}
    }

    package struct Storage: Sendable, Equatable {
        package var flushInterval = Duration.seconds(10)

        package init() {}
    }

    package struct Log: Sendable, Equatable {
        package var level = LogLevel.info

        package init() {}
    }

    package enum LinkKind: String, Sendable, CaseIterable {
        case ble
        case classic
    }

    /// One meter to be read.
    package struct Meter: Sendable, Equatable {
        /// 1 to 64 visible characters, unlike that of any other meter in more than case.
        package var name: String
        /// As configured, or made from `serial`.
        package var address: MeterAddress
        /// Path of the serial device; `nil` for a meter that is reached over Bluetooth.
        package var serial: String?
        /// Which kind of Bluetooth; `nil`: whichever it is heard on.
        package var link: LinkKind?
        /// The RFCOMM channel; `nil`: the one that worked before, 1, or what SDP says.
        package var channel: UInt8?
        /// The GATT profile; `nil`: what its services show.
        package var profile: GATTProfile?
        /// `nil`: to be told from the first frame.
        package var model: MeterModel?
        package var pollInterval = Duration.seconds(1)
        /// The unit that a TC66C's display is set to, in which it also reports.
        package var temperatureUnit = TemperatureUnit.celsius
        /// The common rules with what this meter overrides.
        package var sessions = Sessions()

        package init(name: String, address: MeterAddress) {
            self.name = name
            self.address = address
        }
    }
}
