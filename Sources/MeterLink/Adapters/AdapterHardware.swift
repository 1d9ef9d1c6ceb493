import Glibc
import LinuxIO
package import MeterCore

/// Whether a radio is held off, by software or by a switch.
package struct RadioBlock: Sendable, Hashable {
    package var bySoftware = false
    package var bySwitch = false

    package init(bySoftware: Bool = false, bySwitch: Bool = false) {
        self.bySoftware = bySoftware
        self.bySwitch = bySwitch
    }
}

/// What is known and done about adapters outside the management interface.
package protocol AdapterHardware: Sendable {
    /// The process number of bluetoothd; `nil` where none is seen. Blind inside a container with
    /// processes of its own.
    func bluetoothDaemon() async -> Int?
    func block(of index: UInt16) async -> RadioBlock
    /// Lifts a block by software.
    func unblock(_ index: UInt16) async throws(LinkError)
    /// Down and up by the older interface.
    func bounce(_ index: UInt16) async throws(LinkError)
    /// Has the USB port set the device up anew; it comes back as another adapter.
    func resetUSB(_ index: UInt16) async throws(LinkError)
}

/// The files and calls of this machine.
package struct LinuxHardware: AdapterHardware {
    private let root: String
    private let worker = BlockingWorker(label: "bluetooth.hardware")

    /// - Parameter root: in front of `/proc`, `/sys` and `/dev`, for tests.
    package init(root: String = "") { self.root = root }

    package func bluetoothDaemon() async -> Int? {
        await worker.run {
            for entry in names(in: root + "/proc") {
                guard let number = Int(entry) else { continue }
                if line("/proc/\(entry)/comm") == "bluetoothd" { return number }
            }
            return nil
        }
    }

    package func block(of index: UInt16) async -> RadioBlock {
        await worker.run {
            guard let entry = rfkill(of: index) else { return RadioBlock() }
            return RadioBlock(
                bySoftware: line("/sys/class/rfkill/\(entry)/soft") == "1",
                bySwitch: line("/sys/class/rfkill/\(entry)/hard") == "1")
        }
    }

    package func unblock(_ index: UInt16) async throws(LinkError) {
        try await worker.run { () throws(LinkError) in
            guard let entry = rfkill(of: index), let number = UInt32(entry.dropFirst(6)) else {
                throw LinkError(.adapter, "rfkill knows no switch of hci\(index)")
            }
            // struct rfkill_event: number, type (2 is Bluetooth), operation (2 is change), the two
            // blocks as they are to be; of the switch none can be lifted.
            var event: [UInt8] = []
            event.append(littleEndian: number)
            event += [2, 2, 0, 0]
            try write(event, to: "/dev/rfkill", "unblocking hci\(index)")
        }
    }

    package func bounce(_ index: UInt16) async throws(LinkError) {
        try await worker.run { () throws(LinkError) in
            do throws(Errno) {
                let kind = SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue
                let number = try systemCall { socket(AF_BLUETOOTH, Int32(kind), 1) }
                defer { close(number) }
                // HCIDEVDOWN and HCIDEVUP: _IOW('H', 202 and 201, int), whose argument is the
                // number itself.
                try systemCall { ioctl(number, 0x4004_48ca, Int32(index)) }
                sleep(1)
                try systemCall { ioctl(number, 0x4004_48c9, Int32(index)) }
            } catch  where error.code == EALREADY {
                // It came up by itself.
            } catch {
                throw Self.failure("restarting hci\(index)", error)
            }
        }
    }

    package func resetUSB(_ index: UInt16) async throws(LinkError) {
        try await worker.run { () throws(LinkError) in
            // The adapter hangs on an interface of the USB device, whose folder has the switch.
            let path = "/sys/class/bluetooth/hci\(index)/device/../authorized"
            try write(Array("0".utf8), to: path, "resetting hci\(index)")
            sleep(1)
            try write(Array("1".utf8), to: path, "resetting hci\(index)")
        }
    }

    private func rfkill(of index: UInt16) -> String? {
        names(in: root + "/sys/class/rfkill").first {
            $0.hasPrefix("rfkill") && line("/sys/class/rfkill/\($0)/name") == "hci\(index)"
        }
    }

    private func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            names.append(name)
        }
        return names.sorted()
    }

    /// The first line of a small file; `nil` when it cannot be read.
    private func line(_ path: String) -> String? {
        let number = open(root + path, O_RDONLY | O_CLOEXEC)
        guard number >= 0 else { return nil }
        defer { close(number) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(number, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes.prefix(count).prefix { $0 != 10 }, as: UTF8.self)
    }

    private func write(_ bytes: [UInt8], to path: String, _ what: String) throws(LinkError) {
        do throws(Errno) {
            let number = try systemCall { open(root + path, O_WRONLY | O_CLOEXEC) }
            defer { close(number) }
            try systemCall { Glibc.write(number, bytes, bytes.count) }
        } catch {
            throw Self.failure(what, error)
        }
    }

    private static func failure(_ what: String, _ error: Errno) -> LinkError {
        let isForbidden = [EACCES, EPERM, EROFS].contains(error.code)
        return LinkError(
            isForbidden ? .permission : .adapter, "\(what) failed: \(error)",
            advice: isForbidden ? "do it by hand, as root" : "")
    }
}
