/*
 * Whatever fails below csrc, at every place in turn: memory, locks, the libraries' calls, and memory within OpenSSL. Each time
 * the result says so, the output is wiped, the nonces are burnt, nothing is lost, no freed memory holds the key, and OpenSSL's
 * error queue is as it was.
 */
#define _POSIX_C_SOURCE 200809L /* posix_memalign, under -std=c11 */

#undef malloc
#undef calloc
#undef posix_memalign
#undef free
#undef pthread_mutex_init
#undef pthread_atfork
#undef sodium_init
#undef crypto_aead_aes256gcm_beforenm
#undef crypto_aead_aes256gcm_encrypt_afternm
#undef crypto_aead_xchacha20poly1305_ietf_encrypt
#undef EVP_CIPHER_fetch
#undef EVP_CIPHER_CTX_new
#undef EVP_CIPHER_CTX_free
#undef EVP_CipherInit_ex
#undef EVP_CipherUpdate
#undef EVP_CipherFinal_ex
#undef EVP_CIPHER_CTX_ctrl

#include "test_csrc.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 8192
#define NONCES_MAX 8192
#define SITES_MAX 400 /* places where a call can fail: many times what there are */
#define PACKET_COUNT 4
#define PACKET_LEN 700 /* long enough for either engine of a mode, whichever is forced */
#define HOST_REASON 77

typedef struct block {
    void *start;
    size_t len;
    bool ours; /* and not OpenSSL's, which keeps some for later */
} block;

typedef struct used_nonce {
    uint8_t key[DV_KEY_LEN]; /* zeros where the context keeps it */
    uint8_t bytes[DV_NONCE_MAX_LEN];
} used_nonce;

static struct {
    bool armed;
    bool spares_openssl; /* its own memory does not fail */
    size_t calls;        /* since then, of those that can fail */
    size_t fails_at;     /* which of them does, from 1 */
    size_t contexts;     /* there are */
    block blocks[BLOCKS_MAX];
    size_t block_count;
    used_nonce nonces[NONCES_MAX];
    size_t nonce_count;
} faults;

static uint8_t key[DV_KEY_LEN];

static bool fails(void)
{
    return faults.armed && ++faults.calls == faults.fails_at;
}

/* As a failing call of OpenSSL does. */
static void leave_error(void)
{
    ERR_raise(ERR_LIB_EVP, ERR_R_INTERNAL_ERROR);
}

static void arm(size_t fails_at)
{
    faults.calls = 0;
    faults.fails_at = fails_at;
    faults.armed = true;
}

/* Whether there was such a call, and it failed. */
static bool disarm(void)
{
    faults.armed = false;
    return faults.calls >= faults.fails_at;
}

static size_t ours_count(void)
{
    size_t count = faults.contexts;
    for (size_t i = 0; i < faults.block_count; i++)
        count += faults.blocks[i].ours;
    return count;
}

/* What is made while nothing is armed is not looked at: it is the tests' own. */
static void *remember(void *start, size_t len, bool ours)
{
    if (!faults.armed || !start)
        return start;
    block made = {start, len, ours};
    CHECK(faults.block_count < BLOCKS_MAX);
    if (faults.block_count < BLOCKS_MAX)
        faults.blocks[faults.block_count++] = made;
    return start;
}

static bool holds_key(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i + DV_KEY_LEN <= len; i++)
        if (!memcmp(bytes + i, key, DV_KEY_LEN))
            return true;
    return false;
}

static void forget(void *start)
{
    for (size_t i = faults.block_count; start && i-- > 0;)
        if (faults.blocks[i].start == start) {
            CHECK(!holds_key(start, faults.blocks[i].len));
            faults.blocks[i] = faults.blocks[--faults.block_count];
            return;
        }
}

void *faulty_malloc(size_t len)
{
    return fails() ? NULL : remember(malloc(len), len, true);
}

void *faulty_calloc(size_t count, size_t len)
{
    return fails() ? NULL : remember(calloc(count, len), count * len, true);
}

int faulty_posix_memalign(void **memory, size_t alignment, size_t len)
{
    if (fails())
        return 12; /* ENOMEM */
    int error = posix_memalign(memory, alignment, len);
    if (!error)
        remember(*memory, len, true);
    return error;
}

void faulty_free(void *memory)
{
    forget(memory);
    free(memory);
}

static void *openssl_malloc(size_t len, const char *file, int line)
{
    (void)file, (void)line;
    return !faults.spares_openssl && fails() ? NULL : remember(malloc(len), len, false);
}

static void *openssl_realloc(void *memory, size_t len, const char *file, int line)
{
    (void)file, (void)line;
    if (!faults.spares_openssl && fails())
        return NULL;
    forget(memory);
    return remember(realloc(memory, len), len, false);
}

static void openssl_free(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    faulty_free(memory);
}

int faulty_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    return fails() ? 11 /* EAGAIN */ : pthread_mutex_init(mutex, attributes);
}

int faulty_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return fails() ? 12 : pthread_atfork(prepare, parent, child);
}

int faulty_sodium_init(void)
{
    return fails() ? -1 : sodium_init();
}

/* A nonce that was ever given to a library for sealing must not come again. */
static void use_nonce(const uint8_t *by_key, const uint8_t *nonce, size_t nonce_len)
{
    used_nonce used = {{0}, {0}};
    if (!faults.armed)
        return;
    if (by_key)
        memcpy(used.key, by_key, DV_KEY_LEN);
    memcpy(used.bytes, nonce, nonce_len);
    for (size_t i = 0; i < faults.nonce_count; i++)
        CHECK(memcmp(&faults.nonces[i], &used, sizeof used) != 0);
    CHECK(faults.nonce_count < NONCES_MAX);
    if (faults.nonce_count < NONCES_MAX)
        faults.nonces[faults.nonce_count++] = used;
}

/* These do what they should before they fail, so that there is something to be wiped. */

int faulty_aes256gcm_beforenm(crypto_aead_aes256gcm_state *state, const unsigned char *by_key)
{
    int result = crypto_aead_aes256gcm_beforenm(state, by_key);
    return fails() ? -1 : result;
}

int faulty_aes256gcm_encrypt_afternm(unsigned char *out, unsigned long long *out_len, const unsigned char *plain,
                                     unsigned long long plain_len, const unsigned char *aad, unsigned long long aad_len,
                                     const unsigned char *secret_nonce, const unsigned char *nonce,
                                     const crypto_aead_aes256gcm_state *state)
{
    use_nonce(NULL, nonce, 12);
    int result =
        crypto_aead_aes256gcm_encrypt_afternm(out, out_len, plain, plain_len, aad, aad_len, secret_nonce, nonce, state);
    return fails() ? -1 : result;
}

int faulty_xchacha20poly1305_encrypt(unsigned char *out, unsigned long long *out_len, const unsigned char *plain,
                                     unsigned long long plain_len, const unsigned char *aad, unsigned long long aad_len,
                                     const unsigned char *secret_nonce, const unsigned char *nonce,
                                     const unsigned char *by_key)
{
    use_nonce(NULL, nonce, 24);
    int result = crypto_aead_xchacha20poly1305_ietf_encrypt(out, out_len, plain, plain_len, aad, aad_len, secret_nonce,
                                                            nonce, by_key);
    return fails() ? -1 : result;
}

EVP_CIPHER *faulty_EVP_CIPHER_fetch(OSSL_LIB_CTX *context, const char *name, const char *properties)
{
    if (!fails())
        return EVP_CIPHER_fetch(context, name, properties);
    leave_error();
    return NULL;
}

EVP_CIPHER_CTX *faulty_EVP_CIPHER_CTX_new(void)
{
    EVP_CIPHER_CTX *made = fails() ? NULL : EVP_CIPHER_CTX_new();
    faults.contexts += made != NULL;
    return made;
}

void faulty_EVP_CIPHER_CTX_free(EVP_CIPHER_CTX *context)
{
    faults.contexts -= context != NULL;
    EVP_CIPHER_CTX_free(context);
}

static int outcome(int result)
{
    if (!fails())
        return result;
    leave_error();
    return 0;
}

int faulty_EVP_CipherInit_ex(EVP_CIPHER_CTX *context, const EVP_CIPHER *cipher, ENGINE *engine,
                             const unsigned char *by_key, const unsigned char *iv, int encrypts)
{
    if (iv && EVP_CIPHER_CTX_is_encrypting(context))
        use_nonce(by_key, iv, 12);
    return outcome(EVP_CipherInit_ex(context, cipher, engine, by_key, iv, encrypts));
}

int faulty_EVP_CipherUpdate(EVP_CIPHER_CTX *context, unsigned char *out, int *out_len, const unsigned char *in,
                            int in_len)
{
    return outcome(EVP_CipherUpdate(context, out, out_len, in, in_len));
}

int faulty_EVP_CipherFinal_ex(EVP_CIPHER_CTX *context, unsigned char *out, int *out_len)
{
    return outcome(EVP_CipherFinal_ex(context, out, out_len));
}

int faulty_EVP_CIPHER_CTX_ctrl(EVP_CIPHER_CTX *context, int type, int argument, void *pointer)
{
    return outcome(EVP_CIPHER_CTX_ctrl(context, type, argument, pointer));
}

void faults_begin(void)
{
    random_bytes(key, sizeof key); /* before anything is looked through for it: zeros are everywhere */
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

#ifndef _WIN32

/* 1 where dv_init says that the call failed, 2 where the libraries do without, 3 where there was no such call. */
static int init_in_child(void *argument)
{
    const size_t *fails_at = argument;
    arm(*fails_at);
    dv_result result = dv_init();
    if (!disarm())
        return result == DV_DONE ? 3 : 0;
    if (result == DV_DONE)
        return 2;
    return (result == DV_ERROR_MEMORY || result == DV_ERROR_ENGINE) && dv_init() == DV_DONE;
}

/* Before dv_init was called in this process. OpenSSL 3.0 dies by itself where memory fails while it loads its ciphers. */
void test_faults_of_init(void)
{
    int became = 1, failed = 0;
    group("faults: dv_init, and once more");
    faults.spares_openssl = true;
    for (size_t fails_at = 1; became != 3 && became > 0 && fails_at < SITES_MAX; fails_at++) {
        begin_case();
        became = in_child(init_in_child, &fails_at);
        CHECK(became >= 1 && became <= 3);
        failed += became == 1;
    }
    faults.spares_openssl = false;
    CHECK(became == 3);
    CHECK(failed >= 2); /* libsodium and the fork handler */
}

#else

void test_faults_of_init(void)
{
}

#endif

/* Two entries of the host's in OpenSSL's error queue, with a mark of its own on the first; or none. */
static void queue_error(bool by_host)
{
    ERR_clear_error();
    if (!by_host)
        return;
    ERR_raise(ERR_LIB_USER, HOST_REASON);
    ERR_set_mark();
    ERR_raise(ERR_LIB_USER, HOST_REASON + 1);
}

static bool queue_is_as_before(bool by_host)
{
    unsigned long newest = ERR_peek_last_error();
    if (!by_host)
        return !newest;
    ERR_pop_to_mark();
    unsigned long first = ERR_get_error();
    return ERR_GET_REASON(newest) == HOST_REASON + 1 && ERR_GET_REASON(first) == HOST_REASON && !ERR_get_error();
}

/* One of the API's things, however it is made. */
typedef struct thing {
    dv_mode mode;
    dv_sealer *sealer;
    dv_opener *opener;
    dv_aead *aead;
    dv_receiver *receiver;
} thing;

static dv_result make_sealer(thing *made)
{
    return dv_sealer_new(&made->sealer, made->mode, key, 0, 0);
}

static dv_result make_opener(thing *made)
{
    return dv_opener_new(&made->opener, made->mode, key, 1024);
}

static dv_result make_aead(thing *made)
{
    return dv_aead_new(&made->aead, made->mode, key, DV_KEY_LEN);
}

static dv_result make_receiver(thing *made)
{
    made->receiver = dv_receiver_new(2048, 64, 2048);
    return made->receiver ? DV_DONE : DV_ERROR_MEMORY;
}

static bool is_nothing(const thing *made)
{
    return !made->sealer && !made->opener && !made->aead && !made->receiver;
}

static void unmake(thing *made)
{
    dv_sealer_free(made->sealer);
    dv_opener_free(made->opener);
    dv_aead_free(made->aead);
    dv_receiver_free(made->receiver);
}

/* Where no more calls fail, it is made. */
static void making(dv_result (*make)(thing *made), dv_mode mode, bool by_host)
{
    bool failed = true;
    size_t fails_at = 0;
    while (failed && ++fails_at < SITES_MAX) {
        thing made = {mode, NULL, NULL, NULL, NULL};
        size_t before = ours_count();
        begin_case();
        queue_error(by_host);
        arm(fails_at);
        dv_result result = make(&made);
        failed = disarm();
        CHECK(queue_is_as_before(by_host));
        CHECK(result == DV_DONE || (failed && (result == DV_ERROR_MEMORY || result == DV_ERROR_ENGINE)));
        CHECK(is_nothing(&made) == (result != DV_DONE));
        unmake(&made);
        CHECK(ours_count() == before);
    }
    CHECK(!failed && fails_at > 1);
}

/* A sealer and what it is to seal, in one of its ways. */
typedef struct sealing {
    dv_sealer *sealer;
    burst packets;
    dv_stream stream;
    uint8_t frame[PACKET_COUNT * PACKET_LEN];
    output out;
    dv_refusal refusal;
    size_t count; /* the nonces that it takes */
} sealing;

static dv_result seal_one(sealing *of)
{
    const packet *one = &of->packets.packets[0];
    of->count = 1;
    return dv_sealer_seal(of->sealer, one->bytes, one->header_len, one->bytes + one->header_len,
                          one->len - one->header_len, of->out.bytes, of->out.len, &of->refusal);
}

static dv_result seal_burst(sealing *of)
{
    of->count = of->packets.count;
    return dv_sealer_seal_burst(of->sealer, of->packets.starts, of->packets.lens, of->packets.count, of->out.bytes,
                                of->out.len, &of->refusal);
}

static dv_result seal_frame(sealing *of)
{
    dv_stream before = of->stream;
    of->count = PACKET_COUNT;
    dv_result result =
        seal_plain(of->sealer, &of->stream, of->frame, sizeof of->frame, 1, 960, of->out.bytes, of->out.len);
    CHECK(result == DV_DONE || !memcmp(&before, &of->stream, sizeof before));
    return result;
}

static void sealing_new(sealing *made, dv_mode mode)
{
    memset(made, 0, sizeof *made);
    CHECK(dv_sealer_new(&made->sealer, mode, key, 0, 0) == DV_DONE);
    burst_random(&made->packets, PACKET_COUNT, PACKET_LEN);
    random_bytes(made->frame, sizeof made->frame);
    made->stream.max_packet_len = 12 + PACKET_LEN + 20;
    faults.nonce_count = 0;
}

static void sealing_free(sealing *of)
{
    dv_sealer_free(of->sealer);
    burst_free(&of->packets);
}

/* The nonces of a call that failed are gone, and its output is zero as far as it was written. */
static bool seal_with_fault(sealing *of, dv_result (*seal)(sealing *of), size_t fails_at, bool by_host)
{
    uint64_t left = dv_sealer_packets_left(of->sealer);
    of->out = output_new(2 * PACKET_COUNT * (PACKET_LEN + 400));
    queue_error(by_host);
    arm(fails_at);
    dv_result result = seal(of);
    bool failed = disarm();
    CHECK(queue_is_as_before(by_host));
    CHECK(result == (failed ? DV_ERROR_ENGINE : DV_DONE));
    CHECK(left - dv_sealer_packets_left(of->sealer) == of->count);
    for (size_t i = 0; failed && i < of->out.len; i++)
        CHECK(of->out.bytes[i] == 0 || all_are(of->out.bytes + i, of->out.len - i, of->out.fill));
    output_free(&of->out);
    return failed;
}

static void sealing_way(dv_result (*seal)(sealing *of), dv_mode mode, bool by_host)
{
    sealing of;
    bool failed = true;
    size_t fails_at = 0;
    sealing_new(&of, mode);
    while (failed && ++fails_at < SITES_MAX) {
        begin_case();
        failed = seal_with_fault(&of, seal, fails_at, by_host);
    }
    CHECK(!failed && fails_at > 1);
    sealing_free(&of);
}

/* A packet that did not open is zero, one that did is right; and what failed opens when it comes again. */
static bool open_with_fault(dv_opener *opener, const burst *plain, const burst *sealed, size_t fails_at, bool by_host)
{
    dv_opened opened[PACKET_COUNT];
    output out = output_new(sealed->sealed_len);
    size_t not_opened = 0, at = 0;
    queue_error(by_host);
    arm(fails_at);
    dv_result result =
        dv_opener_open_burst(opener, sealed->starts, sealed->lens, sealed->count, out.bytes, out.len, opened);
    bool failed = disarm();
    CHECK(result == DV_DONE);
    CHECK(queue_is_as_before(by_host));
    for (size_t i = 0; i < sealed->count; at += sealed->lens[i++]) {
        if (opened[i].status == DV_OK || opened[i].status == DV_EMPTY) {
            CHECK(!memcmp(out.bytes + at, plain->starts[i], plain->lens[i]));
            continue;
        }
        not_opened++;
        CHECK(opened[i].status == DV_BAD_TAG || opened[i].status == DV_REPLAYED);
        CHECK(all_are(out.bytes + at, sealed->lens[i], 0));
        dv_opener_open_burst(opener, &sealed->starts[i], &sealed->lens[i], 1, out.bytes + at, sealed->lens[i],
                             &opened[i]);
        CHECK(opened[i].status == DV_OK || opened[i].status == DV_EMPTY);
    }
    CHECK(not_opened == failed);
    output_free(&out);
    return failed;
}

static void openings(dv_mode mode, bool by_host)
{
    burst plain, sealed;
    bool failed = true;
    size_t fails_at = 0;
    burst_random(&plain, PACKET_COUNT, PACKET_LEN);
    sealed = plain;
    for (size_t i = 0; i < plain.count; i++) {
        uint8_t suffix[4];
        suffix_write((uint32_t)i, false, suffix);
        sealed.lens[i] += 20;
        sealed.starts[i] = sealed.packets[i].bytes = exact_new(sealed.lens[i]);
        packet_seal(mode, key, suffix, &plain.packets[i], sealed.packets[i].bytes);
    }
    while (failed && ++fails_at < SITES_MAX) {
        dv_opener *opener;
        begin_case();
        CHECK(dv_opener_new(&opener, mode, key, 64) == DV_DONE);
        failed = open_with_fault(opener, &plain, &sealed, fails_at, by_host);
        dv_opener_free(opener);
    }
    CHECK(!failed && fails_at > 1);
    burst_free(&plain);
    burst_free(&sealed);
}

/* The first call of each direction makes what works in it. */
static void aead_works(dv_mode mode, size_t key_len, size_t nonce_len, bool by_host)
{
    uint8_t nonce[DV_NONCE_MAX_LEN] = {0}, text[PACKET_LEN], sealed[PACKET_LEN + 16];
    bool failed = true;
    random_bytes(text, sizeof text);
    for (size_t fails_at = 1; failed && fails_at < SITES_MAX; fails_at++) {
        dv_aead *aead;
        dv_message plain = {nonce, nonce_len, key, 12, text, sizeof text};
        dv_message other = {nonce, nonce_len, key, 12, sealed, sizeof sealed};
        output out = output_new(sizeof sealed);
        size_t before = ours_count();
        begin_case();
        faults.nonce_count = 0; /* which here are the caller's */
        CHECK(dv_aead_new(&aead, mode, key, key_len) == DV_DONE);
        queue_error(by_host);
        arm(fails_at);
        dv_result result = dv_aead_seal(aead, &plain, out.bytes, out.len);
        failed = disarm();
        CHECK(queue_is_as_before(by_host));
        CHECK(result == DV_DONE || (failed && (result == DV_ERROR_MEMORY || result == DV_ERROR_ENGINE)));
        CHECK(result == DV_DONE || output_untouched(&out) || all_are(out.bytes, out.len, 0));
        CHECK(dv_aead_seal(aead, &plain, sealed, sizeof sealed) == DV_DONE);
        output_free(&out);

        out = output_new(sizeof text);
        queue_error(by_host);
        arm(fails_at);
        result = dv_aead_open(aead, &other, out.bytes, out.len);
        failed |= disarm();
        CHECK(queue_is_as_before(by_host));
        CHECK(result == DV_DONE || result == DV_ERROR_MEMORY || result == DV_ERROR_ENGINE || result == DV_ERROR_TAG);
        CHECK(result == DV_DONE || output_untouched(&out) || all_are(out.bytes, out.len, 0));
        CHECK(dv_aead_open(aead, &other, out.bytes, out.len) == DV_DONE && !memcmp(out.bytes, text, sizeof text));
        output_free(&out);
        dv_aead_free(aead);
        CHECK(ours_count() == before);
    }
    CHECK(!failed);
}

static void makings(dv_mode mode, bool by_host)
{
    making(make_sealer, mode, by_host);
    making(make_opener, mode, by_host);
    making(make_aead, mode, by_host);
    making(make_receiver, mode, by_host);
}

static void sealings(dv_mode mode, bool by_host)
{
    sealing_way(seal_one, mode, by_host);
    sealing_way(seal_burst, mode, by_host);
    sealing_way(seal_frame, mode, by_host);
}

static void aeads(dv_mode mode, bool by_host)
{
    aead_works(mode, DV_KEY_LEN, mode == DV_MODE_AES256_GCM ? 12 : 24, by_host);
    if (mode == DV_MODE_AES256_GCM)
        aead_works(mode, 16, 8, by_host);
}

static void with_each_engine(void (*test)(dv_mode mode, bool by_host))
{
    static const char *const engines[] = {"openssl-aes256gcm", "sodium-aes256gcm", "sodium-xchacha20poly1305",
                                          "openssl-xchacha20poly1305"};
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        if (dv_force_engine(engines[i]) == DV_DONE) {
            test(dv_engine_find(engines[i])->mode, false);
            test(dv_engine_find(engines[i])->mode, true);
        }
    dv_dispatch_init();
}

void test_faults(void)
{
    group("faults: making sealer, opener, aead, receiver");
    with_each_engine(makings);
    group("faults: sealing one, a burst, a frame");
    with_each_engine(sealings);
    group("faults: opening, with a replay window");
    with_each_engine(openings);
    group("faults: an aead by itself");
    with_each_engine(aeads);
}
