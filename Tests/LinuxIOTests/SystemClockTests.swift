import FoundationEssentials
import LinuxIO
import Testing

@Suite struct SystemClockTests {
    @Test func theMonotonicClockRises() {
        var last = SystemClock.monotonicNanoseconds()
        for _ in 0..<1000 {
            let next = SystemClock.monotonicNanoseconds()
            #expect(next >= last)
            last = next
        }
    }

    @Test func theMonotonicClockCountsFromBoot() throws {
        let uptime = try text(of: "/proc/uptime").split(separator: " ")[0]
        let seconds = try #require(Double(uptime))
        let now = Double(SystemClock.monotonicNanoseconds()) / 1e9
        #expect(now >= seconds - 0.02)
        #expect(now < seconds + 60)
    }

    @Test func theWallClockIsInMilliseconds() {
        let now = Date().timeIntervalSince1970 * 1000
        let read = Double(SystemClock.realtimeMilliseconds())
        #expect(abs(read - now) < 60_000)
    }
}
