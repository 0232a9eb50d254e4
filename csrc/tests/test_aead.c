/* The AEAD by itself: the bytes that the libraries give when called directly, whatever key, nonce and order of calls. */
#define _POSIX_C_SOURCE 200809L /* pthread, under -std=c11 */

#include "test_csrc.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#include <stdatomic.h>
#endif

#define KEY_MAX_LEN 32
#define NONCE_MAX_LEN 128

/* An aead, and its key. */
typedef struct subject {
    dv_mode mode;
    size_t key_len;
    uint8_t key[KEY_MAX_LEN];
    dv_aead *aead;
} subject;

/* A message, and its sealed text as another has made it. */
typedef struct example {
    dv_message plain;
    dv_message sealed;
    uint8_t *nonce, *aad, *plain_text, *sealed_text; /* exact */
} example;

static subject subject_new(dv_mode mode, size_t key_len)
{
    subject made = {mode, key_len, {0}, NULL};
    random_bytes(made.key, key_len);
    CHECK(dv_aead_new(&made.aead, mode, made.key, key_len) == DV_DONE);
    return made;
}

static subject subject_at(size_t i)
{
    static const size_t key_lens[] = {32, 16, 24};
    return i % 4 == 3 ? subject_new(DV_MODE_XCHACHA20_POLY1305, 32) : subject_new(DV_MODE_AES256_GCM, key_lens[i % 4]);
}

static size_t nonce_len_of(const subject *of)
{
    if (of->mode == DV_MODE_XCHACHA20_POLY1305)
        return 24;
    return random_bool() ? 12 : 8 + random_below(NONCE_MAX_LEN - 7);
}

static void openssl_gcm(const subject *of, const dv_message *plain, uint8_t *out)
{
    const EVP_CIPHER *cipher = of->key_len == 16   ? EVP_aes_128_gcm()
                               : of->key_len == 24 ? EVP_aes_192_gcm()
                                                   : EVP_aes_256_gcm();
    int len;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (!context || !EVP_EncryptInit_ex(context, cipher, NULL, NULL, NULL) ||
        !EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)plain->nonce_len, NULL) ||
        !EVP_EncryptInit_ex(context, NULL, NULL, of->key, plain->nonce) ||
        (plain->aad_len && !EVP_EncryptUpdate(context, NULL, &len, plain->aad, (int)plain->aad_len)) ||
        (plain->text_len && !EVP_EncryptUpdate(context, out, &len, plain->text, (int)plain->text_len)) ||
        !EVP_EncryptFinal_ex(context, out + plain->text_len, &len) ||
        !EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, out + plain->text_len))
        exit(2);
    EVP_CIPHER_CTX_free(context);
}

static example example_new(const subject *of, size_t nonce_len, size_t aad_len, size_t text_len)
{
    example made = {0};
    made.nonce = exact_new(nonce_len);
    made.aad = exact_new(aad_len);
    made.plain_text = exact_new(text_len);
    made.sealed_text = exact_new(text_len + 16);
    random_bytes(made.nonce, nonce_len);
    random_bytes(made.aad, aad_len);
    random_bytes(made.plain_text, text_len);
    dv_message plain = {made.nonce, nonce_len, made.aad, aad_len, made.plain_text, text_len};
    if (of->mode == DV_MODE_AES256_GCM)
        openssl_gcm(of, &plain, made.sealed_text);
    else
        aead_seal(of->mode, of->key, made.nonce, made.aad, aad_len, made.plain_text, text_len, made.sealed_text);
    made.plain = made.sealed = plain;
    made.sealed.text = made.sealed_text;
    made.sealed.text_len = text_len + 16;
    return made;
}

static example example_random(const subject *of, size_t max_text_len)
{
    size_t text_len = random_below(max_text_len + 1);
    return example_new(of, nonce_len_of(of), random_below(301), text_len);
}

static void example_free(example *of)
{
    free(of->nonce);
    free(of->aad);
    free(of->plain_text);
    free(of->sealed_text);
}

static void seals_and_opens(const subject *by, const example *of)
{
    size_t len = of->plain.text_len;
    output sealed = output_new(len + 16), opened = output_new(len), in_place = output_new(len + 16);
    begin_case();
    CHECK(dv_aead_seal(by->aead, &of->plain, sealed.bytes, sealed.len) == DV_DONE);
    CHECK(!memcmp(sealed.bytes, of->sealed_text, len + 16));
    CHECK(dv_aead_open(by->aead, &of->sealed, opened.bytes, opened.len) == DV_DONE);
    CHECK(!len || !memcmp(opened.bytes, of->plain_text, len));

    dv_message in = of->plain;
    in.text = in_place.bytes;
    if (len)
        memcpy(in_place.bytes, of->plain_text, len);
    CHECK(dv_aead_seal(by->aead, &in, in_place.bytes, in_place.len) == DV_DONE);
    CHECK(!memcmp(in_place.bytes, of->sealed_text, len + 16));
    in.text_len = len + 16;
    CHECK(dv_aead_open(by->aead, &in, in_place.bytes, in_place.len) == DV_DONE);
    CHECK(!len || !memcmp(in_place.bytes, of->plain_text, len));
    output_free(&sealed);
    output_free(&opened);
    output_free(&in_place);
}

/* Nonces of all lengths after one another, by one aead. */
static void same_bytes(size_t max_text_len, int count)
{
    for (size_t i = 0; i < 8; i++) {
        subject by = subject_at(i);
        for (int j = 0; j < count; j++) {
            example of = example_random(&by, max_text_len);
            seals_and_opens(&by, &of);
            example_free(&of);
        }
        dv_aead_free(by.aead);
    }
}

static void every_nonce_len(void)
{
    subject by = subject_new(DV_MODE_AES256_GCM, 32);
    for (size_t nonce_len = 8; nonce_len <= NONCE_MAX_LEN; nonce_len++) {
        example of = example_new(&by, nonce_len, 20, 100);
        seals_and_opens(&by, &of);
        example_free(&of);
    }
    dv_aead_free(by.aead);
}

/* What does not open leaves zeros. */
static void refused(const subject *by, const dv_message *sealed)
{
    output opened = output_new(sealed->text_len - 16);
    begin_case();
    CHECK(dv_aead_open(by->aead, sealed, opened.bytes, opened.len) == DV_ERROR_TAG);
    CHECK(all_are(opened.bytes, opened.len, 0));
    output_free(&opened);
}

static void flips_refused(void)
{
    for (size_t i = 0; i < 8; i++) {
        subject by = subject_at(i);
        example of = example_new(&by, by.mode == DV_MODE_XCHACHA20_POLY1305 ? 24 : i < 4 ? 12 : 17, 9, 21);
        struct {
            uint8_t *bytes;
            size_t len;
        } parts[] = {{of.sealed_text, 37}, {of.aad, 9}, {of.nonce, of.sealed.nonce_len}};
        for (size_t part = 0; part < 3; part++)
            for (size_t bit = 0; bit < 8 * parts[part].len; bit++) {
                parts[part].bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
                refused(&by, &of.sealed);
                parts[part].bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
        seals_and_opens(&by, &of); /* and go on */
        example_free(&of);
        dv_aead_free(by.aead);
    }
}

static void short_texts_refused(void)
{
    const uint8_t text[16] = {0}, nonce[24] = {0};
    uint8_t out[16];
    for (size_t i = 0; i < 4; i++) {
        subject by = subject_at(i);
        for (size_t len = 0; len <= 16; len++) {
            dv_message sealed = {nonce, by.mode == DV_MODE_XCHACHA20_POLY1305 ? 24 : 12, NULL, 0, text, len};
            begin_case();
            CHECK(dv_aead_open(by.aead, &sealed, out, sizeof out) == DV_ERROR_TAG);
        }
        dv_aead_free(by.aead);
    }
}

static void overlap(void)
{
    enum { LEN = 40 };
    for (size_t i = 0; i < 4; i++) {
        subject by = subject_at(i);
        for (size_t at = 0; at <= 3 * LEN; at++)
            for (int part = 0; part < 3; part++) {
                output out = output_new(5 * LEN);
                uint8_t *moved = out.bytes + at, *place = out.bytes + LEN + 16;
                example of = example_new(&by, by.mode == DV_MODE_XCHACHA20_POLY1305 ? 24 : 12, LEN, LEN);
                dv_message plain = of.plain;
                const uint8_t **pointer = part == 0 ? &plain.text : part == 1 ? &plain.aad : &plain.nonce;
                size_t len = part == 2 ? plain.nonce_len : LEN;
                memcpy(moved, *pointer, len);
                *pointer = moved;
                bool apart = moved + len <= place || moved >= place + LEN + 16;
                begin_case();
                dv_result result = dv_aead_seal(by.aead, &plain, place, LEN + 16);
                CHECK(result == (apart || (part == 0 && moved == place) ? DV_DONE : DV_ERROR_OVERLAP));
                if (result == DV_DONE)
                    CHECK(!memcmp(place, of.sealed_text, LEN + 16));
                else
                    CHECK(!memcmp(moved, part == 0 ? of.plain_text : part == 1 ? of.aad : of.nonce, len));
                example_free(&of);
                output_free(&out);
            }
        dv_aead_free(by.aead);
    }
}

static void overlap_opening(void)
{
    enum { LEN = 40 };
    for (size_t i = 0; i < 4; i++) {
        subject by = subject_at(i);
        for (size_t at = 0; at <= 3 * LEN; at++) {
            output out = output_new(5 * LEN);
            uint8_t *moved = out.bytes + at, *place = out.bytes + LEN + 16;
            example of = example_new(&by, by.mode == DV_MODE_XCHACHA20_POLY1305 ? 24 : 13, LEN, LEN);
            memcpy(moved, of.sealed_text, LEN + 16);
            of.sealed.text = moved;
            bool allowed = moved == place || moved + LEN + 16 <= place || moved >= place + LEN;
            begin_case();
            CHECK(dv_aead_open(by.aead, &of.sealed, place, LEN) == (allowed ? DV_DONE : DV_ERROR_OVERLAP));
            CHECK(!memcmp(allowed ? place : moved, allowed ? of.plain_text : of.sealed_text, LEN));
            example_free(&of);
            output_free(&out);
        }
        dv_aead_free(by.aead);
    }
}

static void keys_refused(void)
{
    const uint8_t key[65] = {0};
    for (int mode = -1; mode <= DV_MODE_COUNT; mode++)
        for (size_t len = 0; len <= 65; len++) {
            bool known = mode >= 0 && mode < DV_MODE_COUNT;
            bool fits = known && (len == 32 || (mode == DV_MODE_AES256_GCM && (len == 16 || len == 24)));
            dv_aead *made = (dv_aead *)key;
            begin_case();
            CHECK(dv_aead_new(&made, mode, key, len) == (fits ? DV_DONE : DV_ERROR_ARGUMENT));
            CHECK(fits == (made != NULL));
            dv_aead_free(made);
        }
}

/* Nothing of what is refused by its length is read: there is not so much of it. */
static void lens_refused(void)
{
    const uint8_t nonce[200] = {0}, text[16] = {0};
    uint8_t out[64];
    memset(out, 0x55, sizeof out);
    for (size_t i = 0; i < 4; i++) {
        subject by = subject_at(i);
        bool is_gcm = by.mode == DV_MODE_AES256_GCM;
        for (size_t len = 0; len <= 200; len++) {
            dv_message plain = {nonce, len, NULL, 0, text, 16};
            bool fits = is_gcm ? len >= 8 && len <= 128 : len == 24;
            begin_case();
            CHECK(dv_aead_seal(by.aead, &plain, out, 32) == (fits ? DV_DONE : DV_ERROR_ARGUMENT));
            CHECK(dv_aead_open(by.aead, &plain, out, 32) == (fits ? DV_ERROR_TAG : DV_ERROR_ARGUMENT));
        }
        uint64_t max_len = is_gcm ? INT32_MAX : ((uint64_t)1 << 38) - 64;
        dv_message longest = {nonce, is_gcm ? 12 : 24, NULL, 0, text, (size_t)max_len};
        dv_message longer = longest, aad = {nonce, 12, text, (size_t)INT32_MAX + 1, text, 16};
        begin_case();
        if (max_len < SIZE_MAX - 16) {
            longer.text_len++;
            CHECK(dv_aead_seal(by.aead, &longest, out, 64) == DV_ERROR_CAPACITY);
            CHECK(dv_aead_seal(by.aead, &longer, out, 64) == DV_ERROR_ARGUMENT);
            longest.text_len += 16;
            longer.text_len += 16;
            CHECK(dv_aead_open(by.aead, &longest, out, 64) == DV_ERROR_CAPACITY);
            CHECK(dv_aead_open(by.aead, &longer, out, 64) == DV_ERROR_ARGUMENT);
        }
        longest.text_len = SIZE_MAX;
        CHECK(dv_aead_seal(by.aead, &longest, out, 64) == DV_ERROR_ARGUMENT);
        if (is_gcm) {
            CHECK(dv_aead_seal(by.aead, &aad, out, 64) == DV_ERROR_ARGUMENT);
            CHECK(dv_aead_open(by.aead, &aad, out, 64) == DV_ERROR_ARGUMENT);
        }
        dv_aead_free(by.aead);
    }
}

static void capacity(void)
{
    for (size_t i = 0; i < 4; i++) {
        subject by = subject_at(i);
        example of = example_new(&by, by.mode == DV_MODE_XCHACHA20_POLY1305 ? 24 : 12, 3, 40);
        for (size_t room = 0; room < 56; room++) {
            output out = output_new(room);
            begin_case();
            CHECK(dv_aead_seal(by.aead, &of.plain, out.bytes, room) == DV_ERROR_CAPACITY);
            CHECK(output_untouched(&out));
            CHECK(dv_aead_open(by.aead, &of.sealed, out.bytes, room) == (room < 40 ? DV_ERROR_CAPACITY : DV_DONE));
            output_free(&out);
        }
        example_free(&of);
        dv_aead_free(by.aead);
    }
    dv_aead_free(NULL);
}

/* The host's lock is given up for long work alone, text and associated data together. */
static void host_lock(void)
{
    for (size_t i = 0; i < 40; i++) {
        subject by = subject_at(i);
        example of = example_random(&by, 200);
        output out = output_new(of.sealed.text_len);
        size_t work_len = of.plain.aad_len + of.plain.text_len;
        begin_case();
        host_record *host = host_watch(work_len + 1);
        CHECK(dv_aead_seal(by.aead, &of.plain, out.bytes, out.len) == DV_DONE);
        CHECK(host->left == 0 && host->entered == 0);
        host = host_watch(work_len);
        CHECK(dv_aead_seal(by.aead, &of.plain, out.bytes, out.len) == DV_DONE);
        CHECK(host->left == 1 && host->entered == 1);
        host = host_watch(work_len + 16);
        CHECK(dv_aead_open(by.aead, &of.sealed, out.bytes, out.len) == DV_DONE);
        CHECK(host->left == 1 && host->entered == 1);
        host_forget();
        output_free(&out);
        example_free(&of);
        dv_aead_free(by.aead);
    }
}

#ifndef _WIN32

/* ---- threads and forks ---- */

#define EXAMPLE_COUNT 8

typedef struct shared_aead {
    subject by;
    example examples[EXAMPLE_COUNT];
    atomic_bool stop;
    atomic_uint rounds;
    atomic_uint wrong;
} shared_aead;

static shared_aead *shared_new(size_t i)
{
    shared_aead *made = (shared_aead *)exact_new(sizeof *made);
    memset(made, 0, sizeof *made);
    made->by = subject_at(i);
    for (int j = 0; j < EXAMPLE_COUNT; j++)
        made->examples[j] = example_random(&made->by, 3000);
    return made;
}

static void shared_free(shared_aead *of)
{
    for (int j = 0; j < EXAMPLE_COUNT; j++)
        example_free(&of->examples[j]);
    dv_aead_free(of->by.aead);
    free(of);
}

static bool all_right(const shared_aead *of)
{
    bool right = true;
    for (int j = 0; j < EXAMPLE_COUNT; j++) {
        const example *each = &of->examples[j];
        size_t len = each->plain.text_len;
        uint8_t *out = exact_new(len + 16);
        right &= dv_aead_seal(of->by.aead, &each->plain, out, len + 16) == DV_DONE;
        right &= !memcmp(out, each->sealed_text, len + 16);
        right &= dv_aead_open(of->by.aead, &each->sealed, out, len) == DV_DONE;
        right &= !memcmp(out, each->plain_text, len);
        free(out);
    }
    return right;
}

static void *work_in_thread(void *argument)
{
    shared_aead *of = argument;
    while (!atomic_load(&of->stop)) {
        atomic_fetch_add(&of->wrong, !all_right(of));
        atomic_fetch_add(&of->rounds, 1);
    }
    return NULL;
}

static int work_in_child(void *argument)
{
    return all_right(argument) ? 0 : 1;
}

/* Threads share an aead from its first use on, while children are forked. */
static void threads_and_forks(size_t i)
{
    pthread_t ids[3];
    shared_aead *of = shared_new(i);
    for (int j = 0; j < 3; j++)
        if (pthread_create(&ids[j], NULL, work_in_thread, of))
            exit(2);
    for (unsigned j = 0; j < 6; j++) {
        while (atomic_load(&of->rounds) < 10 * j)
            ;
        begin_case();
        if (!CHECK(in_child(work_in_child, of) == 0))
            break; /* each that hangs takes its time */
    }
    while (atomic_load(&of->rounds) < 300)
        ;
    atomic_store(&of->stop, true);
    for (int j = 0; j < 3; j++)
        pthread_join(ids[j], NULL);
    begin_case();
    CHECK(atomic_load(&of->wrong) == 0);
    shared_free(of);
}

#endif

void test_aead(void)
{
    group("aead: the same bytes, keys and nonces of all lengths");
    same_bytes(300, 150);
    same_bytes(70000, 8);
    every_nonce_len();
    group("aead: what is refused leaves zeros");
    flips_refused();
    short_texts_refused();
    group("aead: overlap");
    overlap();
    overlap_opening();
    group("aead: keys, nonces and lengths refused, capacity");
    keys_refused();
    lens_refused();
    capacity();
    group("aead: the host's lock");
    host_lock();
#ifndef _WIN32
    group("aead: threads, and forked children");
    for (size_t i = 0; i < 4; i++)
        threads_and_forks(i);
#endif
}
