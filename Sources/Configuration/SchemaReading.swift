/// Reads a tree into values by tables of keys, and goes on after everything that is wrong.
struct SchemaReading {
    /// Where relative paths start; empty for the current folder.
    let folder: String
    /// All paths, to find where a misplaced key belongs.
    let paths: [String]
    var report: ProblemReport
    var files: [ReferencedFile] = []

    /// Reads a mapping.
    /// - Returns: what was given; `nil` if `node` is no mapping.
    mutating func fields<Group>(
        of node: YAMLNode, named name: String, into group: inout Group, _ keys: [Key<Group>]
    ) -> Fields? {
        guard case .mapping(let entries) = node.content else {
            if node.content != .refused {
                report.error(
                    node.mark, "\(name) must have keys in it, not \(node.kind)",
                    advice: "known there are \(keys.map(\.name).joined(separator: ", "))")
            }
            return nil
        }
        var fields = Fields()
        for entry in entries { fields.marks[entry.key] = entry.value.mark }
        // In the order of the table, so that a key can rely on those before it.
        for key in keys {
            guard let entry = entries.first(where: { $0.key == key.name }) else { continue }
            if !key.apply(entry.value, &group, fields, &self) { fields.failed.insert(key.name) }
        }
        let names = keys.map(\.name)
        for entry in entries where !names.contains(entry.key) && !report.isFull {
            report.error(
                entry.keyMark, "unknown key \"\(entry.key.shown)\"",
                advice: advice(onUnknown: entry.key, among: names))
        }
        return fields
    }

    /// Reads one value.
    mutating func value<Value>(
        of node: YAMLNode, _ scalar: Scalar<Value>, named name: String
    ) -> Value? {
        switch node.content {
        case .refused:
            return nil
        case .null:
            report.error(
                node.mark, "\(name) has no value", advice: "write one, or remove the line")
            return nil
        case .sequence, .mapping:
            report.error(node.mark, "\(name) must be one value, not \(node.kind)")
            return nil
        case .scalar(let text):
            do {
                return try scalar.read(text, folder)
            } catch {
                report.error(node.mark, "\(name) \(error.message)", advice: error.advice)
                return nil
            }
        }
    }

    private func advice(onUnknown key: String, among names: [String]) -> String {
        if let meant = Suggestion.nearest(to: key, among: names) {
            return "did you mean \"\(meant)\"?"
        }
        let homes = paths.filter { $0.hasSuffix(".\(key)") }.map { $0.dropLast(key.count + 1) }
        if let home = homes.first {
            return home.hasSuffix("[]")
                ? "it belongs into each entry of \"\(home.dropLast(2))\""
                : "it belongs below \"\(home)\""
        }
        return "known here are \(names.joined(separator: ", "))"
    }
}

extension YAMLNode {
    /// What it is, for messages.
    var kind: String {
        switch content {
        case .null: "nothing"
        case .scalar(let text): "\"\(text.shown)\""
        case .sequence: "a list"
        case .mapping: "a group of keys"
        case .refused: "an alias"
        }
    }
}

/// Which keys of a mapping were given.
struct Fields {
    fileprivate(set) var marks: [String: Mark] = [:]
    fileprivate(set) var failed: Set<String> = []

    /// Where the key's value stands; `nil` if it was not given.
    subscript(name: String) -> Mark? { marks[name] }
    /// Whether the key was left out or could be used.
    func isSound(_ name: String) -> Bool { !failed.contains(name) }
}
