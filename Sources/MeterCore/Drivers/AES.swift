import CCrypto

/// AES-256 without chaining or padding, as the TC66C uses it; the cipher is OpenSSL's.
enum AES {
    static let blockSize = 16

    /// Decrypts whole blocks, each by itself.
    /// - Parameter cipherText: a multiple of 16 bytes.
    /// - Parameter key: 32 bytes.
    static func decryptECB(_ cipherText: ArraySlice<UInt8>, key: [UInt8]) -> [UInt8] {
        precondition(key.count == 32, "AES-256 takes a key of 32 bytes")
        precondition(cipherText.count % blockSize == 0, "ECB takes whole blocks of 16 bytes")
        guard let context = EVP_CIPHER_CTX_new() else { fatalError("out of memory in libcrypto") }
        defer { EVP_CIPHER_CTX_free(context) }
        var done: Int32 = 0
        let plain = [UInt8](unsafeUninitializedCapacity: cipherText.count + blockSize) {
            out, count in
            cipherText.withUnsafeBufferPointer { input in
                guard
                    EVP_DecryptInit_ex(context, EVP_aes_256_ecb(), nil, key, nil) == 1,
                    EVP_CIPHER_CTX_set_padding(context, 0) == 1,
                    EVP_DecryptUpdate(
                        context, out.baseAddress, &done, input.baseAddress, Int32(input.count)) == 1
                else { fatalError("libcrypto has no AES-256-ECB") }
            }
            count = Int(done)
        }
        return plain
    }
}
