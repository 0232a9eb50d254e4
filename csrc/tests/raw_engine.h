/*
 * For tests alone, and in no build that users get: one engine with any nonce and any associated data, so that other
 * people's vectors can be put to it.
 */
#include <stddef.h>
#include <stdint.h>

int raw_available(const char *engine);

/* 1 when it worked. out has plain_len + 16 bytes. The nonce has 12 bytes or 24, as the engine's mode wants. */
int raw_seal(const char *engine, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
             const uint8_t *plain, size_t plain_len, uint8_t *out);

/* sealed has sealed_len + 16 bytes, out sealed_len. */
int raw_open(const char *engine, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
             const uint8_t *sealed, size_t sealed_len, uint8_t *out);
