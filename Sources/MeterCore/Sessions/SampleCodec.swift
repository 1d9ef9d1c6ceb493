/// Why bytes are not a chunk of samples.
package enum SampleCodecError: Error, Sendable, Equatable {
    /// Written by a later version, or no chunk at all.
    case unknownVersion(UInt8)
    /// The bytes end in the middle.
    case truncated
    /// The bytes contradict themselves; the reason is for the log.
    case malformed(String)
}

/// Packs a stretch of a curve into few bytes and back, without loss for any value.
///
/// A chunk stands alone. It holds one column a field, since neighbours in time are alike:
///
///     chunk   = version (1)  count  [offset voltage current power temperature d+ d−]  nothing more
///     column  = head  [bitmap]  [first  [step  rest]]
///     power   = quantum  column
///     head    = how the rest is written (bits 0–1)  which samples have a value (bits 2–3)
///
/// Numbers are LEB128 varints, signed ones in zigzag order. A column's terms are differences:
/// second differences for `offset`, which is regular, first differences for the others. `step` is
/// the common factor of all terms after the first, so that a meter that resolves 1 mV costs no more
/// than if it were stored in millivolts. Power is what remains after V·I, in quanta, the common
/// factor of the powers. All sums wrap, so that every `Int64` comes back.
package enum SampleCodec {
    /// The most samples that a chunk may hold, which bounds what damaged bytes can make us allocate.
    package static let maximumCount = 4096

    private static let version: UInt8 = 1

    /// Packs at most `maximumCount` samples, which may be in any order.
    package static func encode(_ samples: [Sample]) -> [UInt8] {
        precondition(samples.count <= maximumCount, "a chunk holds \(maximumCount) samples")
        var writer = ByteWriter()
        writer.bytes.append(version)
        writer.put(UInt64(samples.count))
        guard !samples.isEmpty else { return writer.bytes }

        writer.put(Column(samples.map(\.offset), order: 2))
        writer.put(Column(samples.map(\.voltage.rawValue), order: 1))
        writer.put(Column(samples.map(\.current.rawValue), order: 1))
        let quantum = commonFactor(of: samples.map(\.power.rawValue))
        writer.put(UInt64(quantum))
        writer.put(
            Column(
                samples.map { sample in
                    sample.power.rawValue / quantum &- expectedPower(of: sample, in: quantum)
                }, order: 0))
        writer.put(Column(samples.map(\.temperature?.rawValue), order: 1))
        writer.put(Column(samples.map(\.dPlus?.rawValue), order: 1))
        writer.put(Column(samples.map(\.dMinus?.rawValue), order: 1))
        return writer.bytes
    }

    /// Takes apart what `encode` made. Any bytes are safe to give.
    package static func decode(_ bytes: [UInt8]) throws(SampleCodecError) -> [Sample] {
        var reader = ByteReader(bytes)
        let version = try reader.byte()
        guard version == Self.version else { throw .unknownVersion(version) }
        let stated = try reader.unsigned()
        guard stated <= UInt64(maximumCount) else { throw .malformed("\(stated) samples") }
        let count = Int(stated)
        guard count > 0 else {
            try reader.end()
            return []
        }

        let offsets = try reader.fullColumn(of: count, order: 2)
        let voltages = try reader.fullColumn(of: count, order: 1)
        let currents = try reader.fullColumn(of: count, order: 1)
        let stepOfPower = try reader.unsigned()
        guard let quantum = Int64(exactly: stepOfPower), quantum > 0 else {
            throw .malformed("quantum \(stepOfPower)")
        }
        let excesses = try reader.fullColumn(of: count, order: 0)
        let temperatures = try reader.column(of: count, order: 1)
        let dPluses = try reader.column(of: count, order: 1)
        let dMinuses = try reader.column(of: count, order: 1)
        try reader.end()

        return (0..<count).map { index in
            var sample = Sample(
                offset: offsets[index], voltage: Microvolts(voltages[index]),
                current: Microamperes(currents[index]), power: .zero,
                temperature: temperatures[index].map { MilliCelsius($0) },
                dPlus: dPluses[index].map { Microvolts($0) },
                dMinus: dMinuses[index].map { Microvolts($0) })
            let quanta = expectedPower(of: sample, in: quantum) &+ excesses[index]
            sample.power = Microwatts(quanta &* quantum)
            return sample
        }
    }

    /// V·I in whole quanta, rounded to the nearest as a meter would.
    private static func expectedPower(of sample: Sample, in quantum: Int64) -> Int64 {
        let power = (sample.voltage.rawValue &* sample.current.rawValue) / 1_000_000
        let (quotient, rest) = power.quotientAndRemainder(dividingBy: quantum)
        guard rest.magnitude >= quantum.magnitude - rest.magnitude else { return quotient }
        return quotient &+ (rest < 0 ? -1 : 1)
    }

    private static func commonFactor(of values: [Int64]) -> Int64 {
        // 2⁶³, which two of the smallest `Int64` share, does not fit; 1 divides everything.
        max(1, Int64(exactly: greatestCommonDivisor(of: values)) ?? 1)
    }
}

private func greatestCommonDivisor(of values: some Sequence<Int64>) -> UInt64 {
    var result: UInt64 = 0
    for value in values {
        var (larger, smaller) = (result, value.magnitude)
        while smaller != 0 { (larger, smaller) = (smaller, larger % smaller) }
        result = larger
        if result == 1 { break }
    }
    return result
}

/// The rest of a column, after its first term.
private enum Form: UInt8 {
    /// All zero, so not written.
    case constant = 0
    case plain = 1
    /// A zero is followed by how many more zeros come.
    case zeroRuns = 2
}

private enum Presence: UInt8 {
    case none = 0
    case all = 1
    /// One bit a sample follows, lowest bit first.
    case some = 2
}

/// One field of all samples.
private struct Column {
    var presence: Presence
    var bitmap: [UInt8] = []
    /// Differences of the values that there are.
    var terms: [Int64]

    init(_ values: [Int64], order: Int) {
        presence = .all
        terms = values.differences(order)
    }
    init(_ values: [Int64?], order: Int) {
        terms = values.compactMap { $0 }.differences(order)
        presence = terms.isEmpty ? .none : terms.count == values.count ? .all : .some
        if presence == .some {
            bitmap = [UInt8](repeating: 0, count: (values.count + 7) / 8)
            for (index, value) in values.enumerated() where value != nil {
                bitmap[index / 8] |= 1 << UInt8(index % 8)
            }
        }
    }
}

extension [Int64] {
    fileprivate func differences(_ order: Int) -> [Int64] {
        var result = self
        for pass in 0..<order where result.count > pass + 1 {
            for index in stride(from: result.count - 1, to: pass, by: -1) {
                result[index] = result[index] &- result[index - 1]
            }
        }
        return result
    }
    fileprivate func sums(_ order: Int) -> [Int64] {
        var result = self
        for pass in (0..<order).reversed() where result.count > pass + 1 {
            for index in (pass + 1)..<result.count {
                result[index] = result[index] &+ result[index - 1]
            }
        }
        return result
    }
}

private struct ByteWriter {
    var bytes: [UInt8] = []

    mutating func put(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }
    mutating func put(signed value: Int64) {
        put(UInt64(bitPattern: value << 1 ^ value >> 63))
    }

    mutating func put(_ column: Column) {
        guard let first = column.terms.first else {
            bytes.append(Column.head(.constant, .none))
            return
        }
        let rest = column.terms.dropFirst()
        let step = greatestCommonDivisor(of: rest)
        guard step > 0 else {
            bytes.append(Column.head(.constant, column.presence))
            bytes += column.bitmap
            put(signed: first)
            return
        }
        let steps = rest.map { term in
            let size = Int64(bitPattern: term.magnitude / step)
            return term < 0 ? 0 &- size : size
        }
        var plain = ByteWriter()
        for term in steps { plain.put(signed: term) }
        var runs = ByteWriter()
        var index = 0
        while index < steps.count {
            runs.put(signed: steps[index])
            var end = index + 1
            if steps[index] == 0 {
                while end < steps.count, steps[end] == 0 { end += 1 }
                runs.put(UInt64(end - index - 1))
            }
            index = end
        }
        let runsAreShorter = runs.bytes.count < plain.bytes.count
        bytes.append(Column.head(runsAreShorter ? .zeroRuns : .plain, column.presence))
        bytes += column.bitmap
        put(signed: first)
        put(step)
        bytes += runsAreShorter ? runs.bytes : plain.bytes
    }
}

extension Column {
    static func head(_ form: Form, _ presence: Presence) -> UInt8 {
        form.rawValue | presence.rawValue << 2
    }
}

private struct ByteReader {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func byte() throws(SampleCodecError) -> UInt8 {
        guard index < bytes.count else { throw .truncated }
        defer { index += 1 }
        return bytes[index]
    }
    mutating func unsigned() throws(SampleCodecError) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            let byte = try byte()
            if shift == 63, byte > 1 { break }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
        }
        throw .malformed("a number of more than 64 bits")
    }
    mutating func signed() throws(SampleCodecError) -> Int64 {
        let value = try unsigned()
        return Int64(bitPattern: value >> 1) ^ (0 &- Int64(bitPattern: value & 1))
    }
    func end() throws(SampleCodecError) {
        guard index == bytes.count else { throw .malformed("more bytes than samples") }
    }

    /// A column that every sample has.
    mutating func fullColumn(of count: Int, order: Int) throws(SampleCodecError) -> [Int64] {
        let head = try byte()
        guard let form = Form(rawValue: head & 3), head >> 2 == Presence.all.rawValue else {
            throw .malformed("column head \(head)")
        }
        return try terms(count, form).sums(order)
    }

    mutating func column(of count: Int, order: Int) throws(SampleCodecError) -> [Int64?] {
        let head = try byte()
        guard let form = Form(rawValue: head & 3), let presence = Presence(rawValue: head >> 2)
        else { throw .malformed("column head \(head)") }
        switch presence {
        case .none:
            guard form == .constant else { throw .malformed("column head \(head)") }
            return [Int64?](repeating: nil, count: count)
        case .all:
            return try terms(count, form).sums(order)
        case .some:
            var present: [Bool] = []
            var bits: UInt8 = 0
            for index in 0..<count {
                if index % 8 == 0 { bits = try byte() }
                present.append(bits >> UInt8(index % 8) & 1 == 1)
            }
            let have = present.count(where: { $0 })
            guard have > 0 else { throw .malformed("an empty bitmap") }
            var values = try terms(have, form).sums(order).makeIterator()
            return present.map { $0 ? values.next() : nil }
        }
    }

    private mutating func terms(_ count: Int, _ form: Form) throws(SampleCodecError) -> [Int64] {
        var result = [try signed()]
        guard form != .constant else {
            return result + [Int64](repeating: 0, count: count - 1)
        }
        let step = Int64(bitPattern: try unsigned())
        guard step != 0 else { throw .malformed("a step of zero") }
        result.reserveCapacity(count)
        while result.count < count {
            let steps = try signed()
            result.append(steps &* step)
            guard form == .zeroRuns, steps == 0 else { continue }
            let more = try unsigned()
            guard more <= UInt64(count - result.count) else {
                throw .malformed("a run of \(more) zeros")
            }
            result += [Int64](repeating: 0, count: Int(more))
        }
        return result
    }
}
