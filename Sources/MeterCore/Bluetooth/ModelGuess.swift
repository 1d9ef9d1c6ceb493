/// What an advertisement says about whether a device is a meter, and which (B1, B2). Names and
/// services are those of the field reports that protocols were gathered from.
package struct ModelGuess: Hashable, Sendable {
    package enum Family: Sendable {
        case um
        case tc66
    }
    package enum Certainty: Int, Sendable, Comparable {
        /// Only a person can tell: shown in a scan, never connected to unasked.
        case hint
        /// No name that says otherwise, and the services of a meter.
        case services
        /// The name of a meter.
        case name

        package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }

    package var family: Family
    /// `nil` where only the family shows; the first frame tells the model.
    package var model: MeterModel?
    package var certainty: Certainty

    /// Whether it may be connected to without having been configured.
    package var isCandidate: Bool { certainty > .hint }

    /// `nil` for a stranger.
    ///
    /// The services alone decide little: FFE0 is what any serial module offers, and lamps carry the
    /// very pair of the older TC66C. So a foreign name rules a meter out, and a missing name counts
    /// for the meter only where there is none to be had.
    /// - Parameter isComplete: whether the answer to a scan request was heard, too, so that a
    ///   missing name is missing.
    package init?(_ data: AdvertisingData, isComplete: Bool) {
        let services = Set(data.services.compactMap(\.short))
        let serial = services.contains(0xffe0) || services.contains(0xfff0)
        let hinted = data.manufacturers.contains(Self.manufacturer)
        guard let name = data.name?.trimmed, !name.isEmpty else {
            if services.contains(0xffe5) {
                self.init(.tc66, .tc66c, isComplete ? .services : .hint)
            } else if serial {
                let family: Family = services.contains(0xffe2) ? .tc66 : .um
                self.init(family, nil, isComplete ? .services : .hint)
            } else if hinted {
                self.init(.um, nil, .hint)
            } else {
                return nil
            }
            return
        }
        switch name {
        case "UM24C", "UM25C", "UM34C": self.init(.um, MeterModel(name: name), .name)
        // BT24-M is what the module of the newer TC66C calls itself.
        case "TC66C", "TC66", "BT24-M": self.init(.tc66, .tc66c, .name)
        case _ where name.hasPrefix("UM"):
            // Phones are called UMIDIGI; what follows UM must be a model or be borne out.
            let model = MeterModel(name: name.prefix(5)).flatMap { $0 == .tc66c ? nil : $0 }
            if serial || hinted {
                self.init(.um, model, .services)
            } else if model != nil {
                self.init(.um, model, .hint)
            } else {
                return nil
            }
        case _ where name.hasPrefix("TC66"):
            let meets = serial || services.contains(0xffe5) || services.contains(0x180d)
            self.init(.tc66, .tc66c, meets ? .services : .hint)
        case _ where hinted && serial: self.init(.um, nil, .hint)
        default: return nil
        }
    }

    private init(_ family: Family, _ model: MeterModel?, _ certainty: Certainty) {
        self.family = family
        self.model = model
        self.certainty = certainty
    }

    /// Named for UM meters in the project's first papers; no published advertisement has it, and
    /// other makers use it, so it never decides alone.
    private static let manufacturer: UInt16 = 0x5449
}

extension String {
    fileprivate var trimmed: String {
        var text = self[...]
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }
}
