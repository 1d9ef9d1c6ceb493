import Glibc
import LinuxIO
import Testing

@Suite struct ErrnoTests {
    @Test func aCodeIsShownByNameAndText() {
        #expect(Errno(ENOENT).description == "ENOENT: No such file or directory")
        #expect(Errno(EBUSY).description == "EBUSY: Device or resource busy")
        #expect(Errno(99_999).description == "error 99999")
    }

    @Test func anInterruptedCallIsMadeAgain() throws {
        var calls = 0
        let value: Int32 = try systemCall {
            calls += 1
            errno = EINTR
            return calls < 3 ? -1 : 7
        }
        #expect(value == 7)
        #expect(calls == 3)
    }

    @Test func aFailedCallThrowsItsCode() {
        #expect(throws: Errno(ENOENT)) {
            try systemCall { open("/nowhere/at/all", O_RDONLY) }
        }
    }

    @Test func anErrorForPeopleHasItsCauseAndAdvice() {
        let error = SystemError("cannot start mosquitto", Errno(ENOENT), advice: "install it")
        #expect(
            error.description
                == "cannot start mosquitto: ENOENT: No such file or directory: install it")
    }
}
