/// A control command. The meters acknowledge none of them: the next frame shows the effect, and
/// commands that follow each other in less than 0.5 s may be dropped (rdserialtool).
package enum MeterCommand: Hashable, Sendable {
    case nextScreen, previousScreen, rotateScreen
    /// Selects the next data group (UM24C, which has no other way).
    case nextGroup
    /// 0 to 9.
    case selectGroup(Int)
    /// Clears both counters of the selected group.
    case clearGroup
    /// The current above which the recording store counts: 0 to 300 mA in steps of 10 mA.
    case recordingThreshold(Microamperes)
    /// 0 (dim) to 5.
    case backlight(Int)
    /// Minutes, 0 (never) to 9.
    case screenTimeout(Int)
}

package enum MeterCommandError: Error, Equatable, CustomStringConvertible {
    /// This model has no such command.
    case unsupported(MeterModel, MeterCommand)
    /// The command exists, the value does not.
    case outOfRange(MeterCommand, allowed: String)

    package var description: String {
        switch self {
        case .unsupported(let model, let command): "a \(model.name) has no command for \(command)"
        case .outOfRange(let command, let allowed): "\(command): allowed is \(allowed)"
        }
    }
}

extension MeterCommand {
    /// The bytes that carry out this command on a meter.
    /// - Throws: `MeterCommandError` when the model lacks it or the value is out of its range.
    package func encoded(
        for model: MeterModel, over dialect: CommandDialect
    ) throws(MeterCommandError) -> [UInt8] {
        guard model != .tc66c else {
            switch self {
            case .nextScreen: return TC66.command("nextp", dialect)
            case .previousScreen: return TC66.command("lastp", dialect)
            case .rotateScreen: return TC66.command("rotat", dialect)
            default: throw .unsupported(model, self)
            }
        }
        switch self {
        case .nextScreen: return [0xf1]
        case .rotateScreen: return [0xf2]
        // the same byte: next group on a UM24C, previous screen on its sisters
        case .nextGroup where model == .um24c: return [0xf3]
        case .previousScreen where model != .um24c: return [0xf3]
        case .clearGroup: return [0xf4]
        case .selectGroup(let group) where model != .um24c:
            return try byte(0xa0, plus: group, in: 0...9)
        case .recordingThreshold(let threshold):
            guard threshold.rawValue % 10_000 == 0 else {
                throw .outOfRange(self, allowed: "0 to 300 mA in steps of 10 mA")
            }
            return try byte(0xb0, plus: Int(threshold.rawValue / 10_000), in: 0...30)
        case .backlight(let level): return try byte(0xd0, plus: level, in: 0...5)
        case .screenTimeout(let minutes): return try byte(0xe0, plus: minutes, in: 0...9)
        case .nextGroup, .previousScreen, .selectGroup: throw .unsupported(model, self)
        }
    }

    private func byte(
        _ base: UInt8, plus value: Int, in range: ClosedRange<Int>
    ) throws(MeterCommandError) -> [UInt8] {
        guard range.contains(value) else {
            throw .outOfRange(self, allowed: "\(range.lowerBound) to \(range.upperBound)")
        }
        return [base + UInt8(value)]
    }
}
