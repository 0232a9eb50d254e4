/* What all that calls OpenSSL shares: an AEAD through EVP, context and cipher kept, one packet a call. */
#ifndef DV_EVP_H
#define DV_EVP_H

#include "engine.h"

#include <openssl/evp.h>

/*
 * Around dv_evp_seal and dv_evp_open, on one thread: what they leave in its error queue goes, what the host has there stays. It
 * costs a twentieth of a packet, and so is done once for many. The other calls see to it themselves.
 */
bool dv_evp_mark(void);
void dv_evp_unmark(bool marked);

/* The cipher of this name, fetched at the first call from any thread that holds no other; NULL where there is none. */
const EVP_CIPHER *dv_evp_cipher(EVP_CIPHER **fetched, const char *name);

/* A context for one direction with the cipher set, and the key where it is not NULL. NULL when OpenSSL fails. */
EVP_CIPHER_CTX *dv_evp_new(const EVP_CIPHER *cipher, dv_direction direction, const uint8_t *key);

/* For a cipher that takes IVs of several lengths: the one that the next calls use. False when OpenSSL fails. */
bool dv_evp_set_iv_len(EVP_CIPHER_CTX *context, size_t iv_len);

/* Seal and open as in engine.h. The key is NULL where the context keeps the one it has. */
bool dv_evp_seal(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
                 const uint8_t *plain, size_t plain_len, uint8_t *out);
bool dv_evp_open(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
                 const uint8_t *sealed, size_t sealed_len, uint8_t *out);

#endif
