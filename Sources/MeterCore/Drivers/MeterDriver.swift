/// Turns the bytes of one link into frames that can be believed.
///
/// One request is outstanding at a time: `request()` gives the bytes to send, `receive` takes what
/// comes back, and `giveUp()` is said when nothing more is expected.
package struct MeterDriver: Sendable {
    /// What a batch of bytes led to.
    package enum Outcome: Sendable, Equatable {
        /// The answer is not whole yet.
        case incomplete
        /// A frame that is believed.
        case frame(MeterFrame)
        /// A whole answer that is not believed yet: ask again at once, it has been counted.
        case askAgain(reason: String)
    }

    /// Counts since the link was opened.
    package struct Statistics: Sendable, Equatable {
        package var accepted = 0
        /// Bytes that belonged to no good answer.
        package var strayBytes = 0
        /// Whole answers with a wrong check.
        package var badChecks = 0
        /// Answers with a right check whose values were not believed, and that no later answer bore
        /// out.
        package var heldBack = 0
        /// Requests without a whole answer.
        package var unanswered = 0
        /// Everything that was asked for and could not be used.
        package var rejected: Int { badChecks + heldBack }
        package init() {}
    }

    private enum Family: CaseIterable {
        case um, tc66
    }

    /// The model from the configuration; `nil` when the first frame is to tell.
    private let configured: MeterModel?
    private let dialect: CommandDialect
    private let unit: TemperatureUnit
    private var family: Family
    private var content = LinkContent.unknown
    /// The first bytes of a heart-rate measurement whose rest has not come.
    private var partial: [UInt8] = []
    private var scanner: FrameScanner
    private var gate = PlausibilityGate()
    private var counted = Statistics()
    private var everAnswered = false
    private var noticed: Set<String> = []
    private var pendingNotice: String?

    /// - Parameters:
    ///   - model: from the configuration; `nil` to ask for each family in turn until one answers.
    ///   - unit: what a TC66C's display is set to.
    package init(
        model: MeterModel?, dialect: CommandDialect,
        temperatureUnit unit: TemperatureUnit = .celsius
    ) {
        configured = model
        self.dialect = dialect
        self.unit = unit
        family = model == .tc66c ? .tc66 : .um
        scanner = Self.scanner(family, configured: model)
    }

    private static func scanner(_ family: Family, configured: MeterModel?) -> FrameScanner {
        switch family {
        case .tc66: FrameScanner(.tc66)
        case .um: FrameScanner(.um(configured: configured == .tc66c ? nil : configured))
        }
    }

    package var statistics: Statistics {
        var statistics = counted
        statistics.strayBytes += scanner.strayBytes
        statistics.badChecks += scanner.badChecks
        return statistics
    }

    /// Something that a person should know of this meter, once.
    package mutating func takeNotice() -> String? {
        defer { pendingNotice = nil }
        return pendingNotice
    }

    /// Starts over on a new link; the counts go on.
    /// - Parameter content: what the link says of the far end. Its services tell the family better
    ///   than the configuration does, which is told of in a notice.
    package mutating func linkOpened(_ content: LinkContent = .unknown) {
        self.content = content
        partial = []
        scanner.flush()
        gate.reset()
        switch content {
        case .um: become(.um)
        case .tc66: become(.tc66)
        case .unknown, .heartRate: break
        }
    }

    private mutating func become(_ next: Family) {
        if let configured, (configured == .tc66c) != (next == .tc66) {
            let found = next == .tc66 ? "a TC66C" : "the UM series"
            let disagreement =
                "set up as \(configured.name), but its services are those of \(found); correct the "
                + "model in the configuration"
            if noticed.insert(disagreement).inserted { pendingNotice = disagreement }
        }
        guard next != family else { return }
        counted = statistics
        family = next
        scanner = Self.scanner(next, configured: configured)
    }

    /// The bytes that ask for one frame; none where the far end sends by itself. What is left of an
    /// earlier answer is thrown away.
    package mutating func request() -> [UInt8] {
        guard content != .heartRate else { return [] }
        scanner.flush()
        switch family {
        case .um: return UMSeries.request
        case .tc66: return TC66.request(dialect)
        }
    }

    /// The request went unanswered. A meter of unknown model is asked in the other way next time;
    /// neither request means anything to the other family.
    package mutating func giveUp() {
        counted.unanswered += 1
        scanner.flush()
        guard configured == nil, !everAnswered, content == .unknown else { return }
        become(family == .um ? .tc66 : .um)
    }

    /// Takes bytes as they arrive, split anywhere. Of several whole answers in one batch the last is
    /// the one that was asked for.
    package mutating func receive(_ bytes: [UInt8], at now: MonotonicInstant) -> Outcome {
        if content == .heartRate { return takeHeartRate(bytes) }
        let badBefore = scanner.badChecks
        guard let answer = scanner.receive(bytes).last else {
            return scanner.badChecks > badBefore
                ? .askAgain(reason: "its check is wrong") : .incomplete
        }
        everAnswered = true
        switch family {
        case .tc66:
            let frame = TC66.decode(plain: TC66.decrypt(answer), unit: unit)
            guard TC66.canMeasure(frame) else {
                counted.heldBack += 1
                return .askAgain(reason: "its values are beyond what it can measure")
            }
            counted.accepted += 1
            return .frame(frame)
        case .um:
            return judge(answer, at: now)
        }
    }

    private mutating func takeHeartRate(_ bytes: [UInt8]) -> Outcome {
        partial += bytes
        let whole = partial.count / HeartRate.length * HeartRate.length
        guard whole > 0 else { return .incomplete }
        let frame = HeartRate.decode(partial[(whole - HeartRate.length)..<whole])
        partial.removeFirst(whole)
        everAnswered = true
        counted.accepted += 1
        return .frame(frame)
    }

    private mutating func judge(_ answer: [UInt8], at now: MonotonicInstant) -> Outcome {
        let resolution = UMResolution(
            of: answer, configured: configured == .tc66c ? nil : configured, shown: scanner.shown)
        guard !resolution.contradiction, let series = UMSeries.of(resolution.model) else {
            counted.heldBack += 1
            return .askAgain(reason: "volts times amperes is far from its power")
        }
        let frame = series.decode(answer)
        switch gate.judge(frame, at: now) {
        case .heldBack(let reason):
            counted.heldBack += 1
            return .askAgain(reason: reason)
        case .accepted(let confirming):
            counted.accepted += 1
            if confirming { counted.heldBack -= 1 }  // it was right after all
            if resolution.isShown { scanner.shown = frame.model }
            if let disagreement = resolution.disagreement,
                noticed.insert(disagreement).inserted
            {
                pendingNotice = disagreement
            }
            return .frame(frame)
        }
    }
}
