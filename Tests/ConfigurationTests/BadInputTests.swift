import FoundationEssentials
import Testing

@testable import Configuration

/// A text, and everything that is to be said about it.
struct BadInput: Sendable, CustomTestStringConvertible {
    var name: String
    var text: String
    var problems: [String]

    init(_ name: String, _ text: String, _ problems: String...) {
        self.name = name
        self.text = text
        self.problems = problems
    }
    var testDescription: String { name }
}

@Suite struct BadInputTests {
    @Test(arguments: [
        BadInput(
            "a misspelt key", "sessions:\n  start_curent: 60 mA\n" + oneMeter,
            "m.yaml:2:3: error: unknown key \"start_curent\" (did you mean \"start_current\"?)"),
        BadInput(
            "a misspelt group", "mtqq: {}\n" + oneMeter,
            "m.yaml:1:1: error: unknown key \"mtqq\" (known here are gateway, mqtt, bluetooth, sessions, "
                + "storage, log, meters)"),
        BadInput(
            "swapped letters", "mqtt:\n  ulr: mqtt://b:1883\n" + oneMeter,
            "m.yaml:2:3: error: unknown key \"ulr\" (did you mean \"url\"?)"),
        BadInput(
            "a key of another group", "start_current: 60 mA\n" + oneMeter,
            "m.yaml:1:1: error: unknown key \"start_current\" (it belongs below \"sessions\")"),
        BadInput(
            "a key of a meter", "serial: /dev/ttyACM0\n" + oneMeter,
            "m.yaml:1:1: error: unknown key \"serial\" (it belongs into each entry of \"meters\")"),
        BadInput(
            "a number without unit", "sessions:\n  start_current: 50\n" + oneMeter,
            "m.yaml:2:18: error: start_current has no unit: \"50\" (write for example \"50 mA\"; "
                + "the units are µA, mA and A)"),
        BadInput(
            "an unknown unit", "sessions:\n  end_delay: 2 minutes\n" + oneMeter,
            "m.yaml:2:14: error: end_delay has an unknown unit: \"2 minutes\" (the units are ms, "
                + "s, min, h and d)"),
        BadInput(
            "a word for a quantity", "sessions:\n  end_delay: soon\n" + oneMeter,
            "m.yaml:2:14: error: end_delay is not a duration: \"soon\" (write for example "
                + "\"10 s\")"),
        BadInput(
            "polling too often",
            "meters:\n  - name: A\n    serial: /dev/a\n    poll_interval: 100 ms\n",
            "m.yaml:4:20: error: poll_interval is 100 ms, which is less than 330 ms (choose from "
                + "330 ms to 5 s)"),
        BadInput(
            "polling too rarely",
            "meters:\n  - name: A\n    serial: /dev/a\n    poll_interval: 10 s\n",
            "m.yaml:4:20: error: poll_interval is 10 s, which is more than 5 s (choose from "
                + "330 ms to 5 s)"),
        BadInput(
            "a keepalive of half seconds", "mqtt:\n  keepalive: 7500 ms\n" + oneMeter,
            "m.yaml:2:14: error: keepalive is not a multiple of 1 s (round it)"),
        BadInput(
            "a list for a value", "log:\n  level: [info]\n" + oneMeter,
            "m.yaml:2:10: error: level must be one value, not a list"),
        BadInput(
            "a value for a group", "log: info\n" + oneMeter,
            "m.yaml:1:6: error: log must have keys in it, not \"info\" (known there are level)"),
        BadInput(
            "no value", "gateway:\n  id:\n" + oneMeter,
            "m.yaml:2:6: error: id has no value (write one, or remove the line)"),
        BadInput(
            "a misspelt word", "log:\n  level: wraning\n" + oneMeter,
            "m.yaml:2:10: error: level is \"wraning\" (did you mean \"warning\"?)"),
        BadInput(
            "a word that is none of the choices", "mqtt:\n  protocol: 4\n" + oneMeter,
            "m.yaml:2:13: error: protocol is \"4\" (write auto, 5 or 3.1.1)"),
        BadInput(
            "yes for true", "mqtt:\n  insecure: yes\n" + oneMeter,
            "m.yaml:2:13: error: insecure is \"yes\" (write true or false)"),
        BadInput(
            "a gateway id with capitals", "gateway:\n  id: Bench_Pi\n" + oneMeter,
            "m.yaml:2:7: error: id cannot be \"Bench_Pi\" (write 1 to 32 of the characters a to "
                + "z, 0 to 9 and -)"),
        BadInput(
            "a wildcard in the base topic", "mqtt:\n  base_topic: a/+/b\n" + oneMeter,
            "m.yaml:2:15: error: base_topic contains a wildcard: \"a/+/b\" (write one or more "
                + "words joined by /, for example home/usbmeter)"),
        BadInput(
            "a slash before the base topic", "mqtt:\n  base_topic: /a\n" + oneMeter,
            "m.yaml:2:15: error: base_topic has an empty level (a / at its start, its end, or two "
                + "in a row): \"/a\" (write one or more words joined by /, for example "
                + "home/usbmeter)"),
        BadInput(
            "the broker's own tree", "mqtt:\n  base_topic: $SYS/a\n" + oneMeter,
            "m.yaml:2:15: error: base_topic begins with $, which is the broker's own: \"$SYS/a\" "
                + "(write one or more words joined by /, for example home/usbmeter)"),
        BadInput(
            "an address without scheme", "mqtt:\n  url: broker:1883\n" + oneMeter,
            "m.yaml:2:8: error: url is not a URL: \"broker:1883\" (write mqtt://host:1883, or "
                + "mqtts://host:8883 for TLS)"),
        BadInput(
            "a password in the URL", "mqtt:\n  url: mqtt://me:secret@broker\n" + oneMeter,
            "m.yaml:2:8: error: url contains a user name or a password (use the keys username and "
                + "password_file)"),
        BadInput(
            "a certificate without key",
            "mqtt:\n  url: mqtts://b\n  certificate_file: c.pem\n" + oneMeter,
            "m.yaml:3:21: error: certificate_file is given without key_file (add its private key)"),
        BadInput(
            "a key without certificate", "mqtt:\n  url: mqtts://b\n  key_file: c.pem\n" + oneMeter,
            "m.yaml:3:13: error: key_file is given without certificate_file (add the certificate "
                + "that it belongs to)"),
        BadInput(
            "a password of nobody", "mqtt:\n  password_file: p\n" + oneMeter,
            "m.yaml:2:18: error: password_file is given without username (add the user whose "
                + "password it is)"),
        BadInput(
            "authorities without TLS", "mqtt:\n  ca_file: ca.pem\n" + oneMeter,
            "m.yaml:2:12: warning: ca_file has no effect without TLS (write mqtts:// in url, or "
                + "remove it)"),
        BadInput(
            "nothing below mqtt", "mqtt:\n" + oneMeter,
            "m.yaml:1:6: warning: mqtt has nothing below it, so nothing is published (write its "
                + "url, or remove the line)"),
        BadInput(
            "a home folder", "gateway:\n  data: ~/usbmeter\n" + oneMeter,
            "m.yaml:2:9: error: data begins with ~, which is not replaced here: \"~/usbmeter\" "
                + "(write the path in full)"),
        BadInput(
            "sessions that end where they begin",
            "sessions:\n  start_current: 30 mA\n  stop_current: 30 mA\n" + oneMeter,
            "m.yaml:3:17: error: stop_current (30 mA) must be less than start_current (30 mA) "
                + "(lower stop_current)"),
        BadInput(
            "a start current below the default stop current",
            "sessions:\n  start_current: 10 mA\n" + oneMeter,
            "m.yaml:2:18: error: stop_current (20 mA) must be less than start_current (10 mA) "
                + "(stop_current is the default: give it too)"),
        BadInput(
            "an override that does not fit to the common rules",
            "meters:\n  - name: A\n    serial: /dev/a\n    stop_current: 60 mA\n",
            "m.yaml:4:19: error: stop_current (60 mA) must be less than start_current (50 mA) "
                + "(start_current is that of all meters: give it too)"),
        BadInput(
            "no meters at all", "log: {level: info}\n",
            "m.yaml:1:1: warning: no meters are listed, so only those that "
                + "Bluetooth finds are measured (add them to "
                + "\"meters\")"),
        BadInput(
            "an empty list of meters", "log: {level: info}\nmeters: []\n",
            "m.yaml:2:9: warning: no meters are listed, so only those that "
                + "Bluetooth finds are measured (add them to "
                + "\"meters\")"),
        BadInput(
            "meters as a mapping", "meters:\n  name: A\n  serial: /dev/a\n",
            "m.yaml:2:3: error: meters must be a list (begin each meter's entry with \"- \")"),
        BadInput(
            "a meter that is only a word", "meters:\n  - um25c\n",
            "m.yaml:2:5: error: a meter must have keys in it, not \"um25c\" (known there are name, "
                + "serial, address, link, channel, profile, model, poll_interval, temperature_unit, "
                + "start_current, start_delay, stop_current, end_delay, gap_limit)"),
        BadInput(
            "a meter without name", "meters:\n  - serial: /dev/a\n",
            "m.yaml:2:5: error: a meter has no name (add \"name: …\")"),
        BadInput(
            "a meter that cannot be reached", "meters:\n  - name: A\n",
            "m.yaml:2:5: error: a meter has neither an address nor a serial device (add "
                + "\"address: …\" for Bluetooth, or \"serial: /dev/…\")"),
        BadInput(
            "a serial meter with a kind of Bluetooth",
            "meters:\n  - {name: A, serial: /dev/a, link: ble}\n",
            "m.yaml:2:37: warning: link has no effect on a meter with a serial device (remove it, "
                + "or remove serial to use Bluetooth)"),
        BadInput(
            "a channel that RFCOMM does not have",
            "meters:\n  - {name: A, address: 00:15:A6:00:36:2F, channel: 31}\n",
            "m.yaml:2:52: error: channel is \"31\" (write a whole number from 1 to 30)"),
        BadInput(
            "denied is no list", "bluetooth: {deny: x}\nmeters: [{name: A, serial: /dev/a}]\n",
            "m.yaml:1:19: error: deny must be a list (write it as [first, second], or one to a line "
                + "after \"- \")"),
        BadInput(
            "a broken address", "meters:\n  - {name: A, serial: /dev/a, address: 00:15:A6:00:36}\n",
            "m.yaml:2:40: error: address is not a Bluetooth address: \"00:15:A6:00:36\" (write six "
                + "pairs of hexadecimal digits, 00:15:A6:00:36:2F)"),
        BadInput(
            "a device without path", "meters:\n  - {name: A, serial: ttyACM0}\n",
            "m.yaml:2:23: error: serial is not a path: \"ttyACM0\" (write \"/dev/ttyACM0\")"),
        BadInput(
            "an unknown model", "meters:\n  - {name: A, serial: /dev/a, model: um26c}\n",
            "m.yaml:2:38: error: model is \"um26c\" (did you mean \"um24c\"?)"),
        BadInput(
            "a unit for a meter that sends both",
            "meters:\n  - {name: A, serial: /dev/a, model: um25c, temperature_unit: celsius}\n",
            "m.yaml:2:63: warning: temperature_unit has no effect on a UM25C (only a TC66C reports "
                + "in the unit of its display: remove it)"),
        BadInput(
            "two meters of one name",
            "meters:\n  - {name: Left, serial: /dev/a}\n  - {name: LEFT, serial: /dev/b}\n",
            "m.yaml:3:12: error: the name \"LEFT\" is already that of the meter on line 2 (every "
                + "meter needs its own)"),
        BadInput(
            "two meters on one device",
            "meters:\n  - {name: A, serial: /dev/a}\n  - {name: B, serial: /dev/a}\n",
            "m.yaml:3:23: error: the device /dev/a is already that of the meter on line 2 (every "
                + "meter needs its own)"),
        BadInput(
            "two meters with one address",
            "meters:\n  - {name: A, serial: /dev/a, address: 0015a600362f}\n"
                + "  - {name: B, serial: /dev/b, address: 00:15:A6:00:36:2F}\n",
            "m.yaml:3:40: error: the address 00:15:A6:00:36:2F is already that of the meter on "
                + "line 2 (every meter needs its own)"),
        BadInput(
            "an empty name", "meters:\n  - {name: \"\", serial: /dev/a}\n",
            "m.yaml:2:12: error: name is empty (write 1 to 64 characters)"),
        BadInput(
            "a name that turns the writing",
            "meters:\n  - {name: \"A\\u202EB\", serial: /dev/a}\n",
            "m.yaml:2:12: error: name contains an invisible character: \"A\\u{202E}B\" (remove it)"),
        BadInput(
            "a key twice", "log:\n  level: info\n  level: debug\n" + oneMeter,
            "m.yaml:3:3: error: \"level\" is given twice; the first is on line 2 (remove one of "
                + "them)"),
        BadInput(
            "an alias", "log:\n  level: *usual\n" + oneMeter,
            "m.yaml:2:10: error: \"*usual\" is an alias, which does not exist here (write the value "
                + "out, or put text that begins with * into quotes)"),
        BadInput(
            "an anchor", "log: &l\n  level: info\n" + oneMeter,
            "m.yaml:1:6: error: \"&l\" names a value for aliases, which do not exist here (put text "
                + "that begins with & into quotes)"),
        BadInput(
            "a tag", "log:\n  level: !word info\n" + oneMeter,
            "m.yaml:2:10: error: \"!word\" is a YAML tag, which does not exist here (put text that "
                + "begins with ! into quotes)"),
        BadInput(
            "two documents", oneMeter + "---\n" + oneMeter,
            "m.yaml:2:1: error: a second document begins here (a configuration is one document: "
                + "remove the line ---)"),
        BadInput(
            "a mapping as a key", "? {a: b}\n: c\n",
            "m.yaml:1:3: error: a list or a mapping stands where a key is expected (a key is a "
                + "plain word; put text that begins with { or [ into quotes)"),
        BadInput(
            "too deep", String(repeating: "[", count: 17),
            "m.yaml:1:17: error: more than 16 levels inside one another (a configuration has "
                + "three)"),
        BadInput(
            "a tab", "log:\n\tlevel: info\n",
            "m.yaml:2:1: error: a tab cannot indent (use blanks)"),
        BadInput(
            "a value that begins with @", "gateway:\n  name: @home\n",
            "m.yaml:2:9: error: a value cannot begin with @ (put text that begins with a special "
                + "character into quotes)"),
        BadInput(
            "two colons", "gateway:\n  name: Bench: left\n",
            "m.yaml:2:14: error: a colon cannot stand here (check how this line and the one before "
                + "are indented; put text that contains a colon and a blank into quotes)"),
        BadInput(
            "a crooked indent", "log:\n  level: info\n id: x\n",
            "m.yaml:3:2: error: this line does not fit to those above (keys of one group begin in "
                + "the same column, and so do the \"-\" of one list)"),
        BadInput(
            "an open quote", "gateway:\n  name: \"Bench\n" + oneMeter,
            "m.yaml:2:9: error: the quotes that open here are never closed"),
        BadInput(
            "a key without colon", "gateway:\n  id: a\n  name Bench\n" + oneMeter,
            "m.yaml:3:3: error: a key without a colon (write key: value)"),
        BadInput(
            "an open bracket", "meters: [{name: A, serial: /dev/a}\nlog: {}\n",
            "m.yaml:1:9: error: the [ that opens here is not closed"),
        BadInput(
            "no blank after the colon", "id:bench\n",
            "m.yaml:1:1: error: keys are expected, not \"id:bench\" (write key: value, with a blank "
                + "after the colon)"),
        BadInput(
            "nothing", "",
            "m.yaml: error: nothing is written in it (list at least one meter; "
                + "docs/configuration.md names every key)"),
        BadInput(
            "comments only", "# meters:\n---\n",
            "m.yaml: error: nothing is written in it (list at least one meter; "
                + "docs/configuration.md names every key)"),
        BadInput(
            "a zero byte", "log:\n  level: \0\n",
            "m.yaml:2:10: error: a control character (\\0), so not a text (is this the right "
                + "file?)"),
    ])
    func eachMistakeIsNamedWithItsPlaceAndItsRemedy(_ input: BadInput) {
        #expect(problems(in: input.text) == input.problems)
        let values = Configuration.parse(text: input.text, file: "m.yaml").values
        #expect((values == nil) == input.problems.contains { $0.contains(": error: ") })
    }

    @Test func everythingThatIsWrongIsToldAtOnceAndInOrder() {
        let text = """
            meters:
              - name: A
                serial: /dev/a
                pol_interval: 2 s
              - name: a
                serial: /dev/b
                model: x
            log:
              level: loud
            sessions:
              start_current: 50
              end_delay: 1 year
            gateway:
              id: ÄÖ
            """
        let places = Configuration.parse(text: text, file: "m.yaml").problems.map(\.line)
        #expect(places == [4, 5, 7, 9, 11, 12, 14])
    }

    @Test func aWrongCommonRuleIsNotBlamedOnTheMetersThatInheritIt() {
        let text = """
            sessions:
              start_current: 10
            meters:
              - {name: A, serial: /dev/a, stop_current: 60 mA}
            """
        #expect(Configuration.parse(text: text, file: "m.yaml").problems.map(\.line) == [2])
    }

    @Test func bytesThatAreNoUTF8AreOneProblem() {
        let text = Array("gateway:\n  name: B".utf8) + [0xfc, 0x72, 0x6f]
        let loaded = Configuration.parse(bytes: text, file: "m.yaml")
        #expect(
            loaded.problems.map(\.description) == [
                "m.yaml:2:10: error: not UTF-8 text (save the file in UTF-8)"
            ])
        #expect(loaded.values == nil)
    }

    @Test func aFileOfAnotherKindIsOneProblem() {
        var program: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0]
        program += (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 151) }
        #expect(Configuration.parse(bytes: program, file: "m.yaml").problems.count == 1)
        let utf16: [UInt8] = [0xff, 0xfe, 0x61, 0, 0x3a, 0]
        #expect(Configuration.parse(bytes: utf16, file: "m.yaml").problems.count == 1)
    }

    @Test func aHugeTextIsRefused() {
        let text = String(repeating: "# filling\n", count: 200_000)
        #expect(
            problems(in: text) == [
                "m.yaml: error: larger than 1024 KiB (is this the right file?)"
            ])
    }

    @Test func ofVeryManyErrorsTheFirstAreShown() {
        let keys = (0..<50_000).map { "key\($0): x\n" }.joined()
        let meters = "meters:\n" + String(repeating: "- {}\n", count: 50_000)
        for text in [keys, meters, String(repeating: "a: b\n", count: 50_000)] {
            let problems = problems(in: text)
            #expect(problems.count <= 102)
            #expect(
                problems.last
                    == "m.yaml: error: only the first 100 errors are shown (is this the right file?)"
            )
        }
    }

    @Test func manyWarningsHideNothing() throws {
        let meters = (0..<150).map { number in
            let digits = String(number)
            let address = String(repeating: "0", count: 12 - digits.count) + digits
            return "  - {name: Meter \(number), address: \(address), temperature_unit: celsius, "
                + "model: um25c}\n"
        }
        let loaded = Configuration.parse(text: "meters:\n" + meters.joined(), file: "m.yaml")
        #expect(loaded.problems.count == 150)
        #expect(loaded.values?.meters.count == 150)
    }

    @Test(arguments: ["- ", "[", "{a: ", "a: [b, ", "? ", "&a ", "\"", "- a\n"])
    func anyPatternForAMebibyteEndsInAnAnswer(_ pattern: String) {
        let text = String(repeating: pattern, count: (1 << 20) / pattern.utf8.count)
        #expect(!problems(in: text).isEmpty)
    }
}
