import FoundationEssentials
import Glibc
import LinuxIO

/// The folder of a demo: given and kept, or temporary and removed.
struct StateFolder: Sendable {
    let path: String
    let isTemporary: Bool

    init(_ given: String?) throws {
        if let given {
            path = given
            isTemporary = false
            return
        }
        var template = Array(
            "\(FileManager.default.temporaryDirectory.path)/usbmeter-demo-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure("cannot make a temporary folder: \(Errno.current)")
        }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        isTemporary = true
    }

    func removeIfTemporary() {
        guard isTemporary else { return }
        do { try FileManager.default.removeItem(atPath: path) } catch {
            complain("usbmeter demo: \(path) could not be removed: \(error)")
        }
    }
}
