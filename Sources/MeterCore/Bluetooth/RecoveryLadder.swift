/// What to do about a wedged adapter, from the gentlest means to the hardest. Steps are a minute
/// apart, then two, and so on to half an hour; none is repeated within an hour.
package struct RecoveryLadder: Sendable {
    package enum Step: Int, Sendable, CaseIterable {
        /// Stop scanning and drop the attempt under way.
        case calm
        /// Lift a block by software (rfkill).
        case unblock
        /// Off, two seconds, on, by the management interface.
        case powerCycle
        /// Down and up by the older interface: for an adapter on which management is mute.
        case bounce
        /// Have the USB port set the device up anew.
        case resetUSB
        /// Nothing is left: a person has to cut its power.
        case giveUp
    }
    /// What can be done here and now.
    package struct Means: Sendable {
        /// The kernel answers management requests for the adapter.
        package var managementAnswers: Bool
        /// Blocked by software, and ours to unblock.
        package var isBlocked: Bool
        /// Power and reset are ours to use: nobody else runs this adapter, or it was allowed.
        package var mayIntervene: Bool
        package var mayResetUSB: Bool

        package init(
            managementAnswers: Bool, isBlocked: Bool, mayIntervene: Bool, mayResetUSB: Bool
        ) {
            self.managementAnswers = managementAnswers
            self.isBlocked = isBlocked
            self.mayIntervene = mayIntervene
            self.mayResetUSB = mayResetUSB
        }
    }
    private static let shortestWait: Duration = .seconds(60)
    private static let longestWait: Duration = .seconds(1800)
    private static let rests: Duration = .seconds(3600)

    private var used: [Step: MonotonicInstant] = [:]
    private var wait = shortestWait
    /// No step is taken before this.
    package private(set) var notBefore: MonotonicInstant?
    /// The step that was taken last, until the adapter has proved itself.
    package private(set) var last: Step?
    /// Steps taken since the start, but for giving up.
    package private(set) var taken = 0

    package init() {}

    /// Whether all means have failed.
    package var hasGivenUp: Bool { last == .giveUp }

    /// The next step to take now; `nil` while the last one is given time.
    package mutating func climb(at now: MonotonicInstant, with means: Means) -> Step? {
        if let notBefore, now < notBefore { return nil }
        let start = (last?.rawValue).map { $0 + 1 } ?? 0
        let steps = Step.allCases.filter {
            $0.rawValue >= start && isPossible($0, means) && hasRested($0, at: now)
        }
        // After the last step all begins anew, as far as the hour has passed.
        let step = steps.first ?? .giveUp
        used[step] = now
        last = step
        if step == .giveUp {
            wait = Self.longestWait
        } else {
            taken += 1
        }
        notBefore = now + wait
        wait = min(wait * 2, Self.longestWait)
        return step
    }

    private func isPossible(_ step: Step, _ means: Means) -> Bool {
        switch step {
        case .calm: means.managementAnswers
        case .unblock: means.isBlocked && means.mayIntervene
        case .powerCycle: means.managementAnswers && means.mayIntervene
        case .bounce: !means.managementAnswers && means.mayIntervene
        case .resetUSB: means.mayResetUSB && means.mayIntervene
        case .giveUp: true
        }
    }

    private func hasRested(_ step: Step, at now: MonotonicInstant) -> Bool {
        guard let time = used[step] else { return true }
        return step == .giveUp || now - time >= Self.rests
    }

    /// After giving up: begins at the foot again, once an hour has passed since.
    package mutating func resume(at now: MonotonicInstant) {
        guard let time = used[.giveUp], now - time >= Self.rests else { return }
        last = nil
        wait = Self.shortestWait
    }

    /// The adapter works: heard a device or made a connection.
    package mutating func proven() {
        last = nil
        notBefore = nil
        wait = Self.shortestWait
    }
}
