/* AES-256-GCM by libsodium: only where the CPU has instructions for it, and there the fastest at voice sizes. */
#include "engine.h"

#include <sodium.h>

_Static_assert(sizeof(crypto_aead_aes256gcm_state) <= sizeof(dv_engine_key), "libsodium's key schedule fits");

static const char *unavailable(void)
{
    if (crypto_aead_aes256gcm_statebytes() > sizeof(dv_engine_key))
        return "the linked libsodium's AES key schedule is larger than the one it was built with";
    if (!crypto_aead_aes256gcm_is_available())
        return "libsodium finds no AES instructions that it can use on this CPU";
    return NULL;
}

static bool set_key(dv_engine_key *key, dv_direction direction, const uint8_t bytes[DV_KEY_LEN])
{
    (void)direction;
    return crypto_aead_aes256gcm_beforenm((crypto_aead_aes256gcm_state *)key, bytes) == 0;
}

static bool seal(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                 size_t plain_len, uint8_t *out)
{
    return crypto_aead_aes256gcm_encrypt_afternm(out, NULL, plain, plain_len, aad, aad_len, NULL, nonce,
                                                 (const crypto_aead_aes256gcm_state *)key) == 0;
}

static bool open_(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                  size_t sealed_len, uint8_t *out)
{
    return crypto_aead_aes256gcm_decrypt_afternm(out, NULL, NULL, sealed, sealed_len + DV_TAG_LEN, aad, aad_len, nonce,
                                                 (const crypto_aead_aes256gcm_state *)key) == 0;
}

static void wipe(dv_engine_key *key)
{
    sodium_memzero(key, sizeof *key);
}

const dv_engine dv_engine_sodium_aes256gcm = {
    "sodium-aes256gcm", DV_MODE_AES256_GCM, false, unavailable, set_key, seal, open_, wipe,
};
