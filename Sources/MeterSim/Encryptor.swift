/// The forward cipher of AES-256 on single blocks (FIPS 197), as a TC66C needs it to send.
///
/// The simulated meter has its own, so that a mistake in the drivers' use of a library cannot
/// cancel itself out here. It is not meant to keep anything secret.
struct Encryptor: Sendable {
    private static let rounds = 14
    /// 15 round keys of 16 bytes.
    private let schedule: [UInt8]

    init(key: [UInt8]) {
        precondition(key.count == 32, "a key of AES-256 has 32 bytes")
        var words = key
        var constant: UInt8 = 1
        while words.count < 16 * (Self.rounds + 1) {
            var word = Array(words.suffix(4))
            let index = words.count / 4
            if index % 8 == 0 {
                word = [word[1], word[2], word[3], word[0]].map { Self.box[Int($0)] }
                word[0] ^= constant
                constant = Self.double(constant)
            } else if index % 8 == 4 {
                word = word.map { Self.box[Int($0)] }
            }
            for byte in word { words.append(words[words.count - 32] ^ byte) }
        }
        schedule = words
    }

    /// Encrypts each block of 16 bytes by itself (ECB); `plain` must be whole blocks.
    func encrypt(_ plain: [UInt8]) -> [UInt8] {
        precondition(plain.count % 16 == 0, "not whole blocks")
        var result: [UInt8] = []
        result.reserveCapacity(plain.count)
        for start in stride(from: 0, to: plain.count, by: 16) {
            result += block(Array(plain[start..<start + 16]))
        }
        return result
    }

    private func block(_ plain: [UInt8]) -> [UInt8] {
        var state = plain
        add(round: 0, to: &state)
        for round in 1...Self.rounds {
            // The columns are stored one after another; row r is shifted left by r columns.
            var shifted = state
            for index in 0..<16 { shifted[index] = Self.box[Int(state[(index * 5) % 16])] }
            state = round == Self.rounds ? shifted : mixColumns(shifted)
            add(round: round, to: &state)
        }
        return state
    }

    private func add(round: Int, to state: inout [UInt8]) {
        for index in 0..<16 { state[index] ^= schedule[16 * round + index] }
    }

    private func mixColumns(_ state: [UInt8]) -> [UInt8] {
        var result = state
        for column in stride(from: 0, to: 16, by: 4) {
            let all = state[column] ^ state[column + 1] ^ state[column + 2] ^ state[column + 3]
            for row in 0..<4 {
                let this = state[column + row]
                let next = state[column + (row + 1) % 4]
                result[column + row] = this ^ all ^ Self.double(this ^ next)
            }
        }
        return result
    }

    /// Multiplies by x in the field of 256 elements.
    private static func double(_ value: UInt8) -> UInt8 {
        value << 1 ^ (value & 0x80 == 0 ? 0 : 0x1b)
    }

    /// The substitution of FIPS 197 §5.1.1: the inverse in the field, then an affine map. 3
    /// generates the field, so walking its powers one way and those of its inverse (0xf6) the
    /// other way pairs each element with its inverse.
    private static let box: [UInt8] = {
        var box = [UInt8](repeating: 0, count: 256)
        var element: UInt8 = 1
        var inverse: UInt8 = 1
        repeat {
            element ^= double(element)
            inverse ^= inverse << 1
            inverse ^= inverse << 2
            inverse ^= inverse << 4
            if inverse & 0x80 != 0 { inverse ^= 0x09 }
            var image = inverse
            for shift in 1...4 { image ^= inverse << shift | inverse >> (8 - shift) }
            box[Int(element)] = image ^ 0x63
        } while element != 1
        box[0] = 0x63
        return box
    }()
}
