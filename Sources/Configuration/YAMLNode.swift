/// A place in the text, both counted from 1, the column in characters.
struct Mark: Sendable, Hashable, Comparable {
    var line: Int
    var column: Int
    static let start = Mark(line: 1, column: 1)

    static func < (left: Self, right: Self) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}

/// A value of a YAML text, and where it starts.
///
/// Scalars stay text: what a text means is decided by the key that it belongs to. So `22:22` is no
/// number of minutes, and a meter may be called `No`.
struct YAMLNode: Sendable, Equatable {
    enum Content: Sendable, Equatable {
        /// Nothing, `~` or `null` without quotes.
        case null
        case scalar(String)
        case sequence([YAMLNode])
        case mapping([Entry])
        /// Something that has been complained about already.
        case refused
    }
    struct Entry: Sendable, Equatable {
        var key: String
        var keyMark: Mark
        var value: YAMLNode
    }

    var content: Content
    var mark: Mark
}
