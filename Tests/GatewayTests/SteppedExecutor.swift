import Dispatch
import Synchronization

/// Runs the jobs of a gateway under test only when told to, all of them until none is left. So a
/// test knows when everything that a moment sets off has happened, and turns the clock on without
/// waiting for real time.
///
/// The gateway's tasks and default actors use it by preference; only the store has its own.
final class SteppedExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])
    private let thread = DispatchQueue(label: "gateway under test")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
    }

    var isIdle: Bool { jobs.withLock { $0.isEmpty } }

    /// Runs what waits and what that sets off.
    func runAll() async {
        await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
            thread.async {
                self.drain()
                waiter.resume()
            }
        }
    }

    private func drain() {
        while true {
            let batch = jobs.withLock { jobs in
                defer { jobs.removeAll(keepingCapacity: true) }
                return jobs
            }
            if batch.isEmpty { return }
            for job in batch { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
    }
}
