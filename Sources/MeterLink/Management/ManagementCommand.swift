package import MeterCore

/// One request to the kernel's Bluetooth management interface: the layouts are those of
/// `doc/mgmt-protocol.rst` of BlueZ.
package struct ManagementCommand: Hashable, Sendable {
    package enum Opcode: UInt16, Sendable, CaseIterable {
        case readVersion = 0x0001
        case readCommands = 0x0002
        case readIndexList = 0x0003
        case readInfo = 0x0004
        case setPowered = 0x0005
        case setBondable = 0x0009
        case setSimplePairing = 0x000b
        case setLowEnergy = 0x000d
        case loadLinkKeys = 0x0012
        case loadLongTermKeys = 0x0013
        case disconnect = 0x0014
        case getConnections = 0x0015
        case pinReply = 0x0016
        case pinRefusal = 0x0017
        case setIOCapability = 0x0018
        case pair = 0x0019
        case cancelPairing = 0x001a
        case unpair = 0x001b
        case confirm = 0x001c
        case confirmRefusal = 0x001d
        case passkeyRefusal = 0x001f
        case startDiscovery = 0x0023
        case stopDiscovery = 0x0024
        case confirmName = 0x0025
        case setClassic = 0x002a
        case getConnectionInfo = 0x0031
        case addDevice = 0x0033
        case removeDevice = 0x0034
        case loadConnectionParameters = 0x0035
        case readExtendedIndexList = 0x003c
        case addPatternMonitor = 0x0052
        case removeMonitor = 0x0053

        var onlyReads: Bool {
            switch self {
            case .readVersion, .readCommands, .readIndexList, .readInfo, .getConnections,
                .readExtendedIndexList:
                true
            default: false
            }
        }
    }

    package let opcode: Opcode
    package let index: UInt16
    package let parameters: [UInt8]

    /// In place of an adapter's number, for requests about all.
    package static let noIndex: UInt16 = 0xffff
    /// The interface's limit for a packet that nothing was done about.
    package static let usualLimit = 1028

    private init(_ opcode: Opcode, _ index: UInt16, _ parameters: [UInt8] = []) {
        self.opcode = opcode
        self.index = index
        self.parameters = parameters
    }
    private init(_ opcode: Opcode, _ index: UInt16, _ peer: PeerAddress, _ rest: [UInt8] = []) {
        var bytes: [UInt8] = []
        bytes.append(peer)
        self.init(opcode, index, bytes + rest)
    }

    /// The datagram.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(6 + parameters.count)
        bytes.append(littleEndian: opcode.rawValue)
        bytes.append(littleEndian: index)
        bytes.append(littleEndian: UInt16(truncatingIfNeeded: parameters.count))
        return bytes + parameters
    }
}

extension ManagementCommand {
    package static let readVersion = Self(.readVersion, noIndex)
    package static let readCommands = Self(.readCommands, noIndex)
    package static let readIndexList = Self(.readIndexList, noIndex)
    /// Answers with the kind and bus of each; from then on additions and removals are announced in
    /// the extended form.
    package static let readExtendedIndexList = Self(.readExtendedIndexList, noIndex)

    package static func readInfo(_ index: UInt16) -> Self { Self(.readInfo, index) }
    package static func setPowered(_ index: UInt16, _ on: Bool) -> Self {
        Self(.setPowered, index, [on ? 1 : 0])
    }
    package static func setBondable(_ index: UInt16, _ on: Bool) -> Self {
        Self(.setBondable, index, [on ? 1 : 0])
    }
    package static func setSimplePairing(_ index: UInt16, _ on: Bool) -> Self {
        Self(.setSimplePairing, index, [on ? 1 : 0])
    }
    package static func setLowEnergy(_ index: UInt16, _ on: Bool) -> Self {
        Self(.setLowEnergy, index, [on ? 1 : 0])
    }
    package static func setClassic(_ index: UInt16, _ on: Bool) -> Self {
        Self(.setClassic, index, [on ? 1 : 0])
    }
    /// 3 is "no input, no output": the kernel then accepts simple pairing by itself.
    package static func setIOCapability(_ index: UInt16, _ capability: UInt8) -> Self {
        Self(.setIOCapability, index, [capability])
    }

    /// Replaces the kernel's whole list. As many are sent as fit into `limit` bytes.
    package static func loadLinkKeys(
        _ index: UInt16, _ keys: [LinkKey], limit: Int = usualLimit
    ) -> Self {
        let fitting = keys.prefix((limit - 9) / LinkKey.size)
        var bytes: [UInt8] = [0]  // no debug keys
        bytes.append(littleEndian: UInt16(fitting.count))
        for key in fitting { key.append(to: &bytes) }
        return Self(.loadLinkKeys, index, bytes)
    }
    /// Replaces the kernel's whole list. As many are sent as fit into `limit` bytes.
    package static func loadLongTermKeys(
        _ index: UInt16, _ keys: [LongTermKey], limit: Int = usualLimit
    ) -> Self {
        let fitting = keys.prefix((limit - 8) / LongTermKey.size)
        var bytes: [UInt8] = []
        bytes.append(littleEndian: UInt16(fitting.count))
        for key in fitting { key.append(to: &bytes) }
        return Self(.loadLongTermKeys, index, bytes)
    }

    package static func disconnect(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.disconnect, index, peer)
    }
    package static func getConnections(_ index: UInt16) -> Self { Self(.getConnections, index) }
    package static func getConnectionInfo(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.getConnectionInfo, index, peer)
    }

    /// - Parameter pin: 1 to 16 bytes.
    package static func pinReply(_ index: UInt16, _ peer: PeerAddress, pin: [UInt8]) -> Self {
        let pin = pin.prefix(16)
        let padding = [UInt8](repeating: 0, count: 16 - pin.count)
        return Self(.pinReply, index, peer, [UInt8(pin.count)] + pin + padding)
    }
    package static func pinRefusal(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.pinRefusal, index, peer)
    }
    package static func pair(_ index: UInt16, _ peer: PeerAddress, ioCapability: UInt8) -> Self {
        Self(.pair, index, peer, [ioCapability])
    }
    package static func cancelPairing(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.cancelPairing, index, peer)
    }
    package static func unpair(
        _ index: UInt16, _ peer: PeerAddress, disconnecting: Bool
    ) -> Self {
        Self(.unpair, index, peer, [disconnecting ? 1 : 0])
    }
    package static func confirm(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.confirm, index, peer)
    }
    package static func confirmRefusal(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.confirmRefusal, index, peer)
    }
    package static func passkeyRefusal(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.passkeyRefusal, index, peer)
    }

    package static func startDiscovery(_ index: UInt16, _ kind: ScanPolicy.Kind) -> Self {
        Self(.startDiscovery, index, [kind.rawValue])
    }
    package static func stopDiscovery(_ index: UInt16, _ kind: ScanPolicy.Kind) -> Self {
        Self(.stopDiscovery, index, [kind.rawValue])
    }
    package static func confirmName(
        _ index: UInt16, _ peer: PeerAddress, isKnown: Bool
    ) -> Self {
        Self(.confirmName, index, peer, [isKnown ? 1 : 0])
    }
    /// Has the kernel report the device when it advertises (action 0), and nothing else.
    package static func addDevice(_ index: UInt16, _ peer: PeerAddress) -> Self {
        Self(.addDevice, index, peer, [0])
    }
    /// For one device. An all-zero address would remove those of every program.
    package static func removeDevice(_ index: UInt16, _ peer: PeerAddress) -> Self {
        precondition(
            peer.address.littleEndianBytes.contains { $0 != 0 },
            "removing the zero address removes everybody's devices")
        return Self(.removeDevice, index, peer)
    }
    /// Those that are not named lose theirs on kernels up to revision 22 of the interface.
    package static func loadConnectionParameters(
        _ index: UInt16, _ parameters: [ConnectionParameters], limit: Int = usualLimit
    ) -> Self {
        let fitting = parameters.prefix((limit - 8) / ConnectionParameters.size)
        var bytes: [UInt8] = []
        bytes.append(littleEndian: UInt16(fitting.count))
        for entry in fitting { entry.append(to: &bytes) }
        return Self(.loadConnectionParameters, index, bytes)
    }

    /// Listens in the background for whatever advertises itself as ordinary devices do: flags
    /// (type 01) with one of the usual values. Without patterns the kernel refuses.
    package static func addFlagsMonitor(_ index: UInt16) -> Self {
        let patterns = [0x06, 0x1a, 0x02].map { (flags: UInt8) in
            [0x01, 0, 1, flags] + [UInt8](repeating: 0, count: 30)
        }
        return Self(
            .addPatternMonitor, index, [UInt8(patterns.count)] + patterns.flatMap { $0 })
    }
    /// For one monitor. The handle 0 would remove those of every program.
    package static func removeMonitor(_ index: UInt16, _ handle: UInt16) -> Self {
        precondition(handle != 0, "removing monitor 0 removes everybody's monitors")
        var bytes: [UInt8] = []
        bytes.append(littleEndian: handle)
        return Self(.removeMonitor, index, bytes)
    }
}

/// How often two devices of a link meet, and after how much silence it counts as lost.
package struct ConnectionParameters: Hashable, Sendable {
    package var peer: PeerAddress
    /// In units of 1.25 ms.
    package var shortestInterval: UInt16
    package var longestInterval: UInt16
    /// How many meetings the peer may sleep through.
    package var latency: UInt16
    /// In units of 10 ms.
    package var timeout: UInt16

    package init(
        peer: PeerAddress, shortestInterval: UInt16, longestInterval: UInt16, latency: UInt16,
        timeout: UInt16
    ) {
        self.peer = peer
        self.shortestInterval = shortestInterval
        self.longestInterval = longestInterval
        self.latency = latency
        self.timeout = timeout
    }

    /// What suits a meter that is asked once a second. The kernel's own 420 ms of silence are too
    /// little on boards whose Wi-Fi shares the antenna; with few links they can meet more often.
    package init(for peer: PeerAddress, amongMeters count: Int) {
        let interval: (UInt16, UInt16) = count < 3 ? (12, 24) : (24, 40)
        self.init(
            peer: peer, shortestInterval: interval.0, longestInterval: interval.1, latency: 0,
            timeout: 600)
    }

    static let size = 15
    func append(to bytes: inout [UInt8]) {
        bytes.append(peer)
        for value in [shortestInterval, longestInterval, latency, timeout] {
            bytes.append(littleEndian: value)
        }
    }
}
