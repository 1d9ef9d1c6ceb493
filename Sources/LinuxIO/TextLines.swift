import CZlib
import Glibc

/// The lines of a text file, compressed with gzip or not; zlib tells by itself.
package enum TextLines {
    /// Longer lines are no text.
    private static let longest = 1 << 20

    /// Reads a file, or standard input for `-`, and hands out its lines without their ends. Blocks
    /// while it reads.
    /// - Throws: `SystemError` when it cannot be read or is damaged; whatever `body` throws.
    package static func forEach(
        in path: String, _ body: (Substring) throws -> Void
    ) throws {
        let descriptor: Int32
        do throws(Errno) {
            descriptor = try systemCall {
                path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
            }
        } catch {
            throw SystemError("cannot open \(path)", error)
        }
        guard let file = gzdopen(descriptor, "rb") else {
            OwnedDescriptor(adopting: descriptor).close()
            throw SystemError("not enough memory to read \(path)")
        }
        defer { gzclose(file) }
        var rest: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = gzread(file, &block, UInt32(block.count))
            var code: Int32 = 0
            guard count >= 0 else {
                let text = gzerror(file, &code).map { String(cString: $0) } ?? ""
                throw code == Z_ERRNO
                    ? SystemError("cannot read \(path)", .current)
                    : SystemError("\(path) is damaged: \(text)")
            }
            if count == 0 {
                // zlib gives out what a cut file still has, and only says so here
                _ = gzerror(file, &code)
                guard code != Z_BUF_ERROR else {
                    throw SystemError("\(path) is damaged: it ends in the middle")
                }
                break
            }
            rest += block[..<Int(count)]
            var start = 0
            while let end = rest[start...].firstIndex(of: 10) {
                try body(line(rest[start..<end]))
                start = end + 1
            }
            rest.removeFirst(start)
            guard rest.count <= longest else {
                throw SystemError("\(path) has a line of over a megabyte: it is no text")
            }
        }
        if !rest.isEmpty { try body(line(rest[...])) }
    }

    private static func line(_ bytes: ArraySlice<UInt8>) -> Substring {
        let bytes = bytes.last == 13 ? bytes.dropLast() : bytes
        return Substring(decoding: bytes, as: UTF8.self)
    }
}
