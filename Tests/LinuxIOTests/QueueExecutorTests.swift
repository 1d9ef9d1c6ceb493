import Dispatch
import LinuxIO
import Testing

@Suite(.timeLimit(.minutes(2))) struct QueueExecutorTests {
    private actor Counter {
        private let executor = QueueExecutor(label: "counter")
        nonisolated var unownedExecutor: UnownedSerialExecutor {
            executor.asUnownedSerialExecutor()
        }
        private var count = 0
        func countUp() -> Int {
            count += 1
            return count
        }
        /// Traps when the executor does not know its own queue.
        func countUpUnasked() -> Int {
            preconditionIsolated()
            return assumeIsolated { $0.countUp() }
        }
    }

    @Test func jobsRunOneAtATime() async {
        let counter = Counter()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<1000 { group.addTask { _ = await counter.countUp() } }
        }
        #expect(await counter.countUpUnasked() == 1001)
    }

    @Test func blockedWorkersLeaveThePoolFree() async throws {
        let release = DispatchSemaphore(value: 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            // More than any pool has threads on the machines this is tested on.
            let count = 40
            for number in 0..<count {
                group.addTask {
                    await BlockingWorker(label: "blocked \(number)").run { release.wait() }
                }
            }
            // Would never return if the waits above held the pool's threads.
            for _ in 0..<100 { await Task { await Task.yield() }.value }
            for _ in 0..<count { release.signal() }
            try await group.waitForAll()
        }
    }

    @Test func anErrorKeepsItsType() async {
        let worker = BlockingWorker(label: "failing")
        do throws(Errno) {
            _ = try await worker.run { () throws(Errno) -> Int in throw Errno(5) }
            Issue.record("nothing was thrown")
        } catch {
            #expect(error == Errno(5))
        }
    }

    @Test func cleanupOutlivesCancellation() async {
        let task = Task {
            await withoutCancellation {
                try? await Task.sleep(for: .milliseconds(1))
                return Task.isCancelled
            }
        }
        task.cancel()
        #expect(await task.value == false)
    }
}
