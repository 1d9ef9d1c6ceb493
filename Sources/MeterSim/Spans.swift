/// Stretches of time in milliseconds, in order and apart from each other.
struct Spans: Sendable {
    private(set) var ranges: [Range<Int64>] = []

    /// The union of the times of some faults, all of which have a length.
    init(_ faults: [Fault]) {
        let all = faults.map { $0.start..<$0.start + ($0.length ?? 0) }
        for range in all.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = ranges.last, last.upperBound >= range.lowerBound {
                let end = max(last.upperBound, range.upperBound)
                ranges[ranges.count - 1] = last.lowerBound..<end
            } else {
                ranges.append(range)
            }
        }
    }

    func contains(_ time: Int64) -> Bool { ranges.contains { $0.contains(time) } }

    /// What of a stretch of time is outside of all ranges; nothing when `end` is not later.
    func complement(from start: Int64, to end: Int64) -> [Range<Int64>] {
        guard start < end else { return [] }
        var result: [Range<Int64>] = []
        var time = start
        for range in ranges where range.upperBound > time && range.lowerBound < end {
            if range.lowerBound > time { result.append(time..<range.lowerBound) }
            time = min(end, range.upperBound)
        }
        if time < end { result.append(time..<end) }
        return result
    }
}
