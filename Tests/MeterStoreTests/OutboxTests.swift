import MeterCore
import Testing

@testable import MeterStore

@Suite struct OutboxTests {
    @Test func messagesComeOutOldestFirstAndUnchanged() async throws {
        try await withSandbox { sandbox in
            let clear = OutboxItem(
                key: "c",
                message: Message(topic: "t/c", payload: [], qos: .atMostOnce, retain: false),
                class: .latest, createdAt: WallTime(milliseconds: -5))
            let items = [item("a", "ä"), item("a", "b"), clear]
            try await sandbox.withStore { try await $0.enqueue(items) }
            try await sandbox.withStore { store in
                let rows = try await store.outbox(limit: 10)
                #expect(rows.map(\.item) == items)
                #expect(rows.map(\.attempts) == [0, 0, 0])
                #expect(try await store.outbox(limit: 2).map(\.item) == Array(items.prefix(2)))
                #expect(try await store.outboxCount() == 3)

                try await store.countOutboxAttempt([rows[1].id])
                try await store.removeFromOutbox([rows[0].id, rows[0].id, 4711])
                #expect(try await store.outbox(limit: 10).map(\.attempts) == [1, 0])
            }
        }
    }

    @Test func onlyTheLatestOfAKeyIsKeptWhereThatIsEnough() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                try await store.enqueue([
                    item("state", "1", .latest), item("name", "x", .latest), item("state", "every"),
                    item("state", "2", .latest), item("state", "3", .latest),
                ])
                let texts = try await store.outbox(limit: 10).map {
                    String(decoding: $0.item.message.payload, as: UTF8.self)
                }
                #expect(texts == ["x", "every", "3"])
            }
        }
    }

    @Test func aLateAcknowledgementDoesNotRemoveTheNewerMessage() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                try await store.enqueue([item("state", "old", .latest)])
                let sent = try await store.outbox(limit: 1).map(\.id)
                try await store.enqueue([item("state", "new", .latest)])
                try await store.removeFromOutbox(sent)
                #expect(
                    try await store.outbox(limit: 9).map(\.item) == [item("state", "new", .latest)])
            }
        }
    }

    @Test func anIDIsNeverGivenTwiceEvenAfterARestart() async throws {
        try await withSandbox { sandbox in
            let first = try await sandbox.withStore { store in
                try await store.enqueue([item("a")])
                let ids = try await store.outbox(limit: 1).map(\.id)
                try await store.removeFromOutbox(ids)
                return ids
            }
            try await sandbox.withStore { store in
                try await store.enqueue([item("b")])
                #expect(try await store.outbox(limit: 1).map(\.id) != first)
            }
        }
    }

    @Test func aRefusedMessageIsKeptAndNotOfferedUntilItIsTriedAgain() async throws {
        try await withSandbox { sandbox in
            try await sandbox.withStore { store in
                try await store.enqueue([item("a"), item("b")])
                let id = try #require(try await store.outbox(limit: 1).first?.id)
                try await store.refuseOutbox(id, reason: "not authorised")
                #expect(try await store.outbox(limit: 9).map(\.item.key) == ["b"])
                #expect(try await store.outboxCount() == 1)
                #expect(
                    try await store.refusedOutbox(limit: 9).map(\.refusal) == ["not authorised"])
                #expect(try await store.retryRefusedOutbox() == 1)
                #expect(try await store.outbox(limit: 9).map(\.item.key) == ["a", "b"])
            }
        }
    }
}
