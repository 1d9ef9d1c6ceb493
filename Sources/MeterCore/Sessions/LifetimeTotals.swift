/// What has flowed through one meter since it is known here. Only ever rises (C9).
package struct LifetimeTotals: Hashable, Sendable, Codable {
    package var energy: Microjoules
    package var charge: Microcoulombs
    package init(energy: Microjoules = .zero, charge: Microcoulombs = .zero) {
        self.energy = energy
        self.charge = charge
    }
}
