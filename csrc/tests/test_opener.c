/* The opener's promises: a status for each packet, nothing released unauthenticated, and the replay window. */
#define _POSIX_C_SOURCE 200809L /* pthread, under -std=c11 */

#include "../platform.h"
#include "../replay.h"
#include "test_csrc.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#endif

/* A packet as it arrives, and what must become of it. */
typedef struct arrival {
    uint8_t *bytes; /* exact */
    size_t len;
    packet plain;
    dv_opened expected;
} arrival;

typedef enum kind {
    GOOD,
    WITHOUT_PAYLOAD,
    FLIPPED,
    CUT,
    OTHER_VERSION,
    KEEP_ALIVE,
    DISCOVERY,
    PADDING_ZERO,
    PADDING_LONG,
    EXTENSION_LONG,
    TOO_LONG,
    NOTHING,
    KIND_COUNT
} kind;

static void arrival_fails(arrival *of, dv_fault fault, size_t value, size_t limit)
{
    memset(&of->expected, 0, sizeof of->expected);
    of->expected.status = (uint8_t)dv_fault_status(fault);
    of->expected.fault = (uint8_t)fault;
    of->expected.value = (uint32_t)value;
    of->expected.limit = (uint32_t)limit;
}

static void arrival_resize(arrival *of, size_t len)
{
    uint8_t *bytes = exact_new(len);
    size_t kept = len < of->len ? len : of->len;
    random_bytes(bytes, len);
    if (kept)
        memcpy(bytes, of->bytes, kept);
    free(of->bytes);
    of->bytes = bytes;
    of->len = len;
}

/* Authentic, but what was sealed is no RTP. */
static void spoil_plain(arrival *of, kind which, shape *shaped)
{
    shaped->is_rtcp = false;
    shaped->has_extension = which == EXTENSION_LONG || shaped->has_extension;
    shaped->padding_len = 0;
    shaped->payload_len += which == PADDING_ZERO;
    if (which == PADDING_LONG)
        shaped->payload_len %= 200;
    of->plain = packet_make(shaped);
    packet *plain = &of->plain;
    size_t body_len = plain->len - plain->header_len, room = shaped->payload_len;
    if (which == EXTENSION_LONG) {
        size_t words = body_len / 4 + 1 + random_below(60000);
        plain->bytes[plain->header_len - 2] = (uint8_t)(words >> 8);
        plain->bytes[plain->header_len - 1] = (uint8_t)words;
        arrival_fails(of, DV_FAULT_EXTENSION_LONG, 4 * words, body_len);
        return;
    }
    size_t counted = which == PADDING_ZERO ? 0 : room ? room + 1 + random_below(255 - room) : 1;
    plain->bytes[0] |= 0x20;
    if (room)
        plain->bytes[plain->len - 1] = (uint8_t)counted;
    if (which == PADDING_ZERO)
        arrival_fails(of, DV_FAULT_PADDING_ZERO, 0, 1);
    else
        arrival_fails(of, DV_FAULT_PADDING_LONG, counted, room);
}

static void arrival_is_good(arrival *of, const uint8_t suffix[4], bool has_payload)
{
    const packet *plain = &of->plain;
    of->expected.status = plain->is_rtcp || has_payload ? DV_OK : DV_EMPTY;
    of->expected.is_rtcp = plain->is_rtcp;
    of->expected.padding_len = (uint8_t)plain->padding_len;
    memcpy(of->expected.suffix, suffix, 4);
    of->expected.header_len = (uint16_t)plain->header_len;
    of->expected.extension_len = (uint16_t)plain->extension_len;
    of->expected.plain_len = (uint32_t)plain->len;
}

/* Spoil what was sealed. */
static void spoil_sealed(arrival *of, kind which)
{
    size_t needed, bit;
    switch (which) {
    case FLIPPED: /* anywhere behind the header: ciphertext, tag, suffix */
        bit = 8 * of->plain.header_len + random_below(8 * (of->len - of->plain.header_len));
        of->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        arrival_fails(of, DV_FAULT_TAG, 0, 0);
        break;
    case CUT:
        needed = of->plain.header_len + 20;
        arrival_resize(of, random_below(needed));
        if (of->len == 8)
            arrival_resize(of, 9);
        arrival_fails(of, DV_FAULT_SHORT, of->len, of->len < 28 ? 28 : needed);
        break;
    case OTHER_VERSION:
        bit = (random_below(3) + 3) % 4; /* 3, 0, 1 */
        of->bytes[0] = (uint8_t)(bit << 6 | (of->bytes[0] & 0x3f));
        arrival_fails(of, DV_FAULT_VERSION, bit, 2);
        break;
    case KEEP_ALIVE:
        arrival_resize(of, 8);
        arrival_fails(of, DV_FAULT_KEEP_ALIVE, 8, 0);
        break;
    case DISCOVERY:
        arrival_resize(of, 74);
        of->bytes[0] = 0;
        of->bytes[1] = (uint8_t)(1 + random_below(2));
        of->bytes[2] = 0;
        of->bytes[3] = 70;
        arrival_fails(of, DV_FAULT_DISCOVERY, 74, 0);
        break;
    case TOO_LONG:
        arrival_resize(of, 65536);
        arrival_fails(of, DV_FAULT_LONG, 65536, 65535);
        break;
    case NOTHING:
        arrival_resize(of, 0);
        arrival_fails(of, DV_FAULT_SHORT, 0, 28);
        break;
    default:
        break;
    }
}

static arrival arrival_new(dv_mode mode, const uint8_t *key, kind which, size_t max_payload_len)
{
    arrival made = {0};
    shape shaped = shape_random(max_payload_len);
    uint8_t suffix[4];
    random_bytes(suffix, 4);
    if (which == WITHOUT_PAYLOAD)
        shaped.payload_len = 0;
    if (which == PADDING_ZERO || which == PADDING_LONG || which == EXTENSION_LONG) {
        spoil_plain(&made, which, &shaped);
    } else {
        made.plain = packet_make(&shaped);
        arrival_is_good(&made, suffix, shaped.payload_len > 0);
    }
    made.len = made.plain.len + 20;
    made.bytes = exact_new(made.len);
    packet_seal(mode, key, suffix, &made.plain, made.bytes);
    spoil_sealed(&made, which);
    return made;
}

static void arrival_free(arrival *of)
{
    packet_free(&of->plain);
    free(of->bytes);
}

/* The plain packet and 20 zeros; or zeros alone. */
static void arrival_became(const arrival *of, const uint8_t *out, const dv_opened *opened)
{
    CHECK(!memcmp(opened, &of->expected, sizeof *opened));
    if (of->expected.status == DV_OK || of->expected.status == DV_EMPTY) {
        CHECK(!memcmp(out, of->plain.bytes, of->plain.len));
        CHECK(all_are(out + of->plain.len, 20, 0));
    } else {
        CHECK(all_are(out, of->len, 0));
    }
}

/* Several of them, and the tables that the API takes. */
typedef struct arrivals {
    size_t count;
    arrival all[BURST_MAX];
    const uint8_t *starts[BURST_MAX];
    size_t lens[BURST_MAX];
    size_t len;
} arrivals;

static void arrivals_new(arrivals *made, dv_mode mode, const uint8_t *key, size_t count, size_t kinds, size_t max_len)
{
    made->count = count;
    made->len = 0;
    for (size_t i = 0; i < count; i++) {
        kind which = random_below(2) ? GOOD : (kind)random_below(kinds);
        if (which == TOO_LONG && random_below(10))
            which = GOOD;
        made->all[i] = arrival_new(mode, key, which, max_len);
        made->starts[i] = made->all[i].bytes;
        made->lens[i] = made->all[i].len;
        made->len += made->lens[i];
    }
}

static void arrivals_free(arrivals *of)
{
    for (size_t i = 0; i < of->count; i++)
        arrival_free(&of->all[i]);
}

static void arrivals_became(const arrivals *of, const uint8_t *out, const dv_opened *opened)
{
    for (size_t i = 0; i < of->count; out += of->lens[i++])
        arrival_became(&of->all[i], out, &opened[i]);
}

static dv_result open_all(dv_opener *opener, const arrivals *of, uint8_t *out, size_t capacity, dv_opened *opened)
{
    return dv_opener_open_burst(opener, of->starts, of->lens, of->count, out, capacity, opened);
}

static dv_opener *opener_new(dv_mode mode, uint8_t key[DV_KEY_LEN], uint32_t window)
{
    dv_opener *opener;
    random_bytes(key, DV_KEY_LEN);
    uint8_t *copy = exact_copy(key, DV_KEY_LEN);
    CHECK(dv_opener_new(&opener, mode, copy, window) == DV_DONE);
    memset(copy, 0, DV_KEY_LEN);
    free(copy);
    return opener;
}

/* Where there is no replay window, the same packets twice. */
static void bursts(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    dv_opener *opener = opener_new(mode, key, 0);
    uint64_t expected_counts[DV_STATUS_COUNT] = {0}, counts[DV_STATUS_COUNT];
    for (int i = 0; i < 700; i++) {
        arrivals some;
        dv_opened opened[BURST_MAX + 1], one;
        begin_case();
        memset(opened, 0xcc, sizeof opened);
        arrivals_new(&some, mode, key, random_below(BURST_MAX + 1), KIND_COUNT, i % 50 ? 400 : 20000);
        output out = output_new(some.len);
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_DONE);
        arrivals_became(&some, out.bytes, opened);
        CHECK(all_are((uint8_t *)&opened[some.count], sizeof opened[0], 0xcc));
        for (size_t j = 0; j < some.count; j++) {
            output single = output_new(some.lens[j]);
            CHECK(dv_opener_open_burst(opener, &some.starts[j], &some.lens[j], 1, single.bytes, single.len, &one) ==
                  DV_DONE);
            arrival_became(&some.all[j], single.bytes, &one);
            output_free(&single);
            expected_counts[some.all[j].expected.status] += 2;
        }
        dv_opener_count(opener, counts);
        CHECK(!memcmp(counts, expected_counts, sizeof counts));
        output_free(&out);
        arrivals_free(&some);
    }
    for (int status = 0; status < DV_STATUS_COUNT; status++)
        CHECK((expected_counts[status] > 0) == (status != DV_REPLAYED));
    dv_opener_free(opener);
}

/* Every kind of packet at every place of a burst, good ones around it. */
static void one_bad_packet(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    dv_opener *opener = opener_new(mode, key, 64);
    for (int which = 0; which < KIND_COUNT; which++)
        for (size_t place = 0; place < 3; place++)
            for (int again = 0; again < 6; again++) {
                arrivals some;
                dv_opened opened[3];
                begin_case();
                arrivals_new(&some, mode, key, 3, 1, again == 5 ? 2000 : 100);
                some.len -= some.lens[place];
                arrival_free(&some.all[place]);
                some.all[place] = arrival_new(mode, key, (kind)which, 200);
                some.starts[place] = some.all[place].bytes;
                some.lens[place] = some.all[place].len;
                some.len += some.lens[place];
                output out = output_new(some.len);
                CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_DONE);
                arrivals_became(&some, out.bytes, opened);
                output_free(&out);
                arrivals_free(&some);
            }
    dv_opener_free(opener);
}

/* In place: the packets one behind the other, in the output. The bad ones become zeros there too. */
static void bursts_in_place(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    dv_opener *opener = opener_new(mode, key, 0);
    for (int i = 0; i < 250; i++) {
        arrivals some;
        dv_opened opened[BURST_MAX];
        begin_case();
        arrivals_new(&some, mode, key, 1 + random_below(BURST_MAX), KIND_COUNT, i % 25 ? 300 : 5000);
        output out = output_new(some.len);
        uint8_t *place = out.bytes;
        for (size_t j = 0; j < some.count; j++) {
            if (some.lens[j])
                memcpy(place, some.all[j].bytes, some.lens[j]);
            some.starts[j] = place;
            place += some.lens[j];
        }
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_DONE);
        arrivals_became(&some, out.bytes, opened);
        output_free(&out);
        arrivals_free(&some);
    }
    dv_opener_free(opener);
}

/* Every bit of a sealed packet, header too: never opened, always wiped. */
static void flips(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN], suffix[4];
    dv_opener *opener = opener_new(mode, key, 0);
    for (int i = 0; i < 12; i++) {
        shape shaped = {i % 4 == 3, 2 * (size_t)(i % 2), i % 3 == 0, i % 3 == 0 ? 2 : 0, 17, i % 2 ? 3 : 0};
        if (shaped.is_rtcp) {
            shape rtcp = {true, 0, false, 0, 20, 0};
            shaped = rtcp;
        }
        packet plain = packet_make(&shaped);
        size_t len = plain.len + 20;
        uint8_t *sealed = exact_new(len);
        const uint8_t *starts[1] = {sealed};
        random_bytes(suffix, 4);
        packet_seal(mode, key, suffix, &plain, sealed);
        for (size_t bit = 0; bit <= 8 * len; bit++) {
            dv_opened opened;
            output out = output_new(len);
            begin_case();
            if (bit < 8 * len)
                sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK(dv_opener_open_burst(opener, starts, &len, 1, out.bytes, out.len, &opened) == DV_DONE);
            if (bit == 8 * len) {
                CHECK(opened.status == DV_OK);
            } else {
                sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
                CHECK(opened.status == DV_BAD_TAG || opened.status == DV_TRUNCATED || opened.status == DV_MALFORMED);
                CHECK(opened.status == DV_BAD_TAG || bit < 16);
                CHECK(all_are(out.bytes, out.len, 0));
                CHECK(!opened.plain_len && !opened.header_len && !opened.extension_len && !opened.padding_len);
            }
            output_free(&out);
        }
        free(sealed);
        packet_free(&plain);
    }
    dv_opener_free(opener);
}

static void capacity(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    dv_opener *opener = opener_new(mode, key, 0);
    uint64_t counts[DV_STATUS_COUNT];
    for (int i = 0; i < 100; i++) {
        arrivals some;
        dv_opened opened[BURST_MAX];
        begin_case();
        memset(opened, 0xcc, sizeof opened);
        arrivals_new(&some, mode, key, 1 + random_below(6), WITHOUT_PAYLOAD + 1, 100);
        output out = output_new(some.len);
        CHECK(open_all(opener, &some, out.bytes, out.len - 1, opened) == DV_ERROR_CAPACITY);
        CHECK(open_all(opener, &some, out.bytes, 0, opened) == DV_ERROR_CAPACITY);
        size_t len = some.lens[0];
        some.lens[0] = SIZE_MAX;
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_ERROR_CAPACITY);
        some.lens[0] = len;
        CHECK(output_untouched(&out));
        CHECK(all_are((uint8_t *)opened, sizeof opened, 0xcc));
        output_free(&out);
        arrivals_free(&some);
    }
    begin_case();
    CHECK(dv_opener_open_burst(opener, NULL, NULL, 0, NULL, 0, NULL) == DV_DONE);
    dv_opener_count(opener, counts);
    CHECK(all_are((uint8_t *)counts, sizeof counts, 0));
    dv_opener_free(opener);
}

/* One packet at every distance from the output, the others elsewhere: at its place, or outside, or refused. */
static void overlap(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    arrivals some;
    dv_opener *opener = opener_new(mode, key, 0);
    arrivals_new(&some, mode, key, 4, 1, 40);
    size_t place = 0;
    for (size_t k = 0; k < some.count; place += some.lens[k++]) {
        size_t len = some.lens[k], margin = len + 2;
        for (ptrdiff_t at = -(ptrdiff_t)margin; at <= (ptrdiff_t)some.len + 2; at++) {
            dv_opened opened[BURST_MAX];
            size_t memory_len = some.len + 2 * margin;
            uint8_t *memory = exact_new(memory_len), *out = memory + margin;
            begin_case();
            memset(memory, 0x55, memory_len);
            some.starts[k] = memcpy(out + at, some.all[k].bytes, len);
            uint8_t *before = exact_copy(memory, memory_len);
            dv_result result = open_all(opener, &some, out, some.len, opened);
            if (at == (ptrdiff_t)place || at + (ptrdiff_t)len <= 0 || at >= (ptrdiff_t)some.len) {
                CHECK(result == DV_DONE);
                arrivals_became(&some, out, opened);
                CHECK(!memcmp(memory, before, margin));
                CHECK(!memcmp(out + some.len, before + margin + some.len, margin));
            } else {
                CHECK(result == DV_ERROR_OVERLAP);
                CHECK(!memcmp(memory, before, memory_len));
            }
            free(memory);
            free(before);
        }
        some.starts[k] = some.all[k].bytes;
    }
    arrivals_free(&some);
    dv_opener_free(opener);
}

static void closed(dv_mode mode)
{
    for (int i = 0; i < 10; i++) {
        uint8_t key[DV_KEY_LEN];
        uint64_t counts[DV_STATUS_COUNT], after[DV_STATUS_COUNT];
        arrivals some;
        dv_opened opened[BURST_MAX];
        dv_opener *opener = opener_new(mode, key, 100);
        begin_case();
        arrivals_new(&some, mode, key, 5, KIND_COUNT, 100);
        output out = output_new(some.len), first = output_new(some.len);
        CHECK(open_all(opener, &some, first.bytes, first.len, opened) == DV_DONE);
        dv_opener_count(opener, counts);
        dv_opener_close(opener);
        for (size_t at = 0; at + DV_KEY_LEN <= sizeof(dv_cipher); at++) /* an opener begins with its cipher */
            if (!CHECK(memcmp((uint8_t *)opener + at, key, DV_KEY_LEN)))
                break;
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_ERROR_CLOSED);
        dv_opener_close(opener);
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_ERROR_CLOSED);
        CHECK(output_untouched(&out));
        dv_opener_count(opener, after);
        CHECK(!memcmp(counts, after, sizeof counts));
        output_free(&out);
        output_free(&first);
        arrivals_free(&some);
        dv_opener_free(opener);
    }
    dv_opener_free(NULL);
}

static void bad_arguments(void)
{
    static const int modes[] = {-1, DV_MODE_COUNT, INT32_MAX, INT32_MIN};
    const uint8_t key[DV_KEY_LEN] = {0};
    dv_opener *opener;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        begin_case();
        opener = (dv_opener *)key;
        CHECK(dv_opener_new(&opener, modes[i], key, 0) == DV_ERROR_ARGUMENT);
        CHECK(!opener);
    }
    begin_case();
    CHECK(dv_opener_new(&opener, DV_MODE_AES256_GCM, key, DV_REPLAY_WINDOW_MAX + 1) == DV_ERROR_ARGUMENT && !opener);
    CHECK(dv_opener_new(&opener, DV_MODE_AES256_GCM, key, UINT32_MAX) == DV_ERROR_ARGUMENT && !opener);
    CHECK(dv_opener_new(&opener, DV_MODE_AES256_GCM, key, DV_REPLAY_WINDOW_MAX) == DV_DONE);
    dv_opener_free(opener);
}

/* ---- tables that change while a call runs ---- */

static arrivals *meddled;
static uint8_t *meddled_out;

static void meddle(void *what)
{
    size_t last = meddled->count - 1;
    if (what == (void *)&meddled->lens[0])
        meddled->lens[last]++;
    else if (what == (void *)&meddled->starts[0])
        meddled->starts[last] = meddled_out + 1;
    else
        meddled->lens[last] = SIZE_MAX;
}

static void tables_change(void)
{
    for (int i = 0; i < 60; i++) {
        uint8_t key[DV_KEY_LEN];
        arrivals some;
        dv_opened opened[BURST_MAX];
        dv_mode mode = (dv_mode)(i % DV_MODE_COUNT);
        dv_opener *opener = opener_new(mode, key, 0);
        begin_case();
        memset(opened, 0xcc, sizeof opened);
        arrivals_new(&some, mode, key, 4, 1, 60);
        output out = output_new(some.len);
        meddled = &some;
        meddled_out = out.bytes;
        host_record *host = host_watch(1);
        host->meddle = meddle;
        host->argument = i % 3 == 0 ? (void *)&some.lens[0] : i % 3 == 1 ? (void *)&some.starts[0] : NULL;
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) ==
              (i % 3 == 1 ? DV_ERROR_OVERLAP : DV_ERROR_CAPACITY));
        CHECK(host->left == 1 && host->entered == 1);
        host_forget();
        CHECK(all_are(out.bytes, out.len, 0));
        CHECK(all_are((uint8_t *)opened, some.count * sizeof opened[0], 0));
        output_free(&out);
        arrivals_free(&some);
        dv_opener_free(opener);
    }
}

/* ---- the replay window ---- */

/* As simple as can be: what was accepted is kept for ever, as numbers that never wrap, for each SSRC. */
#define MODEL_SENDERS 1024

typedef struct model_sender {
    uint32_t ssrc;
    int64_t newest;
    uint64_t last_used;
    int64_t *accepted;
    size_t count, capacity;
} model_sender;

typedef struct model {
    int64_t window;
    uint64_t clock;
    size_t count;
    model_sender senders[MODEL_SENDERS];
} model;

static model *model_new(uint32_t window)
{
    model *made = calloc(1, sizeof *made);
    if (!made)
        exit(2);
    made->window = window;
    return made;
}

static void model_free(model *of)
{
    for (size_t i = 0; i < of->count; i++)
        free(of->senders[i].accepted);
    free(of);
}

static model_sender *model_find(model *of, uint32_t ssrc)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->senders[i].ssrc == ssrc)
            return &of->senders[i];
    return NULL;
}

/* The number nearest to the newest one that has these last 16 bits. */
static int64_t model_extend(const model_sender *of, uint16_t sequence)
{
    int64_t lowest = of->newest - 32768;
    return lowest + (uint16_t)(sequence - (uint16_t)lowest);
}

static bool model_seen(model *of, uint32_t ssrc, uint16_t sequence, uint16_t *newest)
{
    const model_sender *from = model_find(of, ssrc);
    if (!from)
        return false;
    *newest = (uint16_t)from->newest;
    int64_t number = model_extend(from, sequence);
    if (number <= from->newest - of->window)
        return true;
    for (size_t i = from->count; i-- > 0;)
        if (from->accepted[i] == number)
            return true;
    return false;
}

static void model_accept(model *of, uint32_t ssrc, uint16_t sequence)
{
    model_sender *from = model_find(of, ssrc);
    if (!from) {
        if (of->count < MODEL_SENDERS) {
            from = &of->senders[of->count++];
        } else {
            from = &of->senders[0];
            for (size_t i = 1; i < of->count; i++)
                if (of->senders[i].last_used < from->last_used)
                    from = &of->senders[i];
        }
        from->ssrc = ssrc;
        from->newest = 65536 * 100 + sequence;
        from->count = 0;
    }
    int64_t number = model_extend(from, sequence);
    if (number > from->newest)
        from->newest = number;
    if (from->count == from->capacity) {
        from->capacity = 2 * from->capacity + 4;
        from->accepted = realloc(from->accepted, from->capacity * sizeof *from->accepted);
        if (!from->accepted)
            exit(2);
    }
    from->accepted[from->count++] = number;
    from->last_used = ++of->clock;
}

/* The next sequence number to try: in order, again, reordered, jumping, at the window's edges. */
static uint16_t next_sequence(uint16_t newest, uint32_t window)
{
    switch (random_below(12)) {
    case 0:
        return newest;
    case 1:
        return (uint16_t)(newest - window);
    case 2:
        return (uint16_t)(newest - window + 1);
    case 3:
        return (uint16_t)(newest - random_below(window + 3));
    case 4:
        return (uint16_t)(newest - random_below(70));
    case 5:
        return (uint16_t)(newest + 2 + random_below(70));
    case 6:
        return random_below(8) ? (uint16_t)(newest + 1) : (uint16_t)(newest + random_below(32768));
    case 7:
        return random_below(8) ? (uint16_t)(newest + 1) : (uint16_t)(newest + 32767 + random_below(3));
    default:
        return (uint16_t)(newest + 1);
    }
}

/* Nonces that are no counter tell nothing, so that the sequence number alone decides. */
static const dv_replay_mark *with_any_nonce(uint32_t ssrc, uint16_t sequence)
{
    static dv_replay_mark mark;
    mark.ssrc = ssrc;
    mark.sequence = sequence;
    random_bytes(mark.suffix, sizeof mark.suffix);
    return &mark;
}

static void replay_against_model(uint32_t window, uint16_t first)
{
    model *of = model_new(window);
    dv_replay *replay = dv_replay_new(window);
    uint16_t newest = first, found = 0, expected = 0;
    begin_case();
    for (int i = 0; i < 4000 && replay; i++) {
        uint32_t ssrc = 7 + (uint32_t)(random_below(8) == 0);
        uint16_t sequence = next_sequence(newest, window);
        bool seen = model_seen(of, ssrc, sequence, &expected);
        begin_case();
        CHECK(dv_replay_seen(replay, with_any_nonce(ssrc, sequence), &found) == seen);
        CHECK(found == expected);
        if (seen || random_below(16) == 0) /* looked at, not accepted: nothing changes */
            continue;
        CHECK(dv_replay_accept(replay, with_any_nonce(ssrc, sequence)));
        model_accept(of, ssrc, sequence);
        CHECK(dv_replay_seen(replay, with_any_nonce(ssrc, sequence), &found));
        CHECK(model_seen(of, ssrc, sequence, &expected) && found == expected);
        newest = found;
    }
    dv_replay_free(replay);
    model_free(of);
}

/* More SSRCs than are remembered: the one that was silent longest is forgotten, and no other. */
static void replay_many_ssrcs(void)
{
    const uint32_t window = 64;
    model *of = model_new(window);
    dv_replay *replay = dv_replay_new(window);
    for (int i = 0; i < 6000 && replay; i++) {
        uint32_t ssrc = i < 1100 ? (uint32_t)i * 2654435761u : (uint32_t)random_below(1400) * 2654435761u;
        uint16_t sequence = (uint16_t)random_below(8), found = 0, expected = 0;
        bool seen = model_seen(of, ssrc, sequence, &expected);
        begin_case();
        CHECK(dv_replay_seen(replay, with_any_nonce(ssrc, sequence), &found) == seen);
        CHECK(found == expected);
        if (seen)
            continue;
        CHECK(dv_replay_accept(replay, with_any_nonce(ssrc, sequence)));
        model_accept(of, ssrc, sequence);
    }
    dv_replay_free(replay);
    model_free(of);
}

static packet numbered(uint32_t ssrc, uint16_t sequence)
{
    packet made = packet_random(20);
    while (made.is_rtcp) {
        packet_free(&made);
        made = packet_random(20);
    }
    made.bytes[2] = (uint8_t)(sequence >> 8);
    made.bytes[3] = (uint8_t)sequence;
    suffix_write(ssrc, true, made.bytes + 8);
    return made;
}

/* Through the opener, in bursts: what is forged, at whatever sequence number, moves no window. */
static void opener_against_model(dv_mode mode, uint32_t window, uint16_t first)
{
    uint8_t key[DV_KEY_LEN], suffix[4];
    uint16_t newest = first;
    model *of = model_new(window);
    dv_opener *opener = opener_new(mode, key, window);
    for (int i = 0; i < 120; i++) {
        arrivals some = {0};
        dv_opened opened[BURST_MAX];
        begin_case();
        for (some.count = 0; some.count < 10; some.count++) {
            arrival *made = &some.all[some.count];
            bool forged = random_below(3) == 0;
            uint32_t ssrc = (uint32_t)random_below(3);
            uint16_t sequence = forged ? (uint16_t)(newest + random_below(32768)) : next_sequence(newest, window);
            uint16_t seen_newest = 0;
            bool seen = model_seen(of, ssrc, sequence, &seen_newest);
            random_bytes(suffix, 4);
            made->plain = numbered(ssrc, sequence);
            made->len = made->plain.len + 20;
            made->bytes = exact_new(made->len);
            packet_seal(mode, key, suffix, &made->plain, made->bytes);
            arrival_is_good(made, suffix,
                            made->plain.len >
                                made->plain.header_len + made->plain.extension_len + made->plain.padding_len);
            if (forged)
                made->bytes[made->len - 20 + random_below(20)] ^= (uint8_t)(1 << random_below(8));
            if (seen)
                arrival_fails(made, DV_FAULT_REPLAY, sequence, seen_newest);
            else if (forged)
                arrival_fails(made, DV_FAULT_TAG, 0, 0);
            else
                model_accept(of, ssrc, sequence);
            model_seen(of, 0, 0, &newest);
            some.starts[some.count] = made->bytes;
            some.lens[some.count] = made->len;
            some.len += made->len;
        }
        output out = output_new(some.len);
        CHECK(open_all(opener, &some, out.bytes, out.len, opened) == DV_DONE);
        arrivals_became(&some, out.bytes, opened);
        output_free(&out);
        arrivals_free(&some);
    }
    dv_opener_free(opener);
    model_free(of);
}

static dv_status opened_status(dv_opener *opener, dv_mode mode, const uint8_t *key, const packet *plain)
{
    dv_opened opened = {0};
    size_t len = plain->len + 20;
    uint8_t suffix[4], *sealed = exact_new(len);
    const uint8_t *starts[1] = {sealed};
    output out = output_new(len);
    random_bytes(suffix, 4);
    packet_seal(mode, key, suffix, plain, sealed);
    CHECK(dv_opener_open_burst(opener, starts, &len, 1, out.bytes, out.len, &opened) == DV_DONE);
    output_free(&out);
    free(sealed);
    return (dv_status)opened.status;
}

/* RTCP carries no sequence number: it is never a replay, and moves no window, even of its own SSRC's RTP. */
static void rtcp_is_no_replay(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    dv_opener *opener = opener_new(mode, key, 64);
    shape shaped = {true, 0, false, 0, 32, 0}, media = {false, 0, false, 0, 20, 0};
    packet rtcp = packet_make(&shaped), rtp = packet_make(&media);
    suffix_write(5, true, rtcp.bytes + 4); /* the SSRC; before it RTCP's length stands where RTP's sequence does */
    suffix_write(5, true, rtp.bytes + 8);
    for (uint8_t i = 0; i < 20; i++) {
        begin_case();
        rtp.bytes[2] = rtcp.bytes[2] = 1;
        rtp.bytes[3] = rtcp.bytes[3] = i;
        CHECK(opened_status(opener, mode, key, &rtp) != DV_REPLAYED);
        CHECK(opened_status(opener, mode, key, &rtp) == DV_REPLAYED);
        CHECK(opened_status(opener, mode, key, &rtcp) == DV_OK);
        rtcp.bytes[2] = 9;
        CHECK(opened_status(opener, mode, key, &rtcp) == DV_OK);
        CHECK(opened_status(opener, mode, key, &rtcp) == DV_OK);
    }
    packet_free(&rtcp);
    packet_free(&rtp);
    dv_opener_free(opener);
}

#ifndef _WIN32

/* ---- a forked child ---- */

typedef struct shared_opener {
    dv_opener *opener;
    const arrivals *some;
    uint8_t *out; /* the thread's; a child would find it lost on the thread's stack */
    atomic_bool stop;
    atomic_uint rounds;
} shared_opener;

/* Holds the opener's lock nearly all the time. */
static void *open_in_thread(void *argument)
{
    shared_opener *of = argument;
    dv_opened opened[BURST_MAX];
    while (!atomic_load(&of->stop)) {
        open_all(of->opener, of->some, of->out, of->some->len, opened);
        atomic_fetch_add(&of->rounds, 1);
    }
    return NULL;
}

static int open_in_child(void *argument)
{
    shared_opener *of = argument;
    dv_opened opened[BURST_MAX];
    uint8_t *out = exact_new(of->some->len);
    for (int i = 0; i < 3; i++) {
        if (open_all(of->opener, of->some, out, of->some->len, opened) != DV_DONE)
            return 1;
        for (size_t j = 0; j < of->some->count; j++)
            if (memcmp(&opened[j], &of->some->all[j].expected, sizeof opened[j]))
                return 2;
    }
    dv_opener_free(of->opener);
    free(out);
    return 0;
}

static void forked(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN];
    arrivals some;
    pthread_t id;
    shared_opener shared = {opener_new(mode, key, 0), &some, NULL, false, 0};
    begin_case();
    arrivals_new(&some, mode, key, BURST_MAX, WITHOUT_PAYLOAD + 1, 8000);
    shared.out = exact_new(some.len);
    CHECK(in_child(open_in_child, &shared) == 0);
    if (pthread_create(&id, NULL, open_in_thread, &shared))
        exit(2);
    for (unsigned i = 0; i < 12; i++) {
        while (atomic_load(&shared.rounds) < i + 1)
            ;
        begin_case();
        if (!CHECK(in_child(open_in_child, &shared) == 0))
            break; /* each that hangs takes its time */
    }
    atomic_store(&shared.stop, true);
    pthread_join(id, NULL);
    free(shared.out);
    arrivals_free(&some);
    dv_opener_free(shared.opener);
}

typedef struct held_lock {
    dv_lock lock;
    atomic_int step; /* 1: the thread holds it; 2: the thread may release it */
} held_lock;

static void *hold_in_thread(void *argument)
{
    held_lock *of = argument;
    void *host_state = dv_enter(&of->lock, 0);
    atomic_store(&of->step, 1);
    while (atomic_load(&of->step) != 2)
        ;
    dv_leave(&of->lock, host_state);
    return NULL;
}

typedef struct waiting_thread {
    held_lock *held;
    atomic_bool entered;
} waiting_thread;

static void *wait_in_thread(void *argument)
{
    waiting_thread *of = argument;
    void *host_state = dv_enter(&of->held->lock, 0);
    atomic_store(&of->entered, true);
    dv_leave(&of->held->lock, host_state);
    return NULL;
}

/* While one thread holds the lock, another waits: here for 10 ms, then gets it. */
static void lock_excludes(void)
{
    const struct timespec pause = {0, 10000000};
    held_lock held;
    waiting_thread waiting = {&held, false};
    pthread_t ids[2];
    begin_case();
    atomic_init(&held.step, 0);
    CHECK(dv_lock_init(&held.lock));
    if (pthread_create(&ids[0], NULL, hold_in_thread, &held))
        exit(2);
    while (atomic_load(&held.step) != 1)
        ;
    if (pthread_create(&ids[1], NULL, wait_in_thread, &waiting))
        exit(2);
    nanosleep(&pause, NULL);
    CHECK(!atomic_load(&waiting.entered));
    atomic_store(&held.step, 2);
    pthread_join(ids[0], NULL);
    pthread_join(ids[1], NULL);
    CHECK(atomic_load(&waiting.entered));
    dv_lock_destroy(&held.lock);
}

static int take_in_child(void *argument)
{
    held_lock *of = argument;
    for (int i = 0; i < 2; i++)
        dv_leave(&of->lock, dv_enter(&of->lock, 0));
    dv_lock_destroy(&of->lock);
    return 0;
}

static int take_in_grandchild(void *argument)
{
    take_in_child(argument);
    return in_child(take_in_child, argument);
}

/* The lock that sealers and openers have: held by a thread for certain, and free in the child and in the child's child. */
static void forked_while_held(void)
{
    for (int i = 0; i < 4; i++) {
        held_lock held;
        pthread_t id;
        begin_case();
        atomic_init(&held.step, 0);
        CHECK(dv_lock_init(&held.lock));
        if (pthread_create(&id, NULL, hold_in_thread, &held))
            exit(2);
        while (atomic_load(&held.step) != 1)
            ;
        CHECK(in_child(i % 2 ? take_in_grandchild : take_in_child, &held) == 0);
        atomic_store(&held.step, 2);
        pthread_join(id, NULL);
        dv_lock_destroy(&held.lock);
    }
}

#endif

void test_opener(void)
{
    static const uint32_t windows[] = {1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 4096, 32767, 32768};
    group("opener: bursts, a status for each packet, counts");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        bursts((dv_mode)mode);
    group("opener: one bad packet touches no other");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        one_bad_packet((dv_mode)mode);
    group("opener: in place");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        bursts_in_place((dv_mode)mode);
    group("opener: every flipped bit is refused, and wiped");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        flips((dv_mode)mode);
    group("opener: a capacity too small, closed, bad arguments");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++) {
        capacity((dv_mode)mode);
        closed((dv_mode)mode);
    }
    bad_arguments();
    group("opener: overlap");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        overlap((dv_mode)mode);
    group("opener: tables that change");
    tables_change();
    group("replay: against a model");
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        replay_against_model(windows[i], (uint16_t)(65535 - random_below(300)));
        replay_against_model(windows[i], (uint16_t)random_u64());
    }
    group("replay: more SSRCs than are remembered");
    replay_many_ssrcs();
    group("replay: through the opener, forged packets among good ones");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++) {
        for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i += 4)
            opener_against_model((dv_mode)mode, windows[i], (uint16_t)(65535 - random_below(100)));
        rtcp_is_no_replay((dv_mode)mode);
    }
#ifndef _WIN32
    group("opener: in a forked child");
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        forked((dv_mode)mode);
    forked_while_held();
    group("lock: one thread at a time");
    for (int i = 0; i < 5; i++)
        lock_excludes();
#endif
}
