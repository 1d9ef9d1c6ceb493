import FoundationEssentials

/// Reads the configuration file (F2).
package enum Configuration {
    /// Reads and checks a file. Everything that is wrong with it is in the answer, also that it
    /// cannot be read. The files that it names are not opened.
    package static func load(path: String) -> LoadedConfiguration {
        var report = ProblemReport(file: path)
        switch contents(of: path) {
        case .success(let bytes):
            return parse(bytes: bytes, file: path)
        case .failure(let complaint):
            report.error(nil, complaint)
            return LoadedConfiguration(values: nil, problems: report.inOrder)
        }
    }

    /// Checks a text. `file` names it in problems, and relative paths start at its folder; it need
    /// not exist.
    package static func parse(text: String, file: String) -> LoadedConfiguration {
        parse(bytes: Array(text.utf8), file: file)
    }

    static func parse(bytes: [UInt8], file: String) -> LoadedConfiguration {
        var report = ProblemReport(file: file)
        guard let root = YAMLReader.read(bytes, into: &report) else {
            return LoadedConfiguration(values: nil, problems: report.inOrder)
        }
        var reading = SchemaReading(
            folder: file.lastIndex(of: "/").map { String(file[...$0]) } ?? "",
            paths: keys.map(\.path), report: report)
        var values = GatewayConfiguration()
        if case .mapping = root.content {
            let fields = reading.fields(
                of: root, named: "", into: &values, GatewayConfiguration.keys)
            if let fields, fields.isSound("meters"), values.meters.isEmpty {
                reading.report.warning(
                    fields["meters"] ?? root.mark,
                    values.bluetooth.adopt == .automatic
                        ? "no meters are listed, so only those that Bluetooth finds are measured"
                        : "no meters are listed, so nothing is measured",
                    advice: "add them to \"meters\"")
            }
        } else if root.content != .refused {
            reading.report.error(
                root.mark, "keys are expected, not \(root.kind)",
                advice: "write key: value, with a blank after the colon")
        }
        return LoadedConfiguration(
            values: reading.report.hasErrors ? nil : values, problems: reading.report.inOrder,
            referencedFiles: reading.files)
    }

    /// Every key there is, groups before the keys in them.
    package static var keys: [ConfigurationKey] {
        GatewayConfiguration.keys.flatMap { $0.described(for: GatewayConfiguration()) }
    }

    private static func contents(of path: String) -> Result<[UInt8], Complaint> {
        do {
            let target = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
            let attributes = try FileManager.default.attributesOfItem(atPath: target)
            switch attributes[.type] as? FileAttributeType {
            case .typeDirectory?:
                return .failure(
                    Complaint("a folder, not a file", advice: "name the file in it"))
            case .typeCharacterSpecial?, .typeBlockSpecial?, .typeSocket?:
                return .failure(
                    Complaint("a device, not a file", advice: "name the configuration file"))
            default:
                break
            }
            // A larger file is refused when it is parsed; one that fills the memory must not get
            // that far.
            if let size = attributes[.size] as? any BinaryInteger,
                Int(clamping: size) > YAMLReader.largest
            {
                return .failure(YAMLReader.tooLarge)
            }
            return .success([UInt8](try Data(contentsOf: URL(fileURLWithPath: path))))
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            return .failure(
                Complaint(
                    "no such file", advice: "docs/configuration.md tells how to write one"))
        } catch let error as CocoaError where error.code == .fileReadNoPermission {
            return .failure(
                Complaint(
                    "no permission to read it", advice: "let the agent's user read it"))
        } catch {
            return .failure(Complaint("cannot be read: \(error)"))
        }
    }
}

/// A configuration, and what is to be said about it.
package struct LoadedConfiguration: Sendable, Equatable {
    /// `nil` if there was any error.
    package var values: GatewayConfiguration?
    /// Errors and warnings in the order of the file.
    package var problems: [ConfigurationProblem]
    /// The files besides this one that the agent will read. Whether they can be read is for the
    /// caller to find out.
    package var referencedFiles: [ReferencedFile] = []
}

/// A file that the configuration names.
package struct ReferencedFile: Sendable, Equatable {
    /// The key that names it, e.g. `password_file`.
    package var key: String
    /// As it is to be opened.
    package var path: String
    private let file: String
    private let line: Int
    private let column: Int

    init(key: String, path: String, file: String, line: Int, column: Int) {
        self.key = key
        self.path = path
        self.file = file
        self.line = line
        self.column = column
    }

    /// An error at the place where the file is named.
    package func problem(_ message: String, advice: String = "") -> ConfigurationProblem {
        ConfigurationProblem(
            .error, file: file, line: line, column: column, "\(key): \(message)", advice: advice)
    }
}
