/// The topic tree below the base topic. Devices stand in it by address, never by name, so that a
/// rename moves nothing.
package struct Topics: Sendable, Hashable {
    package let base: String
    package let gatewayID: String

    package init(base: String, gatewayID: String) {
        self.base = base
        self.gatewayID = gatewayID
    }

    package var gatewayStatus: String { "\(base)/gateway/\(gatewayID)/status" }
    package func availability(_ meter: MeterAddress) -> String { topic(meter, "availability") }
    package func live(_ meter: MeterAddress) -> String { topic(meter, "live") }
    package func counters(_ meter: MeterAddress) -> String { topic(meter, "counters") }
    package func currentSession(_ meter: MeterAddress) -> String { topic(meter, "session/current") }
    package func lastSession(_ meter: MeterAddress) -> String { topic(meter, "session/last") }
    package func session(_ meter: MeterAddress, _ id: SessionID) -> String {
        topic(meter, "sessions/\(id)")
    }

    private func topic(_ meter: MeterAddress, _ leaf: String) -> String {
        "\(base)/meter/\(meter.compact)/\(leaf)"
    }
}
