import Glibc
import LinuxIO
import MeterCore
import MeterSim
import Testing

@testable import MeterLink

@Suite(.timeLimit(.minutes(1))) struct SocketTests {
    @Test func addressesHaveTheBytesOfTheKernelsStructures() {
        let address = classicAddress
        #expect(
            hex(SocketAddress.l2cap(address, kind: .leRandom, channel: 4))
                == "1F0000002F3600A6150004000200")
        #expect(
            hex(SocketAddress.l2cap(address, kind: .classic, psm: 1))
                == "1F0001002F3600A6150000000000")
        #expect(hex(SocketAddress.rfcomm(address, channel: 7)) == "1F002F3600A615000700")
    }

    @Test(
        arguments: [
            (ECONNREFUSED, .absent, .busyElsewhere), (EHOSTDOWN, .absent, .absent),
            (ETIMEDOUT, .transient, .transient), (EHOSTUNREACH, .adapter, .adapter),
            (EOPNOTSUPP, .adapter, .adapter), (EBUSY, .busyElsewhere, .busyElsewhere),
            (ENOTCONN, .transient, .transient), (ECONNABORTED, .transient, .transient),
            (ECONNRESET, .transient, .transient), (EMLINK, .noSlot, .noSlot),
            (ENOSYS, .transient, .transient), (EACCES, .pairing, .pairing),
            (EBADE, .pairing, .pairing), (EPROTO, .transient, .transient),
            (EIO, .transient, .transient), (EBADRQC, .transient, .transient),
            (EALREADY, .transient, .transient), (ENOMEM, .transient, .transient),
            (EINVAL, .bug, .bug), (EMFILE, .configuration, .configuration),
            (ENFILE, .configuration, .configuration), (EAFNOSUPPORT, .adapter, .adapter),
            (EPROTONOSUPPORT, .adapter, .adapter), (EPERM, .permission, .permission),
            (ECANCELED, .cancelled, .cancelled), (ENODEV, .adapter, .adapter),
            (EXDEV, .transient, .transient),
        ] as [(Int32, FaultCategory, FaultCategory)])
    func eachErrorHasAMeaning(code: Int32, le: FaultCategory, classic: FaultCategory) {
        let random = PeerAddress(address: lePeer.address, kind: .leRandom)
        let peer = PeerAddress(address: classicAddress, kind: .classic)
        for (peer, category) in [(lePeer, le), (random, le), (peer, classic)] {
            let error = SocketFaults(peer).connecting(Errno(code))
            #expect(error.category == category)
            #expect(!error.message.isEmpty && error.message.last != ".")
            switch error.category {
            case .transient, .cancelled: break
            // what does not go away by itself says what to do
            default: #expect(!error.advice.isEmpty, "\(error)")
            }
        }
    }

    @Test func aLostLinkIsToldByTheKernelsReasonFirst() {
        let faults = SocketFaults(lePeer)
        func category(_ code: Int32?, _ reason: DisconnectReason?) -> FaultCategory {
            faults.lost(code.map { Errno($0) }, reason).category
        }
        #expect(category(ECONNRESET, .authenticationFailed) == .pairing)
        #expect(category(nil, .unspecified) == .transient)
        #expect(category(ECANCELED, .remote) == .cancelled)
        #expect(category(EBADE, nil) == .pairing)
        #expect(category(EHOSTUNREACH, nil) == .adapter)
        #expect(
            faults.lost(Errno(ECONNRESET), .supervisionTimeout)
                == faults.lost(Errno(ETIMEDOUT), nil))
        #expect(faults.lost(nil, .remote) == faults.lost(nil, nil))
        #expect(faults.lost(Errno(ECONNABORTED), nil) == faults.lost(nil, .localHost))
    }

    /// On a machine without Bluetooth each call says so; with Bluetooth nobody has this adapter.
    @Test func theKernelSaysWhatIsMissing() async throws {
        try await Reactor.withReactor { reactor in
            let radio = FakeRadio()
            let sockets = KernelSockets(on: reactor)
            let clock = ManualClock()
            let transports: [any Transport] = [
                GATTTransport(lePeer, radio: radio, sockets: sockets, clock: clock),
                RFCOMMTransport(
                    classicAddress, memory: NoMemory(), radio: radio, sockets: sockets,
                    clock: clock),
            ]
            for transport in transports {
                do {
                    try await transport.withLink { _ in }
                    Issue.record("connected to nobody")
                } catch let error as LinkError {
                    #expect([.adapter, .permission].contains(error.category), "\(error)")
                    #expect(!error.advice.isEmpty)
                }
            }
        }
    }
}

private struct NoMemory: ChannelMemory {
    func channel(of meter: MeterAddress) async -> UInt8? { nil }
    func remember(_ channel: UInt8, of meter: MeterAddress) async {}
}
