import MeterMQTT
import Testing

struct BrokerAddressTests {
    @Test(
        arguments: [
            ("mqtt://broker", "broker", 1883, false, nil),
            ("mqtt://broker.lan:1884", "broker.lan", 1884, false, nil),
            ("mqtts://broker", "broker", 8883, true, nil),
            ("MQTTS://broker:443/", "broker", 443, true, nil),
            ("mqtt://192.168.1.2:1", "192.168.1.2", 1, false, nil),
            ("mqtt://[::1]", "::1", 1883, false, nil),
            ("mqtts://[2001:db8::1]:65535", "2001:db8::1", 65535, true, nil),
            ("mqtt://[fe80::1%eth0]:1883", "fe80::1%eth0", 1883, false, nil),
            ("mqtt://pi-desk@my_broker", "my_broker", 1883, false, "pi-desk"),
            ("mqtt://a%40b%3ac@broker:1883", "broker", 1883, false, "a@b:c"),
            ("mqtt://d@e@broker", "broker", 1883, false, "d@e"),
        ] as [(String, String, UInt16, Bool, String?)])
    func anAddressComesApart(
        url: String, host: String, port: UInt16, usesTLS: Bool, user: String?
    ) throws {
        let address = try MQTTSettings.Address(url: url)
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.usesTLS == usesTLS)
        #expect(address.user == user)
    }

    @Test(arguments: [
        ("broker.lan", "write mqtt://broker.lan"),
        ("", "no scheme"),
        ("http://broker", "use mqtt://"),
        ("tcp://broker", "use mqtt://"),
        ("mqtt://", "names no host"),
        ("mqtt://:1883", "names no host"),
        ("mqtt://user@", "names no host"),
        ("mqtt://user:secret@broker", "put it into a file"),
        ("mqtt://@broker", "not a user name"),
        ("mqtt://%zz@broker", "hex digits"),
        ("mqtt://%ff@broker", "not a user name"),
        ("mqtt://%00@broker", "not a user name"),
        ("mqtt://broker:", "not a port"),
        ("mqtt://broker:0", "not a port"),
        ("mqtt://broker:65536", "not a port"),
        ("mqtt://broker:+1", "not a port"),
        ("mqtt://broker:mqtt", "not a port"),
        ("mqtt://::1", "in brackets: [::1]"),
        ("mqtt://[::1", "closing bracket"),
        ("mqtt://[broker]", "not an IPv6 address"),
        ("mqtt://[::1%]", "not an IPv6 address"),
        ("mqtt://[::1]1883", "only a port"),
        ("mqtt://broker/topic", "goes on with \"/\""),
        ("mqtt://broker?x", "goes on with \"?\""),
        ("mqtt://my broker", "\" \" cannot be part"),
        ("mqtt://brökér", "\"ö\" cannot be part"),
    ])
    func aWrongAddressSaysWhatIsWrong(url: String, words: String) {
        do throws(MQTTSettings.AddressError) {
            let address = try MQTTSettings.Address(url: url)
            Issue.record("taken for \(address)")
        } catch {
            #expect(error.description.contains(words), "\(error)")
        }
    }
}
