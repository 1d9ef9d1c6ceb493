import MeterCore
import Testing

@Suite struct MeterCommandTests {
    @Test func theUMSeriesTakesOneByteForEachCommand() throws {
        for model in [MeterModel.um24c, .um25c, .um34c] {
            for dialect in [CommandDialect.bluetooth, .usb] {
                func bytes(_ command: MeterCommand) throws -> [UInt8] {
                    try command.encoded(for: model, over: dialect)
                }
                #expect(try bytes(.nextScreen) == [0xf1])
                #expect(try bytes(.rotateScreen) == [0xf2])
                #expect(try bytes(.clearGroup) == [0xf4])
                for level in 0...5 {
                    #expect(try bytes(.backlight(level)) == [0xd0 + UInt8(level)])
                }
                for minutes in 0...9 {
                    #expect(try bytes(.screenTimeout(minutes)) == [0xe0 + UInt8(minutes)])
                }
                for step in 0...30 {
                    let threshold = Microamperes(Int64(step) * 10_000)
                    #expect(try bytes(.recordingThreshold(threshold)) == [0xb0 + UInt8(step)])
                }
            }
        }
    }

    @Test func oneByteMeansTwoThingsOnSistersAndIsEncodedForEach() throws {
        #expect(try MeterCommand.nextGroup.encoded(for: .um24c, over: .bluetooth) == [0xf3])
        for model in [MeterModel.um25c, .um34c] {
            let back = try MeterCommand.previousScreen.encoded(for: model, over: .bluetooth)
            #expect(back == [0xf3])
            for group in 0...9 {
                let bytes = try MeterCommand.selectGroup(group).encoded(
                    for: model, over: .bluetooth)
                #expect(bytes == [0xa0 + UInt8(group)])
            }
        }
    }

    @Test func theTC66CTakesWordsInTheFormOfItsLink() throws {
        for (command, word) in [
            (MeterCommand.nextScreen, "nextp"), (.previousScreen, "lastp"),
            (.rotateScreen, "rotat"),
        ] {
            #expect(
                try command.encoded(for: .tc66c, over: .bluetooth) == Array("b\(word)\r\n".utf8))
            #expect(try command.encoded(for: .tc66c, over: .usb) == Array(word.utf8))
        }
    }

    @Test func whatAModelCannotDoIsRefusedByName() {
        for (model, command) in [
            (MeterModel.um24c, MeterCommand.selectGroup(1)), (.um24c, .previousScreen),
            (.um25c, .nextGroup), (.um34c, .nextGroup), (.tc66c, .clearGroup),
            (.tc66c, .selectGroup(0)), (.tc66c, .backlight(3)), (.tc66c, .screenTimeout(1)),
            (.tc66c, .recordingThreshold(.zero)), (.tc66c, .nextGroup),
        ] {
            let error = MeterCommandError.unsupported(model, command)
            #expect(throws: error) { try command.encoded(for: model, over: .bluetooth) }
            #expect(error.description.contains(model.name))
        }
    }

    @Test func valuesOutOfRangeAreRefusedAndSayWhatIsAllowed() {
        for (command, allowed) in [
            (MeterCommand.selectGroup(-1), "0 to 9"), (.selectGroup(10), "0 to 9"),
            (.selectGroup(.max), "0 to 9"), (.backlight(-1), "0 to 5"), (.backlight(6), "0 to 5"),
            (.screenTimeout(10), "0 to 9"), (.screenTimeout(.min), "0 to 9"),
            (.recordingThreshold(Microamperes(310_000)), "0 to 30"),
            (.recordingThreshold(Microamperes(-10_000)), "0 to 30"),
            (.recordingThreshold(Microamperes(5_000)), "0 to 300 mA in steps of 10 mA"),
        ] {
            let error = MeterCommandError.outOfRange(command, allowed: allowed)
            #expect(throws: error) { try command.encoded(for: .um34c, over: .bluetooth) }
            #expect(error.description.contains(allowed))
        }
    }
}
