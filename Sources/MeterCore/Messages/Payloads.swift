/// The JSON of every message. Keys are camelCase with the unit in the name where it is not V, A, W or
/// Ω; what is not known is `null`, never left out and never 0, since a missing key makes Home
/// Assistant warn at each message and a 0 in a counter adds the whole counter again.
package enum Payloads {
    /// Version of the payloads, in each of them as `v`.
    package static let version = 1

    package static let online = "online"
    package static let offline = "offline"

    /// One reading, for `live`.
    /// - Parameter sequence: counts the readings of this meter since the gateway started.
    package static func live(_ reading: Reading, sequence: Int, gatewayID: String) -> String {
        let frame = reading.frame
        return JSONWriter.object { json in
            json.integer("v", version)
            json.time("ts", reading.moment.wall)
            json.integer("seq", sequence)
            json.bool("approximate", frame.isApproximate)
            electrical(frame, &json)
            json.quantity("resistance", frame.isOpenCircuit ? nil : frame.resistance, places: 1)
            json.quantity("temperatureC", frame.temperature, places: frame.temperaturePlaces)
            json.quantity("dPlus", frame.dPlus, places: 2)
            json.quantity("dMinus", frame.dMinus, places: 2)
            json.string("mode", frame.mode?.name)
            json.integer("group", frame.group.map(Int64.init))
            let counter = frame.selectedCounter
            json.decimal("groupEnergyWh", counter?.energy.rawValue, decimals: 3, places: 3)
            json.integer("groupChargeMah", counter?.charge.rawValue)
            json.null("rssi")
            json.string("gatewayId", gatewayID)
        }
    }

    private static func electrical(_ frame: MeterFrame, _ json: inout JSONWriter) {
        let model = frame.model
        let isWhole = frame.isApproximate
        json.quantity("voltage", isWhole ? nil : frame.voltage, places: model.voltageDecimals)
        json.quantity("current", frame.current, places: isWhole ? 0 : model.currentDecimals)
        json.quantity("power", frame.power, places: isWhole ? 0 : model.powerDecimals)
    }

    /// The totals that only rise, for `counters`.
    package static func counters(
        _ totals: LifetimeTotals, at time: WallTime, gatewayID: String
    ) -> String {
        JSONWriter.object { json in
            json.integer("v", version)
            json.time("ts", time)
            json.decimal("energyTotalWh", totals.energy.microwattHours, decimals: 6, places: 3)
            json.decimal("chargeTotalMah", totals.charge.microampereHours, decimals: 3, places: 1)
            json.string("gatewayId", gatewayID)
        }
    }

    /// The session that runs, or that none does, for `session/current`.
    package static func currentSession(
        _ session: SessionSummary?, at time: WallTime
    ) -> String {
        JSONWriter.object { json in
            json.integer("v", version)
            json.time("ts", time)
            json.string("state", session == nil ? "idle" : "running")
            json.string("sessionId", session?.id.description)
            json.time("startedAt", session?.startedAt)
            json.decimal("durationS", session?.durationMilliseconds, decimals: 3, places: 1)
            json.decimal("energyWh", session?.energy.microwattHours, decimals: 6, places: 4)
            json.decimal("chargeMah", session?.charge.microampereHours, decimals: 3, places: 2)
            json.quantity("averagePower", session?.averagePower, places: 3)
            json.quantity("peakPower", session?.peakPower, places: 3)
            json.quantity("peakCurrent", session?.peakCurrent, places: 4)
            json.integer("samples", session.map { Int64($0.samples) })
            json.bool("clockTrusted", session?.clockTrusted)
        }
    }

    /// A session's receipt, for `session/last`, `sessions/<id>` and the command line.
    /// - Parameters:
    ///   - isRecording: it was found in a recording, which has no meter and no gateway.
    ///   - extra: writes further members.
    package static func session(
        _ session: SessionSummary, isRecording: Bool = false,
        extra: (inout JSONWriter) -> Void = { _ in }
    ) -> String {
        JSONWriter.object { json in
            json.integer("v", version)
            json.string("sessionId", session.id.description)
            json.string("macAddress", isRecording ? nil : session.meter.compact)
            json.string("meterName", session.meterName)
            json.string("modelType", isRecording ? nil : session.model.name)
            json.string("gatewayId", isRecording ? nil : session.gatewayID)
            json.time("startedAt", session.startedAt)
            json.time("endedAt", session.endedAt)
            json.decimal("durationS", session.durationMilliseconds, decimals: 3, places: 3)
            json.decimal("energyWh", session.energy.microwattHours, decimals: 6, places: 4)
            json.decimal("chargeMah", session.charge.microampereHours, decimals: 3, places: 2)
            json.quantity("averagePower", session.averagePower, places: 3)
            json.quantity("peakPower", session.peakPower, places: 3)
            json.quantity("peakCurrent", session.peakCurrent, places: 4)
            json.quantity("minVoltage", session.minVoltage, places: 3)
            json.quantity("maxVoltage", session.maxVoltage, places: 3)
            json.quantity("maxTemperatureC", session.maxTemperature, places: 1)
            json.string("endReason", session.endReason?.rawValue)
            json.string("label", session.label)
            json.integer("samples", session.samples)
            json.bool("complete", session.endedAt != nil)
            json.integer("revision", session.revision)
            // a digest of the curve is made where the curve is published
            json.null("curveSha256")
            json.string("energySource", session.energySource.rawValue)
            json.string("energySourceReason", session.energySourceReason)
            json.decimal(
                "energyIntegratedWh", session.energyIntegrated.microwattHours, decimals: 6,
                places: 4)
            json.decimal(
                "energyCounterWh", session.energyCounted?.microwattHours, decimals: 6, places: 3)
            json.decimal(
                "chargeIntegratedMah", session.chargeIntegrated.microampereHours, decimals: 3,
                places: 2)
            json.decimal(
                "chargeCounterMah", session.chargeCounted?.microampereHours, decimals: 3,
                places: 0)
            json.integer("rejectedFrames", session.rejectedFrames)
            json.integer("droppedReadings", session.droppedReadings)
            json.array("gaps", of: session.gaps.map(gap))
            json.bool("clockTrusted", session.clockTrusted)
            json.string("softwareVersion", session.softwareVersion)
            extra(&json)
        }
    }

    private static func gap(_ gap: Gap) -> String {
        JSONWriter.object { json in
            json.decimal("offsetS", gap.offset, decimals: 3, places: 3)
            json.decimal("durationS", gap.duration, decimals: 3, places: 3)
            json.string("fill", gap.fill.rawValue)
            json.decimal("energyWh", gap.energy.microwattHours, decimals: 6, places: 4)
        }
    }

    /// Everything that one frame says, for `decode` and `read`.
    /// - Parameter check: `ok` or `bad`, and `none` where no check is known.
    package static func frame(_ frame: MeterFrame, check: String, at time: WallTime? = nil)
        -> String
    {
        JSONWriter.object { json in
            if let time { json.time("ts", time) }
            json.string("model", frame.model.name)
            json.bool("approximate", frame.isApproximate)
            electrical(frame, &json)
            json.quantity("temperatureC", frame.temperature, places: frame.temperaturePlaces)
            json.integer("temperatureF", frame.temperatureFahrenheit)
            json.quantity("resistance", frame.resistance, places: 1)
            json.quantity("dPlus", frame.dPlus, places: 2)
            json.quantity("dMinus", frame.dMinus, places: 2)
            json.integer("mode", frame.mode.map { Int64($0.rawValue) })
            json.string("modeName", frame.mode?.name)
            json.integer("group", frame.group.map(Int64.init))
            json.array(
                "groups",
                of: frame.groups.map { counter in
                    JSONWriter.object { json in
                        json.integer("chargeMah", counter.charge.rawValue)
                        json.quantity("energyWh", counter.energy, places: 3)
                    }
                })
            if let recording = frame.recording {
                json.object("recording") { json in
                    json.integer("chargeMah", recording.charge.rawValue)
                    json.quantity("energyWh", recording.energy, places: 3)
                    json.integer("seconds", recording.seconds)
                    json.quantity("thresholdA", recording.threshold, places: 2)
                    json.bool("active", recording.active)
                }
            } else {
                json.null("recording")
            }
            json.integer("backlight", frame.backlight.map(Int64.init))
            json.integer("screenTimeoutMin", frame.screenTimeoutMinutes.map(Int64.init))
            json.integer("screen", frame.screen.map(Int64.init))
            json.string("product", frame.product)
            json.string("version", frame.version)
            json.integer("serial", frame.serial.map(Int64.init))
            json.integer("runs", frame.runs.map(Int64.init))
            json.string("check", check)
        }
    }
}

extension MeterFrame {
    /// The counters of the selected group, where the meter tells which that is.
    package var selectedCounter: GroupCounter? {
        guard let group, groups.indices.contains(group) else { return nil }
        return groups[group]
    }
    /// The meters send whole degrees; one that was converted from Fahrenheit has a tenth.
    fileprivate var temperaturePlaces: Int { (temperature?.rawValue ?? 0) % 1_000 == 0 ? 0 : 1 }
}
