import Glibc

/// An open file descriptor with one owner, who ends it by `close` or `release`. Dropping it open
/// traps, so that a leak shows in the first test that runs over it.
package struct OwnedDescriptor: ~Copyable, Sendable {
    package let number: Int32

    package init(adopting number: Int32) {
        precondition(number >= 0, "not a descriptor")
        self.number = number
    }

    /// Wraps `close(2)`. Linux frees the number whatever it returns, so an error changes nothing.
    package consuming func close() {
        let result = Glibc.close(number)
        precondition(result == 0 || errno != EBADF, "a descriptor was closed twice")
        discard self
    }

    /// Hands the number over: the caller closes it.
    package consuming func release() -> Int32 {
        let number = number
        discard self
        return number
    }

    // Reached only by a value that neither ended; the number of those is never negative.
    deinit { precondition(number < 0, "a descriptor was dropped open") }
}
