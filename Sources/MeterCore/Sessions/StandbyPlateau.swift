/// Notices that a device is full though it never falls below the stop current: it settles at a low
/// and constant current, while the taper of a charge keeps falling.
struct StandbyPlateau: Sendable {
    /// Of ten recorded charges the one device like that stays within 1 % for 40 minutes at 14 % of
    /// its peak, while no taper stays within 8 % for even ten minutes.
    private static let minutes = 20
    private static let highest = Microamperes(150_000)
    private static let bandPerCent: Int64 = 8
    private static let sharePerCent: Int64 = 25

    private struct Point {
        var current: Microamperes
        var run: SessionRun
    }

    private var minute: [Point] = []
    private var minuteBefore: [Point] = []
    private var peak = Microamperes.zero
    private var count = 0
    private var lowest = Microamperes.zero
    private var top = Microamperes.zero
    private var entry: SessionRun?

    /// Takes a reading of a running session together with its sums so far.
    /// - Returns: the session as it was when the plateau began, once it has lasted.
    mutating func add(_ current: Microamperes, _ run: SessionRun) -> SessionRun? {
        if let first = minute.first, run.last.monotonic - first.run.last.monotonic >= .seconds(60) {
            close()
        }
        // one point a second is enough, however fast the meter is polled
        if minute.last.map({ run.last.monotonic - $0.run.last.monotonic >= .seconds(1) }) ?? true {
            minute.append(Point(current: current, run: run))
        }
        return count >= Self.minutes ? entry : nil
    }

    private mutating func close() {
        defer { (minuteBefore, minute) = (minute, []) }
        let sorted = minute.map(\.current).sorted()
        let median = sorted[sorted.count / 2]
        peak = max(peak, median)
        guard median <= Self.highest, median.rawValue * 100 <= peak.rawValue * Self.sharePerCent
        else {
            count = 0
            entry = nil
            return
        }
        let newLowest = count == 0 ? median : min(lowest, median)
        let newTop = count == 0 ? median : max(top, median)
        if (newTop - newLowest).rawValue * 100 <= newTop.rawValue * Self.bandPerCent, count > 0 {
            (lowest, top, count) = (newLowest, newTop, count + 1)
        } else {
            (lowest, top, count) = (median, median, 1)
            // it began after the last point that is not on the level
            let points = minuteBefore + minute
            let off = points.lastIndex { point in
                abs((point.current - median).rawValue) * 100
                    > median.rawValue * Self.bandPerCent
            }
            entry = points[min((off ?? -1) + 1, points.count - 1)].run
        }
    }
}
