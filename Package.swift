// swift-tools-version: 6.0
// The oldest compiler is Swift 6.0.3, which Debian 13 and Raspberry Pi OS ship: nothing newer here.
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

// lld, since GNU ld gives arm64 programs a writable and executable segment, which systemd's
// MemoryDenyWriteExecute= refuses to load.
/// libm is named because only Glibc's module would bring it along, and not every room imports that.
let lld: [LinkerSetting] = [.unsafeFlags(["-use-ld=lld"]), .linkedLibrary("m")]

/// A C library of the system; its module map links it. No `pkgConfig:`, which would hand the build
/// machine's folders to a cross build.
func system(_ name: String) -> Target {
    .systemLibrary(name: name, path: "Sources/System/\(name)")
}

/// A room of the house; `uses` is the whole of what it may import.
func room(_ name: String, uses: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: uses, swiftSettings: strict)
}

func tests(of name: String, uses: [Target.Dependency]) -> Target {
    .testTarget(
        name: "\(name)Tests", dependencies: [.init(stringLiteral: name)] + uses,
        swiftSettings: strict, linkerSettings: lld)
}

let package = Package(
    name: "usbmeter",
    products: [.executable(name: "usbmeter", targets: ["usbmeter"])],
    targets: [
        system("CBluetooth"),
        system("CCrypto"),
        system("CLinux"),
        system("CMosquitto"),
        system("CSQLite"),
        system("CSystemd"),
        system("CYAML"),
        system("CZlib"),

        room("MeterCore", uses: ["CCrypto"]),
        room("LinuxIO", uses: ["CLinux", "CSystemd", "CZlib"]),
        room("MeterLink", uses: ["MeterCore", "LinuxIO", "CBluetooth"]),
        room("MeterStore", uses: ["MeterCore", "LinuxIO", "CSQLite"]),
        room("MeterMQTT", uses: ["MeterCore", "LinuxIO", "CMosquitto"]),
        room("MeterSim", uses: ["MeterCore"]),
        room("Configuration", uses: ["MeterCore", "CYAML"]),
        room("Gateway", uses: ["MeterCore", "MeterStore"]),
        .executableTarget(
            name: "usbmeter",
            dependencies: [
                "MeterCore", "LinuxIO", "MeterLink", "MeterStore", "MeterMQTT", "MeterSim",
                "Configuration", "Gateway",
            ],
            swiftSettings: strict, linkerSettings: lld),

        tests(of: "MeterCore", uses: []),
        tests(of: "LinuxIO", uses: []),
        tests(of: "MeterLink", uses: ["MeterCore", "LinuxIO", "MeterSim"]),
        tests(of: "MeterStore", uses: ["MeterCore", "LinuxIO"]),
        tests(of: "MeterMQTT", uses: ["MeterCore", "LinuxIO"]),
        tests(of: "MeterSim", uses: ["MeterCore"]),
        tests(of: "Configuration", uses: ["MeterCore"]),
        tests(of: "Gateway", uses: ["MeterCore", "MeterSim", "MeterStore"]),
        tests(of: "usbmeter", uses: ["MeterCore", "LinuxIO", "MeterStore", "Gateway"]),
    ],
    swiftLanguageModes: [.v6]
)
