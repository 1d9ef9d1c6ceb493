/// Decodes one captured answer, without the rules that need a stream.
package struct CapturedFrame: Sendable {
    package enum Check: String, Sendable {
        case ok, bad
    }
    package enum Problem: Error, Equatable, CustomStringConvertible {
        case wrongLength(actual: Int, expected: Int)
        package var description: String {
            switch self {
            case .wrongLength(let actual, let expected):
                "the frame has \(actual) bytes, an answer of this meter has \(expected)"
            }
        }
    }

    package let frame: MeterFrame
    package let check: Check
    /// What is odd about it, a sentence; empty when nothing is.
    package let remark: String

    /// - Parameter bytes: the answer as it came over the wire; a TC66C's may be decrypted already.
    /// - Throws: `Problem` when it is not a whole answer.
    package init(
        _ bytes: [UInt8], from model: MeterModel, unit: TemperatureUnit = .celsius
    ) throws(Problem) {
        guard let series = UMSeries.of(model) else {
            guard bytes.count == TC66.length else {
                throw .wrongLength(actual: bytes.count, expected: TC66.length)
            }
            let plain = bytes.starts(with: "pac1".utf8) ? bytes : TC66.decrypt(bytes)
            frame = TC66.decode(plain: plain, unit: unit)
            check = TC66.checks(plain: plain) ? .ok : .bad
            remark = ""
            return
        }
        guard bytes.count == UMSeries.length else {
            throw .wrongLength(actual: bytes.count, expected: UMSeries.length)
        }
        let resolved = UMResolution(of: bytes, configured: model, shown: nil)
        frame = (UMSeries.of(resolved.model) ?? series).decode(bytes)
        check = resolved.checks ? .ok : .bad
        remark = resolved.disagreement ?? ""
    }
}

/// Which model's scale a UM frame is read with, and whether its check holds.
struct UMResolution {
    let model: MeterModel
    let checks: Bool
    /// The frame itself leaves only this scale.
    let isShown: Bool
    /// No scale makes V·I agree with the power.
    let contradiction: Bool
    /// A sentence when frame, id and configuration do not agree.
    let disagreement: String?

    /// The frame is the judge, then what earlier frames have shown, the id, and the configuration.
    /// - Parameter shown: the model whose scale an earlier frame left as the only one.
    init(of bytes: [UInt8], configured: MeterModel?, shown: MeterModel?) {
        let identified = UMSeries.withID(in: bytes)?.model
        let judgement = UMSeries.judgeScale(of: bytes)
        let believed = configured ?? identified ?? .um34c
        contradiction = judgement == .contradiction
        isShown = judgement != .undecided && judgement != .contradiction
        switch judgement {
        case .frame(let fitting):
            // Keep the believed model where its scale is the fitting one: UM24C and UM34C share it.
            model =
                [configured, identified, shown].compactMap(\.self).first { candidate in
                    UMSeries.of(candidate)?.voltageStep == UMSeries.of(fitting)?.voltageStep
                } ?? fitting
        case .undecided, .contradiction:
            model = shown ?? identified ?? believed
        }
        checks =
            Set([model, configured, identified, shown].compactMap(\.self))
            .contains { UMSeries.of($0)?.checks(bytes) ?? false }
        if let configured, configured != model {
            disagreement =
                "set up as \(configured.name), but its values have the scale of a \(model.name), "
                + "which is used; correct the model in the configuration"
        } else if let identified, identified != model {
            disagreement =
                "it calls itself \(identified.name), but is read as \(model.name), whose scale "
                + "its values have"
        } else {
            disagreement = nil
        }
    }
}
