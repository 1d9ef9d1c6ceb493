import MeterCore

/// Columns of text, numbers to the right.
struct Table {
    private let titles: [String]
    private var rows: [[String]] = []

    init(_ titles: [String]) { self.titles = titles }
    mutating func add(_ cells: [String]) { rows.append(cells) }

    var text: String {
        let all = [titles] + rows
        let widths = titles.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        let toTheRight = titles.indices.map { column in
            !rows.isEmpty
                && rows.allSatisfy { row in
                    row[column] == "-" || row[column].first.map { $0.isNumber || $0 == "-" } ?? true
                }
        }
        return all.map { row in
            let cells = titles.indices.map { column in
                let padding = String(repeating: " ", count: widths[column] - row[column].count)
                return toTheRight[column] ? padding + row[column] : row[column] + padding
            }
            let line = cells.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n")
    }
}

/// Values as people read them.
enum Show {
    static func wattHours(_ energy: Microjoules) -> String {
        JSONWriter.decimal(energy.microwattHours, decimals: 6, places: 3)
    }
    static func milliampereHours(_ charge: Microcoulombs) -> String {
        JSONWriter.decimal(charge.microampereHours, decimals: 3, places: 1)
    }

    /// `1:02:03`.
    static func duration(_ milliseconds: Int64) -> String {
        let seconds = milliseconds / 1_000
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        return "\(seconds / 3_600):\(two(seconds / 60 % 60)):\(two(seconds % 60))"
    }

    /// A setting as people write it: `500 ms`, `90 s`, `10 min`.
    static func interval(_ duration: Duration) -> String {
        let milliseconds = duration.milliseconds
        if milliseconds % 1_000 != 0 { return "\(milliseconds) ms" }
        let seconds = milliseconds / 1_000
        if seconds >= 300, seconds % 60 == 0 { return "\(seconds / 60) min" }
        return "\(seconds) s"
    }

    /// `2026-11-30 20:30:00 UTC`.
    static func time(_ time: WallTime) -> String {
        let text = time.iso8601
        return "\(text.prefix(10)) \(text.dropFirst(11).prefix(8)) UTC"
    }

    static func reason(_ reason: EndReason) -> String {
        switch reason {
        case .currentStopped: "current stopped"
        case .standby: "only standby left"
        case .meterUnreachable: "meter unreachable"
        case .manual: "by command"
        case .interrupted: "agent stopped"
        case .endOfRecording: "end of recording"
        }
    }
}
