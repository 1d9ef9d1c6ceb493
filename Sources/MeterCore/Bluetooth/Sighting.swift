/// A device was heard by an adapter.
package struct Sighting: Sendable, Hashable {
    package var peer: PeerAddress
    /// The adapter that heard it.
    package var adapter: MeterAddress
    /// Signal strength in dBm; `nil` when the report had none.
    package var rssi: Int?
    /// All that was heard of it so far, this report included.
    package var data: AdvertisingData
    /// Whether the answer to a scan request, or to the question for its name, is among it.
    package var isComplete: Bool
    package var when: MonotonicInstant

    package init(
        peer: PeerAddress, adapter: MeterAddress, rssi: Int?, data: AdvertisingData,
        isComplete: Bool, when: MonotonicInstant
    ) {
        self.peer = peer
        self.adapter = adapter
        self.rssi = rssi
        self.data = data
        self.isComplete = isComplete
        self.when = when
    }

    package var name: String? { data.name }
    package var services: Set<BluetoothUUID> { data.services }
    package var manufacturers: Set<UInt16> { data.manufacturers }
    /// `nil` for a stranger.
    package var guess: ModelGuess? { ModelGuess(data, isComplete: isComplete) }
}
