import MeterCore
import Testing

struct AdvertisingTests {
    @Test func nameServicesAndMakersAreRead() {
        // flags, complete name UM25C, 16-bit service FFE0, manufacturer 0x5449
        let data = AdvertisingData([
            2, 0x01, 0x06, 6, 0x09, 0x55, 0x4d, 0x32, 0x35, 0x43, 3, 0x03, 0xe0, 0xff, 5, 0xff,
            0x49, 0x54, 1, 2,
        ])
        #expect(data.name == "UM25C")
        #expect(data.services == [BluetoothUUID(0xffe0)])
        #expect(data.manufacturers == [0x5449])
    }

    @Test func longServiceNumbersInTheCommonBaseAreShort() {
        let base: [UInt8] = [
            0xfb, 0x34, 0x9b, 0x5f, 0x80, 0, 0, 0x80, 0, 0x10, 0, 0, 0xe5, 0xff, 0, 0,
        ]
        let data = AdvertisingData([17, 0x07] + base)
        #expect(data.services == [BluetoothUUID(0xffe5)])
    }

    @Test(
        arguments: [
            [], [0], [5], [2, 0x09], [0xff, 0x09, 0x55], [1, 0x03], [2, 0x03, 0xe0],
            [2, 0xff, 0x49],
            [4, 0x0d, 1, 2],
        ] as [[UInt8]])
    func whatIsCutOffSaysNothing(bytes: [UInt8]) {
        #expect(AdvertisingData(bytes) == AdvertisingData())
    }

    @Test func whatComesBeforeADamagedPartStillCounts() {
        let data = AdvertisingData([5, 0x09, 0x54, 0x43, 0x36, 0x36, 30, 0x03, 0xe0])
        #expect(data.name == "TC66")
    }

    @Test func aNameEndsAtZeroAndHoldsNoControlCharacters() {
        #expect(AdvertisingData([6, 0x09, 0x55, 0x1b, 0x4d, 0, 0x58]).name == "UM")
        #expect(AdvertisingData([3, 0x09, 0, 0]).name == nil)
    }

    @Test func advertisementAndScanResponseMakeOneWhole() {
        var data = AdvertisingData([3, 0x02, 0xe0, 0xff])
        data.merge(AdvertisingData([4, 0x08, 0x55, 0x4d, 0x32]))
        #expect(data.name == "UM2")
        data.merge(AdvertisingData([6, 0x09, 0x55, 0x4d, 0x32, 0x35, 0x43]))
        data.merge(AdvertisingData([4, 0x08, 0x55, 0x4d, 0x32]))
        #expect(data.name == "UM25C")
        #expect(data.services == [BluetoothUUID(0xffe0)])
    }

    @Test func aDeviceCannotFillTheMemory() {
        var data = AdvertisingData()
        for number in 0..<2000 {
            data.merge(
                AdvertisingData([3, 0x03, UInt8(number & 0xff), UInt8(number >> 8)]))
            data.merge(AdvertisingData([3, 0xff, UInt8(number & 0xff), UInt8(number >> 8)]))
        }
        #expect(data.services.count <= 65)
        #expect(data.manufacturers.count <= 65)
    }
}

struct ModelGuessTests {
    private func data(
        _ name: String?, _ services: [UInt16] = [], manufacturer: UInt16? = nil
    ) -> AdvertisingData {
        var bytes: [UInt8] = []
        if let name { bytes += [UInt8(name.utf8.count + 1), 0x09] + name.utf8 }
        for service in services { bytes += [3, 0x03, UInt8(service & 0xff), UInt8(service >> 8)] }
        if let manufacturer {
            bytes += [3, 0xff, UInt8(manufacturer & 0xff), UInt8(manufacturer >> 8)]
        }
        return AdvertisingData(bytes)
    }

    @Test(arguments: [
        ("UM24C", MeterModel.um24c), ("UM25C", .um25c), ("UM34C", .um34c), ("TC66C", .tc66c),
        ("TC66", .tc66c), ("BT24-M", .tc66c), (" UM25C ", .um25c),
    ])
    func anExactNameIsAMeterWhateverItOffers(name: String, model: MeterModel) {
        let guess = ModelGuess(data(name), isComplete: false)
        #expect(guess?.model == model)
        #expect(guess?.certainty == .name)
        #expect(guess?.isCandidate == true)
    }

    @Test(arguments: [
        "UMIDIGI A9", "UM", "um25c", "UM99", "LEDBLE-7811", "iTAG", "HC-05", "TC-66", "BT24-MX",
        "XUM25C", "FNB58-1234",
    ])
    func aForeignNameIsAStranger(name: String) {
        #expect(ModelGuess(data(name), isComplete: true) == nil)
    }

    @Test(arguments: ["LEDBLE-7811", "FNB58-1234", "HMSoft"])
    func aForeignNameWithTheServicesOfAMeterIsAStranger(name: String) {
        #expect(ModelGuess(data(name, [0xffe0, 0xffe5]), isComplete: true) == nil)
    }

    @Test func aNameThatBeginsAsAMetersMustBeBorneOutByServices() {
        let bare = ModelGuess(data("UM25C-BLE"), isComplete: true)
        #expect(bare?.isCandidate == false)
        let served = ModelGuess(data("UM25C-BLE", [0xffe0]), isComplete: true)
        #expect(served?.isCandidate == true)
        #expect(served?.model == .um25c)
        let other = ModelGuess(data("UM-Meter", [0xfff0]), isComplete: true)
        #expect(other?.isCandidate == true)
        #expect(other?.model == nil)
        #expect(other?.family == .um)
    }

    @Test func theHeartRateFormNeedsTheNameOfATC66() {
        #expect(ModelGuess(data("TC66-01", [0x180d]), isComplete: true)?.isCandidate == true)
        #expect(ModelGuess(data("Polar H10", [0x180d]), isComplete: true) == nil)
        #expect(ModelGuess(data(nil, [0x180d]), isComplete: true) == nil)
    }

    @Test func servicesWithoutANameCountOnlyWhenThereIsNoNameToBeHad() {
        let early = ModelGuess(data(nil, [0xffe0]), isComplete: false)
        #expect(early?.certainty == .hint)
        let later = ModelGuess(data(nil, [0xffe0]), isComplete: true)
        #expect(later?.isCandidate == true)
        #expect(later?.family == .um)
        #expect(ModelGuess(data(nil, [0xffe5, 0xffe0]), isComplete: true)?.model == .tc66c)
    }

    @Test func theManufacturerNumberAloneMakesNoCandidate() {
        let guess = ModelGuess(data(nil, manufacturer: 0x5449), isComplete: true)
        #expect(guess?.certainty == .hint)
        #expect(ModelGuess(data("Sensor", manufacturer: 0x5449), isComplete: true) == nil)
        let named = ModelGuess(data("UM-X", manufacturer: 0x5449), isComplete: true)
        #expect(named?.isCandidate == true)
    }
}
