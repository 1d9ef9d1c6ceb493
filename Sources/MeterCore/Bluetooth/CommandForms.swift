/// Finds out in which form a meter takes its commands: the next one is tried when a request went
/// unanswered, and the one that was answered is kept.
///
/// Genuine UM meters and a clone of Atorch's look alike over GATT. The clone takes each command in
/// a frame of ten bytes, and wants the request written with a response (moormaster's
/// python3-um24c-ble); its answer is not wrapped.
package struct CommandForms: Sendable, Equatable {
    private let forms: [GATTPlan.Form]
    private var index = 0
    private var isWaiting = false
    private var isProven = false

    package init(_ plan: GATTPlan) { forms = plan.forms }

    /// Whether these are the forms of `plan` too, so that what was learnt still holds.
    package func belong(to plan: GATTPlan) -> Bool { forms == plan.forms }

    /// What to write for one command, and whether with a response; `nil` when nothing can be
    /// written.
    package mutating func write(_ command: [UInt8]) -> (bytes: [UInt8], acknowledged: Bool)? {
        let isRequest =
            command == UMSeries.request || command == TC66.request(.bluetooth)
        if isRequest {
            if isWaiting, !isProven { index = (index + 1) % max(1, forms.count) }
            isWaiting = true
        }
        guard forms.indices.contains(index) else { return nil }
        let form = forms[index]
        let bytes = form.wrapped ? command.flatMap(Self.wrapped) : command
        return (bytes, isRequest ? form.request : form.control)
    }

    /// Bytes have come.
    package mutating func answered() {
        isProven = isProven || isWaiting
        isWaiting = false
    }

    /// Atorch's frame for one byte of the UM series' commands: device type 03, and a check that is
    /// the low byte of the sum from the third byte on, XOR 44.
    static func wrapped(_ command: UInt8) -> [UInt8] {
        let body: [UInt8] = [0x11, 0x03, command, 0, 0, 0, 0]
        return [0xff, 0x55] + body + [body.reduce(0, &+) ^ 0x44]
    }
}
