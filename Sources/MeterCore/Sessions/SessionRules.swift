/// When a session starts and ends (C4).
package struct SessionRules: Sendable, Hashable, Codable {
    /// A session starts when the current is at or above this …
    package var startCurrent: Microamperes
    /// … for this long.
    package var startDelay: Duration
    /// It ends when the current is below this …
    package var stopCurrent: Microamperes
    /// … for this long; the end is the moment at which it fell.
    package var endDelay: Duration
    /// It also ends when nothing is heard of the meter for longer than this.
    package var gapLimit: Duration

    package init(
        startCurrent: Microamperes = Microamperes(50_000), startDelay: Duration = .seconds(3),
        stopCurrent: Microamperes = Microamperes(20_000), endDelay: Duration = .seconds(120),
        gapLimit: Duration = .seconds(600)
    ) {
        self.startCurrent = startCurrent
        self.startDelay = startDelay
        self.stopCurrent = stopCurrent
        self.endDelay = endDelay
        self.gapLimit = gapLimit
    }
}
