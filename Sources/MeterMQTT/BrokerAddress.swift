import Glibc

extension MQTTSettings {
    /// The parts of a broker's URL: `mqtt://[user@]host[:port]`, or `mqtts://` with TLS.
    package struct Address: Sendable, Hashable {
        /// A name, an IPv4 address, or an IPv6 address without brackets, with its zone if it has one.
        package var host: String
        /// 1883 unless given, with TLS 8883.
        package var port: UInt16
        package var usesTLS: Bool
        package var user: String?

        /// Takes a URL apart.
        /// - Throws: `AddressError` with what is wrong with it.
        package init(url: String) throws(AddressError) {
            guard let colon = url.range(of: "://") else {
                throw AddressError("\"\(url)\" has no scheme: write mqtt://\(url)")
            }
            let scheme = url[..<colon.lowerBound].lowercased()
            switch scheme {
            case "mqtt": usesTLS = false
            case "mqtts": usesTLS = true
            default:
                throw AddressError(
                    "\"\(scheme)\" is not a scheme of a broker: use mqtt://, or mqtts:// for TLS")
            }

            var rest = url[colon.upperBound...]
            if rest.last == "/" { rest.removeLast() }
            if let extra = rest.first(where: { "/?#".contains($0) }) {
                throw AddressError(
                    "a broker's address ends after the port, but \"\(url)\" goes on with \"\(extra)\""
                )
            }
            if let at = rest.lastIndex(of: "@") {
                user = try Self.user(rest[..<at])
                rest = rest[rest.index(after: at)...]
            }
            let (host, port) = try Self.split(rest)
            self.host = try Self.checked(host)
            self.port = try port.map(Self.port) ?? (usesTLS ? 8883 : 1883)
        }

        private static func user(_ text: Substring) throws(AddressError) -> String {
            guard !text.contains(":") else {
                throw AddressError("a password does not belong in the address: put it into a file")
            }
            var bytes: [UInt8] = []
            var characters = text.utf8.makeIterator()
            while let byte = characters.next() {
                if byte != UInt8(ascii: "%") {
                    bytes.append(byte)
                    continue
                }
                guard let high = characters.next().flatMap(hexDigit),
                    let low = characters.next().flatMap(hexDigit)
                else {
                    throw AddressError("\"%\" in \"\(text)\" is not followed by two hex digits")
                }
                bytes.append(high << 4 | low)
            }
            guard !bytes.isEmpty, let user = String(validating: bytes, as: UTF8.self),
                !bytes.contains(0)
            else { throw AddressError("\"\(text)\" before the @ is not a user name") }
            return user
        }

        /// Takes the host out of its brackets and parts it from the port.
        private static func split(
            _ text: Substring
        ) throws(AddressError) -> (Substring, port: Substring?) {
            if text.first == "[" {
                guard let bracket = text.firstIndex(of: "]") else {
                    throw AddressError("\"\(text)\" lacks the closing bracket")
                }
                let host = text[text.index(after: text.startIndex)..<bracket]
                let after = text[text.index(after: bracket)...]
                guard isIPv6(host) else {
                    throw AddressError("\"\(host)\" in brackets is not an IPv6 address")
                }
                if after.isEmpty { return (host, nil) }
                guard after.first == ":" else {
                    throw AddressError("only a port may follow the bracket, not \"\(after)\"")
                }
                return (host, after.dropFirst())
            }
            guard let colon = text.firstIndex(of: ":") else { return (text, nil) }
            let after = text[text.index(after: colon)...]
            guard !after.contains(":") else {
                throw AddressError("write an IPv6 address in brackets: [\(text)]")
            }
            return (text[..<colon], after)
        }

        private static func checked(_ host: Substring) throws(AddressError) -> String {
            guard !host.isEmpty else { throw AddressError("the address names no host") }
            if host.contains(":") { return String(host) }
            for character in host
            where !character.isASCII
                || !(character.isLetter || character.isNumber || "-._".contains(character))
            {
                throw AddressError("\"\(character)\" cannot be part of a host name: \"\(host)\"")
            }
            return String(host)
        }

        private static func port(_ text: Substring) throws(AddressError) -> UInt16 {
            guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let port = UInt16(text), port > 0
            else { throw AddressError("\"\(text)\" is not a port: use a number from 1 to 65535") }
            return port
        }

        private static func isIPv6(_ text: Substring) -> Bool {
            let address = text.prefix { $0 != "%" }
            let zone = text.dropFirst(address.count)
            var parsed = in6_addr()
            return zone != "%" && inet_pton(AF_INET6, String(address), &parsed) == 1
        }

        private static func hexDigit(_ byte: UInt8) -> UInt8? {
            Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init)
        }
    }

    /// Why a text is not a broker's address, one sentence.
    package struct AddressError: Error, Sendable, Hashable, CustomStringConvertible {
        package var description: String
        fileprivate init(_ description: String) { self.description = description }
    }
}

extension String {
    /// The first place at which `text` occurs.
    fileprivate func range(of text: String) -> Range<Index>? {
        indices.lazy.filter { self[$0...].hasPrefix(text) }.first.map {
            $0..<self.index($0, offsetBy: text.count)
        }
    }
}
