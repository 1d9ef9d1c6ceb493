import Testing

@testable import Configuration

@Suite struct MutationTests {
    /// SplitMix64, so that a failure can be repeated.
    private struct Dice: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var word = state
            word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
            word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
            return word ^ word >> 31
        }
    }

    private static let snippets = [
        "\t", " ", "\n", "\n  ", "- ", ": ", "#", "\"", "'", "[", "]", "{", "}", "&a ", "*a", "!t ",
        "|", ">", "? ", "---\n", "...\n", "%", "@", "\\", "\0", "\u{feff}", "é", "0", "-1", "1e9",
        "99999999999999999999", ",", "~", "null", "name: x\n", "meters:\n", "<<: *a\n",
    ].map { Array($0.utf8) }

    @Test(arguments: 0..<4)
    func aDamagedConfigurationLoadsOrHasAProblemAtAPlaceThatExists(_ seed: Int) throws {
        let original = Array(try repositoryFile("etc/usbmeter.yaml").utf8)
        var dice = Dice(state: UInt64(seed))
        var unharmed = 0
        for round in 0..<1000 {
            var text = original
            for _ in 0..<Int.random(in: 1...4, using: &dice) { Self.damage(&text, &dice) }
            let loaded = Configuration.parse(bytes: text, file: "m.yaml")
            let errors = loaded.problems.filter { $0.severity == .error }
            #expect((loaded.values == nil) == !errors.isEmpty, "seed \(seed), round \(round)")
            let lines = text.count { $0 == 0x0a || $0 == 0x0d } + 1
            for problem in loaded.problems {
                #expect((1...lines + 1).contains(problem.line ?? 1), "seed \(seed), round \(round)")
                #expect(!problem.message.isEmpty)
                #expect(!problem.description.contains("\n"), "seed \(seed), round \(round)")
            }
            if loaded.values != nil { unharmed += 1 }
        }
        // Most of the text is comments, so both must happen, else nothing has been tried.
        #expect((50...950).contains(unharmed))
    }

    private static func damage(_ text: inout [UInt8], _ dice: inout Dice) {
        let place = Int.random(in: 0..<max(1, text.count), using: &dice)
        let end = min(text.count, place + Int.random(in: 1...12, using: &dice))
        switch Int.random(in: 0..<6, using: &dice) {
        case 0 where place < text.count:
            text[place] = UInt8.random(in: 0...255, using: &dice)
        case 1 where place < end:
            text.removeSubrange(place..<end)
        case 2 where place < end:
            text.insert(contentsOf: text[place..<end], at: 0)
        case 3:
            text.removeLast(text.count - min(text.count, place + 200))
        default:
            text.insert(contentsOf: snippets.randomElement(using: &dice) ?? [], at: place)
        }
    }
}
