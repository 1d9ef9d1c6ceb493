import LinuxIO
import MeterCore

enum DecodeCommand: Command {
    static let syntax = CommandSyntax(
        name: "decode", summary: "Decodes one captured answer of a meter to JSON",
        operands: "MODEL [HEX|-]", operandCount: 1...2,
        options: [
            .init(
                "--temperature-unit", "UNIT",
                "what a TC66C's display is set to: celsius (default) or fahrenheit")
        ],
        notes: [
            "MODEL is \(MeterModel.list). The answer is 130 bytes for the UM series and 192 for\n"
                + "the TC66C, in hexadecimal; blanks and colons are ignored. Without HEX, or with -,\n"
                + "it is read from standard input.",
            "A frame whose check is wrong is printed with \"check\":\"bad\", and the exit code is 1.",
        ])

    static func run(_ arguments: Arguments) async throws -> Int32 {
        guard let model = MeterModel(name: arguments.operands[0]) else {
            throw Failure(
                "there is no meter model \"\(arguments.operands[0])\": known are \(MeterModel.list)",
                code: ExitCode.data)
        }
        guard
            let unit = TemperatureUnit(
                rawValue: arguments.value("--temperature-unit") ?? "celsius")
        else { throw UsageError("--temperature-unit is celsius or fahrenheit") }
        var text = arguments.operands.count > 1 ? arguments.operands[1] : "-"
        if text == "-" {
            text = ""
            try TextLines.forEach(in: "-") { text += $0 }
        }
        let bytes = try bytes(of: text)
        let captured: CapturedFrame
        do throws(CapturedFrame.Problem) {
            captured = try CapturedFrame(bytes, from: model, unit: unit)
        } catch {
            throw Failure("\(error)", code: ExitCode.data)
        }
        if !captured.remark.isEmpty { complain("usbmeter decode: \(captured.remark)") }
        try say(Payloads.frame(captured.frame, check: captured.check.rawValue))
        return captured.check == .ok ? ExitCode.success : ExitCode.failure
    }

    private static func bytes(of text: String) throws -> [UInt8] {
        let digits = text.filter { !$0.isWhitespace && $0 != ":" }
        guard !digits.isEmpty else {
            throw Failure("no bytes given: expected hexadecimal digits", code: ExitCode.data)
        }
        if let wrong = digits.first(where: { !$0.isASCII || !$0.isHexDigit }) {
            throw Failure("\"\(wrong)\" is no hexadecimal digit", code: ExitCode.data)
        }
        guard digits.count % 2 == 0 else {
            throw Failure(
                "\(digits.count) hexadecimal digits are an odd number: one is missing or too many",
                code: ExitCode.data)
        }
        let values = digits.compactMap { $0.hexDigitValue.map(UInt8.init) }
        return stride(from: 0, to: values.count, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }
}

extension MeterModel {
    /// All names, for messages: `um24c, um25c, um34c, tc66c`.
    static var list: String { allCases.map { $0.name.lowercased() }.joined(separator: ", ") }
}
