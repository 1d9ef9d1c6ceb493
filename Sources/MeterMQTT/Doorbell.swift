import Glibc
import MeterCore

/// Calls a thread out of a pause.
///
/// Not a semaphore of Dispatch: on Linux those count their time-outs by the wall clock, which on
/// boards without a clock battery is set after the start, by any amount in either direction.
// Sendable, since both C objects are made for use by several threads and stay at one address, and
// since `isRung` is only touched with the mutex held.
final class Doorbell: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var isRung = false

    init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        defer { pthread_condattr_destroy(&attributes) }
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Ends the pause that runs, and all later ones.
    func ring() {
        pthread_mutex_lock(mutex)
        isRung = true
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    /// Blocks the thread for so long, or until the bell rings.
    func pause(for duration: Duration) {
        var deadline = timespec()
        clock_gettime(CLOCK_MONOTONIC, &deadline)
        let end =
            Int64(deadline.tv_sec) * 1_000_000_000 + Int64(deadline.tv_nsec)
            + duration.nanoseconds
        deadline = timespec(tv_sec: Int(end / 1_000_000_000), tv_nsec: Int(end % 1_000_000_000))

        pthread_mutex_lock(mutex)
        while !isRung, pthread_cond_timedwait(condition, mutex, &deadline) != ETIMEDOUT {}
        pthread_mutex_unlock(mutex)
    }
}
