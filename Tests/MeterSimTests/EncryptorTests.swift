import Testing

@testable import MeterSim

@Test func theCipherGivesTheExampleOfTheStandard() {
    // FIPS 197, appendix C.3.
    let cipher = Encryptor(key: Array(0..<32))
    #expect(
        cipher.encrypt(bytes("00112233445566778899aabbccddeeff"))
            == bytes("8ea2b7ca516745bfeafc49904b496089"))
}

@Test func theCipherTakesEachBlockByItself() {
    // NIST SP 800-38A, F.1.5.
    let cipher = Encryptor(
        key: bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"))
    #expect(
        cipher.encrypt(
            bytes(
                """
                6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
                30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710
                """))
            == bytes(
                """
                f3eed1bdb5d2a03c064b5a7e3db181f8 591ccb10d410ed26dc5ba74a31362870
                b6ed21b99ca6f4f9f153e7b1beafed1d 23304b7a39f9f3ff067d8d8f9e24ecc7
                """))
}

@Test func theCheckIsTheOneOfModbus() {
    // The catalogue's check value for CRC-16/MODBUS.
    #expect([UInt8]("123456789".utf8).modbusCheck == 0x4b37)
}
