/// Where the broker is: `mqtt://host:port`, or `mqtts://…` for TLS.
package struct BrokerURL: Sendable, Equatable, CustomStringConvertible {
    /// A name or an address; an IPv6 address without its brackets.
    package var host: String
    package var port: UInt16
    package var tls: Bool

    package init(host: String, port: UInt16, tls: Bool) {
        self.host = host
        self.port = port
        self.tls = tls
    }

    package var description: String {
        let host = host.contains(":") ? "[\(host)]" : host
        return "\(tls ? "mqtts" : "mqtt")://\(host):\(port)"
    }

    /// Reads an address. The port is 1883 where none is given, 8883 with TLS (IANA).
    init(_ text: String) throws(Complaint) {
        let example = "write mqtt://host:1883, or mqtts://host:8883 for TLS"
        guard let colon = text.range(ofFirst: "://") else {
            throw Complaint("is not a URL: \"\(text.shown)\"", advice: example)
        }
        switch text[..<colon.lowerBound].lowercased() {
        case "mqtt", "tcp": tls = false
        case "mqtts", "ssl", "tls": tls = true
        case let scheme:
            throw Complaint(
                "has the scheme \"\(String(scheme).shown)\", which is not supported",
                advice: example)
        }
        var rest = text[colon.upperBound...]
        if rest.last == "/" { rest.removeLast() }
        if rest.contains("@") {
            throw Complaint(
                "contains a user name or a password",
                advice: "use the keys username and password_file")
        }
        if let extra = rest.first(where: { "/?#".contains($0) }) {
            throw Complaint(
                "goes on after the port, from \"\(extra)\"",
                advice: "\(example); the topics' beginning is base_topic")
        }
        let end: Substring.Index
        if rest.first == "[" {
            guard let bracket = rest.firstIndex(of: "]") else {
                throw Complaint("has a [ that is not closed", advice: "write mqtt://[::1]:1883")
            }
            host = String(rest[rest.index(after: rest.startIndex)..<bracket])
            guard host.allSatisfy({ $0.isHexDigit || ":.%".contains($0) || $0.isLetter }),
                host.contains(":")
            else {
                throw Complaint(
                    "has no IPv6 address between the brackets: \"\(host.shown)\"",
                    advice: "write mqtt://[::1]:1883")
            }
            end = rest.index(after: bracket)
        } else {
            end = rest.firstIndex(of: ":") ?? rest.endIndex
            host = String(rest[..<end])
            guard !host.isEmpty,
                host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || ".-_".contains($0)) }
                )
            else {
                throw Complaint("has no valid host: \"\(host.shown)\"", advice: example)
            }
        }
        guard end != rest.endIndex else {
            port = tls ? 8883 : 1883
            return
        }
        let digits = rest[end...].dropFirst()
        guard rest[end] == ":", digits.allSatisfy({ $0.isASCII && $0.isNumber }),
            let port = UInt16(digits), port > 0
        else {
            throw Complaint(
                "has no valid port: \"\(String(digits).shown)\"",
                advice: "a port is a number from 1 to 65535; \(example)")
        }
        self.port = port
    }
}

extension String {
    fileprivate func range(ofFirst part: String) -> Range<Index>? {
        var start = startIndex
        while start != endIndex {
            if self[start...].hasPrefix(part) {
                return start..<index(start, offsetBy: part.count)
            }
            start = index(after: start)
        }
        return nil
    }
}
