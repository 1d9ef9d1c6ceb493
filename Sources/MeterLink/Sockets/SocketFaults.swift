import Glibc
package import LinuxIO
package import MeterCore

/// What the kernel's error codes mean for a link to one meter, and what can be done.
///
/// The kernel folds the controller's reasons into `errno(3)` (`bt_to_errno` in net/bluetooth/lib.c);
/// what is outside its list becomes ENOSYS.
package struct SocketFaults: Sendable {
    let peer: PeerAddress

    package init(_ peer: PeerAddress) { self.peer = peer }

    private var name: String { "\(peer.address)" }
    private var isClassic: Bool { peer.kind == .classic }

    private static let lookAtAdapter =
        "look at it with usbmeter doctor: is it plugged in, powered and not blocked by rfkill?"
    private static let oneAtATime =
        "a meter serves one device at a time: close its app on the phone, and see whether bluetoothctl "
        + "shows it as connected"
    private static let radioNoise =
        "move the adapter away from USB 3 plugs and the Wi-Fi aerial if it happens often"
    private static let inRange = "is it powered, in range and not connected to a phone?"

    /// A connection that could not be made.
    package func connecting(_ error: Errno) -> LinkError {
        switch error.code {
        case ECANCELED: .cancelled
        case ECONNREFUSED:
            isClassic
                ? LinkError(
                    .busyElsewhere, "\(name) refuses the connection", advice: Self.oneAtATime)
                : notHeard
        case EHOSTDOWN: notHeard
        case ETIMEDOUT:
            LinkError(.transient, "the connection to \(name) broke while it was being made")
        case EBUSY:
            LinkError(
                .busyElsewhere, "\(name) is connected to other software on this machine",
                advice: "disconnect it there: bluetoothctl disconnect \(name)")
        case EMLINK:
            LinkError(
                .noSlot, "the Bluetooth adapter has no free connection for \(name)",
                advice: "it goes on when one becomes free; a second adapter serves more meters")
        case ENOTCONN, ECONNABORTED, ENOSYS:
            LinkError(
                .transient, "the connection to \(name) failed in the air", advice: Self.radioNoise)
        case ECONNRESET:
            LinkError(
                .transient, "\(name) closed the connection at once", advice: Self.oneAtATime)
        case EPROTO, EIO, EBADRQC, EALREADY, ENOMEM:
            LinkError(
                .transient, "the Bluetooth adapter failed to connect \(name): \(error)",
                advice: "usbmeter doctor looks at the adapter if it goes on")
        default: standing(error)
        }
    }

    /// Not even tried, or found when trying: errors that do not go away by themselves.
    private func standing(_ error: Errno) -> LinkError {
        switch error.code {
        case EACCES:
            LinkError(
                .pairing, "\(name) wants to be paired, or refused the PIN",
                advice: "usbmeter pair \(name)")
        case EBADE:
            LinkError(
                .pairing, "\(name) has forgotten the pairing",
                advice: "pair it again: usbmeter pair \(name)")
        case EHOSTUNREACH, ENODEV, ENETDOWN:
            LinkError(
                .adapter, "the Bluetooth adapter for \(name) is missing or off",
                advice: Self.lookAtAdapter)
        case EOPNOTSUPP:
            LinkError(
                .adapter,
                "the Bluetooth adapter does not support \(isClassic ? "Bluetooth Classic" : "LE")",
                advice: "use another adapter for \(name)")
        case EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT:
            LinkError(
                .adapter, "this system has no Bluetooth sockets",
                advice: "load the kernel module (modprobe bluetooth\(isClassic ? " rfcomm" : "")); "
                    + "in a container, use the network of the host")
        case EPERM:
            LinkError(
                .permission, "this program may not open Bluetooth sockets",
                advice: "a sandbox forbids it: the service needs "
                    + "RestrictAddressFamilies=AF_BLUETOOTH, a container a seccomp profile with it")
        case EMFILE, ENFILE:
            LinkError(
                .configuration, "there are too many open files to connect \(name)",
                advice: "raise LimitNOFILE= in the service")
        case EINVAL:
            LinkError(
                .bug, "the kernel finds the request for \(name) malformed",
                advice: "report it with the kernel's version (uname -r)")
        default:
            LinkError(.transient, "\(name) cannot be connected: \(error)")
        }
    }

    /// Nothing of the meter was heard for the whole of the attempt.
    package var notHeard: LinkError {
        LinkError(.absent, "\(name) does not answer", advice: Self.inRange)
    }

    /// An open link that fell.
    /// - Parameters:
    ///   - error: of the call that found out; `nil` for an orderly end.
    ///   - reason: the kernel's, which says more.
    package func lost(_ error: Errno?, _ reason: DisconnectReason?) -> LinkError {
        if error == .cancelled { return .cancelled }
        switch reason {
        case .supervisionTimeout: return outOfReach
        case .remote: return closed
        case .localHost: return closedHere
        case .authenticationFailed:
            return LinkError(
                .pairing, "the link to \(name) fell over its keys",
                advice: "pair it again: usbmeter pair \(name)")
        case .localSuspend:
            return LinkError(.transient, "the link to \(name) ended since this machine slept")
        case .unspecified, nil: break
        }
        switch error?.code {
        case nil, ECONNRESET, EPIPE, ENOTCONN: return closed
        case ETIMEDOUT, EHOSTDOWN: return outOfReach
        case ECONNABORTED: return closedHere
        case .some:
            // what does not go away by itself is told as when connecting
            let standing = error.map(standing)
            guard let standing, standing.category != .transient else {
                return LinkError(
                    .transient, "the link to \(name) failed: \(error.map { "\($0)" } ?? "")",
                    advice: Self.radioNoise)
            }
            return standing
        }
    }

    private var outOfReach: LinkError {
        LinkError(
            .transient, "\(name) fell silent, and the link was lost",
            advice: "is it still powered and in range?")
    }
    private var closed: LinkError {
        LinkError(
            .transient, "\(name) closed the link", advice: "is it losing its power?")
    }
    private var closedHere: LinkError {
        LinkError(
            .transient, "the link to \(name) was closed on this machine",
            advice: "was the Bluetooth adapter switched off, or bluetoothd stopped?")
    }

    /// The link is open, but the far end leaves a request of the protocol unanswered.
    func silent(_ request: String, after limit: Duration) -> LinkError {
        LinkError(
            .silent,
            "\(name) is connected, but did not answer (\(request), \(Int(limit.inSeconds)) s)",
            advice: "switch the meter off and on if it goes on")
    }

    /// The far end refuses until the link is secured, and that did not help.
    func needsPairing(_ error: ATTError) -> LinkError {
        LinkError(
            .pairing, "\(name) wants to be paired (\(error))",
            advice: "usbmeter pair \(name)")
    }

    /// The far end breaks the rules of the protocol.
    func malformed(_ what: String) -> LinkError {
        LinkError(
            .transient, "\(name) breaks the Bluetooth protocol: \(what)",
            advice: "switch the meter off and on if it goes on")
    }
}
