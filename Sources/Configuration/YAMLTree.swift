/// Puts the events of a YAML text together to a tree, and refuses what a configuration does not
/// need and people do not expect: a second document, aliases, tags, and a key that is given twice.
struct YAMLTree {
    /// Collections inside one another. The configuration itself needs three.
    static let deepest = 16

    /// A list or a mapping whose end has not come yet.
    private struct Open {
        let mark: Mark
        let isMapping: Bool
        var items: [YAMLNode] = []
        var entries: [YAMLNode.Entry] = []
        /// The key whose value comes next.
        var key: (text: String, mark: Mark)?
        var known: [String: Mark] = [:]
        var wantsKey: Bool { isMapping && key == nil }
    }

    private var open: [Open] = []
    private var documents = 0
    private(set) var root: YAMLNode?
    private(set) var complaints: [(mark: Mark, complaint: Complaint)] = []

    /// Takes the next event.
    /// - Returns: whether to go on; `false` after something that makes the rest meaningless.
    mutating func take(_ event: YAMLEvent) -> Bool {
        if let anchor = event.anchor {
            complain(
                event.mark,
                "\"&\(anchor.shown)\" names a value for aliases, which do not exist here",
                advice: "put text that begins with & into quotes")
        }
        if let tag = event.tag {
            complain(
                event.mark, "\"\(tag.shown)\" is a YAML tag, which does not exist here",
                advice: "put text that begins with ! into quotes")
        }
        switch event.kind {
        case .documentStart:
            documents += 1
            guard documents > 1 else { return true }
            complain(
                event.mark, "a second document begins here",
                advice: "a configuration is one document: remove the line ---")
            return false
        case .alias(let name):
            complain(
                event.mark, "\"*\(name.shown)\" is an alias, which does not exist here",
                advice: "write the value out, or put text that begins with * into quotes")
            if open.last?.wantsKey == true { return false }
            add(YAMLNode(content: .refused, mark: event.mark))
        case .scalar(let text, let plain):
            if open.last?.wantsKey == true {
                addKey(text, at: event.mark)
            } else {
                let isNull = plain && ["", "~", "null"].contains(text)
                add(YAMLNode(content: isNull ? .null : .scalar(text), mark: event.mark))
            }
        case .sequenceStart:
            return begin(Open(mark: event.mark, isMapping: false))
        case .mappingStart:
            return begin(Open(mark: event.mark, isMapping: true))
        case .end:
            guard let done = open.popLast() else {
                preconditionFailure("libyaml ended a collection that it never began")
            }
            add(
                YAMLNode(
                    content: done.isMapping ? .mapping(done.entries) : .sequence(done.items),
                    mark: done.mark))
        }
        return true
    }

    private mutating func begin(_ collection: Open) -> Bool {
        if open.last?.wantsKey == true {
            complain(
                collection.mark, "a list or a mapping stands where a key is expected",
                advice: "a key is a plain word; put text that begins with { or [ into quotes")
            return false
        }
        guard open.count < Self.deepest else {
            complain(
                collection.mark, "more than \(Self.deepest) levels inside one another",
                advice: "a configuration has three")
            return false
        }
        open.append(collection)
        return true
    }

    private mutating func addKey(_ text: String, at mark: Mark) {
        let last = open.count - 1
        open[last].key = (text, mark)
        if let first = open[last].known[text] {
            complain(
                mark, "\"\(text.shown)\" is given twice; the first is on line \(first.line)",
                advice: "remove one of them")
        } else {
            open[last].known[text] = mark
        }
    }

    private mutating func add(_ node: YAMLNode) {
        guard let last = open.indices.last else {
            root = node
            return
        }
        guard let key = open[last].key else {
            open[last].items.append(node)
            return
        }
        open[last].key = nil
        // Of two equal keys the first counts, so that only one complaint comes of it.
        if open[last].known[key.text] == key.mark {
            open[last].entries.append(
                YAMLNode.Entry(key: key.text, keyMark: key.mark, value: node))
        }
    }

    private mutating func complain(_ mark: Mark, _ message: String, advice: String = "") {
        complaints.append((mark, Complaint(message, advice: advice)))
    }
}
