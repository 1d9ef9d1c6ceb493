import Testing

@testable import usbmeter

struct ArgumentsTests {
    private static let syntax = CommandSyntax(
        name: "try", summary: "Tries", operands: "FILE [MORE]", operandCount: 1...2,
        options: [
            .init("--config", "FILE", "a file"), .init("--json", nil, "print JSON"),
            .init("--fault", "SPEC", "a fault", repeatable: true),
            .init("--count", "N", "how many"),
        ])

    private func arguments(_ words: String...) throws(UsageError) -> Arguments {
        try Arguments(words, Self.syntax)
    }

    private func complaint(_ words: String...) -> String? {
        do {
            _ = try Arguments(words, Self.syntax)
            return nil
        } catch {
            return error.message
        }
    }

    @Test func optionsAndOperandsComeInAnyOrder() throws {
        let found = try arguments("a", "--config", "x", "b", "--json")
        #expect(found.operands == ["a", "b"])
        #expect(found.value("--config") == "x")
        #expect(found.has("--json"))
        #expect(!found.has("--fault"))
    }

    @Test func aValueMayFollowAnEqualsSign() throws {
        #expect(try arguments("a", "--config=x=y").value("--config") == "x=y")
    }

    @Test func someOptionsMayBeGivenMoreThanOnce() throws {
        let found = try arguments("a", "--fault", "one", "--fault=two")
        #expect(found.all("--fault") == ["one", "two"])
        #expect(complaint("a", "--config", "x", "--config", "y") == "--config is given twice")
    }

    @Test func aValueThatIsMissingIsNotTakenFromTheNextOption() {
        #expect(complaint("a", "--config") == "--config needs a value: --config FILE")
        #expect(complaint("a", "--config", "--json") == "--config needs a value: --config FILE")
        #expect(complaint("--config=", "a") == "--config needs a value: --config FILE")
        #expect(complaint("a", "--json=1") == "--json takes no value")
    }

    @Test func twoHyphensEndTheOptionsAndOneIsStandardInput() throws {
        #expect(try arguments("--", "--json").operands == ["--json"])
        #expect(try arguments("-").operands == ["-"])
        #expect(try arguments("a", "--config", "-").value("--config") == "-")
    }

    @Test func anUnknownOptionGetsASuggestionWhereOneIsNear() {
        #expect(complaint("a", "--jsno") == "unknown option --jsno; did you mean --json?")
        #expect(complaint("a", "--verbose") == "unknown option --verbose")
        #expect(complaint("a", "-x") == "unknown option -x")
    }

    @Test func tooFewAndTooManyWordsAreNamed() {
        #expect(complaint() == "missing FILE [MORE]")
        #expect(complaint("a", "b", "c") == "\"c\" is one word too many: expected FILE [MORE]")
    }

    @Test func helpWinsOverWhatIsMissing() throws {
        #expect(try arguments("--help").asksForHelp)
        #expect(try arguments("--json", "-h").asksForHelp)
    }

    @Test func numbersAreHeldAgainstTheirRange() throws {
        #expect(try arguments("a").integer("--count", in: 1...9, default: 4) == 4)
        #expect(try arguments("a", "--count", "9").integer("--count", in: 1...9, default: 4) == 9)
        for wrong in ["0", "10", "two", "1.5", "99999999999999999999"] {
            let found = try arguments("a", "--count", wrong)
            #expect(throws: UsageError.self) {
                try found.integer("--count", in: 1...9, default: 4)
            }
        }
    }

    @Test func timesHaveUnitsAndAreMoreThanNothing() throws {
        #expect(try arguments("a").duration("--count", default: .seconds(7)) == .seconds(7))
        for (text, duration) in [
            ("90", Duration.seconds(90)), ("90 s", .seconds(90)), ("2min", .seconds(120)),
            ("250 ms", .milliseconds(250)),
        ] {
            let found = try arguments("a", "--count", text)
            #expect(try found.duration("--count", default: .zero) == duration)
        }
        for wrong in ["0", "0 s", "soon", "5 kg"] {
            let found = try arguments("a", "--count", wrong)
            #expect(throws: UsageError.self) { try found.duration("--count", default: .zero) }
        }
    }
}

struct CommandTests {
    @Test func everyCommandExplainsItself() {
        #expect(Set(Program.commands.map { $0.syntax.name }).count == Program.commands.count)
        for command in Program.commands {
            let syntax = command.syntax
            #expect(syntax.help.hasPrefix("usage: usbmeter \(syntax.name)"))
            #expect(syntax.help.contains(syntax.summary))
            for option in syntax.options {
                #expect(option.name.hasPrefix("--"))
                #expect(syntax.help.contains("  \(option.name)"))
                #expect(!option.help.isEmpty)
            }
            #expect(syntax.help.contains("--help"))
            for line in syntax.help.split(separator: "\n") {
                #expect(line.count <= 110, "\(line)")
            }
        }
    }
}
