package import MeterCore

/// The kernel's answer to a management request. A struct, since the set of codes is open.
package struct ManagementStatus: Hashable, Sendable, CustomStringConvertible {
    package let code: UInt8

    package init(_ code: UInt8) { self.code = code }

    package static let success = Self(0x00)
    package static let unknownCommand = Self(0x01)
    package static let notConnected = Self(0x02)
    package static let failed = Self(0x03)
    package static let connectFailed = Self(0x04)
    package static let authenticationFailed = Self(0x05)
    package static let notPaired = Self(0x06)
    package static let noResources = Self(0x07)
    package static let timeout = Self(0x08)
    package static let alreadyConnected = Self(0x09)
    package static let busy = Self(0x0a)
    package static let rejected = Self(0x0b)
    package static let notSupported = Self(0x0c)
    package static let invalidParameters = Self(0x0d)
    package static let disconnected = Self(0x0e)
    package static let notPowered = Self(0x0f)
    package static let cancelled = Self(0x10)
    /// No such adapter, or one that is being set up, or that another program has for itself.
    package static let invalidIndex = Self(0x11)
    package static let blocked = Self(0x12)
    package static let alreadyPaired = Self(0x13)
    package static let permissionDenied = Self(0x14)

    private static let texts = [
        "success", "unknown command", "not connected", "failed", "connection failed",
        "authentication failed", "not paired", "no resources", "time-out", "already connected",
        "busy", "rejected", "not supported", "invalid parameters", "disconnected", "not powered",
        "cancelled", "no such adapter", "blocked by rfkill", "already paired", "permission denied",
    ]

    package var description: String {
        Int(code) < Self.texts.count ? Self.texts[Int(code)] : "status \(code)"
    }

    /// What it means for whoever made the request.
    /// - Parameter what: what failed, as the beginning of a sentence, e.g. `scanning`.
    package func error(_ what: String) -> LinkError {
        switch self {
        case .permissionDenied:
            LinkError(
                .permission, "the kernel does not permit \(what)",
                advice: "give the program CAP_NET_ADMIN: in the unit AmbientCapabilities="
                    + "CAP_NET_ADMIN, on the command line sudo; in a container also the network "
                    + "of the host")
        case .blocked:
            LinkError(
                .adapter, "the Bluetooth adapter is blocked by rfkill",
                advice: "rfkill unblock bluetooth")
        case .notPowered:
            LinkError(
                .adapter, "the Bluetooth adapter is off", advice: "bluetoothctl power on")
        case .invalidIndex:
            LinkError(
                .adapter,
                "the Bluetooth adapter is gone, being set up, or in another "
                    + "program's hands")
        case .timeout: LinkError(.adapter, "\(what) timed out in the Bluetooth adapter")
        case .noResources:
            LinkError(.noSlot, "the Bluetooth adapter has no free connection")
        case .authenticationFailed, .notPaired:
            LinkError(.pairing, "\(what) was refused: \(self)")
        case .connectFailed, .notConnected, .disconnected:
            LinkError(.absent, "\(what) failed: \(self)")
        case .cancelled: .cancelled
        default: LinkError(.transient, "\(what) failed: \(self)")
        }
    }
}
