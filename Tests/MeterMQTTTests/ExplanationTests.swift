import CMosquitto
import Glibc
import Testing

@testable import MeterMQTT

/// The sentences whose causes a test cannot make on the loopback interface.
struct ExplanationTests {
    private let explain = Explanation(
        settings: MQTTSettings(host: "broker.lan", clientID: "usbmeter-desk", username: "desk"))

    private func unreachable(_ code: mosq_err_t, _ errno: Int32) -> String {
        explain.unreachable(.init(code: Int32(code.rawValue), errno: errno, log: [])).description
    }

    @Test func anUnknownNameIsNotTheNetworksFault() {
        let unknown = unreachable(MOSQ_ERR_EAI, EAI_NONAME)
        #expect(unknown.hasPrefix("cannot find the address of broker.lan ("))
        #expect(unknown.hasSuffix(": check the broker's name"))
        #expect(unreachable(MOSQ_ERR_EAI, EAI_AGAIN).hasSuffix("is this computer on the network?"))
    }

    @Test func anUnreachableHostSaysHow() {
        #expect(
            unreachable(MOSQ_ERR_ERRNO, EHOSTUNREACH)
                .hasPrefix("cannot reach broker.lan:1883 (No route to host)"))
        #expect(
            unreachable(MOSQ_ERR_ERRNO, ETIMEDOUT).hasPrefix("broker.lan:1883 does not answer"))
    }

    @Test(
        arguments: [
            (4, "refuses our user name or password"), (0x86, "refuses our user name or password"),
            (5, "does not let the user \"desk\" in"), (0x87, "does not let the user \"desk\" in"),
            (2, "the client id \"usbmeter-desk\""), (0x85, "the client id \"usbmeter-desk\""),
            (3, "not available"), (0x89, "(server busy)"),
        ] as [(Int32, String)])
    func aRefusedGreetingIsExplainedInBothProtocols(reason: Int32, words: String) {
        let text = explain.refusal(reason).description
        #expect(text.contains(words), "\(text)")
    }

    @Test func aUsedUpQuotaIsCalledSo() {
        #expect(explain.refusal(0x97, topic: "a/b").contains("quota is used up"))
        #expect(explain.refusal(0x97, topic: "a/b").contains("\"a/b\""))
    }
}
