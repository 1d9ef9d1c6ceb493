package import MeterCore

/// Remembers on which RFCOMM channel a meter has answered.
package protocol ChannelMemory: Sendable {
    /// `nil` when it never has.
    func channel(of meter: MeterAddress) async -> UInt8?
    func remember(_ channel: UInt8, of meter: MeterAddress) async
}
