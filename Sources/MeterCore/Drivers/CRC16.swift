/// CRC-16/MODBUS: reflected polynomial A001, initial value FFFF, no final XOR.
func crc16Modbus(_ bytes: some Sequence<UInt8>) -> UInt16 {
    var crc: UInt16 = 0xffff
    for byte in bytes {
        crc ^= UInt16(byte)
        for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xa001 : crc >> 1 }
    }
    return crc
}
