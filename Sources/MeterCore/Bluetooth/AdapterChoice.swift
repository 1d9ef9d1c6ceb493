/// One adapter as a candidate for a connection.
package struct AdapterCandidate: Sendable, Hashable {
    package var address: MeterAddress
    /// Powered, not wedged, speaks the peer's kind of Bluetooth.
    package var isUsable: Bool
    package var hasRoom: Bool
    package var links: Int
    /// Signal of the peer in dBm as this adapter last heard it, if lately.
    package var rssi: Int?

    package init(
        address: MeterAddress, isUsable: Bool, hasRoom: Bool, links: Int, rssi: Int?
    ) {
        self.address = address
        self.isUsable = isUsable
        self.hasRoom = hasRoom
        self.links = links
        self.rssi = rssi
    }
}

/// Which of several adapters connects a meter: the one it was given to, else the one of last time,
/// unless another hears it better by 5 dB, which is more than the signal varies by itself.
///
/// A full adapter is chosen only where no other is usable, so that the caller learns that there is
/// no slot; one that is not usable, only where there is nothing else.
/// - Returns: `nil` without candidates, or when the assigned adapter is not among them.
package func chooseAdapter(
    among candidates: [AdapterCandidate], assigned: MeterAddress?, last: MeterAddress?
) -> MeterAddress? {
    if let assigned { return candidates.first { $0.address == assigned }?.address }
    let ranked = [
        candidates.filter { $0.isUsable && $0.hasRoom }, candidates.filter(\.isUsable), candidates,
    ]
    guard let choice = ranked.first(where: { !$0.isEmpty }) else { return nil }
    let order = choice.sorted { ($0.links, $0.address) < ($1.links, $1.address) }
    var best = order.first { $0.address == last } ?? order[0]
    for candidate in order {
        guard let rssi = candidate.rssi else { continue }
        // Never heard by the favourite counts as far away, but not against last time's adapter.
        guard let bestRSSI = best.rssi else {
            if best.address != last { best = candidate }
            continue
        }
        if rssi >= bestRSSI + 5 { best = candidate }
    }
    return best.address
}
