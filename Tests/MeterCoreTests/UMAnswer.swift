import MeterCore

/// What a UM meter would send, written from the protocol alone: it shares nothing with the driver.
struct UMAnswer: Equatable {
    enum Kind: CaseIterable {
        case um24c, um25c, um34c

        var model: MeterModel {
            switch self {
            case .um24c: .um24c
            case .um25c: .um25c
            case .um34c: .um34c
            }
        }
        var id: Int {
            switch self {
            case .um24c: 0x0963
            case .um25c: 0x09c9
            case .um34c: 0x0d4c
            }
        }
        /// µV and µA of one last digit.
        var voltStep: Int { self == .um25c ? 1_000 : 10_000 }
        var ampereStep: Int { self == .um25c ? 100 : 1_000 }
    }

    var kind: Kind
    var id: Int
    var volts = 0
    var amperes = 0
    var milliwatts = 0
    var celsius = 25
    var fahrenheit = 77
    var group = 0
    var charge = Array(repeating: 0, count: 10)
    var energy = Array(repeating: 0, count: 10)
    var dPlus = 0
    var dMinus = 0
    var mode = 0
    var recordedCharge = 0
    var recordedEnergy = 0
    var threshold = 10
    var seconds = 0
    var active = 0
    var timeout = 2
    var backlight = 4
    var resistance = 99_999
    var screen = 0
    var filler = 0x80

    init(_ kind: Kind) {
        self.kind = kind
        id = kind.id
    }

    /// Sets what the meter measures, with its power and resistance cut off as the meters do.
    mutating func measure(microvolts: Int, microamperes: Int) {
        volts = microvolts / kind.voltStep
        amperes = microamperes / kind.ampereStep
        milliwatts = microvolts / 1_000 * (microamperes / 10) / 100_000
        resistance =
            amperes == 0
            ? 99_999 : min(99_999, volts * kind.voltStep * 10 / (amperes * kind.ampereStep))
    }

    var bytes: [UInt8] {
        var out: [UInt8] = []
        func put(_ value: Int, _ width: Int) {
            for index in (0..<width).reversed() {
                out.append(UInt8(truncatingIfNeeded: value >> (8 * index)))
            }
        }
        put(id, 2)
        put(volts, 2)
        put(amperes, 2)
        put(milliwatts, 4)
        put(celsius, 2)
        put(fahrenheit, 2)
        put(group, 2)
        for index in 0..<10 {
            put(charge[index], 4)
            put(energy[index], 4)
        }
        put(dPlus, 2)
        put(dMinus, 2)
        put(mode, 2)
        put(recordedCharge, 4)
        put(recordedEnergy, 4)
        put(threshold, 2)
        put(seconds, 4)
        put(active, 2)
        put(timeout, 2)
        put(backlight, 2)
        put(resistance, 4)
        put(screen, 2)
        guard kind == .um34c else { return out + [0xff, 0xf1] }
        put(filler, 1)
        var check: UInt8 = 0
        let summed =
            "1 3 7 9 15 17 19 23 31 39 41 45 49 53 55 57 59 63 67 69 73 79 83 89 97 99 109 111 113 "
            + "119 121 127"
        for place in summed.split(separator: " ") { check ^= out[Int(place) ?? 0] }
        return out + [check]
    }

    /// The fields in which a decoded frame differs from this one.
    func differences(from frame: MeterFrame) -> [String] {
        var found: [String] = []
        func same(_ name: String, _ is: Int64?, _ should: Int) {
            if `is` != Int64(should) { found.append("\(name) \(`is` ?? -1) for \(should)") }
        }
        if frame.model != kind.model { found.append("model \(frame.model)") }
        same("voltage", frame.voltage.rawValue, volts * kind.voltStep)
        same("current", frame.current.rawValue, amperes * kind.ampereStep)
        same("power", frame.power.rawValue, milliwatts * 1_000)
        same("celsius", frame.temperature?.rawValue, celsius * 1_000)
        same("fahrenheit", frame.temperatureFahrenheit, fahrenheit)
        same("group", frame.group.map(Int64.init), group)
        for index in 0..<10 {
            same("charge\(index)", frame.groups[index].charge.rawValue, charge[index])
            same("energy\(index)", frame.groups[index].energy.rawValue, energy[index])
        }
        same("D+", frame.dPlus?.rawValue, dPlus * 10_000)
        same("D-", frame.dMinus?.rawValue, dMinus * 10_000)
        same("mode", frame.mode.map { Int64($0.rawValue) }, mode)
        same("recorded charge", frame.recording?.charge.rawValue, recordedCharge)
        same("recorded energy", frame.recording?.energy.rawValue, recordedEnergy)
        same("threshold", frame.recording?.threshold.rawValue, threshold * 10_000)
        same("seconds", frame.recording?.seconds, seconds)
        same("active", frame.recording.map { $0.active ? 1 : 0 }, active)
        same("timeout", frame.screenTimeoutMinutes.map(Int64.init), timeout)
        same("backlight", frame.backlight.map(Int64.init), backlight)
        same("resistance", frame.resistance?.rawValue, resistance * 100)
        same("screen", frame.screen.map(Int64.init), screen)
        return found
    }
}
