#include "dispatch.h"

#include "cpu.h"
#include "evp.h"
#include "library.h"

#include <sodium.h>
#include <string.h>

/*
 * The dispatch table: of a mode's rows that apply here, the last one whose length is reached serves. A row applies where
 * its engine can run, the CPU has what it needs, libsodium is older than sodium_before, and OpenSSL is openssl_from or newer
 * (0: whatever they are). Where two engines of a mode cross was measured: docs/engines.md has the figures and the command.
 */
static const struct {
    const dv_engine *engine;
    size_t from_len; /* of the plaintext */
    int sodium_before, openssl_from;
    bool needs_vaes_avx512;
} table[] = {
    {&dv_engine_openssl_aes256gcm, 0, 0, 0, false},
    {&dv_engine_sodium_aes256gcm, 0, 0, 0, false},
    {&dv_engine_openssl_aes256gcm, 192, 0, DV_VERSION(3, 5, 0), true},
    {&dv_engine_openssl_aes256gcm, 320, DV_VERSION(1, 0, 19), 0, true},
    {&dv_engine_openssl_aes256gcm, 544, DV_VERSION(1, 0, 19), 0, false},
    {&dv_engine_sodium_xchacha20poly1305, 0, 0, 0, false},
    {&dv_engine_openssl_xchacha20poly1305, 192, 0, DV_VERSION(3, 5, 0), true},
    {&dv_engine_openssl_xchacha20poly1305, 640, 0, 0, false},
};

#define TABLE_LEN (sizeof table / sizeof table[0])

static const dv_engine *const engines[] = {
    &dv_engine_openssl_aes256gcm,
    &dv_engine_sodium_aes256gcm,
    &dv_engine_sodium_xchacha20poly1305,
    &dv_engine_openssl_xchacha20poly1305,
};

#define ENGINE_COUNT (sizeof engines / sizeof engines[0])

/* Of the stack, how deep the libraries reach: what compilers put aside there, of keys too, the libraries do not wipe. */
#define STACK_LEN 8192

static dv_choice chosen[DV_MODE_COUNT];

static size_t key_index_of(dv_mode mode, const dv_engine *engine)
{
    size_t i = 0;
    while (i < chosen[mode].count && chosen[mode].ranges[i].engine != engine)
        i++;
    return i;
}

/* A row that starts where the last range starts takes its place; one with the same engine only widens it. */
static void add_range(dv_mode mode, const dv_engine *engine, size_t from_len)
{
    size_t *count = &chosen[mode].count;
    if (*count && chosen[mode].ranges[*count - 1].from_len == from_len)
        --*count;
    if (*count && chosen[mode].ranges[*count - 1].engine == engine)
        return;
    dv_range added = {engine, from_len, key_index_of(mode, engine)};
    chosen[mode].ranges[(*count)++] = added;
}

static bool applies(size_t row)
{
    int before = table[row].sodium_before;
    return !table[row].engine->unavailable() && (!before || dv_sodium_number() < before) &&
           dv_openssl_number() >= table[row].openssl_from && (!table[row].needs_vaes_avx512 || dv_vaes_avx512());
}

dv_result dv_dispatch_init(void)
{
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        chosen[mode].count = 0;
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (applies(i))
            add_range(table[i].engine->mode, table[i].engine, table[i].from_len);
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        if (!chosen[mode].count)
            return DV_ERROR_ENGINE;
    return DV_DONE;
}

const dv_engine *dv_engine_find(const char *name)
{
    for (size_t i = 0; i < ENGINE_COUNT; i++)
        if (!strcmp(engines[i]->name, name))
            return engines[i];
    return NULL;
}

dv_result dv_force_engine(const char *name)
{
    const dv_engine *engine = dv_engine_find(name);
    if (!engine || engine->unavailable())
        return DV_ERROR_ENGINE;
    chosen[engine->mode].count = 0;
    add_range(engine->mode, engine, 0);
    return DV_DONE;
}

size_t dv_engine_count(void)
{
    return ENGINE_COUNT;
}

void dv_engine_describe(size_t index, dv_engine_info *info)
{
    const dv_engine *engine = engines[index];
    memset(info, 0, sizeof *info);
    info->name = engine->name;
    info->mode = engine->mode;
    info->unavailable = engine->unavailable();
    for (size_t i = 0; i < chosen[engine->mode].count; i++) {
        const dv_range *r = &chosen[engine->mode].ranges[i];
        if (r->engine != engine)
            continue;
        info->range_from[info->range_count] = r->from_len;
        info->range_to[info->range_count] = i + 1 < chosen[engine->mode].count ? r[1].from_len : SIZE_MAX;
        info->range_count++;
    }
}

dv_result dv_cipher_init(dv_cipher *cipher, dv_mode mode, dv_direction direction, const uint8_t key[DV_KEY_LEN])
{
    cipher->choice = chosen[mode];
    for (size_t i = 0; i < cipher->choice.count; i++) {
        const dv_range *r = &cipher->choice.ranges[i];
        if (r->key_index == i && !r->engine->set_key(&cipher->keys[i], direction, key)) {
            dv_cipher_wipe(cipher);
            return DV_ERROR_ENGINE;
        }
    }
    return DV_DONE;
}

void dv_cipher_wipe(dv_cipher *cipher)
{
    for (size_t i = 0; i < cipher->choice.count; i++)
        if (cipher->choice.ranges[i].key_index == i)
            cipher->choice.ranges[i].engine->wipe(&cipher->keys[i]);
    sodium_memzero(cipher->keys, sizeof cipher->keys);
    sodium_stackzero(STACK_LEN);
}

/* What serves this length, made ready to work. */
static const dv_range *range_for(dv_cipher *cipher, size_t len)
{
    const dv_range *r = cipher->choice.ranges;
    const dv_range *last = r + cipher->choice.count - 1;
    while (r < last && len >= r[1].from_len)
        r++;
    if (r->engine->is_openssl && !cipher->at_work) {
        cipher->marked = dv_evp_mark();
        cipher->at_work = true;
    }
    return r;
}

bool dv_cipher_seal(dv_cipher *cipher, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                    size_t plain_len, uint8_t *out)
{
    const dv_range *r = range_for(cipher, plain_len);
    return r->engine->seal(&cipher->keys[r->key_index], nonce, aad, aad_len, plain, plain_len, out);
}

bool dv_cipher_open(dv_cipher *cipher, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                    size_t sealed_len, uint8_t *out)
{
    const dv_range *r = range_for(cipher, sealed_len);
    return r->engine->open(&cipher->keys[r->key_index], nonce, aad, aad_len, sealed, sealed_len, out);
}

void dv_cipher_rest(dv_cipher *cipher)
{
    if (cipher->at_work)
        dv_evp_unmark(cipher->marked);
    cipher->at_work = false;
}
