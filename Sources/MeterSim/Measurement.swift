import MeterCore

/// What a meter shows of a load: cut off, not rounded, at the places that it resolves.
///
/// Power and resistance follow from the voltage and current as shown (protocols of the UM series:
/// 5.01 V and 0.142 A give 0.711 W and 35.2 Ω in the published capture of an UM34C).
struct Measurement: Hashable, Sendable {
    /// Smallest steps of a model.
    struct Steps {
        let volts: Int64
        let amperes: Int64
        let watts: Int64

        init(_ model: MeterModel) {
            switch model {
            case .um24c, .um34c: (volts, amperes, watts) = (10_000, 1000, 1000)
            case .um25c: (volts, amperes, watts) = (1000, 100, 1000)
            case .tc66c: (volts, amperes, watts) = (100, 10, 100)
            }
        }
    }

    /// In the model's steps.
    var volts: Int64
    var amperes: Int64
    var watts: Int64
    /// In 0.1 Ω; an open circuit shows 9999.9 Ω.
    var resistance: Int64
    var temperature: MilliCelsius
    /// In 0.01 V.
    var dPlus: Int64
    var dMinus: Int64
    var mode: SupplyMode

    init(_ load: Load, temperature: MilliCelsius, model: MeterModel) {
        let steps = Steps(model)
        volts = load.voltage.rawValue / steps.volts
        amperes = load.current.rawValue / steps.amperes
        let voltage = Microvolts(volts * steps.volts)
        let current = Microamperes(amperes * steps.amperes)
        watts = Microwatts(voltage, times: current).rawValue / steps.watts
        resistance =
            current == .zero ? 99_999 : min(99_999, voltage.rawValue * 10 / current.rawValue)
        self.temperature = temperature
        dPlus = load.dPlus.rawValue / 10_000
        dMinus = load.dMinus.rawValue / 10_000
        mode = load.mode
    }

    var celsius: Int64 { temperature.rawValue / 1000 }
    /// From the finer temperature, not from whole degrees: published pairs are 21/70, 25/78, 27/81.
    var fahrenheit: Int64 { (temperature.rawValue * 9 / 5 + 32_000) / 1000 }
}
