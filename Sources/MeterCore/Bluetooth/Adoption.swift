/// Which devices heard nearby become meters of this gateway, without a line of configuration (B12).
package struct Adoption: Sendable {
    package enum Policy: String, Sendable {
        /// Whatever is surely a meter.
        case automatic
        /// Only those that are configured.
        case listed
    }

    /// A device that becomes a meter.
    package struct Adopted: Sendable, Hashable {
        package var peer: PeerAddress
        /// Made from model and address, like `UM25C 55:01`; unlike that of any other meter here.
        package var name: String
        /// `nil`: the first frame tells.
        package var model: MeterModel?
        package init(peer: PeerAddress, name: String, model: MeterModel?) {
            self.peer = peer
            self.name = name
            self.model = model
        }
    }

    /// So many meters one gateway keeps (bluetooth.md 7.28 gives the figures of the radio side).
    package static let limit = 32
    private static let mostOthers = 64

    private let policy: Policy
    private let denied: Set<MeterAddress>
    private var names: Set<String>
    private var known: Set<MeterAddress>
    /// Candidates that were heard and are not adopted, newest report of each; at most 64.
    package private(set) var others: [MeterAddress: Sighting] = [:]

    /// - Parameters:
    ///   - meters: address and name of those that are configured or were adopted before.
    ///   - denied: never adopted.
    package init(
        policy: Policy, meters: [(address: MeterAddress, name: String)],
        denied: [MeterAddress] = []
    ) {
        self.policy = policy
        self.denied = Set(denied)
        known = Set(meters.map(\.address))
        names = Set(meters.map { $0.name.lowercased() })
    }

    /// A device was heard.
    /// - Returns: the meter that it becomes, once.
    package mutating func heard(_ sighting: Sighting) -> Adopted? {
        let address = sighting.peer.address
        guard !known.contains(address), let guess = sighting.guess else { return nil }
        guard policy == .automatic, guess.isCandidate, sighting.peer.isLasting,
            !denied.contains(address), known.count < Self.limit
        else {
            if others[address] != nil || others.count < Self.mostOthers {
                others[address] = sighting
            }
            return nil
        }
        others[address] = nil
        known.insert(address)
        let name = name(of: guess, at: address)
        names.insert(name.lowercased())
        return Adopted(peer: sighting.peer, name: name, model: guess.model)
    }

    /// Model and the last two bytes of the address, and more of them where that is taken.
    private func name(of guess: ModelGuess, at address: MeterAddress) -> String {
        let head = guess.model?.name ?? (guess.family == .tc66 ? "TC66C" : "UM")
        let pairs = address.description.split(separator: ":")
        for count in 2..<pairs.count {
            let name = "\(head) \(pairs.suffix(count).joined(separator: ":"))"
            if !names.contains(name.lowercased()) { return name }
        }
        return "\(head) \(address)"
    }
}
