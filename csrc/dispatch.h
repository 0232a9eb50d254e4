/* Which engine serves which mode on this machine, for which length of plaintext; and a mode's engines, keyed. */
#ifndef DV_DISPATCH_H
#define DV_DISPATCH_H

#include "engine.h"

/* Ranges of lengths into which the rows that apply may divide a mode, and so the engines that may share it. */
#define DV_RANGE_MAX 4

dv_result dv_dispatch_init(void);

/* An engine for plaintexts of from_len bytes and more, up to the next range. */
typedef struct dv_range {
    const dv_engine *engine;
    size_t from_len;
    size_t key_index; /* the first range of the same engine, whose key it uses */
} dv_range;

/* What serves a mode: ranges in order of from_len, the first from 0. */
typedef struct dv_choice {
    dv_range ranges[DV_RANGE_MAX];
    size_t count;
} dv_choice;

/* A key, made ready for one direction in every engine that serves the mode. What is forced later does not change it. */
typedef struct dv_cipher {
    dv_choice choice;
    dv_engine_key keys[DV_RANGE_MAX]; /* by key_index */
    bool at_work;                     /* dv_evp_mark was called, and returned marked */
    bool marked;
} dv_cipher;

dv_result dv_cipher_init(dv_cipher *cipher, dv_mode mode, dv_direction direction, const uint8_t key[DV_KEY_LEN]);
void dv_cipher_wipe(dv_cipher *cipher);

/* As in engine.h. Of the nonce the mode uses the first 12 bytes, or 24. */
bool dv_cipher_seal(dv_cipher *cipher, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                    size_t plain_len, uint8_t *out);
bool dv_cipher_open(dv_cipher *cipher, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                    size_t sealed_len, uint8_t *out);

/* After the last packet of a call, on its thread: leaves OpenSSL's error queue as it was before the first. */
void dv_cipher_rest(dv_cipher *cipher);

/* The engine of this name, whether it can run or not; NULL where there is none. */
const dv_engine *dv_engine_find(const char *name);

#endif
