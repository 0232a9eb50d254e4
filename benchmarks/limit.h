/*
 * The limit: what the linked libraries need for the cipher alone, in a plain C loop. Contexts and expanded keys are kept,
 * only the nonce is set for a packet; there is no framing, no check, no lock and no Python. Nothing of csrc is used.
 */
#include <stddef.h>

/* The versions of the libraries that the loops run in, which must be those of what is compared with them. */
const char *limit_sodium_version(void);
const char *limit_openssl_version(void);

/* Prepare for plaintexts of len bytes, count of them, one behind the other. 1 when the engine can run. */
int limit_prepare(const char *engine, size_t len, size_t count);

/* Seal, or open, the packets of the last limit_prepare, rounds times over. 0 when a library call failed. */
int limit_seal(size_t rounds);
int limit_open(size_t rounds);
