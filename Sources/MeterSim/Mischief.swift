/// Does to answers what the faults say, by chance from a seed.
struct Mischief: Sendable {
    private let faults: [Fault]
    private var generator: SeededGenerator
    /// How many answers each kind has touched, by name.
    private(set) var counts: [String: Int] = [:]

    init(_ faults: [Fault], seed: UInt64) {
        // As it would happen: a frame is spoilt in the meter, then on its way, then in the buffers.
        let order = ["silence", "bad-check", "flip", "cut", "stray", "split"]
        self.faults = order.flatMap { name in faults.filter { $0.name == name } }
        generator = SeededGenerator(seed: seed)
    }

    /// Makes an answer at a time in milliseconds since the start of the meter; `bytes` makes the
    /// clean one, with some bits of its check turned over.
    /// - Returns: the pieces of at most `pieceLimit` bytes in which it reaches the far end, or
    ///   `nil` when it stays away.
    mutating func answer(
        at time: Int64, pieceLimit: Int, bytes: (_ spoil: UInt8) -> [UInt8]
    ) -> [[UInt8]]? {
        let happening = faults.filter {
            $0.holds(at: time) && generator.happens($0.probability)
        }.map(\.kind)
        var spoil: UInt8 = 0
        if happening.contains(.badCheck) {
            spoil = UInt8.random(in: 1...255, using: &generator)
            note(.badCheck)
        }
        var answer = bytes(spoil)
        var sizes: [Int] = []
        for kind in happening {
            switch kind {
            case .silence:
                note(kind)
                return nil
            case .flip(let bits):
                let places = (0..<answer.count * 8).shuffled(using: &generator).prefix(bits)
                for place in places { answer[place / 8] ^= 1 << UInt8(place % 8) }
                note(kind)
            case .cut(let length):
                let chance = Int.random(in: 1...max(1, answer.count - 1), using: &generator)
                answer = Array(answer.prefix(length ?? chance))
                note(kind)
            case .stray(let count):
                answer =
                    (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) } + answer
                note(kind)
            case .split(let list):
                sizes = list
                note(kind)
            case .badCheck, .noPower, .outOfRange, .counterReset, .groupChange: break
            }
        }
        return pieces(of: answer, sizes: sizes, limit: pieceLimit)
    }

    mutating func note(_ kind: Fault.Kind) { counts[Fault(kind).name, default: 0] += 1 }

    private func pieces(of bytes: [UInt8], sizes: [Int], limit: Int) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var sizes = sizes[...]
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = rest.prefix(min(limit, sizes.popFirst() ?? limit))
            pieces.append(Array(piece))
            rest = rest.dropFirst(piece.count)
        }
        return pieces
    }
}
