/*
 * What an engine is: one AEAD of one library. It is given whole nonces and associated data, and knows nothing of RTP,
 * counters or threads. A new engine is one new file that defines one of these, and a row in dispatch.c.
 */
#ifndef DV_ENGINE_H
#define DV_ENGINE_H

#include "dvcrypto.h"

#include <stdbool.h>

#define DV_NONCE_MAX_LEN 24

typedef enum dv_direction { DV_SEAL, DV_OPEN } dv_direction;

/* A key made ready for one direction, in whatever form the engine wants. Aligned as libsodium's AES key schedule is. */
typedef union dv_engine_key {
    _Alignas(16) uint8_t bytes[512];
    void *pointer;
} dv_engine_key;

typedef struct dv_engine {
    const char *name;
    dv_mode mode;

    /* Whether it is OpenSSL's, and to be called between dv_evp_mark and dv_evp_unmark. */
    bool is_openssl;

    /* NULL where the engine can run on this CPU with the linked libraries, else the reason why not. */
    const char *(*unavailable)(void);

    /* Expand the key, once for many packets. False when the library fails. */
    bool (*set_key)(dv_engine_key *key, dv_direction direction, const uint8_t bytes[DV_KEY_LEN]);

    /* Write plain_len bytes of ciphertext, then the tag. out == plain is allowed, other overlap is not. */
    bool (*seal)(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                 size_t plain_len, uint8_t *out);

    /*
     * Read sealed_len bytes of ciphertext, then the tag; write sealed_len bytes of plaintext. False when the tag is
     * wrong: the output then holds anything, and the caller wipes it. out == sealed is allowed, other overlap is not.
     */
    bool (*open)(dv_engine_key *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                 size_t sealed_len, uint8_t *out);

    /* Forget the key. Allowed on a key of zeros. */
    void (*wipe)(dv_engine_key *key);
} dv_engine;

extern const dv_engine dv_engine_openssl_aes256gcm;
extern const dv_engine dv_engine_sodium_aes256gcm;
extern const dv_engine dv_engine_sodium_xchacha20poly1305;
extern const dv_engine dv_engine_openssl_xchacha20poly1305;

#endif
