/// One point of a session's curve.
package struct Sample: Hashable, Sendable, Codable {
    /// Milliseconds on the monotonic clock since the session's first sample; rises strictly within
    /// one session.
    package var offset: Int64
    package var voltage: Microvolts
    package var current: Microamperes
    /// As the meter sent it.
    package var power: Microwatts
    package var temperature: MilliCelsius?
    package var dPlus: Microvolts?
    package var dMinus: Microvolts?

    package init(
        offset: Int64, voltage: Microvolts, current: Microamperes, power: Microwatts,
        temperature: MilliCelsius? = nil, dPlus: Microvolts? = nil, dMinus: Microvolts? = nil
    ) {
        self.offset = offset
        self.voltage = voltage
        self.current = current
        self.power = power
        self.temperature = temperature
        self.dPlus = dPlus
        self.dMinus = dMinus
    }
}
