/// A key of a mapping that is read into a `Group`: how to read it, and what is told about it.
/// The tables of these are all that knows the names of keys; the reader, the list for the
/// documentation and the suggestions for misspelt keys come from them.
struct Key<Group> {
    let name: String
    /// One sentence for people.
    let summary: String
    /// What may be written; empty for a group.
    let accepts: String
    /// The value in a group where the key is not given, as it would be written; `nil` if there is
    /// none.
    let preset: (Group) -> String?
    /// The keys below, their paths without this key's name: `.id`, or `[].name` in a list.
    var children: [ConfigurationKey] = []
    /// Reads the value into the group.
    /// - Returns: whether it could be used; if not, the reading knows why.
    let apply: (YAMLNode, inout Group, _ siblings: Fields, inout SchemaReading) -> Bool
}

extension Key {
    /// A key with one value.
    static func value<Value>(
        _ name: String, _ path: WritableKeyPath<Group, Value>, _ scalar: Scalar<Value>,
        _ summary: String
    ) -> Self {
        Key(
            name: name, summary: summary, accepts: scalar.accepts,
            preset: { scalar.write($0[keyPath: path]) }
        ) { node, group, _, reading in
            guard let value = reading.value(of: node, scalar, named: name) else { return false }
            group[keyPath: path] = value
            return true
        }
    }

    /// A key with one value, which has no default of its own.
    static func value<Value>(
        _ name: String, _ path: WritableKeyPath<Group, Value?>, _ scalar: Scalar<Value>,
        _ summary: String
    ) -> Self {
        Key(
            name: name, summary: summary, accepts: scalar.accepts,
            preset: { $0[keyPath: path].map(scalar.write) }
        ) { node, group, _, reading in
            guard let value = reading.value(of: node, scalar, named: name) else { return false }
            group[keyPath: path] = value
            return true
        }
    }

    /// A key with a list of values, each of which counts once.
    static func list<Value: Hashable>(
        _ name: String, _ path: WritableKeyPath<Group, [Value]>, _ scalar: Scalar<Value>,
        _ summary: String
    ) -> Self {
        Key(
            name: name, summary: summary, accepts: "a list of " + scalar.accepts,
            preset: { _ in nil }
        ) { node, group, _, reading in
            let items: [YAMLNode]
            switch node.content {
            case .sequence(let nodes): items = nodes
            case .null: items = []
            case .refused: return false
            case .scalar, .mapping:
                reading.report.error(
                    node.mark, "\(name) must be a list",
                    advice: "write it as [first, second], or one to a line after \"- \"")
                return false
            }
            let errors = reading.report.errorCount
            var values: [Value] = []
            for item in items where !reading.report.isFull {
                guard let value = reading.value(of: item, scalar, named: "an entry of \(name)")
                else { continue }
                if !values.contains(value) { values.append(value) }
            }
            group[keyPath: path] = values
            return reading.report.errorCount == errors
        }
    }

    /// A key that names a file to be read, which is noted for the caller.
    static func file(
        _ name: String, _ path: WritableKeyPath<Group, String?>, _ summary: String
    ) -> Self {
        Key(
            name: name, summary: summary, accepts: Scalar.path.accepts,
            preset: { $0[keyPath: path] }
        ) { node, group, _, reading in
            guard let value = reading.value(of: node, .path, named: name) else { return false }
            group[keyPath: path] = value
            reading.files.append(
                ReferencedFile(
                    key: name, path: value, file: reading.report.file, line: node.mark.line,
                    column: node.mark.column))
            return true
        }
    }

    /// A key with a mapping below it; nothing below it means that all keys there are left out.
    /// `check` judges the values against each other.
    static func group<Inner>(
        _ name: String, _ path: WritableKeyPath<Group, Inner>, _ keys: [Key<Inner>],
        default inner: Inner, _ summary: String,
        check: @escaping (Inner, Fields, inout SchemaReading) -> Void = { _, _, _ in }
    ) -> Self {
        Key(
            name: name, summary: summary, accepts: "", preset: { _ in nil },
            children: keys.flatMap { $0.described(for: inner, after: ".") }
        ) { node, group, _, reading in
            if node.content == .null { return true }
            let errors = reading.report.errorCount
            if let fields = reading.fields(of: node, named: name, into: &group[keyPath: path], keys)
            {
                check(group[keyPath: path], fields, &reading)
            }
            return reading.report.errorCount == errors
        }
    }

    /// The same key, for a group that contains this one's.
    func lifted<Outer>(
        to path: WritableKeyPath<Outer, Group>, _ summary: String
    ) -> Key<Outer> {
        Key<Outer>(
            name: name, summary: summary, accepts: accepts, preset: { _ in nil }, children: children
        ) { node, outer, siblings, reading in
            apply(node, &outer[keyPath: path], siblings, &reading)
        }
    }

    /// This key and those below it, as documentation shows them, with the defaults in `group` and
    /// with `prefix` before each path.
    func described(for group: Group, after prefix: String = "") -> [ConfigurationKey] {
        let path = prefix + name
        let own = ConfigurationKey(
            path: path, preset: preset(group), accepts: accepts, summary: summary)
        let below = children.map { child in
            var child = child
            child.path = path + child.path
            return child
        }
        return [own] + below
    }
}
