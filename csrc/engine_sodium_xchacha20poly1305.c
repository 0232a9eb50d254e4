/* XChaCha20-Poly1305 by libsodium: everywhere. */
#include "engine.h"

#include <sodium.h>
#include <string.h>

static const char *unavailable(void)
{
    return NULL;
}

static bool set_key(dv_engine_key *key, dv_direction direction, const uint8_t bytes[DV_KEY_LEN])
{
    (void)direction;
    memcpy(key->bytes, bytes, DV_KEY_LEN);
    return true;
}

static bool seal(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                 size_t plain_len, uint8_t *out)
{
    return crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, plain, plain_len, aad, aad_len, NULL, nonce,
                                                      key->bytes) == 0;
}

static bool open_(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                  size_t sealed_len, uint8_t *out)
{
    return crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, sealed_len + DV_TAG_LEN, aad, aad_len,
                                                      nonce, key->bytes) == 0;
}

static void wipe(dv_engine_key *key)
{
    sodium_memzero(key->bytes, DV_KEY_LEN);
}

const dv_engine dv_engine_sodium_xchacha20poly1305 = {
    "sodium-xchacha20poly1305", DV_MODE_XCHACHA20_POLY1305, false, unavailable, set_key, seal, open_, wipe,
};
