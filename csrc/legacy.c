/* Ciphers that no mode here uses, but that packets were sealed with by mistake or long ago: to say so, not to talk so. */
#include "dvcrypto.h"

#include <sodium.h>

int dv_legacy_open_chacha20poly1305(const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
                                    const uint8_t *sealed, size_t sealed_len, uint8_t *out)
{
    return crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, sealed_len, aad, aad_len, nonce, key) ==
           0;
}

int dv_legacy_open_xsalsa20poly1305(const uint8_t *key, const uint8_t *nonce, const uint8_t *sealed, size_t sealed_len,
                                    uint8_t *out)
{
    return crypto_secretbox_open_easy(out, sealed, sealed_len, nonce, key) == 0;
}
