/// What was meant by a word that is not known.
package enum Suggestion {
    /// What somebody probably meant who wrote `word`: the nearest of `candidates`, if at most two
    /// slips of the finger away, or one for words of up to four letters, and none for a single
    /// letter. Case does not count.
    package static func nearest(to word: String, among candidates: [String]) -> String? {
        var best: (distance: Int, candidate: String)?
        for candidate in candidates {
            let length = min(word.count, candidate.count)
            let allowed = length <= 1 ? 0 : length <= 4 ? 1 : 2
            guard abs(word.count - candidate.count) <= allowed else { continue }
            let distance = distance(word.lowercased(), candidate.lowercased())
            guard distance <= allowed, distance < best?.distance ?? .max else { continue }
            best = (distance, candidate)
        }
        return best?.candidate
    }

    /// Damerau's and Levenshtein's distance in the form of the optimal string alignment: how many
    /// letters must be put in, left out, replaced, or swapped with their neighbour.
    static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right))
        var rows = [Array(0...right.count)]
        for row in 0..<left.count {
            var next = [row + 1]
            for column in 0..<right.count {
                var cost = min(
                    rows[row][column + 1] + 1, next[column] + 1,
                    rows[row][column] + (left[row] == right[column] ? 0 : 1))
                if row > 0, column > 0, left[row] == right[column - 1],
                    left[row - 1] == right[column]
                {
                    cost = min(cost, rows[row - 1][column - 1] + 1)
                }
                next.append(cost)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}
