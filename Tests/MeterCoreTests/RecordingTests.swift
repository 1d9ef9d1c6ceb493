import MeterCore
import Testing

@Suite struct RecordingTests {
    private func sessions(_ lines: [String]) throws -> [Recording.Session] {
        var recording = Recording(named: "test", rules: SessionRules(), softwareVersion: "1.0")
        for line in lines { try recording.take(line) }
        return try recording.finish()
    }

    @Test func aRecordingIsRunThroughTheSameRules() throws {
        var lines = ["t_s,voltage_v,current_a"]
        for second in 0..<1_000 {
            lines.append("\(second).5,5.000,\(second >= 100 && second < 700 ? "1.000" : "0.000")")
        }
        let found = try sessions(lines)
        #expect(found.count == 1)
        #expect(found[0].startMilliseconds == 100_500)
        #expect(found[0].endMilliseconds == 700_500)
        #expect(abs(found[0].summary.energy.wattHours - 5.0 / 6) < 1e-9)
        #expect(found[0].summary.energyCounted == nil)
    }

    @Test func columnsMayStandInAnyOrderAmongOthersWithSpacesAndAByteOrderMark() throws {
        var lines = ["\u{feff}T_S , note,current_a,temp_c,voltage_v,mWh,mAh\r"]
        for second in 0..<400 {
            lines.append(
                "\(second), x ,\(second < 200 ? "0.9" : "0"),21,5,\(second * 5 / 4),\(second / 4)\r"
            )
        }
        lines.append("")
        let found = try sessions(lines)
        #expect(found.count == 1)
        #expect(found[0].startMilliseconds == 0)
        #expect(found[0].summary.energyCounted == Microjoules(MilliwattHours(250)))
    }

    @Test func repeatedAndEarlierRowsAreCountedAndNotUsed() throws {
        var recording = Recording(named: "test", rules: SessionRules(), softwareVersion: "1.0")
        for line in ["t_s,voltage_v,current_a", "0,5,1", "1,5,1", "1,5,9", "0.5,5,9", "2,5,1"] {
            try recording.take(line)
        }
        #expect(recording.rows == 3)
        #expect(recording.repeatedRows == 2)
    }

    @Test func aSessionThatStillRunsEndsWithTheRecording() throws {
        let found = try sessions(
            ["t_s,voltage_v,current_a"] + (0..<60).map { "\($0),5,1" })
        #expect(found.map(\.summary.endReason) == [.endOfRecording])
        #expect(found[0].endMilliseconds == 59_000)
    }

    @Test func secondsSince1970AreTakenAsTheyAre() throws {
        let found = try sessions(
            ["t_s,voltage_v,current_a"] + (0..<60).map { "\(1_790_000_000 + $0),5,1" })
        #expect(found.map(\.startMilliseconds) == [1_790_000_000_000])
    }

    @Test func negativeValuesOfOtherInstrumentsAddNothing() throws {
        let found = try sessions(
            ["t_s,voltage_v,current_a"] + (0..<60).map { "\($0),-0.02,1" }
                + (60..<300).map { "\($0),5,-1" })
        #expect(found.allSatisfy { $0.summary.energy == .zero })
    }

    @Test func twoRunsGiveTheSameIds() throws {
        let lines = ["t_s,voltage_v,current_a"] + (0..<60).map { "\($0),5,1" }
        #expect(try sessions(lines).map(\.summary.id) == sessions(lines).map(\.summary.id))
    }

    @Test func aProblemNamesItsLineAndWhatIsThere() {
        let head = "t_s,voltage_v,current_a"
        for (lines, line, words) in [
            (["time,volts"], 1, "t_s,voltage_v,current_a"),
            ([head, "0,5,1", "1,five,1"], 3, "\"five\""),
            ([head, "0,5"], 2, "current_a is nothing"),
            ([head, "0,nan,1"], 2, "voltage_v"),
            ([head, "0,inf,1"], 2, "voltage_v"),
            ([head, "1e30,5,1"], 2, "out of range"),
            ([head, "0,1e9,1"], 2, "out of range"),
            ([head, "0,5,1e9"], 2, "out of range"),
            ([head + ",mah,mwh", "0,5,1,1,-1e18"], 2, "out of range"),
        ] {
            #expect {
                try sessions(lines)
            } throws: { error in
                let problem = error as? Recording.Problem
                return problem?.line == line && problem?.description.contains(words) == true
            }
        }
        #expect(throws: Recording.Problem.self) { try sessions([]) }
    }

    @Test func noNumbersThatAreInRangeTrap() throws {
        var random = Seeded(3)
        var lines = ["t_s,voltage_v,current_a,mah,mwh"]
        var time = -3_999_999_999.0
        for _ in 0..<3_000 {
            time += Double(random.int(0...2_600_000)) + 0.001
            func value(_ limit: Int) -> Int { random.int(-limit...limit) }
            lines.append(
                "\(time),\(value(999)),\(value(99)),\(value(999_999_999)),\(value(999_999_999))")
        }
        for session in try sessions(lines) { #expect(session.summary.energy >= .zero) }
    }
}
