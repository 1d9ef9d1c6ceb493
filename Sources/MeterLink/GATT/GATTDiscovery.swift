import MeterCore

/// Finds what a device offers: its services, the characteristics of those that a meter may use, and
/// the descriptors that turn notifications on.
///
/// Pure: `next` is the request to make, `take` is given its response, until there is none.
struct GATTDiscovery: Sendable {
    enum Problem: Error, Sendable, Equatable {
        case refused(ATTError, ATTRequest)
        case malformed(String)
    }

    private enum Step: Sendable, Equatable {
        case services(from: UInt16)
        /// For servers that know no groups: asks for one service by name after the other.
        case service(Int, from: UInt16)
        case characteristics(Int, from: UInt16)
        case descriptors([Search])
        case done
    }

    /// Handles between a characteristic's value and what comes next.
    private struct Search: Sendable, Equatable {
        var service: Int
        var characteristic: Int
        var handles: ClosedRange<UInt16>
    }

    private static let primaryService: UInt16 = 0x2800
    private static let characteristicDeclaration = BluetoothUUID(0x2803)
    private static let clientConfiguration = BluetoothUUID(0x2902)
    static let mostServices = 64
    static let mostCharacteristics = 256

    private let wanted: [BluetoothUUID]
    private var step = Step.services(from: 1)
    private(set) var table = GATTTable()
    private var characteristics = 0
    private var searches: [Search] = []

    /// - Parameter wanted: the services to look into.
    init(wanted: Set<BluetoothUUID>) {
        self.wanted = wanted.sorted { "\($0)" < "\($1)" }
    }

    var isAtServices: Bool {
        switch step {
        case .services, .service: true
        case .characteristics, .descriptors, .done: false
        }
    }

    /// The next request; `nil` when all is found.
    var next: ATTRequest? {
        switch step {
        case .services(let first):
            .readByGroupType(first...(.max), BluetoothUUID(Self.primaryService))
        case .service(let index, let first):
            .findByTypeValue(
                first...(.max), type: Self.primaryService, value: wanted[index].littleEndian)
        case .characteristics(let index, let first):
            .readByType(
                first...table.services[index].handles.upperBound, Self.characteristicDeclaration)
        case .descriptors(let searches): searches.first.map { .findInformation($0.handles) }
        case .done: nil
        }
    }

    /// Takes the response to `next`.
    mutating func take(_ response: ATTResponse) throws(Problem) {
        guard let request = next else { return }
        switch (step, response) {
        case (.services, .groups(let groups)):
            for group in groups { try add(group.value, group.handles) }
            if let first = following(groups.last?.handles.upperBound) {
                step = .services(from: first)
            } else {
                lookInside(from: 0)
            }
        case (.services, .refused(.notFound)): lookInside(from: 0)
        case (.services, .refused(.unsupportedGroup)), (.services, .refused(.notSupported)):
            askForService(0)
        case (.service(let index, _), .found(let ranges)):
            for handles in ranges { try add(wanted[index].littleEndian, handles) }
            if let first = following(ranges.last?.upperBound) {
                step = .service(index, from: first)
            } else {
                askForService(index + 1)
            }
        case (.service(let index, _), .refused(.notFound)): askForService(index + 1)
        case (.characteristics(let index, _), .attributes(let attributes)):
            try add(attributes, to: index)
            let end = table.services[index].handles.upperBound
            if let first = following(attributes.last?.handle), first <= end {
                step = .characteristics(index, from: first)
            } else {
                lookInside(from: index + 1)
            }
        case (.characteristics(let index, _), .refused(.notFound)): lookInside(from: index + 1)
        case (.descriptors(let searches), .descriptors(let found)):
            take(found, searches)
        case (.descriptors(let searches), .refused):
            // one that cannot be listed may well notify all the same
            step = .descriptors(Array(searches.dropFirst()))
            if searches.count == 1 { step = .done }
        case (_, .refused(let error)): throw .refused(error, request)
        default: throw .malformed("a response of the wrong kind")
        }
    }

    private func following(_ handle: UInt16?) -> UInt16? {
        guard let handle, handle < .max else { return nil }
        return handle + 1
    }

    private mutating func askForService(_ index: Int) {
        if index < wanted.count {
            step = .service(index, from: 1)
        } else {
            table.services.sort { $0.handles.lowerBound < $1.handles.lowerBound }
            lookInside(from: 0)
        }
    }

    private mutating func add(
        _ uuid: [UInt8], _ handles: ClosedRange<UInt16>
    ) throws(Problem) {
        guard let uuid = BluetoothUUID(littleEndian: uuid) else {
            throw .malformed("a service with a name of \(uuid.count) bytes")
        }
        guard table.services.count < Self.mostServices else {
            throw .malformed("more than \(Self.mostServices) services")
        }
        table.services.append(GATTTable.Service(uuid, handles: handles))
    }

    /// Goes on with the first service from `index` on that a meter may use.
    private mutating func lookInside(from index: Int) {
        let next = table.services.indices.dropFirst(index).first {
            wanted.contains(table.services[$0].uuid)
        }
        if let next {
            step = .characteristics(next, from: table.services[next].handles.lowerBound)
        } else {
            searches = descriptorSearches()
            step = searches.isEmpty ? .done : .descriptors(searches)
        }
    }

    private mutating func add(
        _ attributes: [ATTResponse.Attribute], to index: Int
    ) throws(Problem) {
        for attribute in attributes {
            let value = attribute.value[...]
            guard value.count == 5 || value.count == 19,
                let uuid = BluetoothUUID(littleEndian: value.dropFirst(3))
            else { throw .malformed("a characteristic of \(value.count) bytes") }
            characteristics += 1
            guard characteristics <= Self.mostCharacteristics else {
                throw .malformed("more than \(Self.mostCharacteristics) characteristics")
            }
            let handle = value.word(at: 1)
            // its value lies behind its declaration; elsewhere it could not be told from others
            guard handle > attribute.handle, table.services[index].handles.contains(handle) else {
                continue
            }
            table.services[index].characteristics.append(
                GATTTable.Characteristic(
                    uuid, GATTTable.Properties(rawValue: value[value.startIndex]),
                    valueHandle: handle))
        }
    }

    private func descriptorSearches() -> [Search] {
        table.services.enumerated().flatMap { index, service in
            service.characteristics.indices.compactMap { number -> Search? in
                let characteristic = service.characteristics[number]
                guard !characteristic.properties.isDisjoint(with: [.notify, .indicate]),
                    let first = following(characteristic.valueHandle)
                else { return nil }
                // up to the declaration of the next one, which stands before its value
                let later = service.characteristics.map(\.valueHandle)
                    .filter { $0 > characteristic.valueHandle }.min()
                let last = later.map { $0 - 2 } ?? service.handles.upperBound
                guard first <= last else { return nil }
                return Search(service: index, characteristic: number, handles: first...last)
            }
        }
    }

    private mutating func take(_ found: [ATTResponse.Descriptor], _ searches: [Search]) {
        var searches = searches
        let search = searches.removeFirst()
        if let descriptor = found.first(where: { $0.type == Self.clientConfiguration }) {
            table.services[search.service].characteristics[search.characteristic]
                .configurationHandle = descriptor.handle
        } else if let first = following(found.last?.handle), first <= search.handles.upperBound {
            var rest = search
            rest.handles = first...search.handles.upperBound
            searches.insert(rest, at: 0)
        }
        step = searches.isEmpty ? .done : .descriptors(searches)
    }
}
