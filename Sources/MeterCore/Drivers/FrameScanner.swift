/// Finds whole answers in a stream of bytes, whatever stands before, between or inside them.
///
/// An answer is recognised by how it starts, taken when it is whole, and given out only when its
/// check holds. Otherwise one byte is dropped and the search goes on, so that a good answer behind a
/// damaged or cut one is still found.
struct FrameScanner: Sendable {
    /// The framing rule of a meter family.
    enum Format: Sendable {
        /// 130 bytes that start with one of the three ids.
        case um(configured: MeterModel?)
        /// 192 bytes whose first block decrypts to `pac1TC66…`.
        case tc66

        var length: Int {
            switch self {
            case .um: UMSeries.length
            case .tc66: TC66.length
            }
        }
    }

    private let format: Format
    /// The UM model whose scale an accepted frame left as the only one.
    var shown: MeterModel?
    private var buffer: [UInt8] = []
    /// What was thrown away since the scanner was made.
    private(set) var strayBytes = 0
    /// Whole answers whose check did not hold.
    private(set) var badChecks = 0

    init(_ format: Format) { self.format = format }

    /// Throws away what is left of earlier answers. Called before each request, since a late rest
    /// would be taken for the new answer.
    mutating func flush() {
        strayBytes += buffer.count
        buffer.removeAll(keepingCapacity: true)
        sinceFlush.removeAll(keepingCapacity: true)
        strayBytesAtFlush = strayBytes
    }

    /// Takes what has arrived and returns the whole and checked answers in it, in order.
    ///
    /// What is kept for later is at most one answer less a byte.
    mutating func receive(_ bytes: [UInt8]) -> [[UInt8]] {
        buffer += bytes
        sinceFlush += bytes.prefix(max(0, format.length + 1 - sinceFlush.count))
        var answers: [[UInt8]] = []
        var start = 0
        scan: while start < buffer.count {
            switch begins(at: start) {
            case .undecided: break scan
            case .no:
                start += 1
                strayBytes += 1
            case .yes:
                guard buffer.count - start >= format.length else { break scan }
                let candidate = Array(buffer[start..<(start + format.length)])
                if checks(candidate) {
                    answers.append(candidate)
                    start += format.length
                } else {
                    badChecks += 1
                    start += 1
                    strayBytes += 1
                }
            }
        }
        buffer.removeFirst(start)
        if answers.isEmpty, let answer = unlisted() {
            strayBytes = strayBytesAtFlush
            buffer.removeAll(keepingCapacity: true)
            return [answer]
        }
        return answers
    }

    /// The first bytes since the last flush, one more than an answer has.
    private var sinceFlush: [UInt8] = []
    private var strayBytesAtFlush = 0

    /// One whole answer by itself under an id that nobody has listed; its end bytes and its power
    /// field have to vouch for it, since ids are on record that differ between units (rdserialtool).
    private func unlisted() -> [UInt8]? {
        guard case .um(let configured) = format, sinceFlush.count == format.length,
            UMSeries.withID(in: sinceFlush) == nil,
            UMResolution(of: sinceFlush, configured: configured, shown: shown).checks,
            case .frame = UMSeries.judgeScale(of: sinceFlush)
        else { return nil }
        return sinceFlush
    }

    private enum Beginning {
        case yes, no
        case undecided
    }

    private func begins(at start: Int) -> Beginning {
        switch format {
        case .um:
            guard start + 1 < buffer.count else {
                return UMSeries.all.contains { UInt8($0.id >> 8) == buffer[start] }
                    ? .undecided : .no
            }
            return UMSeries.withID(in: [buffer[start], buffer[start + 1]]) != nil ? .yes : .no
        case .tc66:
            guard buffer.count - start >= AES.blockSize else { return .undecided }
            return TC66.startsAnswer(buffer[start...]) ? .yes : .no
        }
    }

    private func checks(_ candidate: [UInt8]) -> Bool {
        switch format {
        case .um(let configured):
            UMResolution(of: candidate, configured: configured, shown: shown).checks
        case .tc66: TC66.checks(plain: TC66.decrypt(candidate))
        }
    }
}
