import MeterCore

/// The attribute protocol on one link, from the client's side: one request at a time, what the far
/// end may send unasked, and answers to what it asks of us.
///
/// Pure: it is told of packets and of the passing of time, and says what is to be sent.
struct ATTMachine: Sendable {
    enum Action: Sendable, Equatable {
        case send([UInt8])
        /// The outstanding request is answered.
        case completed(ATTResponse)
        /// The far end sent a value unasked.
        case value(handle: UInt16, [UInt8])
        /// The link is of no use any more.
        case failed(Fault)
    }

    /// Why the link is of no use any more.
    enum Fault: Error, Sendable, Equatable {
        /// Responses carry no number, so a late one would be taken for that to the next request.
        case unanswered(ATTRequest, after: Duration)
        case malformed(String)
    }

    /// What we are ready to receive in one packet: 192 bytes of a TC66C fit, and the kernel's
    /// buffer is larger.
    static let ourMTU: UInt16 = 247
    /// Until both sides have agreed on more.
    static let smallestMTU: UInt16 = 23
    /// Longer than any packet with attributes of 512 bytes.
    static let longestPacket = 517
    /// The protocol's limit for a transaction.
    static let transactionLimit: Duration = .seconds(30)
    /// How long we wait unless there is a reason for more.
    static let usualLimit: Duration = .seconds(10)

    /// The longest packet that may be sent.
    private(set) var mtu = Self.smallestMTU
    private(set) var fault: Fault?
    private var outstanding: (request: ATTRequest, sent: MonotonicInstant, limit: Duration)?

    var isBusy: Bool { outstanding != nil }
    /// When the outstanding request fails.
    var deadline: MonotonicInstant? { outstanding.map { $0.sent + $0.limit } }
    /// The longest value that fits in one write.
    var longestValue: Int { Int(mtu) - 3 }

    /// Sends a request. There must be no other, and no fault.
    /// - Parameter limit: at most the protocol's.
    mutating func begin(
        _ request: ATTRequest, at now: MonotonicInstant, limit: Duration = Self.usualLimit
    ) -> Action {
        precondition(outstanding == nil, "one request is outstanding at a time")
        precondition(fault == nil, "the link has failed")
        let bytes = request.bytes
        precondition(bytes.count <= Int(mtu), "a request is longer than a packet")
        outstanding = (request, now, min(limit, Self.transactionLimit))
        return .send(bytes)
    }

    /// A value that is written without a response, which needs no turn.
    func command(_ handle: UInt16, _ value: [UInt8]) -> [UInt8] {
        precondition(value.count <= longestValue, "a value is longer than a packet")
        return [0x52] + littleEndian(handle) + value
    }

    mutating func timePassed(to now: MonotonicInstant) -> [Action] {
        guard let outstanding, fault == nil, now >= outstanding.sent + outstanding.limit else {
            return []
        }
        return fail(.unanswered(outstanding.request, after: outstanding.limit))
    }

    /// A packet has come. After a fault nothing is taken any more.
    mutating func received(_ packet: [UInt8]) -> [Action] {
        guard fault == nil, let opcode = packet.first else { return [] }
        guard packet.count <= Self.longestPacket else {
            return fail(.malformed("a packet of more than \(Self.longestPacket) bytes"))
        }
        let body = packet.dropFirst()
        switch opcode {
        case 0x01: return refused(body)
        case 0x1b, 0x1d: return unasked(body, isIndication: opcode == 0x1d)
        // a request by its bits: a number that is even, and no command
        case _ where opcode & 0x41 == 0 && opcode != 0x1e: return asked(opcode, body)
        default: return responded(opcode, packet)
        }
    }

    private mutating func fail(_ fault: Fault) -> [Action] {
        self.fault = fault
        outstanding = nil
        return [.failed(fault)]
    }

    private mutating func responded(_ opcode: UInt8, _ packet: [UInt8]) -> [Action] {
        // what answers nothing is ignored, as are commands and kinds that we never ask for
        guard let request = outstanding?.request, opcode == request.opcode + 1 else { return [] }
        guard let response = ATTResponse(packet, to: request) else {
            return fail(.malformed("it was \(request.purpose) and answered with nonsense"))
        }
        if case .mtu(let theirs) = response { agree(on: theirs) }
        outstanding = nil
        return [.completed(response)]
    }

    private mutating func refused(_ body: ArraySlice<UInt8>) -> [Action] {
        guard let request = outstanding?.request, body.first == request.opcode else { return [] }
        guard body.count == 4 else { return fail(.malformed("an error of the wrong length")) }
        outstanding = nil
        return [.completed(.refused(ATTError(code: body[body.startIndex + 3])))]
    }

    private func unasked(_ body: ArraySlice<UInt8>, isIndication: Bool) -> [Action] {
        // confirmed first, since the far end sends no other until then
        let confirmation: [Action] = isIndication ? [.send([0x1e])] : []
        guard body.count >= 2 else { return confirmation }
        return confirmation + [.value(handle: body.word(at: 0), Array(body.dropFirst(2)))]
    }

    private mutating func agree(on theirs: UInt16) {
        mtu = max(Self.smallestMTU, min(theirs, Self.ourMTU))
    }

    /// The far end asks us, who offer nothing. No request stays unanswered, or it would drop the
    /// link after 30 s.
    private mutating func asked(_ opcode: UInt8, _ body: ArraySlice<UInt8>) -> [Action] {
        let first = body.count >= 2 ? body.word(at: 0) : 0
        func refuse(_ error: ATTError, _ handle: UInt16) -> [Action] {
            [.send([0x01, opcode] + littleEndian(handle) + [error.code])]
        }
        switch opcode {
        case 0x02:
            guard body.count == 2 else { return refuse(ATTError(code: 0x04), 0) }
            agree(on: first)
            return [.send([0x03] + littleEndian(Self.ourMTU))]
        case 0x04, 0x06, 0x08, 0x10: return refuse(.notFound, first)
        default: return refuse(.notSupported, 0)
        }
    }
}
