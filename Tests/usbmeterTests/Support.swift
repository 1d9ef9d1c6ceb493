import FoundationEssentials
import Glibc
import LinuxIO
import MeterCore
import MeterStore
import Testing

func withFolder<Result: Sendable>(_ body: (String) async throws -> Result) async throws -> Result {
    var template = Array("/tmp/usbmeter-program-XXXXXX".utf8CString)
    try #require(mkdtemp(&template) != nil)
    let bytes = template.dropLast().map { UInt8(bitPattern: $0) }
    let path = String(decoding: bytes, as: UTF8.self)
    defer { try? FileManager.default.removeItem(atPath: path) }
    return try await body(path)
}

func withStore(_ body: (Store) async throws -> Void) async throws {
    try await withFolder { folder in
        let store = try await Store.open(
            directory: folder + "/data", at: WallTime(milliseconds: 1_796_070_600_000))
        do { try await body(store) } catch {
            await store.close()
            throw error
        }
        await store.close()
    }
}

/// Waits until something is so that no event announces.
func eventually(
    _ condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
        if condition() { return }
        try await Task.sleep(for: .milliseconds(20))
    }
    Issue.record("it does not happen within a minute", sourceLocation: sourceLocation)
}

func lines(of path: String) -> [String] {
    guard let data = FileManager.default.contents(atPath: path) else { return [] }
    return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
}

/// The program, which is built beside the bundle that these tests are in.
func program() throws -> String {
    var folder: String?
    try TextLines.forEach(in: "/proc/self/maps") { line in
        guard folder == nil, line.hasSuffix(".xctest"),
            let start = line.firstIndex(of: "/"), let end = line.lastIndex(of: "/")
        else { return }
        folder = String(line[start..<end])
    }
    return try #require(folder) + "/usbmeter"
}
