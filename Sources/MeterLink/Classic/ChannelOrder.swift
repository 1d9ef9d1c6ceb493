/// In which order the channels of a meter are tried. UM meters answer on 1 (rdserialtool, libsigrok);
/// their list of services is sometimes empty (rd-usb issue 45), so it is asked for last.
struct ChannelOrder: Sendable, Equatable {
    static let usual: UInt8 = 1

    /// To try first, in this order.
    let known: [UInt8]
    /// To try when neither those nor what the list of services says let us in: they were open and
    /// gave no byte.
    let silent: [UInt8]

    init(configured: UInt8?, remembered: UInt8?, silent: Set<UInt8>) {
        var all: [UInt8] = []
        for channel in [configured, remembered, Self.usual].compactMap(\.self)
        where !all.contains(channel) { all.append(channel) }
        known = all.filter { !silent.contains($0) }
        self.silent = all.filter { silent.contains($0) }
    }

    /// What is left to try once the list of services has said `listed`.
    func rest(listed: UInt8?) -> [UInt8] {
        guard let listed, !known.contains(listed), !silent.contains(listed) else { return silent }
        return [listed] + silent
    }
}
