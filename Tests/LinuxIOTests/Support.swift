import FoundationEssentials
import Glibc
import LinuxIO
import Testing

/// Waits until something holds that no event announces; `false` when it does not within 20 s.
func eventually(_ condition: () throws -> Bool) async throws -> Bool {
    // long enough for other tests, which share the process, to have come to their ends
    let deadline = ContinuousClock.now + .seconds(120)
    while ContinuousClock.now < deadline {
        if try condition() { return true }
        try await Task.sleep(for: .milliseconds(10))
    }
    return try condition()
}

func withTemporaryFolder<Value: Sendable>(
    isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Value
) async throws -> Value {
    let folder = FileManager.default.temporaryDirectory.path + "/linuxio-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(folder))
    } catch {
        result = .failure(error)
    }
    try FileManager.default.removeItem(atPath: folder)
    return try result.get()
}

/// A pipe whose reading end is on the reactor.
func withPipe(
    on reactor: Reactor,
    _ body: (_ reading: WatchedDescriptor, _ writing: Int32) async throws -> Void
) async throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    let reading = try WatchedDescriptor(OwnedDescriptor(adopting: ends[0]), on: reactor)
    defer {
        reading.close()
        OwnedDescriptor(adopting: ends[1]).close()
    }
    try await body(reading, ends[1])
}

/// What one `write(2)` on a blocking descriptor takes.
func put(_ text: String, into descriptor: Int32) {
    let bytes = Array(text.utf8)
    let count = write(descriptor, bytes, bytes.count)
    precondition(count == bytes.count)
}

func text(of path: String) throws -> String {
    String(decoding: try #require(FileManager.default.contents(atPath: path)), as: UTF8.self)
}

func entries(of folder: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder)
}

/// Names of this process's threads.
func threadNames() throws -> [String] {
    try entries(of: "/proc/self/task").compactMap {
        // A thread can end while we look.
        FileManager.default.contents(atPath: "/proc/self/task/\($0)/comm")
    }.map { String(decoding: $0, as: UTF8.self).filter { !$0.isNewline } }
}
