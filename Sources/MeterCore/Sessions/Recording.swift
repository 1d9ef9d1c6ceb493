/// A recording of voltage and current over time, run through the session rules as if a meter sent it.
///
/// The form is CSV with a header line that has at least `t_s,voltage_v,current_a`, and `mah,mwh` when
/// the meter's own counters were recorded; other columns are ignored.
package struct Recording: Sendable {
    package struct Problem: Error, Equatable, CustomStringConvertible {
        /// From 1, the header.
        package let line: Int
        package let message: String
        package var description: String { "line \(line): \(message)" }
    }

    /// A session found, with its limits in the recording's own time.
    package struct Session: Sendable {
        package var summary: SessionSummary
        package var startMilliseconds: Int64 { summary.startedAt.milliseconds }
        package var endMilliseconds: Int64 { startMilliseconds + summary.durationMilliseconds }
    }

    private struct Columns {
        var time: Int
        var voltage: Int
        var current: Int
        var charge: Int?
        var energy: Int?
    }

    private var machine: SessionMachine
    private var columns: Columns?
    private var line = 0
    private var last: MonotonicInstant?
    private var generator = Counting()
    private var found: [Session] = []
    /// Rows whose time was not later than the row's before: not used.
    package private(set) var repeatedRows = 0
    package private(set) var rows = 0

    package init(named name: String, rules: SessionRules, softwareVersion: String) {
        machine = SessionMachine(
            meter: .init(
                address: MeterAddress(localFor: name), name: name, gatewayID: "replay",
                softwareVersion: softwareVersion),
            rules: rules)
    }

    /// Takes the next line, without its end.
    /// - Throws: `Problem` for a header without the three columns or a row without their numbers.
    package mutating func take(_ text: some StringProtocol) throws(Problem) {
        line += 1
        let cells = text.split(separator: ",", omittingEmptySubsequences: false).map { cell in
            String(
                cell.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
        }
        guard let columns else {
            columns = try header(cells)
            return
        }
        if cells.allSatisfy(\.isEmpty) { return }
        let time = try number(cells, columns.time, "t_s")
        let instant = MonotonicInstant(nanoseconds: try scaled(time, by: 1e9, below: 4e9))
        guard last.map({ instant > $0 }) ?? true else {
            repeatedRows += 1
            return
        }
        last = instant
        rows += 1
        let voltage = Microvolts(
            try scaled(number(cells, columns.voltage, "voltage_v"), by: 1e6, below: 1_000))
        let current = Microamperes(
            try scaled(number(cells, columns.current, "current_a"), by: 1e6, below: 100))
        var frame = MeterFrame(
            model: .tc66c, voltage: voltage, current: current,
            power: Microwatts(voltage, times: current))
        if let charge = columns.charge, let energy = columns.energy {
            frame.groups = [
                GroupCounter(
                    charge: .init(try scaled(number(cells, charge, "mah"), by: 1, below: 1e9)),
                    energy: .init(try scaled(number(cells, energy, "mwh"), by: 1, below: 1e9)))
            ]
        }
        let moment = Moment(
            monotonic: instant,
            wall: WallTime(milliseconds: rounded(instant.nanoseconds, over: 1_000_000)),
            wallTrusted: false)
        collect(
            machine.handle(
                Reading(frame, at: moment), rejected: 0, dropped: 0, using: &generator))
    }

    /// The sessions, oldest first; one that still runs ends with the recording.
    package mutating func finish() throws(Problem) -> [Session] {
        guard columns != nil else {
            throw Problem(line: 1, message: "empty: expected a header t_s,voltage_v,current_a")
        }
        if let last { collect(machine.timePassed(to: last)) }
        collect(machine.stop(.endOfRecording))
        return found
    }

    private mutating func collect(_ actions: [SessionMachine.Action]) {
        for case .ended(let summary) in actions { found.append(Session(summary: summary)) }
    }

    private func header(_ cells: [String]) throws(Problem) -> Columns {
        func column(_ name: String) -> Int? {
            cells.firstIndex { $0.lowercased().drop { $0 == "\u{feff}" } == name }
        }
        guard let time = column("t_s"), let voltage = column("voltage_v"),
            let current = column("current_a")
        else {
            throw Problem(
                line: line,
                message: "expected a header with the columns t_s,voltage_v,current_a "
                    + "(and mah,mwh for the meter's counters)")
        }
        return Columns(
            time: time, voltage: voltage, current: current, charge: column("mah"),
            energy: column("mwh"))
    }

    private func number(_ cells: [String], _ index: Int, _ name: String) throws(Problem) -> Double {
        guard cells.indices.contains(index), let value = Double(cells[index]), value.isFinite else {
            let text = cells.indices.contains(index) ? "\"\(cells[index])\"" : "nothing"
            throw Problem(line: line, message: "\(name) is \(text), expected a number")
        }
        return value
    }

    /// - Parameter limit: chosen so that no product or sum over days overflows; seconds since 1970
    ///   are below it.
    private func scaled(
        _ value: Double, by factor: Double, below limit: Double
    ) throws(Problem) -> Int64 {
        guard value.magnitude < limit else {
            throw Problem(line: line, message: "the number \(value) is out of range")
        }
        return Int64((value * factor).rounded())
    }

    /// Ids in a replay are the same each time, so that two runs can be compared.
    private struct Counting: RandomNumberGenerator {
        private var state: UInt64 = 0
        mutating func next() -> UInt64 {
            state += 1
            return state << 2
        }
    }
}
