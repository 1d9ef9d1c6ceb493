import MeterCore
import Testing

@testable import usbmeter

struct TableTests {
    @Test func numbersStandToTheRightAndTextToTheLeft() {
        var table = Table(["name", "Wh", "by"])
        table.add(["Desk", "1.5", "current stopped"])
        table.add(["Shelf, left", "-", ""])
        table.add(["A", "-12.25", "by command"])
        #expect(
            table.text == """
                name             Wh  by
                Desk            1.5  current stopped
                Shelf, left       -
                A            -12.25  by command
                """)
    }

    @Test func aTableWithoutRowsIsItsTitles() {
        #expect(Table(["a", "b"]).text == "a  b")
    }

    @Test func widthsAreThoseOfCharactersNotOfBytes() {
        var table = Table(["name", "x"])
        table.add(["Küche", "y"])
        table.add(["Flur", "z"])
        #expect(table.text == "name   x\nKüche  y\nFlur   z")
    }
}

struct ShowTests {
    @Test func valuesAreShownInTheirUnits() {
        #expect(Show.wattHours(Microjoules(3_600_000_000 + 1_800_000)) == "1.001")
        #expect(Show.wattHours(Microjoules(-3_600_000_000)) == "-1.000")
        #expect(Show.milliampereHours(Microcoulombs(3_600_000)) == "1.0")
    }

    @Test(arguments: [
        (0, "0:00:00"), (999, "0:00:00"), (59_999, "0:00:59"), (3_723_000, "1:02:03"),
        (360_000_000, "100:00:00"),
    ])
    func durationsAreHoursMinutesSeconds(_ milliseconds: Int64, _ text: String) {
        #expect(Show.duration(milliseconds) == text)
    }

    @Test func timesAreInUTCAndSaySo() {
        #expect(Show.time(WallTime(milliseconds: 0)) == "1970-01-01 00:00:00 UTC")
        #expect(Show.time(WallTime(milliseconds: 1_796_070_600_999)) == "2026-11-30 20:30:00 UTC")
    }

    @Test func everyReasonHasItsOwnWords() {
        let words = EndReason.allCases.map(Show.reason)
        #expect(Set(words).count == words.count)
        #expect(words.allSatisfy { !$0.isEmpty })
    }

    @Test func aSessionIsARowAndDoubtIsMarked() {
        var running = session
        running.clockTrusted = false
        var ended = session
        ended.durationMilliseconds = 3_600_000
        ended.endedAt = ended.startedAt + .seconds(3_600)
        ended.endReason = .currentStopped
        ended.energyIntegrated = Microjoules(18_000_000_000)
        ended.chargeIntegrated = Microcoulombs(3_600_000_000)
        ended.samples = 3_600
        ended.peakPower = Microwatts(5_100_000)
        let lines = sessionTable([ended, running]).split(separator: "\n")
        #expect(lines.count == 4)
        for part in [
            "Desk", "1:00:00", "5.000", "1000.0", "5.00", "5.10", "current stopped",
            // enough of an id to name the session: the time at which it was made
            String(session.id.description.prefix(13)),
        ] { #expect(lines[1].contains(part)) }
        #expect(!lines[1].contains("?"))
        #expect(lines[2].contains("UTC ?"))
        #expect(lines[2].contains("runs"))
        // explained, but only where there is one
        #expect(lines[3] == "? by a clock that was not synchronised")
        #expect(sessionTable([ended]).split(separator: "\n").count == 2)
    }
}

let session: SessionSummary = {
    var generator = SystemRandomNumberGenerator()
    let start = WallTime(milliseconds: 1_796_070_600_000)
    return SessionSummary(
        id: SessionID(at: start, using: &generator), meter: MeterAddress(localFor: "desk"),
        meterName: "Desk", model: .um25c, gatewayID: "g", startedAt: start, clockTrusted: true,
        softwareVersion: "1.0.0")
}()
