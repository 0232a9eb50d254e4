#include "limit.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LEN 12
#define TAG_LEN 16

enum { SODIUM_GCM, OPENSSL_GCM, SODIUM_XCHACHA, OPENSSL_XCHACHA, LOOPS };

static const char *const names[LOOPS] = {
    "sodium-aes256gcm",
    "openssl-aes256gcm",
    "sodium-xchacha20poly1305",
    "openssl-xchacha20poly1305",
};

static const uint8_t header[HEADER_LEN] = {0x80, 0x78};
static const uint8_t key[32] = {1};
static uint8_t nonce[24];
static uint8_t *plain, *sealed;
static size_t packet_len, packet_count;
static int loop;
static crypto_aead_aes256gcm_state *state;
static EVP_CIPHER_CTX *sealing, *opening;

const char *limit_sodium_version(void)
{
    return sodium_version_string();
}

const char *limit_openssl_version(void)
{
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}

static EVP_CIPHER_CTX *context(const char *name, int seal)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, name, NULL);
    EVP_CIPHER_CTX *made = EVP_CIPHER_CTX_new();
    if (!EVP_CipherInit_ex(made, cipher, NULL, key, NULL, seal))
        abort();
    EVP_CIPHER_free(cipher);
    return made;
}

static void set_nonce(size_t i)
{
    uint32_t counter = (uint32_t)i;
    memcpy(nonce, &counter, sizeof counter);
}

static int evp_seal(const uint8_t *subkey, const uint8_t *iv, const uint8_t *in, uint8_t *out)
{
    int len;
    return EVP_EncryptInit_ex(sealing, NULL, NULL, subkey, iv) &&
           EVP_EncryptUpdate(sealing, NULL, &len, header, HEADER_LEN) &&
           EVP_EncryptUpdate(sealing, out, &len, in, (int)packet_len) &&
           EVP_EncryptFinal_ex(sealing, out + packet_len, &len) &&
           EVP_CIPHER_CTX_ctrl(sealing, EVP_CTRL_AEAD_GET_TAG, TAG_LEN, out + packet_len);
}

static int evp_open(const uint8_t *subkey, const uint8_t *iv, const uint8_t *in, uint8_t *out)
{
    int len;
    return EVP_DecryptInit_ex(opening, NULL, NULL, subkey, iv) &&
           EVP_DecryptUpdate(opening, NULL, &len, header, HEADER_LEN) &&
           EVP_CIPHER_CTX_ctrl(opening, EVP_CTRL_AEAD_SET_TAG, TAG_LEN, (void *)(in + packet_len)) &&
           EVP_DecryptUpdate(opening, out, &len, in, (int)packet_len) && EVP_DecryptFinal_ex(opening, out, &len) > 0;
}

static int seal_one(const uint8_t *in, uint8_t *out)
{
    static const uint8_t zeros[12];
    uint8_t subkey[32];
    switch (loop) {
    case SODIUM_GCM:
        return crypto_aead_aes256gcm_encrypt_afternm(out, NULL, in, packet_len, header, HEADER_LEN, NULL, nonce,
                                                     state) == 0;
    case OPENSSL_GCM:
        return evp_seal(NULL, nonce, in, out);
    case SODIUM_XCHACHA:
        return crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, in, packet_len, header, HEADER_LEN, NULL, nonce,
                                                          key) == 0;
    default:
        crypto_core_hchacha20(subkey, nonce, key, NULL);
        return evp_seal(subkey, zeros, in, out);
    }
}

static int open_one(const uint8_t *in, uint8_t *out)
{
    static const uint8_t zeros[12];
    uint8_t subkey[32];
    switch (loop) {
    case SODIUM_GCM:
        return crypto_aead_aes256gcm_decrypt_afternm(out, NULL, NULL, in, packet_len + TAG_LEN, header, HEADER_LEN,
                                                     nonce, state) == 0;
    case OPENSSL_GCM:
        return evp_open(NULL, nonce, in, out);
    case SODIUM_XCHACHA:
        return crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, in, packet_len + TAG_LEN, header, HEADER_LEN,
                                                          nonce, key) == 0;
    default:
        crypto_core_hchacha20(subkey, nonce, key, NULL);
        return evp_open(subkey, zeros, in, out);
    }
}

int limit_seal(size_t rounds)
{
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < packet_count; i++) {
            set_nonce(i);
            if (!seal_one(plain + i * packet_len, sealed + i * (packet_len + TAG_LEN)))
                return 0;
        }
    return 1;
}

int limit_open(size_t rounds)
{
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < packet_count; i++) {
            set_nonce(i);
            if (!open_one(sealed + i * (packet_len + TAG_LEN), plain + i * packet_len))
                return 0;
        }
    return 1;
}

int limit_prepare(const char *engine, size_t len, size_t count)
{
    for (loop = 0; loop < LOOPS && strcmp(names[loop], engine); loop++)
        ;
    if (loop == LOOPS || sodium_init() < 0 || (loop == SODIUM_GCM && !crypto_aead_aes256gcm_is_available()))
        return 0;
    if (!state) {
        state = sodium_malloc(sizeof *state);
        crypto_aead_aes256gcm_beforenm(state, key);
    }
    EVP_CIPHER_CTX_free(sealing);
    EVP_CIPHER_CTX_free(opening);
    sealing = context(loop == OPENSSL_XCHACHA ? "ChaCha20-Poly1305" : "AES-256-GCM", 1);
    opening = context(loop == OPENSSL_XCHACHA ? "ChaCha20-Poly1305" : "AES-256-GCM", 0);
    free(plain);
    free(sealed);
    packet_len = len;
    packet_count = count;
    plain = calloc(count, len + 1);
    sealed = calloc(count, len + TAG_LEN);
    return plain && sealed && limit_seal(1);
}
