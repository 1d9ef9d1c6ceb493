import FoundationEssentials
import Testing

@testable import Configuration

/// A file of the repository, by its path from the root.
func repositoryFile(_ path: String) throws -> String {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
    let url = URL(fileURLWithPath: (root + [Substring(path)]).joined(separator: "/"))
    return String(decoding: try Data(contentsOf: url), as: UTF8.self)
}

/// One serial meter, to be put behind a text that lists none.
let oneMeter = "meters: [{name: A, serial: /dev/ttyACM0}]\n"

/// The problems of a text in the form in which people see them.
func problems(in text: String) -> [String] {
    Configuration.parse(text: text, file: "m.yaml").problems.map(\.description)
}

/// What a text without problems says.
func values(of text: String, sourceLocation: SourceLocation = #_sourceLocation) throws
    -> GatewayConfiguration
{
    let loaded = Configuration.parse(text: text, file: "/etc/usbmeter/usbmeter.yaml")
    #expect(loaded.problems == [], sourceLocation: sourceLocation)
    return try #require(loaded.values, sourceLocation: sourceLocation)
}
