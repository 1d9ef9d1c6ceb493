/// Why a session ended.
package enum EndReason: String, Sendable, Codable, CaseIterable {
    /// The current fell below the stop current and stayed there.
    case currentStopped
    /// The current settled at a low and constant level above the stop current: the device is full
    /// and goes on drawing a little.
    case standby
    /// Nothing was heard of the meter for longer than the gap limit.
    case meterUnreachable
    /// Stopped by a command.
    case manual
    /// The agent ended while the session ran.
    case interrupted
    /// A replayed recording came to its end.
    case endOfRecording
}

/// Which of the two independent figures is reported.
package enum EnergySource: String, Sendable, Codable {
    /// The sum V·I·Δt over the samples, gaps filled from the counter where that is plausible.
    case integrated
    /// The difference of the meter's own counter.
    case counter
}

/// How a stretch without samples was accounted for.
package enum GapFill: String, Sendable, Codable {
    /// By the difference of the meter's own counters over the gap.
    case counter
    /// The meter's counter started again and nothing tells what flowed: nothing was added beyond
    /// what the counter has shown since.
    case counterRestarted
    /// Nothing is known of it: nothing was added.
    case unobserved
}

/// A stretch of a session without readings.
package struct Gap: Hashable, Sendable, Codable {
    /// Milliseconds since the session's first sample.
    package var offset: Int64
    package var duration: Int64
    package var fill: GapFill
    /// What was added for it.
    package var energy: Microjoules
    package init(offset: Int64, duration: Int64, fill: GapFill, energy: Microjoules) {
        self.offset = offset
        self.duration = duration
        self.fill = fill
        self.energy = energy
    }
}

/// What is known of a session besides its curve: a receipt that says why its numbers can be
/// trusted. Kept for running sessions too, where `endedAt` is `nil`.
package struct SessionSummary: Hashable, Sendable, Codable {
    package var id: SessionID
    package var meter: MeterAddress
    package var meterName: String
    package var model: MeterModel
    package var gatewayID: String
    /// What is being charged, if somebody said so.
    package var label: String?

    package var startedAt: WallTime
    package var endedAt: WallTime?
    /// From the first sample to the end, on the monotonic clock, in milliseconds.
    package var durationMilliseconds: Int64
    package var endReason: EndReason?
    /// Whether the wall clock was trusted at the start and at the end.
    package var clockTrusted: Bool

    package var energyIntegrated: Microjoules
    package var chargeIntegrated: Microcoulombs
    /// `nil` when the meter's counters were missing or did not run through.
    package var energyCounted: Microjoules?
    package var chargeCounted: Microcoulombs?
    package var energySource: EnergySource
    /// One sentence: why that source.
    package var energySourceReason: String

    package var peakPower: Microwatts
    package var peakCurrent: Microamperes
    package var minVoltage: Microvolts
    package var maxVoltage: Microvolts
    package var maxTemperature: MilliCelsius?
    package var samples: Int
    package var rejectedFrames: Int
    /// Readings lost because the recorder could not keep up (C10).
    package var droppedReadings: Int
    package var gaps: [Gap]
    /// Version of this program when the session was completed.
    package var softwareVersion: String
    /// Grows with each later change of a completed session, from 1.
    package var revision: Int

    package init(
        id: SessionID, meter: MeterAddress, meterName: String, model: MeterModel,
        gatewayID: String, startedAt: WallTime, clockTrusted: Bool, softwareVersion: String
    ) {
        self.id = id
        self.meter = meter
        self.meterName = meterName
        self.model = model
        self.gatewayID = gatewayID
        self.startedAt = startedAt
        self.clockTrusted = clockTrusted
        self.softwareVersion = softwareVersion
        durationMilliseconds = 0
        energyIntegrated = .zero
        chargeIntegrated = .zero
        energySource = .integrated
        energySourceReason = ""
        peakPower = .zero
        peakCurrent = .zero
        minVoltage = .zero
        maxVoltage = .zero
        samples = 0
        rejectedFrames = 0
        droppedReadings = 0
        gaps = []
        revision = 1
    }

    /// The energy that is reported.
    package var energy: Microjoules {
        energySource == .counter ? energyCounted ?? energyIntegrated : energyIntegrated
    }
    /// The charge that is reported.
    package var charge: Microcoulombs {
        energySource == .counter ? chargeCounted ?? chargeIntegrated : chargeIntegrated
    }
    /// Energy over duration; zero before the second sample. Never above the peak: the energy includes
    /// what flowed while the current came up, before the first sample, which in a session of seconds
    /// is a part that shows.
    package var averagePower: Microwatts {
        guard durationMilliseconds > 0, samples > 1 else { return .zero }
        return min(
            Microwatts(rounded(energy.rawValue, over: durationMilliseconds) * 1000), peakPower)
    }
}
