package import MeterCore

/// How the adapters are used.
package struct RadioSettings: Sendable {
    package enum Conduct: String, Sendable {
        /// Owner where no bluetoothd runs, else guest.
        case automatic = "auto"
        case owner
        case guest
        /// Looks and changes nothing, as the doctor does.
        case observer
    }
    package var conduct = Conduct.automatic
    /// The adapters to use; `nil` for all.
    package var adapters: Set<MeterAddress>?
    /// How many links each adapter can hold; `nil`: what is usual for its kind.
    package var slots: Int?
    /// Where the pairings are kept that we make as owner; `nil` keeps none, and then the kernel's
    /// are left as they are.
    package var keyFile: String?
    /// As owner: switches an adapter on that is off.
    package var switchesOn = true
    /// Puts the power back at the end as it was found, where nobody has a link by then.
    package var restoresPower = false
    /// Also as guest: switches a wedged adapter off and on.
    package var mayRecoverAsGuest = false
    /// Has the USB port set a wedged adapter up anew.
    package var mayResetUSB = false
    /// Looks for unknown meters now and then.
    package var looksAround = false

    package init() {}
}

/// A meter that is wanted: while it is not connected, it is listened for.
package struct KnownPeer: Sendable, Hashable {
    package var peer: PeerAddress
    /// The adapter that is to connect it; `nil` for whichever hears it best.
    package var adapter: MeterAddress?
    /// The pairing code that a person gave; `nil` for the usual one.
    package var code: String?
    /// As owner: answers when the meter asks for its code, without a person having started it.
    package var pairsByItself: Bool

    package init(
        _ peer: PeerAddress, adapter: MeterAddress? = nil, code: String? = nil,
        pairsByItself: Bool = false
    ) {
        self.peer = peer
        self.adapter = adapter
        self.code = code
        self.pairsByItself = pairsByItself
    }
}
