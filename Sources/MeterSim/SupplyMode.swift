/// What the supply and the device agree upon over the data lines, as a UM meter reports it.
package enum SupplyMode: Hashable, Sendable {
    case unknown
    case quickCharge2, quickCharge3
    case apple2400, apple2100, apple1000, apple500
    case dcp1500
    case samsung
}
