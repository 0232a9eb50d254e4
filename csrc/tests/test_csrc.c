/*
 * The C layer's own tests, without Python: generated cases, engines against each other and against the libraries called
 * directly. `test_csrc [seed [suite]]`. Here: what the tests share, the engines, the framing.
 */
#define _POSIX_C_SOURCE 200809L /* fork, alarm, under -std=c11 */

#include "test_csrc.h"

#include "../library.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#define GUARD_LEN 64
#define GUARD_BYTE 0xa7
#define REPORTS_MAX 5 /* failures printed for each group */
#define CHILD_SECONDS 15

static struct {
    const char *name;
    size_t cases;
    size_t failed;
    bool case_failed;
    int reports;
} now;

static size_t passed_in_all, failed_in_all;
static uint64_t generator;

static void end_case(void)
{
    now.failed += now.case_failed;
    now.case_failed = false;
}

void group(const char *name)
{
    if (now.name) {
        end_case();
        printf("%-64s %7zu cases%s\n", now.name, now.cases, now.failed ? "  FAILED" : "");
        fflush(stdout);
        passed_in_all += now.cases - now.failed;
        failed_in_all += now.failed;
    }
    memset(&now, 0, sizeof now);
    now.name = name;
}

void begin_case(void)
{
    end_case();
    now.cases++;
}

bool check(bool holds, const char *file, int line, const char *what)
{
    if (holds)
        return true;
    now.case_failed = true;
    if (now.reports++ < REPORTS_MAX)
        printf("%s:%d: case %zu of '%s': %s\n", file, line, now.cases, now.name, what);
    return false;
}

uint64_t random_u64(void)
{
    uint64_t z = generator += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t random_below(size_t limit)
{
    return (size_t)(random_u64() % limit);
}

bool random_bool(void)
{
    return random_u64() & 1;
}

void random_bytes(uint8_t *bytes, size_t len)
{
    for (size_t done = 0; done < len; done += 8) {
        uint64_t word = random_u64();
        memcpy(bytes + done, &word, len - done < 8 ? len - done : 8);
    }
}

uint8_t *exact_new(size_t len)
{
    uint8_t *bytes = malloc(len);
    if (!bytes && len) {
        puts("no memory");
        exit(2);
    }
    return bytes;
}

uint8_t *exact_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = exact_new(len);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

bool all_are(const uint8_t *bytes, size_t len, uint8_t value)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

output output_new(size_t len)
{
    static bool second;
    second = !second;
    output made = {exact_new(len + 2 * GUARD_LEN) + GUARD_LEN, len, second ? 0xcc : 0x55};
    memset(made.bytes - GUARD_LEN, GUARD_BYTE, len + 2 * GUARD_LEN);
    memset(made.bytes, made.fill, len);
    return made;
}

bool output_untouched(const output *out)
{
    return all_are(out->bytes, out->len, out->fill);
}

void output_free(output *out)
{
    CHECK(all_are(out->bytes - GUARD_LEN, GUARD_LEN, GUARD_BYTE));
    CHECK(all_are(out->bytes + out->len, GUARD_LEN, GUARD_BYTE));
    free(out->bytes - GUARD_LEN);
}

shape shape_random(size_t max_payload_len)
{
    shape made = {0};
    made.payload_len = random_below(max_payload_len + 1);
    made.is_rtcp = random_below(6) == 0;
    if (made.is_rtcp)
        return made;
    made.csrc_count = random_bool() ? 0 : random_below(16);
    made.has_extension = random_bool();
    made.extension_words = made.has_extension ? random_below(9) : 0;
    made.padding_len = random_below(4) ? 0 : 1 + random_below(255);
    return made;
}

packet packet_make(const shape *of)
{
    packet made = {0};
    made.is_rtcp = of->is_rtcp;
    made.header_len = of->is_rtcp ? 8 : 12 + 4 * of->csrc_count + (of->has_extension ? 4 : 0);
    made.extension_len = 4 * of->extension_words;
    made.padding_len = of->padding_len;
    made.len = made.header_len + made.extension_len + of->payload_len + of->padding_len;
    made.bytes = exact_new(made.len);
    random_bytes(made.bytes, made.len);

    uint8_t first = (uint8_t)(0x80 | (of->padding_len ? 0x20 : 0) | (of->has_extension ? 0x10 : 0) | of->csrc_count);
    if (of->is_rtcp) {
        made.bytes[0] = (uint8_t)(0x80 | (made.bytes[0] & 0x3f)); /* in RTCP the other bits mean other things */
        made.bytes[1] = (uint8_t)(192 + made.bytes[1] % 32);
        return made;
    }
    made.bytes[0] = first;
    while (made.bytes[1] >= 192 && made.bytes[1] <= 223)
        made.bytes[1] = (uint8_t)random_u64();
    if (of->has_extension) {
        made.bytes[made.header_len - 2] = (uint8_t)(of->extension_words >> 8);
        made.bytes[made.header_len - 1] = (uint8_t)of->extension_words;
    }
    if (of->padding_len)
        made.bytes[made.len - 1] = (uint8_t)of->padding_len;
    return made;
}

packet packet_random(size_t max_payload_len)
{
    shape of = shape_random(max_payload_len);
    return packet_make(&of);
}

void packet_free(packet *of)
{
    free(of->bytes);
    of->bytes = NULL;
}

void burst_random(burst *made, size_t count, size_t max_payload_len)
{
    made->count = count;
    made->sealed_len = 0;
    for (size_t i = 0; i < count; i++) {
        made->packets[i] = packet_random(max_payload_len);
        made->starts[i] = made->packets[i].bytes;
        made->lens[i] = made->packets[i].len;
        made->sealed_len += made->lens[i] + 20;
    }
}

void burst_free(burst *of)
{
    for (size_t i = 0; i < of->count; i++)
        packet_free(&of->packets[i]);
}

dv_result seal_plain(dv_sealer *sealer, dv_stream *stream, const uint8_t *frame, size_t frame_len, int marker,
                     uint32_t advance, uint8_t *out, size_t out_capacity)
{
    dv_plan plan;
    dv_refusal refusal;
    dv_result result = dv_stream_plan(stream, DV_PACKETIZER_PLAIN, frame, frame_len, &plan, &refusal);
    if (result != DV_DONE)
        return result;
    return dv_sealer_seal_frame(sealer, stream, DV_PACKETIZER_PLAIN, &plan, frame, frame_len, marker, advance, out,
                                out_capacity, NULL, &refusal);
}

/* Where libsodium has no AES-256-GCM for this CPU. */
static void openssl_aes256gcm(const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
                              const uint8_t *plain, size_t plain_len, uint8_t *out)
{
    int len;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (!context || !EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce) ||
        !EVP_EncryptUpdate(context, NULL, &len, aad, (int)aad_len) ||
        (plain_len && !EVP_EncryptUpdate(context, out, &len, plain, (int)plain_len)) ||
        !EVP_EncryptFinal_ex(context, out + plain_len, &len) ||
        !EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, out + plain_len))
        exit(2);
    EVP_CIPHER_CTX_free(context);
}

void aead_seal(dv_mode mode, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
               const uint8_t *plain, size_t plain_len, uint8_t *out)
{
    if (mode == DV_MODE_XCHACHA20_POLY1305)
        crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, plain, plain_len, aad, aad_len, NULL, nonce, key);
    else if (crypto_aead_aes256gcm_is_available())
        crypto_aead_aes256gcm_encrypt(out, NULL, plain, plain_len, aad, aad_len, NULL, nonce, key);
    else
        openssl_aes256gcm(key, nonce, aad, aad_len, plain, plain_len, out);
}

void packet_seal(dv_mode mode, const uint8_t *key, const uint8_t suffix[4], const packet *plain, uint8_t *out)
{
    uint8_t nonce[24] = {0};
    memcpy(nonce, suffix, 4);
    memcpy(out, plain->bytes, plain->header_len);
    aead_seal(mode, key, nonce, plain->bytes, plain->header_len, plain->bytes + plain->header_len,
              plain->len - plain->header_len, out + plain->header_len);
    memcpy(out + plain->len + 16, suffix, 4);
}

void suffix_write(uint32_t counter, bool big_endian, uint8_t suffix[4])
{
    const uint8_t little[4] = {(uint8_t)counter, (uint8_t)(counter >> 8), (uint8_t)(counter >> 16),
                               (uint8_t)(counter >> 24)};
    for (int i = 0; i < 4; i++)
        suffix[i] = little[big_endian ? 3 - i : i];
}

static host_record host;
static bool host_is_entering;

static void *host_leave(void)
{
    if (host_is_entering) {
        puts("the host's lock is taken back while the sealer's is held");
        exit(1);
    }
    host.left++;
    if (host.meddle)
        host.meddle(host.argument);
    return &host;
}

static void host_enter(void *state)
{
    host.entered += state == &host;
    host_is_entering = true;
    if (host.sealer)
        dv_sealer_packets_left(host.sealer);
    host_is_entering = false;
}

host_record *host_watch(size_t long_work_len)
{
    memset(&host, 0, sizeof host);
    dv_set_host(host_leave, host_enter, long_work_len);
    return &host;
}

void host_forget(void)
{
    dv_set_host(NULL, NULL, SIZE_MAX);
}

#ifndef _WIN32

int in_child(int (*work)(void *argument), void *argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(work(argument));
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

#endif

/* ---- engines ---- */

#define ENGINES_MAX 8
#define AAD_LEN_COUNT 18 /* 8 for RTCP; 12, 16, ... 76 for RTP */

static size_t aad_len_at(size_t i)
{
    return i == 0 ? 8 : 8 + 4 * i;
}

/* One engine with a key for both directions; or, where engine is NULL, the dispatch. */
typedef struct keyed {
    const dv_engine *engine;
    dv_engine_key keys[2];
    dv_cipher ciphers[2];
} keyed;

static bool keyed_seal(keyed *by, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *plain,
                       size_t plain_len, uint8_t *out)
{
    if (by->engine)
        return by->engine->seal(&by->keys[DV_SEAL], nonce, aad, aad_len, plain, plain_len, out);
    return dv_cipher_seal(&by->ciphers[DV_SEAL], nonce, aad, aad_len, plain, plain_len, out);
}

static bool keyed_open(keyed *by, const uint8_t *nonce, const uint8_t *aad, size_t aad_len, const uint8_t *sealed,
                       size_t sealed_len, uint8_t *out)
{
    if (by->engine)
        return by->engine->open(&by->keys[DV_OPEN], nonce, aad, aad_len, sealed, sealed_len, out);
    return dv_cipher_open(&by->ciphers[DV_OPEN], nonce, aad, aad_len, sealed, sealed_len, out);
}

static size_t keyed_all(dv_mode mode, const uint8_t *key, keyed all[ENGINES_MAX])
{
    size_t count = 0;
    memset(all, 0, ENGINES_MAX * sizeof *all);
    for (size_t i = 0; i < dv_engine_count(); i++) {
        dv_engine_info info;
        dv_engine_describe(i, &info);
        if (info.mode != (int)mode || info.unavailable)
            continue;
        keyed *made = &all[count++];
        made->engine = dv_engine_find(info.name);
        CHECK(made->engine->set_key(&made->keys[DV_SEAL], DV_SEAL, key));
        CHECK(made->engine->set_key(&made->keys[DV_OPEN], DV_OPEN, key));
    }
    CHECK(dv_cipher_init(&all[count].ciphers[DV_SEAL], mode, DV_SEAL, key) == DV_DONE);
    CHECK(dv_cipher_init(&all[count].ciphers[DV_OPEN], mode, DV_OPEN, key) == DV_DONE);
    return count + 1;
}

static void forget_all(keyed *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int direction = DV_SEAL; direction <= DV_OPEN; direction++) {
            if (all[i].engine)
                all[i].engine->wipe(&all[i].keys[direction]);
            else
                dv_cipher_wipe(&all[i].ciphers[direction]);
            CHECK(all_are((uint8_t *)&all[i].keys[direction], sizeof(dv_engine_key), 0));
            CHECK(all_are((uint8_t *)all[i].ciphers[direction].keys, sizeof all[i].ciphers[direction].keys, 0));
        }
}

/* What the libraries called directly give, every engine gives, and opens, in place and out of place. */
static void engines_agree_on(dv_mode mode, const uint8_t *key, keyed *all, size_t count, size_t len, size_t aad_len)
{
    uint8_t nonce[24], *aad = exact_new(aad_len), *plain = exact_new(len), *expected = exact_new(len + 16);
    begin_case();
    random_bytes(nonce, sizeof nonce);
    random_bytes(aad, aad_len);
    random_bytes(plain, len);
    aead_seal(mode, key, nonce, aad, aad_len, plain, len, expected);
    for (size_t i = 0; i < count; i++) {
        output sealed = output_new(len + 16), opened = output_new(len), in_place = output_new(len + 16);
        CHECK(keyed_seal(&all[i], nonce, aad, aad_len, plain, len, sealed.bytes));
        CHECK(!memcmp(sealed.bytes, expected, len + 16));
        CHECK(keyed_open(&all[i], nonce, aad, aad_len, expected, len, opened.bytes));
        CHECK(!len || !memcmp(opened.bytes, plain, len));

        if (len)
            memcpy(in_place.bytes, plain, len);
        CHECK(keyed_seal(&all[i], nonce, aad, aad_len, in_place.bytes, len, in_place.bytes));
        CHECK(!memcmp(in_place.bytes, expected, len + 16));
        CHECK(keyed_open(&all[(i + 1) % count], nonce, aad, aad_len, in_place.bytes, len, in_place.bytes));
        CHECK(!len || !memcmp(in_place.bytes, plain, len));
        output_free(&sealed);
        output_free(&opened);
        output_free(&in_place);
    }
    free(aad);
    free(plain);
    free(expected);
}

static void engines_agree(dv_mode mode)
{
    static const size_t long_lens[] = {2047, 2048, 4095, 4097, 8192, 16383, 16400, 32768, 65439, 65503, 65515, 65535};
    keyed all[ENGINES_MAX];
    uint8_t key[DV_KEY_LEN];
    random_bytes(key, sizeof key);
    begin_case();
    size_t count = keyed_all(mode, key, all);
    for (size_t len = 0; len <= 2000; len++)
        for (size_t i = 0; i < AAD_LEN_COUNT; i++)
            if (len <= 160 || i == len % AAD_LEN_COUNT || i == (len / AAD_LEN_COUNT + 7) % AAD_LEN_COUNT)
                engines_agree_on(mode, key, all, count, len, aad_len_at(i));
    for (size_t i = 0; i < sizeof long_lens / sizeof long_lens[0]; i++)
        engines_agree_on(mode, key, all, count, long_lens[i], aad_len_at(random_below(AAD_LEN_COUNT)));
    begin_case();
    forget_all(all, count);
}

static void flip(uint8_t *bytes, size_t bit)
{
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void engine_refuses_flips_of(keyed *by, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
                                    const uint8_t *sealed, size_t len, uint8_t *flipped, size_t flipped_len)
{
    for (size_t bit = 0; bit < 8 * flipped_len; bit++) {
        output opened = output_new(len);
        begin_case();
        flip(flipped, bit);
        CHECK(!keyed_open(by, nonce, aad, aad_len, sealed, len, opened.bytes));
        flip(flipped, bit);
        CHECK(keyed_open(by, nonce, aad, aad_len, sealed, len, opened.bytes));
        output_free(&opened);
    }
}

static void engines_refuse_flips(dv_mode mode, size_t len)
{
    keyed all[ENGINES_MAX];
    uint8_t key[DV_KEY_LEN], nonce[24], aad[16], plain[64], sealed[80];
    random_bytes(key, sizeof key);
    random_bytes(nonce, sizeof nonce);
    random_bytes(aad, sizeof aad);
    random_bytes(plain, sizeof plain);
    begin_case();
    size_t count = keyed_all(mode, key, all), nonce_len = mode == DV_MODE_AES256_GCM ? 12 : 24;
    aead_seal(mode, key, nonce, aad, sizeof aad, plain, len, sealed);
    for (size_t i = 0; i < count; i++) {
        engine_refuses_flips_of(&all[i], nonce, aad, sizeof aad, sealed, len, sealed, len + 16);
        engine_refuses_flips_of(&all[i], nonce, aad, sizeof aad, sealed, len, aad, sizeof aad);
        engine_refuses_flips_of(&all[i], nonce, aad, sizeof aad, sealed, len, nonce, nonce_len);
    }
    begin_case();
    forget_all(all, count);
}

/* The ranges of a mode's engines cover every length once. */
static void ranges_cover(dv_mode mode)
{
    size_t reached = 0;
    begin_case();
    for (size_t step = 0; step < ENGINES_MAX && reached != SIZE_MAX; step++) {
        int starting = 0;
        size_t from = reached;
        for (size_t i = 0; i < dv_engine_count(); i++) {
            dv_engine_info info;
            dv_engine_describe(i, &info);
            for (size_t r = 0; r < info.range_count; r++)
                if (info.mode == (int)mode && info.range_from[r] == from) {
                    starting++;
                    reached = info.range_to[r];
                    CHECK(!info.unavailable);
                }
        }
        CHECK(starting == 1);
        CHECK(reached > from);
    }
    CHECK(reached == SIZE_MAX);
}

/* An engine forced serves alone, and gives what the others give. */
static void engines_forced(void)
{
    CHECK(dv_force_engine("no-such-engine") == DV_ERROR_ENGINE);
    CHECK(dv_force_engine("") == DV_ERROR_ENGINE);
    CHECK(!dv_engine_find("no-such-engine"));
    for (size_t i = 0; i < dv_engine_count(); i++) {
        dv_engine_info info;
        dv_engine_describe(i, &info);
        begin_case();
        CHECK(dv_engine_find(info.name) && !strcmp(dv_engine_find(info.name)->name, info.name));
        CHECK(dv_force_engine(info.name) == (info.unavailable ? DV_ERROR_ENGINE : DV_DONE));
        if (info.unavailable)
            continue;
        dv_engine_describe(i, &info);
        CHECK(info.range_count == 1 && info.range_from[0] == 0 && info.range_to[0] == SIZE_MAX);
        ranges_cover((dv_mode)info.mode);

        keyed all[ENGINES_MAX];
        uint8_t key[DV_KEY_LEN];
        random_bytes(key, sizeof key);
        size_t count = keyed_all((dv_mode)info.mode, key, all);
        for (size_t len = 0; len <= 2000; len += 125)
            engines_agree_on((dv_mode)info.mode, key, all, count, len, 16);
        forget_all(all, count);
        CHECK(dv_dispatch_init() == DV_DONE);
    }
}

static void engines_wipe_zeros(void)
{
    for (size_t i = 0; i < dv_engine_count(); i++) {
        dv_engine_info info;
        dv_engine_key key;
        dv_engine_describe(i, &info);
        memset(&key, 0, sizeof key);
        begin_case();
        dv_engine_find(info.name)->wipe(&key);
        CHECK(all_are((uint8_t *)&key, sizeof key, 0));
    }
}

static void versions_follow_each_other(void)
{
    const int in_order[] = {DV_VERSION(1, 0, 18), DV_VERSION(1, 0, 19),  DV_VERSION(1, 1, 0), DV_VERSION(3, 0, 19),
                            DV_VERSION(3, 5, 0),  DV_VERSION(3, 10, 12), DV_VERSION(4, 0, 0)};
    begin_case();
    for (size_t i = 1; i < sizeof in_order / sizeof in_order[0]; i++)
        CHECK(in_order[i - 1] < in_order[i]);
}

static void test_engines(void)
{
    group("engines: AES-256-GCM, the same bytes, each opens the others'");
    engines_agree(DV_MODE_AES256_GCM);
    group("engines: XChaCha20-Poly1305, the same bytes, each opens the others'");
    engines_agree(DV_MODE_XCHACHA20_POLY1305);
    group("engines: every flipped bit is refused");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++) {
        engines_refuse_flips((dv_mode)mode, 0);
        engines_refuse_flips((dv_mode)mode, 21);
    }
    group("engines: ranges, forcing one, wiping");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        ranges_cover((dv_mode)mode);
    engines_forced();
    engines_wipe_zeros();
    versions_follow_each_other();
}

/* ---- framing ---- */

static bool why_is(dv_why why, dv_fault fault, size_t value, size_t limit)
{
    return why.fault == fault && why.value == value && why.limit == limit;
}

/* The fault of len bytes of a good packet, by FIELD and RFC 3550 alone. */
static dv_why cut_fault(const packet *whole, size_t len)
{
    dv_why why = {DV_FAULT_NONE, 0, 0};
    if (len < 8 || len < whole->header_len) {
        why.fault = DV_FAULT_SHORT;
        why.value = (uint32_t)len;
        why.limit = len < 8 ? 8 : (uint32_t)whole->header_len;
    }
    return why;
}

static dv_why cut_body_fault(const packet *whole, size_t len)
{
    dv_why why = {DV_FAULT_NONE, 0, 0};
    size_t body_len = len - whole->header_len;
    if (whole->extension_len > body_len) {
        why.fault = DV_FAULT_EXTENSION_LONG;
        why.value = (uint32_t)whole->extension_len;
        why.limit = (uint32_t)body_len;
    } else if (!whole->is_rtcp && whole->padding_len) {
        size_t room = body_len - whole->extension_len, counted = room ? whole->bytes[len - 1] : 1;
        if (counted == 0 || counted > room) {
            why.fault = counted ? DV_FAULT_PADDING_LONG : DV_FAULT_PADDING_ZERO;
            why.value = (uint32_t)counted;
            why.limit = counted ? (uint32_t)room : 1;
        }
    }
    return why;
}

static void header_is(const dv_header *header, const packet *whole)
{
    const uint8_t *sequence = whole->bytes + 2, *ssrc = whole->bytes + (whole->is_rtcp ? 4 : 8);
    CHECK(header->len == whole->header_len);
    CHECK(header->extension_len == whole->extension_len);
    CHECK(header->is_rtcp == whole->is_rtcp);
    CHECK(header->has_padding == ((whole->bytes[0] & 0x20) != 0));
    CHECK(!memcmp(header->bytes, whole->bytes, whole->header_len));
    CHECK(dv_header_sequence(header) == sequence[0] * 256 + sequence[1]);
    uint32_t expected_ssrc = 0;
    for (int i = 0; i < 4; i++)
        expected_ssrc = expected_ssrc << 8 | ssrc[i];
    CHECK(dv_header_ssrc(header) == expected_ssrc);
}

/* A packet cut to len, plain and with 20 bytes behind it. */
static void framing_cut(const packet *whole, size_t len)
{
    dv_header header;
    uint8_t padding_len = 99, *plain = exact_copy(whole->bytes, len), *sealed = exact_new(len + 20);
    dv_why expected = cut_fault(whole, len);
    begin_case();
    dv_why why = dv_header_read_plain(&header, plain, len);
    CHECK(why_is(why, expected.fault, expected.value, expected.limit));
    if (expected.fault == DV_FAULT_NONE) {
        header_is(&header, whole);
        dv_why expected_body = cut_body_fault(whole, len);
        why = dv_body_read(&header, plain + header.len, len - header.len, &padding_len);
        CHECK(why_is(why, expected_body.fault, expected_body.value, expected_body.limit));
        if (expected_body.fault == DV_FAULT_NONE)
            CHECK(padding_len == (whole->padding_len && !whole->is_rtcp ? plain[len - 1] : 0));
    }

    if (len)
        memcpy(sealed, plain, len);
    memset(sealed + len, 0, 20);
    why = dv_header_read_sealed(&header, sealed, len + 20);
    if (expected.fault == DV_FAULT_NONE)
        CHECK(why_is(why, DV_FAULT_NONE, 0, 0));
    else
        CHECK(why_is(why, expected.fault, expected.value + 20, expected.limit + 20));
    if (expected.fault == DV_FAULT_NONE)
        header_is(&header, whole);
    free(plain);
    free(sealed);
}

static void framing_shapes(void)
{
    static const size_t extension_words[] = {0, 1, 2, 5, 40};
    static const size_t padding_lens[] = {0, 1, 4, 255};
    static const size_t payload_lens[] = {0, 1, 7};
    for (size_t csrc_count = 0; csrc_count < 16; csrc_count++)
        for (size_t x = 0; x < 6; x++)
            for (size_t p = 0; p < 4; p++)
                for (size_t b = 0; b < 3; b++) {
                    shape of = {false,           csrc_count,     x > 0, x ? extension_words[x - 1] : 0,
                                payload_lens[b], padding_lens[p]};
                    packet whole = packet_make(&of);
                    framing_cut(&whole, whole.len);
                    packet_free(&whole);
                }
}

static void framing_truncations(void)
{
    for (int i = 0; i < 100; i++) {
        packet whole = packet_random(40);
        for (size_t len = 0; len <= whole.len; len++)
            framing_cut(&whole, len);
        packet_free(&whole);
    }
}

/* Every padding count against every room there may be for it. */
static void framing_padding(void)
{
    for (size_t room = 0; room <= 260; room += room < 4 || room > 252 ? 1 : 31)
        for (unsigned counted = 0; counted < 256; counted++) {
            shape of = {false, random_below(16), true, random_below(3), room, 0};
            packet whole = packet_make(&of);
            whole.bytes[0] |= 0x20;
            whole.padding_len = 1; /* what cut_body_fault goes by: the bit is set */
            if (room)
                whole.bytes[whole.len - 1] = (uint8_t)counted;
            framing_cut(&whole, whole.len);
            packet_free(&whole);
        }
}

static void framing_alone(void)
{
    for (int i = 0; i < 60; i++) {
        packet whole = packet_random(200);
        for (size_t len = 0; len <= 100 && len <= whole.len; len++) {
            dv_header header;
            uint8_t *bytes = exact_copy(whole.bytes, len);
            begin_case();
            dv_why why = dv_header_read_alone(&header, bytes, len);
            if (len < 8)
                CHECK(why_is(why, DV_FAULT_SHORT, len, 8));
            else if (len < whole.header_len)
                CHECK(why_is(why, DV_FAULT_SHORT, len, whole.header_len));
            else if (len > whole.header_len)
                CHECK(why_is(why, DV_FAULT_HEADER_LEN, len, whole.header_len));
            else if (CHECK(why_is(why, DV_FAULT_NONE, 0, 0)))
                header_is(&header, &whole);
            free(bytes);
        }
        packet_free(&whole);
    }
}

/* RFC 5761, section 4: RTCP is 192 to 223 in the second byte. */
static void framing_types(void)
{
    for (unsigned type = 0; type < 256; type++) {
        dv_header header;
        uint8_t bytes[40] = {0x80, (uint8_t)type};
        begin_case();
        CHECK(why_is(dv_header_read_plain(&header, bytes, 12), DV_FAULT_NONE, 0, 0));
        CHECK(header.is_rtcp == (type >= 192 && type <= 223));
        CHECK(header.len == (header.is_rtcp ? 8u : 12u));
        dv_why why = dv_header_read_plain(&header, bytes, 8);
        CHECK(type >= 192 && type <= 223 ? why.fault == DV_FAULT_NONE : why_is(why, DV_FAULT_SHORT, 8, 12));
        why = dv_header_read_sealed(&header, bytes, 28);
        CHECK(type >= 192 && type <= 223 ? why.fault == DV_FAULT_NONE : why_is(why, DV_FAULT_SHORT, 28, 32));
    }
}

static void framing_versions(void)
{
    for (unsigned first = 0; first < 256; first++)
        for (size_t len = 8; len <= 96; len += 11) {
            dv_header header;
            uint8_t bytes[120] = {(uint8_t)first, 120};
            dv_why plain = dv_header_read_plain(&header, bytes, len);
            dv_why sealed = dv_header_read_sealed(&header, bytes, len + 20);
            begin_case();
            CHECK((plain.fault == DV_FAULT_VERSION) == (first >> 6 != 2));
            CHECK((sealed.fault == DV_FAULT_VERSION) == (first >> 6 != 2));
            if (first >> 6 != 2) {
                CHECK(why_is(plain, DV_FAULT_VERSION, first >> 6, 2));
                CHECK(why_is(sealed, DV_FAULT_VERSION, first >> 6, 2));
            }
        }
}

static void framing_not_media(void)
{
    dv_header header;
    uint8_t bytes[80];
    for (unsigned first = 0; first < 256; first++) {
        uint8_t *keep_alive = exact_new(8);
        random_bytes(keep_alive, 8);
        keep_alive[0] = (uint8_t)first;
        begin_case();
        CHECK(why_is(dv_header_read_sealed(&header, keep_alive, 8), DV_FAULT_KEEP_ALIVE, 8, 0));
        free(keep_alive);
    }
    for (unsigned type = 0; type < 5; type++)
        for (uint8_t rest_len = 69; rest_len <= 71; rest_len++)
            for (size_t len = 73; len <= 75; len++) {
                begin_case();
                memset(bytes, 0, sizeof bytes);
                bytes[1] = (uint8_t)type;
                bytes[3] = rest_len;
                bool is_discovery = (type == 1 || type == 2) && rest_len == 70 && len == 74;
                dv_why why = dv_header_read_sealed(&header, bytes, len);
                CHECK(is_discovery ? why_is(why, DV_FAULT_DISCOVERY, 74, 0) : why_is(why, DV_FAULT_VERSION, 0, 2));
                bytes[0] = 0x80;
                CHECK(why_is(dv_header_read_sealed(&header, bytes, len), DV_FAULT_NONE, 0, 0));
            }
}

static void framing_limits(void)
{
    dv_header header;
    uint8_t *bytes = exact_new(65536);
    memset(bytes, 0, 65536);
    bytes[0] = 0x80;
    begin_case();
    CHECK(why_is(dv_header_read_plain(&header, bytes, 65515), DV_FAULT_NONE, 0, 0));
    CHECK(why_is(dv_header_read_plain(&header, bytes, 65516), DV_FAULT_LONG, 65516, 65515));
    CHECK(why_is(dv_header_read_sealed(&header, bytes, 65535), DV_FAULT_NONE, 0, 0));
    CHECK(why_is(dv_header_read_sealed(&header, bytes, 65536), DV_FAULT_LONG, 65536, 65535));
    CHECK(why_is(dv_header_read_alone(&header, bytes, 65516), DV_FAULT_LONG, 65516, 65515));
    begin_case();
    CHECK(why_is(dv_header_read_plain(&header, bytes, SIZE_MAX), DV_FAULT_LONG, UINT32_MAX, 65515));
    CHECK(why_is(dv_header_read_sealed(&header, bytes, SIZE_MAX), DV_FAULT_LONG, UINT32_MAX, 65535));
    CHECK(why_is(dv_header_read_alone(&header, bytes, SIZE_MAX), DV_FAULT_LONG, UINT32_MAX, 65515));
    begin_case();
    CHECK(why_is(dv_header_read_plain(&header, NULL, 0), DV_FAULT_SHORT, 0, 8));
    CHECK(why_is(dv_header_read_sealed(&header, NULL, 0), DV_FAULT_SHORT, 0, 28));
    CHECK(why_is(dv_header_read_alone(&header, NULL, 0), DV_FAULT_SHORT, 0, 8));
    free(bytes);
}

/* An extension whose preamble calls for as many as 65,535 words. */
static void framing_extension_words(void)
{
    for (size_t words = 0; words <= 65535; words += 1 + words / 3) {
        dv_header header;
        uint8_t padding_len, bytes[16] = {0x90, 120};
        bytes[14] = (uint8_t)(words >> 8);
        bytes[15] = (uint8_t)words;
        uint8_t *body = exact_new(4 * words);
        begin_case();
        CHECK(why_is(dv_header_read_plain(&header, bytes, 16), DV_FAULT_NONE, 0, 0));
        CHECK(header.extension_len == 4 * words);
        CHECK(why_is(dv_body_read(&header, body, 4 * words, &padding_len), DV_FAULT_NONE, 0, 0));
        if (words)
            CHECK(why_is(dv_body_read(&header, body, 4 * words - 1, &padding_len), DV_FAULT_EXTENSION_LONG, 4 * words,
                         4 * words - 1));
        free(body);
    }
}

static void framing_statuses(void)
{
    static const dv_status expected[] = {
        DV_OK,        DV_TRUNCATED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED,
        DV_NOT_MEDIA, DV_NOT_MEDIA, DV_BAD_TAG,   DV_REPLAYED,  DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED,
        DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_MALFORMED, DV_TRUNCATED};
    for (int fault = 0; fault < DV_FAULT_COUNT; fault++) {
        begin_case();
        CHECK(dv_fault_status((dv_fault)fault) == expected[fault]);
    }
}

static void framing_written(void)
{
    for (int i = 0; i < 500; i++) {
        bool marker = random_bool(), has_extension = random_bool();
        dv_stream stream = {0};
        stream.ssrc = (uint32_t)random_u64();
        stream.timestamp = (uint32_t)random_u64();
        stream.sequence = (uint16_t)random_u64();
        stream.payload_type = (uint8_t)random_below(128);
        stream.has_extension = has_extension;
        stream.extension_profile = has_extension ? (uint16_t)random_u64() : 0;
        stream.extension_len = has_extension ? (uint16_t)(4 * random_below(16384)) : 0;
        uint8_t words[2] = {(uint8_t)(stream.extension_len / 4 >> 8), (uint8_t)(stream.extension_len / 4)};
        uint8_t expected[16] = {
            has_extension ? 0x90 : 0x80,
            (uint8_t)((marker ? 128 : 0) + stream.payload_type),
            (uint8_t)(stream.sequence >> 8),
            (uint8_t)stream.sequence,
            (uint8_t)(stream.timestamp >> 24),
            (uint8_t)(stream.timestamp >> 16),
            (uint8_t)(stream.timestamp >> 8),
            (uint8_t)stream.timestamp,
            (uint8_t)(stream.ssrc >> 24),
            (uint8_t)(stream.ssrc >> 16),
            (uint8_t)(stream.ssrc >> 8),
            (uint8_t)stream.ssrc,
            (uint8_t)(stream.extension_profile >> 8),
            (uint8_t)stream.extension_profile,
            words[0],
            words[1],
        };
        dv_header header;
        begin_case();
        dv_header_write(&header, &stream, marker);
        CHECK(header.len == (has_extension ? 16u : 12u));
        CHECK(!memcmp(header.bytes, expected, header.len));
        CHECK(header.extension_len == stream.extension_len);
        CHECK(!header.is_rtcp && !header.has_padding);
    }
}

static void test_framing(void)
{
    group("framing: CSRCs, extension, padding");
    framing_shapes();
    group("framing: truncated at each length");
    framing_truncations();
    group("framing: padding counts");
    framing_padding();
    group("framing: a header by itself");
    framing_alone();
    group("framing: types, versions, not media, limits");
    framing_types();
    framing_versions();
    framing_not_media();
    framing_limits();
    framing_extension_words();
    framing_statuses();
    group("framing: headers written");
    framing_written();
}

static const struct {
    const char *name;
    void (*run)(void);
} suites[] = {
    {"engines", test_engines}, {"framing", test_framing}, {"sealer", test_sealer},
    {"opener", test_opener},   {"aead", test_aead},       {"packetizers", test_packetizers},
    {"wire", test_wire},       {"faults", test_faults},   {"guard", test_guard},
};

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    generator = seed;
    faults_begin();
    printf("seed %llu, libsodium %s, OpenSSL %s\n", seed, dv_sodium_version(), dv_openssl_version());
    test_faults_of_init();
    if (dv_init() != DV_DONE) {
        puts("dv_init failed");
        return 2;
    }
    size_t ran = 0;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (argc < 3 || !strcmp(argv[2], suites[i].name)) {
            suites[i].run();
            ran++;
        }
    group(NULL);
    printf("%zu passed, %zu failed\n", passed_in_all, failed_in_all);
    return failed_in_all || !ran;
}
