/// What is told about one key.
package struct ConfigurationKey: Sendable, Equatable {
    /// The keys on the way to it, joined by points; `meters[].name` stands in each meter.
    package var path: String
    /// The value when it is not given, as it would be written; `nil` where there is none, and for
    /// keys with others below them.
    package var preset: String?
    /// What may be written; empty for keys with others below them.
    package var accepts: String
    /// One sentence.
    package var summary: String
}
