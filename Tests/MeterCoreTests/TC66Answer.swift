/// What a TC66C would send, written from the protocol alone, with a cipher of its own.
struct TC66Answer {
    var product = "TC66"
    var version = "1.18"
    var serial = 48_724
    var runs = 40
    /// Tenths of a millivolt, hundredths of a milliampere, tenths of a milliwatt.
    var volts = 51_609
    var amperes = 1_990
    var watts = 1_026
    var resistance = 2_593
    var charge = [0, 0]
    var energy = [5, 0]
    var negative = false
    var temperature = 27
    var dPlus = 281
    var dMinus = 280

    var plain: [UInt8] {
        var out: [UInt8] = []
        func put(_ value: Int) {
            for index in 0..<4 { out.append(UInt8(truncatingIfNeeded: value >> (8 * index))) }
        }
        func finish() {
            out += Array(repeating: 0, count: 60 - out.count % 64)
            let block = out.suffix(60)
            var crc = 0xffff
            for byte in block {
                crc ^= Int(byte)
                for _ in 0..<8 { crc = crc % 2 == 1 ? crc / 2 ^ 0xa001 : crc / 2 }
            }
            put(crc)
        }
        out += Array("pac1\(product)\(version)".utf8)
        put(serial)
        out += Array(repeating: 0x5a, count: 28)
        for value in [runs, volts, amperes, watts] { put(value) }
        finish()
        out += Array("pac2".utf8)
        for value in [
            resistance, charge[0], energy[0], charge[1], energy[1], negative ? 1 : 0, temperature,
            dPlus, dMinus,
        ] { put(value) }
        finish()
        out += Array("pac3".utf8)
        finish()
        return out
    }

    var bytes: [UInt8] { Cipher.meter.encrypt(plain) }
}

/// AES-256 in the encrypting direction (FIPS 197), block by block.
struct Cipher {
    private let box: [UInt8]
    private var words: [[UInt8]] = []

    /// With the key that all of these meters have.
    static let meter = Cipher(
        key: hex("5821fa5601b2f02687ff1204622a4fb086f40260816f9a0ba7f106619ab87288"))

    init(key: [UInt8]) {
        // the box: an inverse in GF(2^8), then an affine map
        var box = [UInt8](repeating: 0x63, count: 256)
        var (element, inverse): (UInt8, UInt8) = (1, 1)
        repeat {
            element = Self.multiply(element, 3)
            inverse = Self.multiply(inverse, 0xf6)
            var value = inverse
            for turn in 1...4 { value ^= inverse << UInt8(turn) | inverse >> UInt8(8 - turn) }
            box[Int(element)] = value ^ 0x63
        } while element != 1
        self.box = box
        words = (0..<8).map { Array(key[(4 * $0)..<(4 * $0 + 4)]) }
        var round: UInt8 = 1
        for index in 8..<60 {
            var word = words[index - 1]
            if index % 8 == 0 {
                word = (Array(word[1...]) + [word[0]]).map { box[Int($0)] }
                word[0] ^= round
                round = Self.multiply(round, 2)
            } else if index % 8 == 4 {
                word = word.map { box[Int($0)] }
            }
            words.append(zip(words[index - 8], word).map { $0 ^ $1 })
        }
    }

    func encrypt(_ plain: [UInt8]) -> [UInt8] {
        stride(from: 0, to: plain.count, by: 16).flatMap { start in
            block(Array(plain[start..<(start + 16)]))
        }
    }

    private func block(_ plain: [UInt8]) -> [UInt8] {
        var state = keyed(plain, 0)
        for round in 1...14 {
            let shifted = (0..<16).map { box[Int(state[($0 + 4 * ($0 % 4)) % 16])] }
            state = keyed(round == 14 ? shifted : mixed(shifted), round)
        }
        return state
    }
    private func keyed(_ state: [UInt8], _ round: Int) -> [UInt8] {
        (0..<16).map { (index: Int) -> UInt8 in
            let word = words[4 * round + index / 4]
            return state[index] ^ word[index % 4]
        }
    }
    private func mixed(_ state: [UInt8]) -> [UInt8] {
        (0..<16).map { (index: Int) -> UInt8 in
            let column = index / 4 * 4
            func cell(_ turn: Int) -> UInt8 { state[column + (index + turn) % 4] }
            let turned: UInt8 = Self.multiply(cell(0), 2) ^ Self.multiply(cell(1), 3)
            return turned ^ cell(2) ^ cell(3)
        }
    }
    private static func multiply(_ left: UInt8, _ right: UInt8) -> UInt8 {
        var (left, right, product): (UInt8, UInt8, UInt8) = (left, right, 0)
        while right != 0 {
            if right & 1 == 1 { product ^= left }
            left = left & 0x80 == 0 ? left << 1 : left << 1 ^ 0x1b
            right >>= 1
        }
        return product
    }
}

/// Bytes from hexadecimal text.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map {
        UInt8(digits[$0] << 4 | digits[$0 + 1])
    }
}
