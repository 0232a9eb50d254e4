/* The sealer's promises: what it writes, where, and that no nonce is used twice. */
#define _POSIX_C_SOURCE 200809L /* pthread, under -std=c11 */

#include "test_csrc.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#include <stdatomic.h>
#endif

/* A sealer, and what foretells its bytes. */
typedef struct subject {
    dv_sealer *sealer;
    dv_mode mode;
    uint8_t key[DV_KEY_LEN];
    uint64_t next;
    bool big_endian;
} subject;

static subject subject_new(dv_mode mode, uint32_t first_nonce)
{
    subject made = {0};
    made.mode = mode;
    made.next = first_nonce;
    made.big_endian = random_bool();
    random_bytes(made.key, sizeof made.key);
    uint8_t *key = exact_copy(made.key, DV_KEY_LEN);
    CHECK(dv_sealer_new(&made.sealer, mode, key, first_nonce, made.big_endian) == DV_DONE);
    memset(key, 0, DV_KEY_LEN); /* it was copied */
    free(key);
    return made;
}

static subject subject_random(void)
{
    return subject_new((dv_mode)random_below(DV_MODE_COUNT), (uint32_t)random_u64() / 2);
}

static void subject_free(subject *of)
{
    dv_sealer_free(of->sealer);
}

static bool nonces_left(const subject *of)
{
    return dv_sealer_packets_left(of->sealer) == NONCE_COUNT - of->next;
}

/* The bytes of the sealer's next packet. */
static size_t foretell(subject *of, const packet *plain, uint8_t *out)
{
    uint8_t suffix[4];
    suffix_write((uint32_t)of->next++, of->big_endian, suffix);
    packet_seal(of->mode, of->key, suffix, plain, out);
    return plain->len + 20;
}

static uint8_t *foretell_burst(subject *of, const burst *plain)
{
    uint8_t *expected = exact_new(plain->sealed_len), *end = expected;
    for (size_t i = 0; i < plain->count; i++)
        end += foretell(of, &plain->packets[i], end);
    return expected;
}

static dv_result seal_one(dv_sealer *sealer, const packet *plain, uint8_t *out, size_t capacity, dv_refusal *refusal)
{
    uint8_t *header = exact_copy(plain->bytes, plain->header_len);
    uint8_t *payload = exact_copy(plain->bytes + plain->header_len, plain->len - plain->header_len);
    dv_result result = dv_sealer_seal(sealer, header, plain->header_len, payload, plain->len - plain->header_len, out,
                                      capacity, refusal);
    free(header);
    free(payload);
    return result;
}

static dv_result seal_burst(dv_sealer *sealer, const burst *plain, uint8_t *out, size_t capacity, dv_refusal *refusal)
{
    return dv_sealer_seal_burst(sealer, plain->starts, plain->lens, plain->count, out, capacity, refusal);
}

static void layout(void)
{
    for (int i = 0; i < 1200; i++) {
        subject of = subject_random();
        for (int j = 0; j < 4; j++) {
            dv_refusal refusal;
            packet plain = packet_random(i % 100 ? 1300 : 65000);
            output out = output_new(plain.len + 20);
            uint8_t *expected = exact_new(plain.len + 20);
            begin_case();
            foretell(&of, &plain, expected);
            CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
            CHECK(!memcmp(out.bytes, expected, out.len));
            CHECK(nonces_left(&of));
            free(expected);
            output_free(&out);
            packet_free(&plain);
        }
        subject_free(&of);
    }
}

/* The largest packet, and one byte more. */
static void limits(void)
{
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        for (size_t payload_len = 65502; payload_len <= 65505; payload_len++) {
            subject of = subject_new((dv_mode)mode, 5);
            shape largest = {false, 0, false, 0, payload_len, 0};
            packet plain = packet_make(&largest);
            const uint8_t *starts[1] = {plain.bytes};
            output out = output_new(plain.len + 20);
            uint8_t *expected = exact_new(plain.len + 20);
            dv_refusal one = {0}, many = {0};
            begin_case();
            dv_result result = dv_sealer_seal_burst(of.sealer, starts, &plain.len, 1, out.bytes, out.len, &many);
            if (payload_len <= 65503) {
                CHECK(result == DV_DONE);
                foretell(&of, &plain, expected);
                CHECK(!memcmp(out.bytes, expected, out.len));
                CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &one) == DV_DONE);
                foretell(&of, &plain, expected);
                CHECK(!memcmp(out.bytes, expected, out.len));
            } else {
                CHECK(result == DV_ERROR_PACKET && many.fault == DV_FAULT_LONG);
                CHECK(many.value == plain.len && many.limit == 65515);
                CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &one) == DV_ERROR_PACKET);
                CHECK(one.fault == DV_FAULT_LONG && one.value == payload_len && one.limit == 65503);
                CHECK(output_untouched(&out));
            }
            CHECK(nonces_left(&of));
            free(expected);
            output_free(&out);
            packet_free(&plain);
            subject_free(&of);
        }
}

static void counters(void)
{
    static const uint32_t firsts[] = {0, 1, 0xfe, 0xff, 0xfffe, 0xffff, 0xfffffe, 0x7fffffff, 0x80000000, 0x12345678};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++)
        for (int big_endian = 0; big_endian < 2; big_endian++)
            for (int mode = 0; mode < DV_MODE_COUNT; mode++) {
                subject of = subject_new((dv_mode)mode, firsts[i]);
                dv_sealer_free(of.sealer);
                of.big_endian = big_endian;
                CHECK(dv_sealer_new(&of.sealer, mode, of.key, firsts[i], big_endian) == DV_DONE);
                for (uint32_t j = 0; j < 4; j++) {
                    dv_refusal refusal;
                    packet plain = packet_random(30);
                    output out = output_new(plain.len + 20);
                    begin_case();
                    CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
                    const uint8_t *suffix = out.bytes + plain.len + 16;
                    uint32_t counter = 0;
                    for (int k = 0; k < 4; k++)
                        counter = counter << 8 | suffix[big_endian ? k : 3 - k];
                    CHECK(counter == firsts[i] + j);
                    output_free(&out);
                    packet_free(&plain);
                }
                subject_free(&of);
            }
}

static void bursts_are_singles(void)
{
    for (int i = 0; i < 400; i++) {
        dv_refusal refusal;
        burst plain;
        subject of = subject_random();
        dv_sealer *twin;
        begin_case();
        CHECK(dv_sealer_new(&twin, of.mode, of.key, (uint32_t)of.next, of.big_endian) == DV_DONE);
        burst_random(&plain, random_below(BURST_MAX + 1), i % 50 ? 1300 : 8000);
        output out = output_new(plain.sealed_len), singles = output_new(plain.sealed_len);
        uint8_t *expected = foretell_burst(&of, &plain), *end = singles.bytes;
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
        for (size_t j = 0; j < plain.count; j++) {
            CHECK(seal_one(twin, &plain.packets[j], end, plain.lens[j] + 20, &refusal) == DV_DONE);
            end += plain.lens[j] + 20;
        }
        CHECK(!memcmp(out.bytes, expected, out.len));
        CHECK(!memcmp(out.bytes, singles.bytes, out.len));
        CHECK(nonces_left(&of));
        CHECK(dv_sealer_packets_left(twin) == NONCE_COUNT - of.next);
        free(expected);
        output_free(&out);
        output_free(&singles);
        burst_free(&plain);
        dv_sealer_free(twin);
        subject_free(&of);
    }
}

static void bursts_of_nothing(void)
{
    for (int i = 0; i < 20; i++) {
        dv_refusal refusal;
        subject of = subject_random();
        output out = output_new(40);
        begin_case();
        CHECK(dv_sealer_seal_burst(of.sealer, NULL, NULL, 0, out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(dv_sealer_seal_burst(of.sealer, NULL, NULL, 0, NULL, 0, &refusal) == DV_DONE);
        CHECK(output_untouched(&out));
        CHECK(nonces_left(&of));
        output_free(&out);
        subject_free(&of);
    }
}

static void same_buffer_twice(void)
{
    for (int i = 0; i < 50; i++) {
        dv_refusal refusal;
        subject of = subject_random();
        packet plain = packet_random(300);
        const uint8_t *starts[3] = {plain.bytes, plain.bytes, plain.bytes};
        const size_t lens[3] = {plain.len, plain.len, plain.len};
        size_t sealed_len = plain.len + 20;
        output out = output_new(3 * sealed_len);
        uint8_t *expected = exact_new(sealed_len);
        begin_case();
        CHECK(dv_sealer_seal_burst(of.sealer, starts, lens, 3, out.bytes, out.len, &refusal) == DV_DONE);
        for (size_t j = 0; j < 3; j++) {
            foretell(&of, &plain, expected);
            CHECK(!memcmp(out.bytes + j * sealed_len, expected, sealed_len));
        }
        free(expected);
        output_free(&out);
        packet_free(&plain);
        subject_free(&of);
    }
}

static void capacity(void)
{
    for (int i = 0; i < 300; i++) {
        dv_refusal refusal;
        burst plain;
        subject of = subject_random();
        burst_random(&plain, 1 + random_below(8), 100);
        size_t one_len = plain.lens[0] + 20, short_by = i % 3 ? 1 : 1 + random_below(one_len);
        output out = output_new(plain.sealed_len);
        begin_case();
        CHECK(seal_one(of.sealer, &plain.packets[0], out.bytes, one_len - short_by, &refusal) == DV_ERROR_CAPACITY);
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len - short_by, &refusal) == DV_ERROR_CAPACITY);
        CHECK(seal_burst(of.sealer, &plain, out.bytes, 0, &refusal) == DV_ERROR_CAPACITY);
        CHECK(output_untouched(&out));
        CHECK(nonces_left(&of));

        uint8_t *expected = foretell_burst(&of, &plain);
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(!memcmp(out.bytes, expected, out.len));
        free(expected);
        output_free(&out);
        burst_free(&plain);
        subject_free(&of);
    }
}

/* An output in the middle of memory in which inputs may lie anywhere. */
typedef struct arena {
    uint8_t *memory, *before;
    size_t len, margin, out_len;
    uint8_t *out;
} arena;

static arena arena_new(size_t out_len, size_t margin)
{
    arena made = {0};
    made.len = out_len + 2 * margin;
    made.margin = margin;
    made.out_len = out_len;
    made.memory = exact_new(made.len);
    made.before = exact_new(made.len);
    made.out = made.memory + margin;
    memset(made.memory, 0x55, made.len);
    return made;
}

/* The memory as it is now is what a refused call must leave. */
static void arena_remember(arena *of)
{
    memcpy(of->before, of->memory, of->len);
}

static bool arena_unchanged(const arena *of)
{
    return !memcmp(of->memory, of->before, of->len);
}

static bool arena_unchanged_around(const arena *of)
{
    return !memcmp(of->memory, of->before, of->margin) &&
           !memcmp(of->out + of->out_len, of->before + of->margin + of->out_len, of->margin);
}

static void arena_free(arena *of)
{
    free(of->memory);
    free(of->before);
}

/* Whether an input at this distance from the output may stand there; its own place is at place. */
static bool may_stand(ptrdiff_t at, size_t len, size_t place, size_t out_len)
{
    return !len || at == (ptrdiff_t)place || at + (ptrdiff_t)len <= 0 || at >= (ptrdiff_t)out_len;
}

/* One packet of a burst at every distance from the output, all others elsewhere. */
static void overlap_burst(dv_mode mode)
{
    dv_refusal refusal;
    burst plain;
    subject of = subject_new(mode, 1000);
    burst_random(&plain, 4, 40);
    size_t place = 0;
    for (size_t k = 0; k < plain.count; place += plain.lens[k++] + 20) {
        size_t len = plain.lens[k], margin = len + 2;
        for (ptrdiff_t at = -(ptrdiff_t)margin; at <= (ptrdiff_t)plain.sealed_len + 2; at++) {
            arena memory = arena_new(plain.sealed_len, margin);
            begin_case();
            memcpy(memory.out + at, plain.packets[k].bytes, len);
            arena_remember(&memory);
            plain.starts[k] = memory.out + at;
            dv_result result = seal_burst(of.sealer, &plain, memory.out, plain.sealed_len, &refusal);
            if (may_stand(at, len, place, plain.sealed_len)) {
                uint8_t *expected = foretell_burst(&of, &plain);
                CHECK(result == DV_DONE);
                CHECK(!memcmp(memory.out, expected, plain.sealed_len));
                CHECK(arena_unchanged_around(&memory));
                free(expected);
            } else {
                CHECK(result == DV_ERROR_OVERLAP);
                CHECK(arena_unchanged(&memory));
            }
            CHECK(nonces_left(&of));
            arena_free(&memory);
        }
        plain.starts[k] = plain.packets[k].bytes;
    }
    burst_free(&plain);
    subject_free(&of);
}

/* Header, or payload, or both at every distance from the output. */
static void overlap_one(dv_mode mode, bool move_header, bool move_payload)
{
    dv_refusal refusal;
    subject of = subject_new(mode, 1000);
    shape shaped = {false, 1, true, 1, 23, 0};
    packet plain = packet_make(&shaped);
    size_t header_len = plain.header_len, payload_len = plain.len - header_len, sealed_len = plain.len + 20;
    uint8_t *header = exact_copy(plain.bytes, header_len), *payload = exact_copy(plain.bytes + header_len, payload_len);
    for (ptrdiff_t at = -(ptrdiff_t)plain.len - 2; at <= (ptrdiff_t)sealed_len + 2; at++) {
        arena memory = arena_new(sealed_len, plain.len + 2);
        uint8_t *expected = exact_new(sealed_len);
        const uint8_t *header_at = header, *payload_at = payload;
        bool allowed = true;
        begin_case();
        if (move_header) {
            header_at = memcpy(memory.out + at, header, header_len);
            allowed = may_stand(at, header_len, 0, sealed_len);
        }
        if (move_payload) {
            ptrdiff_t payload_is_at = move_header ? at + (ptrdiff_t)header_len : at;
            payload_at = memcpy(memory.out + payload_is_at, payload, payload_len);
            allowed = allowed && may_stand(payload_is_at, payload_len, header_len, sealed_len);
        }
        arena_remember(&memory);
        dv_result result =
            dv_sealer_seal(of.sealer, header_at, header_len, payload_at, payload_len, memory.out, sealed_len, &refusal);
        if (allowed) {
            foretell(&of, &plain, expected);
            CHECK(result == DV_DONE);
            CHECK(!memcmp(memory.out, expected, sealed_len));
            CHECK(arena_unchanged_around(&memory));
        } else {
            CHECK(result == DV_ERROR_OVERLAP);
            CHECK(arena_unchanged(&memory));
        }
        CHECK(nonces_left(&of));
        free(expected);
        arena_free(&memory);
    }
    free(header);
    free(payload);
    packet_free(&plain);
    subject_free(&of);
}

/* A whole burst sealed where it lies, and the same with the last packet one byte off. */
static void burst_in_place(void)
{
    for (int i = 0; i < 200; i++) {
        dv_refusal refusal;
        burst plain;
        subject of = subject_random();
        burst_random(&plain, 1 + random_below(20), i % 20 ? 200 : 3000);
        arena memory = arena_new(plain.sealed_len, 8);
        uint8_t *place = memory.out;
        begin_case();
        for (size_t j = 0; j < plain.count; j++) {
            plain.starts[j] = memcpy(place, plain.packets[j].bytes, plain.lens[j]);
            place += plain.lens[j] + 20;
        }
        size_t last = plain.count - 1;
        const uint8_t *right = plain.starts[last];
        int off = random_bool() ? 1 : -1;
        memmove(memory.out + (right - memory.out) + off, right, plain.lens[last]);
        plain.starts[last] += off;
        arena_remember(&memory);
        CHECK(seal_burst(of.sealer, &plain, memory.out, plain.sealed_len, &refusal) == DV_ERROR_OVERLAP);
        CHECK(arena_unchanged(&memory) && nonces_left(&of));

        plain.starts[last] = memcpy(memory.out + (right - memory.out), plain.packets[last].bytes, plain.lens[last]);
        uint8_t *expected = foretell_burst(&of, &plain);
        CHECK(seal_burst(of.sealer, &plain, memory.out, plain.sealed_len, &refusal) == DV_DONE);
        CHECK(!memcmp(memory.out, expected, plain.sealed_len));
        free(expected);
        arena_free(&memory);
        burst_free(&plain);
        subject_free(&of);
    }
}

/* What a sealer refuses, and why. */
static packet packet_refused(dv_refusal *expected)
{
    shape of = {false, random_below(16), true, 1 + random_below(3), random_below(30), 0};
    packet made = packet_make(&of);
    size_t body_len = made.len - made.header_len, room = of.payload_len;
    switch (random_below(6)) {
    case 0:
        expected->fault = DV_FAULT_SHORT;
        made.len = random_below(made.header_len);
        expected->value = (uint32_t)made.len;
        expected->limit = made.len < 8 ? 8 : (uint32_t)made.header_len;
        break;
    case 1:
        expected->fault = DV_FAULT_VERSION;
        expected->value = (uint32_t)(random_below(3) + 3) % 4; /* 3, 0, 1 */
        expected->limit = 2;
        made.bytes[0] = (uint8_t)(expected->value << 6 | (made.bytes[0] & 0x3f));
        break;
    case 2:
        expected->fault = DV_FAULT_EXTENSION_LONG;
        expected->limit = (uint32_t)body_len;
        expected->value = 4 * ((uint32_t)body_len / 4 + 1 + (uint32_t)random_below(100));
        made.bytes[made.header_len - 2] = 0;
        made.bytes[made.header_len - 1] = (uint8_t)(expected->value / 4);
        break;
    default:
        made.bytes[0] |= 0x20;
        expected->fault = DV_FAULT_PADDING_LONG;
        expected->value = (uint32_t)(room ? room + 1 + random_below(200) : 1);
        expected->limit = (uint32_t)room;
        if (room && random_bool()) {
            expected->fault = DV_FAULT_PADDING_ZERO;
            expected->value = 0;
            expected->limit = 1;
        }
        if (room)
            made.bytes[made.len - 1] = (uint8_t)expected->value;
    }
    uint8_t *exact = exact_copy(made.bytes, made.len);
    free(made.bytes);
    made.bytes = exact;
    return made;
}

static bool refusal_is(const dv_refusal *found, const dv_refusal *expected)
{
    return found->index == expected->index && found->fault == expected->fault && found->value == expected->value &&
           found->limit == expected->limit;
}

static void refused_use_no_nonce(void)
{
    for (int i = 0; i < 1000; i++) {
        dv_refusal expected = {0}, found = {0};
        burst plain;
        subject of = subject_random();
        begin_case();
        burst_random(&plain, 1 + random_below(6), 60);
        expected.index = random_below(plain.count);
        packet_free(&plain.packets[expected.index]);
        plain.packets[expected.index] = packet_refused(&expected);
        packet *bad = &plain.packets[expected.index];
        plain.starts[expected.index] = bad->bytes;
        plain.lens[expected.index] = bad->len;
        output out = output_new(plain.sealed_len + 600);
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &found) == DV_ERROR_PACKET);
        CHECK(refusal_is(&found, &expected));
        if (bad->len >= bad->header_len) {
            expected.index = 0;
            CHECK(seal_one(of.sealer, bad, out.bytes, out.len, &found) == DV_ERROR_PACKET);
            CHECK(refusal_is(&found, &expected));
        }
        CHECK(output_untouched(&out));
        CHECK(nonces_left(&of));

        shape good_shape = shape_random(50);
        packet good = packet_make(&good_shape);
        uint8_t *sealed = exact_new(good.len + 20);
        foretell(&of, &good, sealed);
        CHECK(seal_one(of.sealer, &good, out.bytes, out.len, &found) == DV_DONE);
        CHECK(!memcmp(out.bytes, sealed, good.len + 20));
        free(sealed);
        packet_free(&good);
        output_free(&out);
        burst_free(&plain);
        subject_free(&of);
    }
}

static void header_lens_refused(void)
{
    for (int i = 0; i < 50; i++) {
        subject of = subject_random();
        packet plain = packet_random(100);
        output out = output_new(plain.len + 120);
        for (size_t len = 0; len <= plain.len && len <= 90; len++) {
            dv_refusal found = {9, 0, 0, 0};
            if (len == plain.header_len)
                continue;
            begin_case();
            CHECK(dv_sealer_seal(of.sealer, plain.bytes, len, plain.bytes + len, plain.len - len, out.bytes, out.len,
                                 &found) == DV_ERROR_PACKET);
            CHECK(found.index == 0 && found.value == len);
            CHECK(found.fault == (len < 8 || len < plain.header_len ? (uint32_t)DV_FAULT_SHORT : DV_FAULT_HEADER_LEN));
            CHECK(found.limit == (len < 8 ? 8 : plain.header_len));
            CHECK(output_untouched(&out) && nonces_left(&of));
        }
        output_free(&out);
        packet_free(&plain);
        subject_free(&of);
    }
}

static dv_stream stream_random(uint8_t *extension, size_t extension_max_words)
{
    dv_stream made = {0};
    made.ssrc = (uint32_t)random_u64();
    made.timestamp = random_bool() ? UINT32_MAX - (uint32_t)random_below(3000) : (uint32_t)random_u64();
    made.sequence = random_bool() ? (uint16_t)(65535 - random_below(6)) : (uint16_t)random_u64();
    made.payload_type = (uint8_t)(random_bool() ? 96 + random_below(32) : random_below(64));
    made.has_extension = random_bool();
    made.max_packet_len = (uint32_t)(150 + random_below(200));
    if (made.has_extension) {
        made.extension_profile = random_bool() ? 0xbede : 0x1000;
        made.extension_len = (uint16_t)(4 * random_below(extension_max_words + 1));
        made.extension = made.extension_len ? extension : NULL;
    }
    return made;
}

/* After the last nonce every call is refused, for ever, whatever it asks for. */
static void nothing_is_left(subject *of)
{
    dv_refusal refusal;
    burst plain;
    uint8_t frame[8] = {0};
    dv_stream stream = {0};
    stream.max_packet_len = 1200;
    burst_random(&plain, 2, 20);
    output out = output_new(plain.sealed_len + 100);
    for (int i = 0; i < 3; i++) {
        dv_stream before = stream;
        CHECK(seal_one(of->sealer, &plain.packets[0], out.bytes, out.len, &refusal) == DV_ERROR_EXHAUSTED);
        CHECK(seal_burst(of->sealer, &plain, out.bytes, out.len, &refusal) == DV_ERROR_EXHAUSTED);
        CHECK(dv_sealer_seal_burst(of->sealer, NULL, NULL, 0, out.bytes, out.len, &refusal) == DV_ERROR_EXHAUSTED);
        CHECK(seal_plain(of->sealer, &stream, frame, 8, 1, 1, out.bytes, out.len) == DV_ERROR_EXHAUSTED);
        CHECK(!memcmp(&stream, &before, sizeof stream));
        CHECK(dv_sealer_packets_left(of->sealer) == 0);
    }
    CHECK(output_untouched(&out));
    output_free(&out);
    burst_free(&plain);
}

/* The nonces that are left against a burst, which straddles the end where it has more packets. */
static void exhaustion(void)
{
    for (uint32_t left = 1; left <= 12; left++)
        for (size_t count = 1; count <= 14; count++) {
            dv_refusal refusal;
            burst plain;
            subject of = subject_new((dv_mode)random_below(DV_MODE_COUNT), UINT32_MAX - (left - 1));
            burst_random(&plain, count, 40);
            output out = output_new(plain.sealed_len);
            begin_case();
            CHECK(dv_sealer_packets_left(of.sealer) == left);
            dv_result result = seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal);
            if (count > left) {
                CHECK(result == DV_ERROR_EXHAUSTED);
                CHECK(output_untouched(&out));
                nothing_is_left(&of);
            } else {
                uint8_t *expected = foretell_burst(&of, &plain);
                CHECK(result == DV_DONE);
                CHECK(!memcmp(out.bytes, expected, out.len));
                CHECK(nonces_left(&of));
                if (count == left)
                    nothing_is_left(&of);
                free(expected);
            }
            output_free(&out);
            burst_free(&plain);
            subject_free(&of);
        }
}

static void exhaustion_one_by_one(void)
{
    for (int i = 0; i < 20; i++) {
        uint32_t left = 1 + (uint32_t)random_below(5);
        subject of = subject_new((dv_mode)(i % DV_MODE_COUNT), UINT32_MAX - (left - 1));
        begin_case();
        while (left--) {
            dv_refusal refusal;
            packet plain = packet_random(40);
            output out = output_new(plain.len + 20);
            uint8_t *expected = exact_new(out.len);
            foretell(&of, &plain, expected);
            CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
            CHECK(!memcmp(out.bytes, expected, out.len));
            free(expected);
            output_free(&out);
            packet_free(&plain);
        }
        nothing_is_left(&of);
        subject_free(&of);
    }
}

static void exhaustion_in_frame(void)
{
    for (uint32_t left = 1; left <= 5; left++)
        for (size_t count = 1; count <= 6; count++) {
            uint8_t frame[600] = {0};
            subject of = subject_new((dv_mode)random_below(DV_MODE_COUNT), UINT32_MAX - (left - 1));
            dv_stream stream = {0};
            stream.max_packet_len = 132;
            dv_stream before = stream;
            output out = output_new(count * 132);
            begin_case();
            dv_result result = seal_plain(of.sealer, &stream, frame, 100 * count, 1, 960, out.bytes, out.len);
            CHECK(result == (count > left ? DV_ERROR_EXHAUSTED : DV_DONE));
            if (count > left) {
                CHECK(output_untouched(&out));
                CHECK(!memcmp(&stream, &before, sizeof stream));
            }
            if (count >= left)
                nothing_is_left(&of);
            output_free(&out);
            subject_free(&of);
        }
}

static bool memory_holds(const void *memory, size_t len, const uint8_t *key)
{
    for (size_t i = 0; i + DV_KEY_LEN <= len; i++)
        if (!memcmp((const uint8_t *)memory + i, key, DV_KEY_LEN))
            return true;
    return false;
}

static void closed(void)
{
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        for (int i = 0; i < 10; i++) {
            dv_refusal refusal;
            burst plain;
            uint8_t frame[8] = {0};
            dv_stream stream = {0};
            stream.max_packet_len = 1200;
            dv_stream before = stream;
            subject of = subject_new((dv_mode)mode, 7);
            burst_random(&plain, 3, 20);
            output out = output_new(plain.sealed_len);
            begin_case();
            if (mode == DV_MODE_XCHACHA20_POLY1305) /* the key stands there as it is: a sealer begins with its cipher */
                CHECK(memory_holds(of.sealer, sizeof(dv_cipher), of.key));
            dv_sealer_close(of.sealer);
            CHECK(!memory_holds(of.sealer, sizeof(dv_cipher), of.key));
            for (int again = 0; again < 2; again++) {
                CHECK(seal_one(of.sealer, &plain.packets[0], out.bytes, out.len, &refusal) == DV_ERROR_CLOSED);
                CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_ERROR_CLOSED);
                CHECK(seal_plain(of.sealer, &stream, frame, 8, 1, 1, out.bytes, out.len) == DV_ERROR_CLOSED);
                CHECK(dv_sealer_packets_left(of.sealer) == 0);
                dv_sealer_close(of.sealer);
            }
            CHECK(output_untouched(&out));
            CHECK(!memcmp(&stream, &before, sizeof stream));
            output_free(&out);
            burst_free(&plain);
            subject_free(&of);
        }
    dv_sealer_free(NULL);
}

static void bad_arguments(void)
{
    static const int modes[] = {-1, DV_MODE_COUNT, DV_MODE_COUNT + 1, INT32_MAX, INT32_MIN};
    const uint8_t key[DV_KEY_LEN] = {0};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        dv_sealer *sealer = (dv_sealer *)key;
        begin_case();
        CHECK(dv_sealer_new(&sealer, modes[i], key, 0, 0) == DV_ERROR_ARGUMENT);
        CHECK(!sealer);
    }
}

/* ---- frames ---- */

/* The packets of a frame, built by hand from the stream. */
static void frame_packets(const dv_stream *stream, const uint8_t *frame, size_t frame_len, bool marker, burst *made)
{
    size_t header_len = stream->has_extension ? 16 : 12,
           extension_len = stream->has_extension ? stream->extension_len : 0;
    size_t payload_len = stream->max_packet_len - header_len - extension_len - 20, done = 0;
    memset(made, 0, sizeof *made);
    do {
        size_t piece_len = frame_len - done < payload_len ? frame_len - done : payload_len;
        size_t sequence = (stream->sequence + made->count) % 65536;
        packet piece = {0};
        piece.header_len = header_len;
        piece.extension_len = extension_len;
        piece.len = header_len + extension_len + piece_len;
        piece.bytes = exact_new(piece.len);
        piece.bytes[0] = stream->has_extension ? 0x90 : 0x80;
        piece.bytes[1] = (uint8_t)(stream->payload_type + (marker && done + piece_len == frame_len ? 128 : 0));
        piece.bytes[2] = (uint8_t)(sequence / 256);
        piece.bytes[3] = (uint8_t)(sequence % 256);
        suffix_write(stream->timestamp, true, piece.bytes + 4);
        suffix_write(stream->ssrc, true, piece.bytes + 8);
        if (stream->has_extension) {
            piece.bytes[12] = (uint8_t)(stream->extension_profile / 256);
            piece.bytes[13] = (uint8_t)(stream->extension_profile % 256);
            piece.bytes[14] = (uint8_t)(extension_len / 4 / 256);
            piece.bytes[15] = (uint8_t)(extension_len / 4 % 256);
        }
        if (extension_len)
            memcpy(piece.bytes + header_len, stream->extension, extension_len);
        if (piece_len)
            memcpy(piece.bytes + header_len + extension_len, frame + done, piece_len);
        made->starts[made->count] = piece.bytes;
        made->lens[made->count] = piece.len;
        made->sealed_len += piece.len + 20;
        made->packets[made->count++] = piece;
        done += piece_len;
    } while (done < frame_len);
}

static void frame_case(const dv_stream *first, size_t frame_len)
{
    burst plain;
    bool marker = random_bool();
    uint32_t advance = (uint32_t)random_below(4000);
    subject of = subject_random();
    dv_stream stream = *first;
    uint8_t *frame = exact_new(frame_len);
    random_bytes(frame, frame_len);
    begin_case();
    frame_packets(&stream, frame, frame_len, marker, &plain);
    CHECK(dv_stream_sealed_len(&stream, frame_len) == plain.sealed_len);

    output out = output_new(plain.sealed_len);
    CHECK(seal_plain(of.sealer, &stream, frame, frame_len, marker, advance, out.bytes, out.len - 1) ==
          DV_ERROR_CAPACITY);
    CHECK(output_untouched(&out) && nonces_left(&of));
    CHECK(!memcmp(&stream, first, sizeof stream));

    uint8_t *expected = foretell_burst(&of, &plain);
    CHECK(seal_plain(of.sealer, &stream, frame, frame_len, marker, advance, out.bytes, out.len) == DV_DONE);
    CHECK(!memcmp(out.bytes, expected, out.len));
    CHECK(nonces_left(&of));
    dv_stream after = *first;
    after.sequence = (uint16_t)(first->sequence + plain.count);
    after.timestamp = first->timestamp + advance;
    CHECK(!memcmp(&stream, &after, sizeof stream));
    free(expected);
    free(frame);
    output_free(&out);
    burst_free(&plain);
    subject_free(&of);
}

static void frames(void)
{
    uint8_t extension[64];
    for (int i = 0; i < 300; i++) {
        random_bytes(extension, sizeof extension);
        dv_stream stream = stream_random(extension, 16);
        size_t payload_len = stream.max_packet_len - 32 - (stream.has_extension ? 4u + stream.extension_len : 0);
        size_t whole = payload_len * random_below(20);
        frame_case(&stream, whole);
        frame_case(&stream, whole + 1);
        frame_case(&stream, whole + payload_len - 1);
        frame_case(&stream, random_below(payload_len * 20));
    }
}

/* The largest packet, and the smallest payload: one byte. */
static void frames_at_limits(void)
{
    static const uint8_t extension[1000];
    dv_stream stream = {0};
    stream.max_packet_len = 65535;
    frame_case(&stream, 65503);
    frame_case(&stream, 65504);
    stream.max_packet_len = 33;
    frame_case(&stream, 40);
    stream.has_extension = 1;
    stream.extension_len = 1000;
    stream.extension = extension;
    stream.max_packet_len = 1037;
    frame_case(&stream, 40);
}

static void stream_is_refused(dv_stream *stream, size_t frame_len)
{
    uint8_t frame[64] = {0};
    subject of = subject_random();
    output out = output_new(4096);
    dv_stream before = *stream;
    begin_case();
    CHECK(dv_stream_sealed_len(stream, frame_len) == 0);
    CHECK(seal_plain(of.sealer, stream, frame, frame_len, 0, 0, out.bytes, out.len) == DV_ERROR_ARGUMENT);
    CHECK(!memcmp(stream, &before, sizeof before));
    CHECK(output_untouched(&out) && nonces_left(&of));
    output_free(&out);
    subject_free(&of);
}

static void streams_refused(void)
{
    static const uint8_t extension[65532];
    static const uint32_t max_lens[] = {0, 1, 31, 32, 65536, UINT32_MAX};
    dv_stream stream = {0};
    for (size_t i = 0; i < sizeof max_lens / sizeof max_lens[0]; i++) {
        stream.max_packet_len = max_lens[i];
        stream_is_refused(&stream, 10);
    }
    stream.max_packet_len = 1200;
    stream_is_refused(&stream, SIZE_MAX);
    stream_is_refused(&stream, SIZE_MAX / 2);
    stream.payload_type = 128;
    stream_is_refused(&stream, 10);
    stream.payload_type = 255;
    stream_is_refused(&stream, 10);
    stream.payload_type = 0;
    stream.has_extension = 1;
    stream.extension = extension;
    for (uint16_t len = 1; len < 4; len++) {
        stream.extension_len = len;
        stream_is_refused(&stream, 10);
    }
    stream.extension_len = 1164; /* 12 + 4 + 1164 + 20 leave no byte of 1200 */
    stream_is_refused(&stream, 10);
    stream.extension_len = 65532;
    stream_is_refused(&stream, 10);
}

/* A stream that says it has no extension, but gives one a length: refused, or the length is of no account. */
static void extension_without_bit(void)
{
    static const uint8_t extension[32] = {1, 2, 3};
    uint8_t frame[50];
    for (size_t frame_len = 0; frame_len <= sizeof frame; frame_len++) {
        subject of = subject_random();
        dv_stream stream = {0};
        stream.max_packet_len = 1200;
        stream.extension_len = 32;
        stream.extension = extension;
        random_bytes(frame, sizeof frame);
        output out = output_new(frame_len + 32), expected = output_new(frame_len + 32);
        begin_case();
        dv_result result = seal_plain(of.sealer, &stream, frame, frame_len, 0, 0, out.bytes, out.len);
        if (result == DV_DONE) {
            burst plain;
            stream.sequence = 0;
            frame_packets(&stream, frame, frame_len, false, &plain);
            foretell(&of, &plain.packets[0], expected.bytes);
            CHECK(!memcmp(out.bytes, expected.bytes, out.len));
            burst_free(&plain);
        } else {
            CHECK(result == DV_ERROR_ARGUMENT);
            CHECK(output_untouched(&out) && nonces_left(&of));
        }
        output_free(&out);
        output_free(&expected);
        subject_free(&of);
    }
}

/* Frame, or extension, at every distance from the output: headers go between, so no place is its own. */
static void overlap_frame(dv_mode mode, bool move_extension)
{
    uint8_t frame[60], extension[8];
    subject of = subject_new(mode, 1000);
    dv_stream first = {0};
    first.max_packet_len = 64; /* 20 bytes of payload */
    first.has_extension = 1;
    first.extension_len = sizeof extension;
    first.extension = extension;
    random_bytes(frame, sizeof frame);
    random_bytes(extension, sizeof extension);
    const size_t out_len = 3 * 64, margin = sizeof frame + 2;
    size_t moved_len = move_extension ? sizeof extension : sizeof frame;
    for (ptrdiff_t at = -(ptrdiff_t)margin; at <= (ptrdiff_t)out_len + 2; at++) {
        burst plain;
        dv_stream stream = first;
        arena memory = arena_new(out_len, margin);
        begin_case();
        const uint8_t *moved = memcpy(memory.out + at, move_extension ? extension : frame, moved_len);
        if (move_extension)
            stream.extension = moved;
        dv_stream before = stream;
        arena_remember(&memory);
        dv_result result =
            seal_plain(of.sealer, &stream, move_extension ? frame : moved, sizeof frame, 1, 1, memory.out, out_len);
        if (may_stand(at, moved_len, SIZE_MAX / 2, out_len)) {
            frame_packets(&first, frame, sizeof frame, true, &plain);
            uint8_t *expected = foretell_burst(&of, &plain);
            CHECK(result == DV_DONE);
            CHECK(!memcmp(memory.out, expected, out_len));
            CHECK(arena_unchanged_around(&memory));
            free(expected);
            burst_free(&plain);
        } else {
            CHECK(result == DV_ERROR_OVERLAP);
            CHECK(arena_unchanged(&memory));
            CHECK(!memcmp(&stream, &before, sizeof before));
            of.next = NONCE_COUNT - dv_sealer_packets_left(of.sealer);
        }
        arena_free(&memory);
    }
    subject_free(&of);
}

/* ---- tables that change while a call runs ---- */

typedef struct meddling {
    burst *plain;
    int what;
} meddling;

static uint8_t *meddling_out;

static void meddle(void *argument)
{
    meddling *how = argument;
    burst *plain = how->plain;
    switch (how->what) {
    case 0:
        plain->lens[plain->count - 1]++;
        break;
    case 1:
        plain->lens[0] = 70000;
        break;
    case 2:
        plain->packets[1].bytes[0] ^= 0xc0;
        break;
    case 3: /* into the output, where a good header stands */
        plain->starts[1] = memcpy(meddling_out + plain->lens[0] + 21, plain->starts[1], 12);
        break;
    case 4:
        plain->lens[1] = 3;
        break;
    case 5:
        plain->lens[1] = SIZE_MAX;
        break;
    }
}

/* Checked again at its use: what was sealed by then is wiped, and the nonces of the burst are burnt. */
static void tables_change(void)
{
    static const dv_result results[] = {DV_ERROR_CAPACITY, DV_ERROR_PACKET, DV_ERROR_PACKET,
                                        DV_ERROR_OVERLAP,  DV_ERROR_PACKET, DV_ERROR_PACKET};
    for (int i = 0; i < 120; i++) {
        burst plain;
        dv_refusal refusal;
        meddling how = {&plain, i % 6};
        subject of = subject_random();
        memset(&plain, 0, sizeof plain);
        for (plain.count = 0; plain.count < 3; plain.count++) {
            shape bare = {false, 0, false, 0, 40 + plain.count, 0};
            packet made = packet_make(&bare);
            made.bytes = realloc(made.bytes, made.len + 1); /* one byte more to read for what == 0 */
            plain.packets[plain.count] = made;
            plain.starts[plain.count] = made.bytes;
            plain.lens[plain.count] = made.len;
            plain.sealed_len += made.len + 20;
        }
        output out = output_new(plain.sealed_len);
        meddling_out = out.bytes;
        host_record *host = host_watch(1);
        host->meddle = meddle;
        host->argument = &how;
        begin_case();
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == results[how.what]);
        CHECK(host->left == 1 && host->entered == 1);
        CHECK(all_are(out.bytes, out.len, 0));
        of.next += plain.count;
        host_forget();
        CHECK(nonces_left(&of));
        output_free(&out);
        burst_free(&plain);
        subject_free(&of);
    }
}

/* The host's lock is given up from long_work_len bytes on, and taken back when the sealer's is free. */
static void host_lock(void)
{
    for (int i = 0; i < 60; i++) {
        dv_refusal refusal;
        burst plain;
        subject of = subject_random();
        burst_random(&plain, 1 + random_below(5), 200);
        output out = output_new(plain.sealed_len);
        size_t one_len = plain.lens[0] + 20;
        begin_case();
        host_record *host = host_watch(plain.sealed_len + 1);
        host->sealer = of.sealer;
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(host->left == 0 && host->entered == 0);
        host = host_watch(plain.sealed_len);
        host->sealer = of.sealer;
        CHECK(seal_burst(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(host->left == 1 && host->entered == 1);
        host = host_watch(one_len);
        host->sealer = of.sealer;
        CHECK(seal_one(of.sealer, &plain.packets[0], out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(host->left == 1 && host->entered == 1);
        host_forget();
        output_free(&out);
        burst_free(&plain);
        subject_free(&of);
    }
}

#ifndef _WIN32

/* ---- forks and threads ---- */

static int seal_in_child(void *argument)
{
    subject *of = argument;
    dv_refusal refusal;
    uint8_t out[200], frame[8] = {0};
    const uint8_t header[12] = {0x80, 120}, *starts[1] = {header};
    const size_t lens[1] = {12};
    dv_stream stream = {0};
    dv_sealer *fresh;
    stream.max_packet_len = 1200;
    dv_stream before = stream;
    memset(out, 0x55, sizeof out);
    if (dv_sealer_seal(of->sealer, header, 12, frame, 8, out, sizeof out, &refusal) != DV_ERROR_FORKED)
        return 1;
    if (dv_sealer_seal_burst(of->sealer, starts, lens, 1, out, sizeof out, &refusal) != DV_ERROR_FORKED)
        return 2;
    if (seal_plain(of->sealer, &stream, frame, 8, 0, 1, out, sizeof out) != DV_ERROR_FORKED)
        return 3;
    if (!all_are(out, sizeof out, 0x55) || memcmp(&stream, &before, sizeof stream))
        return 4;
    if (dv_sealer_new(&fresh, of->mode, of->key, 0, 0) != DV_DONE)
        return 5;
    if (dv_sealer_seal(fresh, header, 12, frame, 8, out, sizeof out, &refusal) != DV_DONE)
        return 6;
    dv_sealer_free(fresh);
    dv_sealer_free(of->sealer); /* which it may still do */
    return 0;
}

static int seal_in_grandchild(void *argument)
{
    return in_child(seal_in_child, argument);
}

static void forked(void)
{
    for (int i = 0; i < 6; i++) {
        dv_refusal refusal;
        subject of = subject_new((dv_mode)(i % DV_MODE_COUNT), 9);
        packet plain = packet_random(50);
        output out = output_new(plain.len + 20);
        uint8_t *expected = exact_new(out.len);
        begin_case();
        CHECK(in_child(i < 4 ? seal_in_child : seal_in_grandchild, &of) == 0);
        foretell(&of, &plain, expected); /* the parent goes on */
        CHECK(seal_one(of.sealer, &plain, out.bytes, out.len, &refusal) == DV_DONE);
        CHECK(!memcmp(out.bytes, expected, out.len));
        free(expected);
        output_free(&out);
        packet_free(&plain);
        subject_free(&of);
    }
}

#define THREAD_PACKETS 5000
#define THREAD_PACKET_LEN 64 /* sealed: 12 of header, 32 of payload */

typedef struct worker {
    dv_sealer *sealer;
    dv_stream *stream; /* shared as well */
    atomic_int *waiting;
    uint8_t *sealed;
    size_t frame_packets;
    bool all_done;
} worker;

/* Singles, bursts of 8 and frames of 4 packets in turn; threads start together. */
static void *seal_in_thread(void *argument)
{
    worker *of = argument;
    dv_refusal refusal;
    uint8_t plain[44] = {0x80, 120}, frame[128] = {0};
    const uint8_t *starts[8] = {plain, plain, plain, plain, plain, plain, plain, plain};
    const size_t lens[8] = {44, 44, 44, 44, 44, 44, 44, 44};
    atomic_fetch_sub(of->waiting, 1);
    while (atomic_load(of->waiting) > 0)
        ;
    of->all_done = true;
    for (size_t done = 0, turn = 0, count; done < THREAD_PACKETS; done += count, turn++) {
        uint8_t *out = of->sealed + done * THREAD_PACKET_LEN;
        size_t left = THREAD_PACKETS - done;
        dv_result result;
        count = turn % 3 == 0 && left >= 8 ? 8 : turn % 3 == 1 && left >= 4 ? 4 : 1;
        if (count == 8)
            result = dv_sealer_seal_burst(of->sealer, starts, lens, 8, out, 8 * THREAD_PACKET_LEN, &refusal);
        else if (count == 4)
            result = seal_plain(of->sealer, of->stream, frame, 128, 1, 960, out, 4 * THREAD_PACKET_LEN);
        else
            result = dv_sealer_seal(of->sealer, plain, 12, plain + 12, 32, out, THREAD_PACKET_LEN, &refusal);
        of->all_done = of->all_done && result == DV_DONE;
        of->frame_packets += count == 4 ? count : 0;
    }
    return NULL;
}

static void threads(dv_mode mode)
{
    const uint32_t first = 0x7ffffff0;
    uint8_t key[DV_KEY_LEN], *sealed = exact_new(2 * THREAD_PACKETS * THREAD_PACKET_LEN);
    uint8_t *seen = calloc(2 * THREAD_PACKETS, 1), *opened_bytes = exact_new(2 * THREAD_PACKETS * THREAD_PACKET_LEN);
    const uint8_t **starts = calloc(2 * THREAD_PACKETS, sizeof *starts);
    size_t *lens = calloc(2 * THREAD_PACKETS, sizeof *lens);
    dv_opened *opened = calloc(2 * THREAD_PACKETS, sizeof *opened);
    dv_sealer *sealer;
    dv_opener *opener;
    atomic_int waiting = 2;
    pthread_t ids[2];
    random_bytes(key, sizeof key);
    begin_case();
    CHECK(dv_sealer_new(&sealer, mode, key, first, 0) == DV_DONE);
    CHECK(dv_opener_new(&opener, mode, key, 0) == DV_DONE);
    dv_stream stream = {.max_packet_len = THREAD_PACKET_LEN};
    worker workers[2] = {{sealer, &stream, &waiting, sealed, 0, false},
                         {sealer, &stream, &waiting, sealed + THREAD_PACKETS * THREAD_PACKET_LEN, 0, false}};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&ids[i], NULL, seal_in_thread, &workers[i]))
            exit(2);
    for (int i = 0; i < 2; i++) {
        pthread_join(ids[i], NULL);
        CHECK(workers[i].all_done);
    }
    size_t frame_packets = workers[0].frame_packets + workers[1].frame_packets;
    CHECK(frame_packets > 0);
    CHECK(stream.sequence == frame_packets && stream.timestamp == frame_packets / 4 * 960);
    for (size_t i = 0; i < 2 * THREAD_PACKETS; i++) {
        const uint8_t *suffix = sealed + (i + 1) * THREAD_PACKET_LEN - 4;
        uint32_t counter =
            (uint32_t)suffix[0] | (uint32_t)suffix[1] << 8 | (uint32_t)suffix[2] << 16 | (uint32_t)suffix[3] << 24;
        begin_case();
        if (CHECK(counter - first < 2 * THREAD_PACKETS))
            CHECK(!seen[counter - first]++);
        starts[i] = sealed + i * THREAD_PACKET_LEN;
        lens[i] = THREAD_PACKET_LEN;
    }
    CHECK(dv_opener_open_burst(opener, starts, lens, 2 * THREAD_PACKETS, opened_bytes,
                               2 * THREAD_PACKETS * THREAD_PACKET_LEN, opened) == DV_DONE);
    for (size_t i = 0; i < 2 * THREAD_PACKETS; i++)
        CHECK(opened[i].status == DV_OK);
    CHECK(dv_sealer_packets_left(sealer) == NONCE_COUNT - first - 2 * THREAD_PACKETS);
    dv_sealer_free(sealer);
    dv_opener_free(opener);
    free(sealed);
    free(seen);
    free(opened_bytes);
    free(starts);
    free(lens);
    free(opened);
}

#endif

void test_sealer(void)
{
    group("sealer: the layout, built apart");
    layout();
    limits();
    counters();
    bad_arguments();
    group("sealer: a burst is its packets one by one");
    bursts_are_singles();
    bursts_of_nothing();
    same_buffer_twice();
    group("sealer: a capacity too small");
    capacity();
    group("sealer: overlap of a burst");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        overlap_burst((dv_mode)mode);
    burst_in_place();
    group("sealer: overlap of a header and a payload");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++) {
        overlap_one((dv_mode)mode, true, false);
        overlap_one((dv_mode)mode, false, true);
        overlap_one((dv_mode)mode, true, true);
    }
    group("sealer: a refused packet uses no nonce");
    refused_use_no_nonce();
    header_lens_refused();
    group("sealer: the end of the nonces");
    exhaustion();
    exhaustion_one_by_one();
    exhaustion_in_frame();
    group("sealer: closed");
    closed();
    group("sealer: frames against headers by hand");
    frames();
    frames_at_limits();
    streams_refused();
    group("sealer: a frame's extension without its bit");
    extension_without_bit();
    group("sealer: overlap of a frame");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        overlap_frame((dv_mode)mode, false);
    group("sealer: overlap of a frame's extension");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        overlap_frame((dv_mode)mode, true);
    group("sealer: tables that change, the host's lock");
    tables_change();
    host_lock();
#ifndef _WIN32
    group("sealer: a forked child");
    forked();
    group("sealer: two threads, no nonce twice");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        threads((dv_mode)mode);
#endif
}
