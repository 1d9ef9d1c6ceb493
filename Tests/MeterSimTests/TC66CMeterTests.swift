import MeterCore
import Testing

@testable import MeterSim

@Test func aTC66CAnswersItsWordsByCableWithAndWithoutALineEnd() {
    var meter = meter(.tc66c)
    let plain = meter.receive([UInt8]("getva".utf8), at: at(1))
    #expect(plain.map(\.bytes.count) == [192])
    #expect(plain.first?.pieces.count == 1)
    #expect(meter.receive([UInt8]("\r\ngetva\r\n".utf8), at: at(2)).map(\.bytes.count) == [192])
    #expect(
        meter.receive([UInt8]("query".utf8), at: at(3)).map(\.bytes) == [[UInt8]("firm".utf8)])
}

@Test func aTC66CAnswersOverBluetoothOnlyInThatForm() {
    var meter = meter(.tc66c, steady(volts: 5, amperes: 1), .bluetooth)
    #expect(meter.receive([UInt8]("getva\r\n".utf8), at: at(1)).isEmpty)
    #expect(meter.receive([UInt8]("bgetva\n\r".utf8), at: at(2)).isEmpty)
    let answers = meter.receive([UInt8]("bgetva\r\n".utf8), at: at(3))
    #expect(
        answers.map { $0.pieces.map(\.count) } == [[20, 20, 20, 20, 20, 20, 20, 20, 20, 12]])
    #expect(answers.first?.delay == .milliseconds(500))
}

@Test func aTC66CTakesPageCommandsInSilenceAndIgnoresTheRest() {
    var meter = meter(.tc66c)
    for word in ["lastp", "nextp", "rotat", "update", "gtrec", "\u{f0}", "getv"] {
        #expect(meter.receive([UInt8](word.utf8), at: at(1)).isEmpty)
    }
    // The rest of a command that came in two.
    #expect(meter.receive([UInt8]("a".utf8), at: at(2)).count == 1)
    #expect(meter.receive([UInt8]("getgetva".utf8), at: at(3)).count == 1)
}

@Test func aTC66CCountsInTwoGroupsAndItsPowerOns() throws {
    var meter = meter(
        .tc66c, faults: try faults("group-change@36s", "no-power@72s+10s"))
    func plain(_ meter: SimulatedMeter) -> [UInt8] {
        let measurement = Measurement(
            meter.profile.load(at: .zero), temperature: MilliCelsius(24_000), model: .tc66c)
        return TC66CAnswer(measurement: measurement, memory: meter.memory).plain()
    }
    meter.advance(to: at(36 + 18))
    #expect(plain(meter).little32(72) == 10)
    #expect(plain(meter).little32(80) == 5)
    #expect(plain(meter).little32(44) == 40)
    meter.advance(to: at(90))
    // It keeps both over a power loss.
    #expect(plain(meter).little32(80) == 12)
    #expect(plain(meter).little32(44) == 41)
}
