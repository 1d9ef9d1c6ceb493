/// Quantities as people write them on the command line, with the units of the configuration file.
package enum QuantityText {
    /// Not what was asked for, and what to write.
    package struct Problem: Error, Equatable, CustomStringConvertible {
        package let description: String
    }

    /// `90 s`, `500ms`, `10 min`; a bare number is seconds.
    package static func duration(_ text: String) throws(Problem) -> Duration {
        let isBare = !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isNumber || $0 == ".") }
        return .milliseconds(try steps(isBare ? text + " s" : text, QuantityUnits.duration))
    }

    private static func steps(
        _ text: String, _ units: QuantityUnits
    ) throws(Problem) -> Int64 {
        do throws(Complaint) {
            return try units.steps(in: text)
        } catch {
            throw Problem(
                description: error.message + (error.advice.isEmpty ? "" : ": \(error.advice)"))
        }
    }
}
