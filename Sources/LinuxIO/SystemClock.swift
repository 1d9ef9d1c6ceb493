import CLinux
import Glibc

/// The kernel's clocks.
package enum SystemClock {
    /// Nanoseconds since boot, time asleep included: `CLOCK_BOOTTIME` of `clock_gettime(2)`. Never
    /// set, never steps.
    package static func monotonicNanoseconds() -> Int64 {
        let time = read(CLOCK_BOOTTIME)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// Milliseconds since 1970 UTC: `CLOCK_REALTIME`. Wrong, and stepped later, on a board without
    /// clock battery that has not reached a time server.
    package static func realtimeMilliseconds() -> Int64 {
        let time = read(CLOCK_REALTIME)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Whether a time service has set the clock and keeps it: the kernel's own record, read by
    /// `adjtimex(2)`. It says `STA_UNSYNC` from boot on until systemd-timesyncd, chrony or ntpd
    /// clears it, and again when its error estimate, which grows by 500 ppm, passes 16 s: about
    /// nine hours after the service was last heard.
    package static func isSynchronised() -> Bool {
        var state = timex()
        let clock = adjtimex(&state)
        return clock >= 0 && clock != TIME_ERROR && state.status & STA_UNSYNC == 0
    }

    private static func read(_ clock: clockid_t) -> timespec {
        var time = timespec()
        let result = clock_gettime(clock, &time)
        precondition(result == 0, "the kernel lacks a clock")
        return time
    }
}
