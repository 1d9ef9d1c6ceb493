import Dispatch

/// Runs an actor's jobs on a private serial queue, so that C calls which may block do not hold a
/// thread of the cooperative pool, which has no more of them than the machine has cores.
package final class QueueExecutor: SerialExecutor {
    private let queue: DispatchQueue

    package init(label: String) { queue = DispatchQueue(label: label) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    package func checkIsolated() { dispatchPrecondition(condition: .onQueue(queue)) }
}

/// Runs blocking calls one after the other on a queue of its own.
package actor BlockingWorker {
    private let executor: QueueExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    package init(label: String) { executor = QueueExecutor(label: label) }

    /// Runs `body`, which may block, and returns what it returns. Cancelling the task does not
    /// shorten it.
    package func run<Value: Sendable, Failure: Error>(
        _ body: @Sendable () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try body()
    }
}

/// Runs cleanup to its end although the task is cancelled, and waits for it. The only place that
/// starts an unstructured task.
package func withoutCancellation<Value: Sendable>(
    _ body: @Sendable @escaping () async -> Value
) async -> Value {
    await Task { await body() }.value
}
