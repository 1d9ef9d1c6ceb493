import MeterCore
import MeterStore
import Testing

@testable import usbmeter

struct GatewayIdentityTests {
    @Test(arguments: [
        ("raspberrypi", "raspberrypi"), ("Bench-Pi.local", "bench-pi"), ("küche_1", "k-che-1"),
        ("--x", "x"), ("", "usbmeter"), (".local", "usbmeter"), ("日本", "usbmeter"),
        (String(repeating: "a", count: 60), String(repeating: "a", count: 27)),
    ])
    func aHostNameBecomesPartOfAnIDThatTopicsMayHave(_ host: String, _ name: String) {
        #expect(namePart(of: host) == name)
    }

    @Test func theIDIsMadeOnceAndKept() async throws {
        try await withStore { store in
            let id = try await gatewayID(
                configured: nil, in: store, host: "Bench.local", machine: "m1")
            #expect(id.hasPrefix("bench-"))
            #expect(id.count == "bench-".count + 4)
            #expect(id.allSatisfy { $0.isASCII && ($0.isNumber || $0.isLowercase || $0 == "-") })
            let again = try await gatewayID(
                configured: nil, in: store, host: "renamed", machine: "m1")
            #expect(again == id)
            // where nothing tells machines apart it stays as well
            let unknown = try await gatewayID(
                configured: nil, in: store, host: "renamed", machine: nil)
            #expect(unknown == id)
        }
    }

    @Test func aClonedCardMakesItsOwn() async throws {
        try await withStore { store in
            let id = try await gatewayID(configured: nil, in: store, host: "pi", machine: "m1")
            let clone = try await gatewayID(configured: nil, in: store, host: "pi2", machine: "m2")
            #expect(clone != id)
            let again = try await gatewayID(configured: nil, in: store, host: "pi2", machine: "m2")
            #expect(again == clone)
        }
    }

    @Test func whatIsConfiguredWinsAndIsNotKept() async throws {
        try await withStore { store in
            let id = try await gatewayID(configured: "desk", in: store)
            #expect(id == "desk")
            let kept = try await store.meta("gateway_id")
            #expect(kept == nil)
        }
    }
}
