/// The units of one kind of quantity. Text becomes a whole number of the smallest step without
/// passing through floating point, in which 0.05 A would not be 50 mA.
struct QuantityUnits: Sendable {
    struct Unit: Sendable {
        var name: String
        /// How many steps it has.
        var steps: Int64
        init(_ name: String, _ steps: Int64) {
            self.name = name
            self.steps = steps
        }
    }

    /// With its article: `a duration`.
    let kind: String
    /// Smallest first; the first one is the step.
    let units: [Unit]
    /// The unit to propose where none is given.
    let usual: Unit
    /// Other ways to write a unit.
    let synonyms: [String: String]

    private init(
        _ kind: String, _ units: [Unit], usual: Int, synonyms: [String: String] = [:]
    ) {
        self.kind = kind
        self.units = units
        self.usual = units[usual]
        self.synonyms = synonyms
    }

    /// In milliseconds.
    static let duration = QuantityUnits(
        "a duration",
        [
            Unit("ms", 1), Unit("s", 1000), Unit("min", 60_000), Unit("h", 3_600_000),
            Unit("d", 86_400_000),
        ],
        usual: 1)

    /// In microamperes. The micro sign exists twice, U+00B5 and U+03BC.
    static let current = QuantityUnits(
        "a current", [Unit("µA", 1), Unit("mA", 1000), Unit("A", 1_000_000)], usual: 1,
        synonyms: ["uA": "µA", "\u{3bc}A": "µA"])

    /// In bytes, decimal and binary.
    static let size = QuantityUnits(
        "a size",
        [
            Unit("B", 1), Unit("kB", 1000), Unit("KiB", 1024), Unit("MB", 1_000_000),
            Unit("MiB", 1 << 20), Unit("GB", 1_000_000_000), Unit("GiB", 1 << 30),
        ],
        usual: 3)

    /// Reads a number and a unit, e.g. `1.5 h` or `50mA`; `0` needs no unit.
    func steps(in text: String) throws(Complaint) -> Int64 {
        let text = text.trimmingBlanks
        let number = text.prefix { $0.isASCII && ($0.isNumber || ".,+-".contains($0)) }
        let name = String(text.dropFirst(number.count)).trimmingBlanks
        let example = "write for example \"10 \(usual.name)\""
        guard number.contains(where: \.isNumber) else {
            throw Complaint("is not \(kind): \"\(text.shown)\"", advice: example)
        }
        if number.hasPrefix("-") {
            throw Complaint("is negative: \"\(text.shown)\"", advice: example)
        }
        if number.contains(",") {
            throw Complaint(
                "has a comma: \"\(text.shown)\"", advice: "the decimal sign is a point")
        }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(\.isNumber) })
        else {
            throw Complaint("is not \(kind): \"\(text.shown)\"", advice: example)
        }
        let fraction = parts.count == 2 ? parts[1].droppingTrailingZeros : ""
        let tooLong = Complaint("has too many digits: \"\(text.shown)\"", advice: example)
        guard let mantissa = Int64(parts[0] + fraction) else { throw tooLong }

        if name.isEmpty {
            if mantissa == 0 { return 0 }
            throw Complaint(
                "has no unit: \"\(text.shown)\"",
                advice: "write for example \"\(number) \(usual.name)\"; the units are \(names)")
        }
        guard let unit = unit(named: name) else {
            throw Complaint(
                "has an unknown unit: \"\(text.shown)\"", advice: "the units are \(names)")
        }
        return try product(mantissa, unit.steps, decimals: fraction.count, tooLong: tooLong)
    }

    /// `mantissa · steps / 10^decimals`, which must be whole.
    private func product(
        _ mantissa: Int64, _ steps: Int64, decimals: Int, tooLong: Complaint
    ) throws(Complaint) -> Int64 {
        var (steps, decimals) = (steps, decimals)
        while decimals > 0, steps % 10 == 0 { (steps, decimals) = (steps / 10, decimals - 1) }
        var (value, overflow) = mantissa.multipliedReportingOverflow(by: steps)
        if overflow { throw tooLong }
        for _ in 0..<decimals {
            guard value % 10 == 0 else {
                throw Complaint("is finer than 1 \(units[0].name)", advice: "round it")
            }
            value /= 10
        }
        return value
    }

    /// Writes a value as people would: in the usual unit as long as it is a handy whole number
    /// there, else in the largest unit in which it is whole.
    func text(_ value: Int64) -> String {
        if value % usual.steps == 0, value / usual.steps < 600 {
            return "\(value / usual.steps) \(usual.name)"
        }
        let unit: Unit = units.last { value % $0.steps == 0 } ?? units[0]
        return "\(value / unit.steps) \(unit.name)"
    }

    private func unit(named name: String) -> Unit? {
        let name = synonyms[name] ?? name
        return units.first { $0.name == name }
    }

    private var names: String {
        let all = units.map(\.name)
        return all.dropLast().joined(separator: ", ") + " and " + all.suffix(1).joined()
    }
}

extension String {
    /// Without the blanks and tabs around it.
    var trimmingBlanks: String {
        let start = drop { $0 == " " || $0 == "\t" }
        return String(start.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }
}

extension Substring {
    fileprivate var droppingTrailingZeros: Substring {
        var result = self
        while result.last == "0" { result.removeLast() }
        return result
    }
}
