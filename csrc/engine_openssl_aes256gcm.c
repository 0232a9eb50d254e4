/* AES-256-GCM by OpenSSL: everywhere, with or without AES instructions. */
#include "evp.h"

static EVP_CIPHER *fetched;

static const EVP_CIPHER *cipher(void)
{
    return dv_evp_cipher(&fetched, "AES-256-GCM");
}

static const char *unavailable(void)
{
    return cipher() ? NULL : "the linked OpenSSL offers no AES-256-GCM (its configuration may turn it off)";
}

static bool set_key(dv_engine_key *key, dv_direction direction, const uint8_t bytes[DV_KEY_LEN])
{
    key->pointer = dv_evp_new(cipher(), direction, bytes);
    return key->pointer != NULL;
}

static bool seal(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                 size_t plain_len, uint8_t *out)
{
    return dv_evp_seal(key->pointer, NULL, nonce, aad, aad_len, plain, plain_len, out);
}

static bool open_(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                  size_t sealed_len, uint8_t *out)
{
    return dv_evp_open(key->pointer, NULL, nonce, aad, aad_len, sealed, sealed_len, out);
}

static void wipe(dv_engine_key *key)
{
    EVP_CIPHER_CTX_free(key->pointer); /* cleanses the key schedule */
    key->pointer = NULL;
}

const dv_engine dv_engine_openssl_aes256gcm = {
    "openssl-aes256gcm", DV_MODE_AES256_GCM, true, unavailable, set_key, seal, open_, wipe,
};
