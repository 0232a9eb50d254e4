/*
 * XChaCha20-Poly1305 as draft-irtf-cfrg-xchacha-03 (section 2.3) builds it: libsodium's HChaCha20 makes a subkey from the
 * first 16 bytes of the nonce, and OpenSSL's ChaCha20-Poly1305 seals with 4 zero bytes and the last 8 as its nonce.
 */
#include "evp.h"

#include <sodium.h>
#include <string.h>

typedef struct keyed {
    EVP_CIPHER_CTX *context;
    uint8_t key[DV_KEY_LEN];
} keyed;

_Static_assert(sizeof(keyed) <= sizeof(dv_engine_key), "the key fits");

static EVP_CIPHER *fetched;

static const EVP_CIPHER *cipher(void)
{
    return dv_evp_cipher(&fetched, "ChaCha20-Poly1305");
}

static const char *unavailable(void)
{
    return cipher() ? NULL : "the linked OpenSSL offers no ChaCha20-Poly1305 (its configuration may turn it off)";
}

static bool set_key(dv_engine_key *key, dv_direction direction, const uint8_t bytes[DV_KEY_LEN])
{
    keyed *k = (keyed *)key;
    memcpy(k->key, bytes, DV_KEY_LEN);
    k->context = dv_evp_new(cipher(), direction, NULL);
    return k->context != NULL;
}

static void derive(const keyed *k, const uint8_t *nonce, uint8_t subkey[DV_KEY_LEN], uint8_t iv[12])
{
    crypto_core_hchacha20(subkey, nonce, k->key, NULL);
    memset(iv, 0, 4);
    memcpy(iv + 4, nonce + 16, 8);
}

static bool seal(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                 size_t plain_len, uint8_t *out)
{
    keyed *k = (keyed *)key;
    uint8_t subkey[DV_KEY_LEN], iv[12];
    derive(k, nonce, subkey, iv);
    bool sealed = dv_evp_seal(k->context, subkey, iv, aad, aad_len, plain, plain_len, out);
    sodium_memzero(subkey, sizeof subkey);
    return sealed;
}

static bool open_(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                  size_t sealed_len, uint8_t *out)
{
    keyed *k = (keyed *)key;
    uint8_t subkey[DV_KEY_LEN], iv[12];
    derive(k, nonce, subkey, iv);
    bool opened = dv_evp_open(k->context, subkey, iv, aad, aad_len, sealed, sealed_len, out);
    sodium_memzero(subkey, sizeof subkey);
    return opened;
}

static void wipe(dv_engine_key *key)
{
    keyed *k = (keyed *)key;
    EVP_CIPHER_CTX_free(k->context);
    sodium_memzero(k, sizeof *k);
}

const dv_engine dv_engine_openssl_xchacha20poly1305 = {
    "openssl-xchacha20poly1305", DV_MODE_XCHACHA20_POLY1305, true, unavailable, set_key, seal, open_, wipe,
};
