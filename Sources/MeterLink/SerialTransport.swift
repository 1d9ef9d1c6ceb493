import Glibc
package import LinuxIO
package import MeterCore

/// Reaches a meter through a serial device: the USB port of a TC66 (`/dev/ttyACM0`), a bound
/// Bluetooth channel (`/dev/rfcomm0`) or a pseudo-terminal.
package struct SerialTransport: Transport {
    package let name: String
    package let dialect: CommandDialect
    private let reactor: Reactor

    package init(path: String, dialect: CommandDialect, reactor: Reactor) {
        name = path
        self.dialect = dialect
        self.reactor = reactor
    }

    /// Waits until the path appears, as when the meter is plugged in; one that was there all the
    /// time is no sign. Looked for once a second.
    package func sign(
        since: MonotonicInstant, afterSilence silence: Duration, until deadline: MonotonicInstant,
        by clock: any Timekeeper
    ) async -> Bool {
        var wasThere = isThere
        while clock.now < deadline {
            let next = min(deadline, clock.now + .seconds(1))
            do { try await clock.sleep(until: next) } catch { return false }
            if isThere, !wasThere { return true }
            wasThere = isThere
        }
        return false
    }
    private var isThere: Bool { access(name, F_OK) == 0 }

    /// Opens the device for us alone, in raw mode and without what it may have sent before.
    ///
    /// The mode is not put back afterwards: that takes an exchange with a device that may be gone.
    package func withLink<Result: Sendable>(
        _ body: @Sendable (any Link) async throws -> Result
    ) async throws -> Result {
        // Opening and closing ask the device over USB, and wait for it.
        let worker = BlockingWorker(label: "serial")
        let number = try await worker.run { () throws(LinkError) in try open() }
        let port: WatchedDescriptor
        do {
            port = try WatchedDescriptor(OwnedDescriptor(adopting: number), on: reactor)
        } catch {
            throw LinkError(.transient, "\(name) cannot be waited for: \(error)")
        }
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body(SerialLink(port: port, name: name)))
        } catch {
            result = .failure(error)
        }
        let closing = port.detach().release()
        await worker.run { Self.close(closing) }
        return try result.get()
    }

    private func open() throws(LinkError) -> Int32 {
        let port: OwnedDescriptor
        do throws(Errno) {
            // Looked at before it is opened, since opening alone can set something off.
            var status = stat()
            try systemCall { stat(name, &status) }
            guard status.st_mode & S_IFMT == S_IFCHR else { throw Errno(ENOTTY) }
            port = OwnedDescriptor(
                adopting: try systemCall {
                    Glibc.open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
                })
        } catch {
            throw openingError(error)
        }
        do throws(Errno) {
            try claim(port.number)
        } catch {
            port.close()
            throw openingError(error)
        }
        return port.release()
    }

    private func claim(_ port: Int32) throws(Errno) {
        // The lock ends with its process, however that ends; the claim keeps out programs that
        // know no locks, but not root.
        try systemCall { flock(port, LOCK_EX | LOCK_NB) }
        try setRawMode(port)
        try systemCall { ioctl(port, UInt(TIOCEXCL)) }
        try systemCall { tcflush(port, TCIOFLUSH) }
    }

    private static func close(_ port: Int32) {
        // The claim would outlive us where somebody else holds the device open, as with a
        // pseudo-terminal. Output that nobody takes would hold up the close for 30 s.
        _ = ioctl(port, UInt(TIOCNXCL))
        _ = tcflush(port, TCIOFLUSH)
        OwnedDescriptor(adopting: port).close()
    }

    private func openingError(_ error: Errno) -> LinkError {
        switch error.code {
        case ENOENT, ENXIO, ENODEV, EIO:
            LinkError(
                .absent, "\(name) is not there",
                advice: "plug the meter in, or correct the path in the configuration")
        case EACCES, EPERM:
            LinkError(
                .permission, "\(name) may not be opened",
                advice: "add the user to the group dialout (usermod -aG dialout USER), or the "
                    + "service with SupplementaryGroups=dialout")
        case EBUSY, EWOULDBLOCK:
            LinkError(
                .busyElsewhere, "\(name) is in use by another program",
                advice: "end that one; fuser \(name) names it")
        case ENOTTY, ENOTDIR, EISDIR, EINVAL:
            LinkError(
                .configuration, "\(name) is not a serial device",
                advice: "correct the path in the configuration")
        default:
            LinkError(.transient, "\(name) cannot be opened: \(error)")
        }
    }
}

/// Bytes to and from a serial device.
struct SerialLink: Link {
    let port: WatchedDescriptor
    let name: String

    func send(_ bytes: [UInt8]) async throws(LinkError) {
        do throws(Errno) {
            try await port.write(bytes)
        } catch {
            throw lost(error)
        }
    }

    func receive() async throws(LinkError) -> [UInt8] {
        let bytes: [UInt8]
        do throws(Errno) {
            bytes = try await port.read()
        } catch {
            throw lost(error)
        }
        // A terminal in raw mode ends only by hanging up.
        guard !bytes.isEmpty else { throw lost(Errno(EIO)) }
        return bytes
    }

    private func lost(_ error: Errno) -> LinkError {
        switch error.code {
        case ECANCELED: .cancelled
        case EIO, ENXIO, ENODEV, EPIPE:
            LinkError(
                .absent, "\(name) was unplugged or its far end has closed",
                advice: "plug the meter in again")
        default: LinkError(.transient, "\(name) failed: \(error)")
        }
    }
}
