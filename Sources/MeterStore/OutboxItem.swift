package import MeterCore

/// A message that must arrive, and what is to happen to it while it waits (mqtt.md 4.2).
package struct OutboxItem: Sendable, Hashable {
    package enum Class: String, Sendable {
        /// Only the newest message of a key is wanted: it replaces one that still waits.
        case latest
        /// All are wanted.
        case every
    }

    /// Names what the message is about, e.g. `session/019a8f2e-…`.
    package var key: String
    package var message: Message
    package var `class`: Class
    package var createdAt: WallTime

    package init(key: String, message: Message, class: Class, createdAt: WallTime) {
        self.key = key
        self.message = message
        self.class = `class`
        self.createdAt = createdAt
    }
}

/// An item in the outbox.
package struct OutboxRow: Sendable, Hashable, Identifiable {
    /// Rises with each row and is never given twice, so that an acknowledgement that comes late
    /// cannot remove a newer message.
    package var id: Int64
    package var item: OutboxItem
    /// How often publishing it has been tried.
    package var attempts: Int
    /// Why the broker will not have it; `nil` while it waits to be sent.
    package var refusal: String?

    package init(id: Int64, item: OutboxItem, attempts: Int, refusal: String? = nil) {
        self.id = id
        self.item = item
        self.attempts = attempts
        self.refusal = refusal
    }
}
