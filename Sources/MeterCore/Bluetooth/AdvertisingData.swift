/// What a device says of itself in an advertisement or in the answer to an inquiry: as far as it
/// helps to recognise a meter.
///
/// The bytes are a run of {length, type, value}, the length counting the type (Core specification,
/// Supplement, part A). They come from whoever is near and promise nothing.
package struct AdvertisingData: Hashable, Sendable {
    /// The full name, or the shortened one where no other was seen.
    package private(set) var name: String?
    /// Whether `name` is the full one.
    package private(set) var nameIsComplete = false
    package private(set) var services: Set<BluetoothUUID> = []
    /// The company numbers in front of manufacturer data.
    package private(set) var manufacturers: Set<UInt16> = []
    /// Classic only: major and minor class of the device, as the kernel adds it.
    package private(set) var deviceClass: UInt32?

    /// More than this a single device is not believed to offer.
    private static let most = 64

    package init() {}

    /// Reads as far as the run is sound: it stops at a length of zero and at one that goes beyond
    /// the end, and skips values that do not have their type's size.
    package init(_ bytes: some BidirectionalCollection<UInt8>) {
        var rest = bytes[...]
        while let length = rest.popFirst(), length > 0, rest.count >= Int(length) {
            let field = rest.prefix(Int(length))
            rest = rest.dropFirst(Int(length))
            take(field.first ?? 0, field.dropFirst())
        }
    }

    private mutating func take(_ type: UInt8, _ value: some BidirectionalCollection<UInt8>) {
        switch type {
        case 0x02, 0x03: addServices(value, size: 2)
        case 0x06, 0x07: addServices(value, size: 16)
        case 0x08 where !nameIsComplete: name = Self.text(value) ?? name
        case 0x09:
            guard let text = Self.text(value) else { return }
            name = text
            nameIsComplete = true
        case 0x0d where value.count == 3:
            deviceClass = Array(value).reversed().reduce(0) { $0 << 8 | UInt32($1) }
        case 0x16 where value.count >= 2: addServices(value.prefix(2), size: 2)
        case 0xff where value.count >= 2 && manufacturers.count < Self.most:
            let number = Array(value.prefix(2))
            manufacturers.insert(UInt16(number[1]) << 8 | UInt16(number[0]))
        default: break
        }
    }

    private mutating func addServices(_ value: some BidirectionalCollection<UInt8>, size: Int) {
        var rest = value[...]
        while rest.count >= size, services.count < Self.most {
            if let uuid = BluetoothUUID(littleEndian: rest.prefix(size)) { services.insert(uuid) }
            rest = rest.dropFirst(size)
        }
    }

    /// A name ends at a zero byte, as the modules pad theirs; what is left must be text.
    private static func text(_ value: some BidirectionalCollection<UInt8>) -> String? {
        let text = String(decoding: value.prefix { $0 != 0 }, as: UTF8.self)
        let shown = text.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7f }
        let name = String(String.UnicodeScalarView(shown))
        return name.isEmpty ? nil : name
    }

    /// Adds what another report of the same device says: an advertisement and the answer to a scan
    /// request each hold a part. Newer replaces older, but not a full name by a shortened one.
    package mutating func merge(_ newer: AdvertisingData) {
        if let text = newer.name, newer.nameIsComplete || !nameIsComplete {
            name = text
            nameIsComplete = newer.nameIsComplete
        }
        if services.count < Self.most { services.formUnion(newer.services) }
        if manufacturers.count < Self.most { manufacturers.formUnion(newer.manufacturers) }
        deviceClass = newer.deviceClass ?? deviceClass
    }
}
