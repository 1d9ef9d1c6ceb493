// The profile `tc66-hrm`, which the original documents describe and no public hardware shows: a
// TC66C that poses as a heart-rate sensor (service 180D, characteristic 2A37).
enum HeartRate {
    /// A byte of flags, whole watts, whole amperes.
    static let length = 3

    static func decode(_ bytes: ArraySlice<UInt8>) -> MeterFrame {
        precondition(bytes.count == length, "a heart-rate measurement has 3 bytes here")
        let watts = Int64(bytes[bytes.startIndex + 1])
        let amperes = Int64(bytes[bytes.startIndex + 2])
        var frame = MeterFrame(
            model: .tc66c, voltage: .zero, current: Microamperes(amperes * 1_000_000),
            power: Microwatts(watts * 1_000_000))
        frame.isApproximate = true
        return frame
    }
}
