/// First in, first out; both ends in constant time on average.
struct FIFO<Element> {
    /// What was taken is `nil` until the array is cut, so that its memory goes at once.
    private var items: [Element?] = []
    private var head = 0

    var isEmpty: Bool { head == items.count }
    var count: Int { items.count - head }

    mutating func append(_ element: Element) { items.append(element) }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let first = items[head]
        items[head] = nil
        head += 1
        if head == items.count {
            items.removeAll(keepingCapacity: head <= 64)
            head = 0
        } else if head > 64, head > items.count / 2 {
            items.removeFirst(head)
            head = 0
        }
        return first
    }

    /// Removes and returns the first that fits, wherever it waits.
    mutating func remove(where fits: (Element) -> Bool) -> Element? {
        guard let index = items.firstIndex(where: { $0.map(fits) ?? false }) else { return nil }
        return items.remove(at: index)
    }
}

extension FIFO: Sendable where Element: Sendable {}
