import MeterCore
import Testing

@testable import Gateway

struct OutageTests {
    private func at(_ seconds: Int64) -> MonotonicInstant {
        MonotonicInstant(nanoseconds: seconds * 1_000_000_000)
    }

    @Test func theWaysInWhichALossShowsItselfAreOneLine() {
        var outage = Outage()
        #expect(outage.failed("unplugged", at: at(0)) == "unplugged")
        #expect(outage.failed("not there", at: at(1)) == nil)
        #expect(outage.failed("unplugged", at: at(3)) == nil)
        #expect(outage.ended(at: at(21)) == "back after 21 s and 3 failures")
        #expect(outage.ended(at: at(22)) == nil)
        #expect(outage.failed("unplugged", at: at(30)) == "unplugged")
    }

    @Test func eachFurtherCauseOfALongLossIsOneLine() {
        var outage = Outage()
        #expect(outage.failed("closed", at: at(0)) == "closed")
        #expect(outage.failed("refused", at: at(59)) == nil)
        #expect(outage.failed("closed", at: at(60)) == nil)
        #expect(outage.failed("refused", at: at(61)) == "refused")
        for second in 62..<1_000 {
            #expect(
                outage.failed(second % 2 == 0 ? "closed" : "refused", at: at(Int64(second))) == nil)
        }
    }

    @Test func reasonsOfTheSameCauseAreToldOnce() {
        var outage = Outage()
        #expect(outage.failed("unplugged", cause: "absent", at: at(0)) == "unplugged")
        #expect(outage.failed("not there", cause: "absent", at: at(36_000)) == nil)
        #expect(
            outage.failed("not allowed", cause: "permission", at: at(36_001)) == "not allowed")
    }
}
