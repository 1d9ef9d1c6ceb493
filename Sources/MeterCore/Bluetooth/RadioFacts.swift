/// Whether we run an adapter or are a guest on it.
package enum AdapterMode: String, Sendable, Codable {
    /// No bluetoothd: power, pairing and keys are ours.
    case owner
    /// bluetoothd runs: its settings, keys and power are left alone.
    case guest
    /// We only look, as the doctor does.
    case observer
}

package enum AdapterState: String, Sendable, Codable {
    case absent
    /// The kernel wants configuration or firmware before it can be used.
    case unconfigured
    /// Switched off by rfkill, in software or by a switch.
    case blocked
    case off
    case poweringOn = "powering_on"
    case ready
    case recovering
    /// All means of recovery have failed.
    case failed
}

/// What is known of one adapter: the support case.
package struct AdapterFacts: Sendable, Equatable {
    /// `nil` while the kernel does not know it, as before configuration.
    package var address: MeterAddress?
    /// The number in `hci0`; `nil` while it is gone. It changes, the address does not.
    package var index: UInt16?
    package var name = ""
    /// The company number of the chip's maker, and its name where it is a usual one.
    package var manufacturer: UInt16 = 0
    package var maker: String?
    package var isUSB = false
    package var isSerialLine = false
    package var state = AdapterState.absent
    package var isPowered = false
    package var speaksLowEnergy = false
    package var speaksClassic = false
    package var isBlockedBySoftware = false
    package var isBlockedBySwitch = false
    package var mode = AdapterMode.observer
    /// Connections of all programs.
    package var links: [PeerAddress] = []
    package var slots = 0
    package var queueLength = 0
    package var isScanning = false
    /// 0 to 4; see `AdapterSuspicion`.
    package var suspicion = 0
    /// Steps of recovery taken since the start.
    package var recoveries = 0
    /// Another adapter has the same address, so that the kernel can never choose this one.
    package var isDuplicate = false
    package var lastError: LinkError?

    package init() {}
}

/// What is known of Bluetooth on this machine.
package struct RadioFacts: Sendable, Equatable {
    /// Why there is none at all: no support in the kernel, or kept from us.
    package var unavailable: LinkError?
    /// Version and revision of the kernel's management interface, e.g. `1.22`.
    package var managementVersion: String?
    /// Whether we may do more than look; `nil` while it is not known, as without an adapter.
    package var isPrivileged: Bool?
    /// The process number of bluetoothd, where one runs.
    package var bluetoothDaemon: Int?
    package var adapters: [AdapterFacts] = []

    package init() {}

    /// The one thing that keeps all meters from being reached; `nil` when an adapter is ready.
    package var problem: LinkError? {
        if let unavailable { return unavailable }
        if adapters.contains(where: { $0.state == .ready && !$0.isDuplicate }) { return nil }
        if let error = adapters.lazy.compactMap(\.lastError).first { return error }
        let present = adapters.filter { $0.index != nil }
        guard let adapter = present.first else {
            return LinkError(
                .adapter, "no Bluetooth adapter was found",
                advice: "plug one in; on a Raspberry Pi remove dtoverlay=disable-bt from "
                    + "config.txt")
        }
        return LinkError(.adapter, "the Bluetooth adapter is \(adapter.state.rawValue)")
    }
}
