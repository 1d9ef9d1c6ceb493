import Testing

@testable import Configuration

/// The example and the reference say what the program does.
@Suite struct ExampleTests {
    private func example() throws -> String { try repositoryFile("etc/usbmeter.yaml") }

    /// The example with the keys switched on that are commented out.
    private func fullExample() throws -> String {
        try example().split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let text = line.drop { $0 == " " }
            guard text.first == "#", text.dropFirst().first?.isLetter == true else {
                return String(line)
            }
            return String(line.prefix(line.count - text.count)) + String(text.dropFirst())
        }.joined(separator: "\n")
    }

    @Test func theExampleHasNoProblemsAndSaysTheDefaults() throws {
        var loaded = try values(of: try example())
        #expect(loaded.meters.count == 1)
        #expect(loaded.meters.first?.pollInterval == .seconds(1))
        #expect(loaded.meters.first?.temperatureUnit == .celsius)
        #expect(loaded.meters.first?.sessions == GatewayConfiguration.Sessions())
        loaded.meters = []
        var expected = GatewayConfiguration()
        expected.mqtt = GatewayConfiguration.MQTT()
        #expect(loaded == expected)
    }

    @Test func whatTheExampleHasSwitchedOffIsValidToo() throws {
        let text = try fullExample()
        let loaded = Configuration.parse(text: text, file: "/etc/usbmeter/usbmeter.yaml")
        // TLS files with a URL without TLS, and what is for Bluetooth beside a serial device, are all
        // that may be remarked.
        for problem in loaded.problems {
            #expect(problem.severity == .warning)
            #expect(
                problem.message.contains("has no effect without TLS")
                    || problem.message.contains("has no effect on a meter with a serial device"))
        }
        let sessions = try #require(loaded.values?.meters.first?.sessions)
        #expect(sessions == GatewayConfiguration.Sessions())
    }

    @Test func everyKeyIsInTheExampleWithItsDefaultAsWritten() throws {
        var report = ProblemReport(file: "example")
        let root = try #require(
            YAMLReader.read(Array(try fullExample().utf8), into: &report))
        #expect(report.problems == [])
        let written = paths(in: root)
        for key in Configuration.keys {
            #expect(written.keys.contains(key.path), "\(key.path) is not in the example")
            if let preset = key.preset { #expect(written[key.path] == preset, "\(key.path)") }
        }
        #expect(written.count == Configuration.keys.count)
    }

    @Test func everyKeyHasARowInTheReference() throws {
        let lines = try repositoryFile("docs/configuration.md").split(separator: "\n")
        for key in Configuration.keys {
            let preset = key.preset.map { "`\($0)`" } ?? ""
            let row = "| `\(key.path)` | \(preset) | \(key.accepts) | \(key.summary) |"
                .split(separator: " ").joined(separator: " ")
            #expect(
                lines.contains { $0.split(separator: " ").joined(separator: " ") == row },
                "docs/configuration.md lacks the line: \(row)")
        }
        #expect(lines.count { $0.hasPrefix("| `") } == Configuration.keys.count)
    }

    @Test func keysAreDescribedInOneSentence() {
        for key in Configuration.keys {
            #expect(key.summary.hasSuffix("."), "\(key.path)")
            #expect(
                key.summary.first?.isUppercase == true || key.summary.first == "`", "\(key.path)")
            #expect(!key.summary.contains("|"), "\(key.path)")
        }
        #expect(Set(Configuration.keys.map(\.path)).count == Configuration.keys.count)
    }

    /// All key paths of a tree with their values as text.
    private func paths(in node: YAMLNode, at path: String = "") -> [String: String?] {
        var result: [String: String?] = [:]
        switch node.content {
        case .mapping(let entries):
            for entry in entries {
                let below = path.isEmpty ? entry.key : "\(path).\(entry.key)"
                if case .scalar(let text) = entry.value.content {
                    result.updateValue(text, forKey: below)
                } else {
                    result.updateValue(nil, forKey: below)
                    result.merge(paths(in: entry.value, at: below)) { $1 }
                }
            }
        case .sequence(let items):
            for item in items { result.merge(paths(in: item, at: path + "[]")) { $1 } }
        default:
            break
        }
        return result
    }
}
