/*
 * Stands in front of every file of the constant-time test: whether a tag is right is public once libsodium has said so.
 * Where OpenSSL and libsodium branch on it themselves, library.supp says so.
 */
#define crypto_aead_aes256gcm_decrypt_afternm verdict_aes256gcm
#define crypto_aead_xchacha20poly1305_ietf_decrypt verdict_xchacha20poly1305
