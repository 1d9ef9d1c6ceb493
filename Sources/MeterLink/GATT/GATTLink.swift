import MeterCore
import Synchronization

/// The bytes of one meter over GATT: notifications one after the other, commands as its profile
/// wants them.
struct GATTLink: Link {
    let client: GATTClient
    let plan: GATTPlan
    let forms: KnownForms
    let peer: PeerAddress

    var content: LinkContent { plan.content }

    /// A command that is written with a response has been taken by the meter when this returns.
    func send(_ bytes: [UInt8]) async throws(LinkError) {
        guard !bytes.isEmpty else { return }
        guard let target = plan.target, let write = forms.write(bytes) else {
            throw LinkError(
                .incompatible, "\(peer) takes no commands over the profile \(plan.profile.rawValue)"
            )
        }
        var rest = write.bytes[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(client.longestValue))
            rest = rest.dropFirst(piece.count)
            guard write.acknowledged else {
                try client.command(target, piece)
                continue
            }
            let response = try await client.request(.write(target, piece))
            if case .refused(let error) = response {
                throw LinkError(
                    .incompatible, "\(peer) refuses a command: \(error)",
                    advice: "another profile may suit the meter: see the configuration")
            }
        }
    }

    func receive() async throws(LinkError) -> [UInt8] {
        while true {
            let values = try await client.values()
            let bytes =
                plan.content == .heartRate ? Self.measurements(values) : Array(values.joined())
            if !bytes.isEmpty {
                forms.answered()
                return bytes
            }
        }
    }

    /// Of each notification the three bytes that matter, so that what may follow cannot put the
    /// stream out of step.
    private static func measurements(_ values: [[UInt8]]) -> [UInt8] {
        values.filter { $0.count >= 3 }.flatMap { $0.prefix(3) }
    }
}

/// What was learnt about a meter's commands; outlives its links.
final class KnownForms: Sendable {
    private let forms = Mutex<CommandForms?>(nil)

    /// Keeps what is known if the meter still offers the same.
    func use(_ plan: GATTPlan) {
        forms.withLock { forms in
            if forms?.belong(to: plan) != true { forms = CommandForms(plan) }
        }
    }
    func write(_ command: [UInt8]) -> (bytes: [UInt8], acknowledged: Bool)? {
        forms.withLock { forms in forms?.write(command) }
    }
    func answered() { forms.withLock { forms in forms?.answered() } }
}
