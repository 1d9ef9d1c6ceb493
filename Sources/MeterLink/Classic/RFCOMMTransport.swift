import Glibc
import LinuxIO
package import MeterCore
import Synchronization

/// Reaches a meter over the serial port of Bluetooth Classic.
package struct RFCOMMTransport: Transport {
    /// Seen when a meter is connected again soon after a link: the channel is still open (libsigrok
    /// PR 44).
    private static let busyTries = 3
    private static let busyPause: Duration = .milliseconds(100)

    package let address: MeterAddress
    private let configured: UInt8?
    private let memory: any ChannelMemory
    private let radio: any RadioAccess
    private let sockets: any BluetoothSockets
    private let clock: any Timekeeper
    private let reopening: Reopening
    private let silent = SilentChannels()

    /// - Parameter channel: from the configuration, 1 to 30; `nil` to find it out.
    package init(
        _ address: MeterAddress, channel: UInt8? = nil, memory: any ChannelMemory,
        radio: any RadioAccess, sockets: any BluetoothSockets, clock: any Timekeeper
    ) {
        self.address = address
        configured = channel
        self.memory = memory
        self.radio = radio
        self.sockets = sockets
        self.clock = clock
        reopening = Reopening(of: PeerAddress(address: address, kind: .classic), clock: clock)
    }

    private var peer: PeerAddress { PeerAddress(address: address, kind: .classic) }
    private var faults: SocketFaults { SocketFaults(peer) }

    package var name: String { "\(address)" }
    package var dialect: CommandDialect { .bluetooth }
    package func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool {
        await radio.sign(of: peer, since: since, afterSilence: silence, until: deadline)
    }

    /// Connects when it has a turn: on the channel that is configured or remembered, on 1, or on the
    /// one that the meter's list of services names.
    /// - Throws: `LinkError`; `busyElsewhere` when the meter refuses on all of them; whatever `body`
    ///   throws.
    package func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        try await withSocket(
            to: peer, radio, reopening,
            connect: { adapter throws(LinkError) in try await connect(from: adapter) },
            { socket in
                let link = RFCOMMLink(
                    socket: socket, peer: peer, radio: radio, reopening: reopening, memory: memory,
                    silent: silent)
                return try await body(link)
            })
    }

    private func connect(from adapter: MeterAddress) async throws(LinkError) -> OpenSocket {
        let order = ChannelOrder(
            configured: configured, remembered: await memory.channel(of: address),
            silent: silent.channels)
        var refusal: LinkError?
        for channel in order.known {
            do throws(LinkError) { return try await dial(channel, from: adapter) } catch {
                guard error.category == .busyElsewhere else { throw error }
                refusal = refusal ?? error
            }
        }
        for channel in order.rest(listed: try await listedChannel(from: adapter)) {
            do throws(LinkError) { return try await dial(channel, from: adapter) } catch {
                guard error.category == .busyElsewhere else { throw error }
                refusal = refusal ?? error
            }
        }
        throw refusal ?? faults.notHeard
    }

    /// `nil` is no failure: some meters have an empty list (rd-usb issue 45), or do not let
    /// themselves be asked.
    private func listedChannel(from adapter: MeterAddress) async throws(LinkError) -> UInt8? {
        let socket: WatchedDescriptor?
        do throws(Errno) {
            socket = try await within(SerialPortLookup.limit, by: clock) {
                [sockets, address] () throws(Errno) in
                try await sockets.connectServiceDiscovery(from: adapter, to: address)
            }
        } catch {
            let fault = faults.connecting(error)
            switch fault.category {
            case .absent, .transient, .busyElsewhere, .pairing: return nil
            default: throw fault
            }
        }
        guard let socket else { return nil }
        return await SerialPortLookup.channel(over: socket, by: clock)
    }

    private func dial(
        _ channel: UInt8, from adapter: MeterAddress
    ) async throws(LinkError) -> OpenSocket {
        var secured = false
        var tries = 0
        while true {
            let isSecured = secured
            do throws(Errno) {
                let socket = try await within(ConnectLimit.whole, by: clock) {
                    [sockets, address] () throws(Errno) in
                    try await sockets.connectSerialPort(
                        from: adapter, to: address, channel: channel, secured: isSecured)
                }
                guard let socket else { throw Errno(EHOSTDOWN) }
                silent.add(channel)
                return OpenSocket(descriptor: socket, adapter: adapter, channel: channel)
            } catch {
                tries += 1
                if error.code == EACCES, !secured {
                    // some modules want encryption and do not ask for it
                    secured = true
                } else if error.code == EBUSY, tries < Self.busyTries {
                    do { try await clock.sleep(for: Self.busyPause) } catch { throw .cancelled }
                } else {
                    throw faults.connecting(error)
                }
            }
        }
    }
}

/// Channels that were opened and have given no byte since. A meter that is asked for its services
/// names a better one, perhaps.
private final class SilentChannels: Sendable {
    private let state = Mutex(Set<UInt8>())

    var channels: Set<UInt8> { state.withLock { $0 } }
    func add(_ channel: UInt8) { _ = state.withLock { $0.insert(channel) } }
    /// Returns whether it was silent up to now.
    func heard(_ channel: UInt8) -> Bool { state.withLock { $0.remove(channel) != nil } }
}

/// Bytes to and from a serial port over the air.
private struct RFCOMMLink: Link {
    let socket: OpenSocket
    let peer: PeerAddress
    let radio: any RadioAccess
    let reopening: Reopening
    let memory: any ChannelMemory
    let silent: SilentChannels

    func send(_ bytes: [UInt8]) async throws(LinkError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let left = rest
            do throws(Errno) {
                let count = try await socket.descriptor.whenWritable { (number) throws(Errno) in
                    try systemCall {
                        left.withUnsafeBytes {
                            Glibc.send(number, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                        }
                    }
                }
                rest = rest.dropFirst(count)
            } catch {
                throw await lost(error)
            }
        }
    }

    func receive() async throws(LinkError) -> [UInt8] {
        let bytes: [UInt8]
        do throws(Errno) {
            bytes = try await socket.descriptor.read()
        } catch {
            throw await lost(error)
        }
        guard !bytes.isEmpty else { throw await lost(nil) }
        // an open channel proves nothing; one that answers is the right one
        if let channel = socket.channel, silent.heard(channel) {
            await memory.remember(channel, of: peer.address)
        }
        return bytes
    }

    private func lost(_ error: Errno?) async -> LinkError {
        guard error != .cancelled else { return .cancelled }
        reopening.fell()
        return SocketFaults(peer).lost(
            error, await radio.disconnectReason(peer, on: socket.adapter))
    }
}
