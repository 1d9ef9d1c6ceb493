import CBluetooth
import Glibc
import LinuxIO
package import MeterCore

/// Opens the kernel's Bluetooth management channel: packets to and from it about all adapters.
/// Nothing of it needs a privilege, but without CAP_NET_ADMIN the kernel answers little.
package enum ManagementSocket {
    /// How many bytes one packet to the kernel may have, where it can be set (kernel 5.16).
    static let largestPacket = 16_384

    /// Creates and binds the socket; the caller owns the number.
    /// - Throws: `LinkError`: adapter when the kernel has no Bluetooth or keeps it from us.
    package static func open() throws(LinkError) -> Int32 {
        do throws(Errno) {
            let kind = SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
            let number = try systemCall { socket(AF_BLUETOOTH, Int32(kind), BTPROTO_HCI) }
            do throws(Errno) {
                widen(number)
                try bind(number)
                return number
            } catch {
                OwnedDescriptor(adopting: number).close()
                throw error
            }
        } catch {
            throw failure(error)
        }
    }

    /// Makes room for events that come faster than they are read, and for key lists that are longer
    /// than usual. Both only help: a kernel that refuses works, too.
    private static func widen(_ number: Int32) {
        var room: Int32 = 256 * 1024
        _ = setsockopt(
            number, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<Int32>.size))
        var limit = UInt16(largestPacket)
        _ = setsockopt(
            number, SOL_BLUETOOTH, BT_SNDMTU, &limit, socklen_t(MemoryLayout<UInt16>.size))
    }

    private static func bind(_ number: Int32) throws(Errno) {
        var address = [UInt8]()
        address.append(littleEndian: UInt16(AF_BLUETOOTH))
        address.append(littleEndian: UInt16(HCI_DEV_NONE))
        address.append(littleEndian: UInt16(HCI_CHANNEL_CONTROL))
        try systemCall {
            address.withUnsafeBytes { bytes in
                Glibc.bind(
                    number, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress,
                    socklen_t(bytes.count))
            }
        }
    }

    /// How many bytes the kernel takes in one packet of this socket.
    static func packetLimit(of descriptor: Int32) -> Int {
        var limit: UInt16 = 0
        var size = socklen_t(MemoryLayout<UInt16>.size)
        let result = getsockopt(descriptor, SOL_BLUETOOTH, BT_SNDMTU, &limit, &size)
        return result == 0 && limit > 0 ? Int(limit) : ManagementCommand.usualLimit
    }

    private static func failure(_ error: Errno) -> LinkError {
        switch error.code {
        case EAFNOSUPPORT, EPROTONOSUPPORT:
            LinkError(
                .adapter, "this kernel has no Bluetooth, or keeps it from this program",
                advice: "load the module bluetooth (modprobe bluetooth); in a container use the "
                    + "host's network; in a unit allow AF_BLUETOOTH in RestrictAddressFamilies=")
        case EPERM, EACCES:
            LinkError(
                .permission, "Bluetooth's management channel may not be opened",
                advice: "allow AF_BLUETOOTH and CAP_NET_ADMIN to the unit")
        default:
            LinkError(.transient, "Bluetooth's management channel cannot be opened: \(error)")
        }
    }
}
