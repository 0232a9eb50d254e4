/*
 * Every input and output lies at the very end, then at the very start, of memory between two pages that may not be touched:
 * one byte read or written outside it ends the process, also where libcrypto or libsodium does it, which no sanitizer of our
 * own code sees.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, sigaction, under -std=c11 */
#define _DARWIN_C_SOURCE

#include "test_csrc.h"

#ifndef _WIN32

#include "../net.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPAN_MIN_LEN 81920
#define SPAN_COUNT 12
#define SMALL_LENS 301 /* 0 to 300, one by one */
#define BURST_COUNT 3
#define DATAGRAM_MAX_LEN 65535

static const size_t large_lens[] = {543, 544, 639, 640, 1200, 1500, 4095, 4096, 4097, 16384, 65000};

static struct {
    uint8_t *spans[SPAN_COUNT];
    size_t span_len;
    size_t taken;
    bool at_end;
} memory;

/* For the report of a crash. */
static const char *current_engine, *current_call;
static size_t current_len;
static struct sigaction segv_before, bus_before;

/* Says where it was; then the fault comes again, and goes to whoever saw to it before. */
static void report(int signal_number)
{
    char line[200];
    int len = snprintf(line, sizeof line, "outside its memory: %s, %s, length %zu, guarded at the %s\n", current_engine,
                       current_call, current_len, memory.at_end ? "end" : "start");
    ssize_t written = write(STDOUT_FILENO, line, (size_t)len);
    (void)written;
    sigaction(signal_number, signal_number == SIGBUS ? &bus_before : &segv_before, NULL);
}

static void watch(void)
{
    struct sigaction action = {0};
    action.sa_handler = report;
    fflush(stdout);
    sigaction(SIGSEGV, &action, &segv_before);
    sigaction(SIGBUS, &action, &bus_before);
}

static void forget(void)
{
    sigaction(SIGSEGV, &segv_before, NULL);
    sigaction(SIGBUS, &bus_before, NULL);
}

static void map_spans(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memory.span_len = (SPAN_MIN_LEN + page - 1) / page * page;
    for (size_t i = 0; i < SPAN_COUNT; i++) {
        uint8_t *start = mmap(NULL, memory.span_len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED || mprotect(start + page, memory.span_len, PROT_READ | PROT_WRITE) != 0) {
            puts("no memory");
            exit(2);
        }
        memory.spans[i] = start + page;
    }
}

static void unmap_spans(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < SPAN_COUNT; i++)
        munmap(memory.spans[i] - page, memory.span_len + 2 * page);
}

static void begin_call(const char *call)
{
    begin_case();
    current_call = call;
    memory.taken = 0;
}

/* Memory of len bytes, with a guard page at one end, until the next call begins. */
static void *guarded(size_t len)
{
    uint8_t *span = memory.spans[memory.taken++];
    return memory.at_end ? span + memory.span_len - len : span;
}

static uint8_t *guarded_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = guarded(len);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

static uint8_t *guarded_random(size_t len)
{
    uint8_t *bytes = guarded(len);
    random_bytes(bytes, len);
    return bytes;
}

typedef struct keyed {
    dv_mode mode;
    dv_sealer *sealer;
    dv_opener *opener;
} keyed;

static keyed keyed_new(dv_mode mode)
{
    keyed made = {mode, NULL, NULL};
    begin_call("a new sealer and opener");
    const uint8_t *key = guarded_random(DV_KEY_LEN);
    CHECK(dv_sealer_new(&made.sealer, mode, key, 0, 0) == DV_DONE);
    CHECK(dv_opener_new(&made.opener, mode, key, 0) == DV_DONE);
    return made;
}

static void keyed_free(keyed *of)
{
    dv_sealer_free(of->sealer);
    dv_opener_free(of->opener);
}

/* Sealed packets that lie one behind the other, each opened alone. */
static void open_each(const keyed *of, const uint8_t *sealed, const size_t *ends, size_t count, bool genuine)
{
    for (size_t i = 0; i < count; i++) {
        size_t start = i ? ends[i - 1] : 0, len = ends[i] - start;
        begin_call(genuine ? "dv_opener_open_burst" : "dv_opener_open_burst, forged");
        const uint8_t **packet = guarded(sizeof *packet);
        size_t *packet_len = guarded(sizeof *packet_len);
        uint8_t *bytes = guarded_copy(sealed + start, len), *out = guarded(len);
        dv_opened *opened = guarded(sizeof *opened);
        bytes[len - DV_OVERHEAD_LEN] ^= genuine ? 0 : 1;
        *packet = bytes;
        *packet_len = len;
        CHECK(dv_opener_open_burst(of->opener, packet, packet_len, 1, out, len, opened) == DV_DONE);
        CHECK(genuine ? opened->status == DV_OK || opened->status == DV_EMPTY : opened->status == DV_BAD_TAG);
        CHECK(genuine ? opened->plain_len == len - DV_OVERHEAD_LEN : all_are(out, len, 0));
    }
}

/* As they are, and with their tags broken. The packets are copied: their memory is used again. */
static void open_in_both_ways(const keyed *of, const uint8_t *sealed, const size_t *ends, size_t count)
{
    uint8_t *copy = exact_copy(sealed, ends[count - 1]);
    open_each(of, copy, ends, count, true);
    open_each(of, copy, ends, count, false);
    free(copy);
}

static void seal_one(const keyed *of, size_t len)
{
    packet plain = packet_random(0);
    size_t body_len = plain.len - plain.header_len + len, sealed_len = plain.header_len + body_len + DV_OVERHEAD_LEN;
    begin_call("dv_sealer_seal");
    dv_refusal *refusal = guarded(sizeof *refusal);
    uint8_t *header = guarded_copy(plain.bytes, plain.header_len);
    uint8_t *body = guarded_random(body_len), *out = guarded(sealed_len);
    if (plain.padding_len)
        body[body_len - 1] = (uint8_t)plain.padding_len;
    CHECK(dv_sealer_seal(of->sealer, header, plain.header_len, body, body_len, out, sealed_len, refusal) == DV_DONE);
    packet_free(&plain);
    open_in_both_ways(of, out, &sealed_len, 1);
}

static void seal_burst(const keyed *of, size_t len)
{
    size_t ends[BURST_COUNT], sealed_len = 0;
    begin_call("dv_sealer_seal_burst");
    dv_refusal *refusal = guarded(sizeof *refusal);
    const uint8_t **starts = guarded(BURST_COUNT * sizeof *starts);
    size_t *lens = guarded(BURST_COUNT * sizeof *lens);
    for (size_t i = 0; i < BURST_COUNT; i++) {
        packet plain = packet_random(len / BURST_COUNT);
        starts[i] = guarded_copy(plain.bytes, plain.len);
        lens[i] = plain.len;
        sealed_len += plain.len + DV_OVERHEAD_LEN;
        ends[i] = sealed_len;
        packet_free(&plain);
    }
    uint8_t *out = guarded(sealed_len);
    CHECK(dv_sealer_seal_burst(of->sealer, starts, lens, BURST_COUNT, out, sealed_len, refusal) == DV_DONE);
    open_in_both_ways(of, out, ends, BURST_COUNT);
}

/* Whatever a packetizer makes of random bytes; some begin as H.264 and H.265 do. */
static void seal_frame(const keyed *of, size_t packetizer, size_t len)
{
    begin_call(dv_packetizer_name(packetizer));
    dv_stream *stream = guarded(sizeof *stream);
    memset(stream, 0, sizeof *stream);
    stream->has_extension = random_bool();
    stream->extension_len = (uint16_t)(stream->has_extension ? 4 * random_below(4) : 0);
    stream->extension = guarded_random(stream->extension_len);
    stream->max_packet_len = (uint32_t)(60 + len / 4 + random_below(len + 1));
    if (stream->max_packet_len > DV_PACKET_MAX_LEN)
        stream->max_packet_len = DV_PACKET_MAX_LEN;
    uint8_t *frame = guarded_random(len);
    if (len >= 4 && random_bool())
        memcpy(frame, (uint8_t[]){0, 0, 0, 1}, 4);
    dv_plan *plan = guarded(sizeof *plan);
    dv_refusal *refusal = guarded(sizeof *refusal);
    dv_result planned = dv_stream_plan(stream, packetizer, frame, len, plan, refusal);
    CHECK(planned == DV_DONE || (packetizer != DV_PACKETIZER_PLAIN && planned == DV_ERROR_PACKET));
    if (planned != DV_DONE)
        return;
    uint8_t *out = guarded(plan->sealed_len);
    size_t *ends = guarded(plan->packet_count * sizeof *ends), count = plan->packet_count;
    CHECK(dv_sealer_seal_frame(of->sealer, stream, packetizer, plan, frame, len, 1, 960, out, plan->sealed_len, ends,
                               refusal) == DV_DONE);
    size_t *ends_copy = (size_t *)(void *)exact_copy((const uint8_t *)ends, count * sizeof *ends);
    open_in_both_ways(of, out, ends_copy, count);
    free(ends_copy);
}

/* ---- what came in ---- */

static struct {
    uint8_t *bytes;
    size_t len;
} datagram;

/* The datagram is opened from where it lies, not from the receiver's own room. */
static int fake_receive(intptr_t socket, bool many, dv_slot *slots, size_t count)
{
    (void)socket;
    (void)many;
    (void)count;
    memset(&slots[0].arrival, 0, sizeof slots[0].arrival);
    slots[0].bytes = datagram.bytes;
    slots[0].len = datagram.len;
    slots[0].segment_len = 0;
    return 1;
}

static void receive(const keyed *of, size_t len)
{
    dv_refusal refusal;
    uint8_t *plain = exact_new(12 + len);
    random_bytes(plain, 12 + len);
    memcpy(plain, (uint8_t[]){0x80, 120}, 2);
    begin_call("dv_receiver_open");
    datagram.len = 12 + len + DV_OVERHEAD_LEN;
    datagram.bytes = guarded(datagram.len);
    CHECK(dv_sealer_seal(of->sealer, plain, 12, plain + 12, len, datagram.bytes, datagram.len, &refusal) == DV_DONE);
    dv_receiver *receiver = dv_receiver_new(DATAGRAM_MAX_LEN, 1, DATAGRAM_MAX_LEN);
    dv_batch *batch = guarded(sizeof *batch);
    dv_receiver_take(receiver, 0, DV_WIRE_MMSG, 1, batch);
    CHECK(batch->count == 1 && batch->len == datagram.len);
    uint8_t *out = guarded(datagram.len);
    size_t *ends = guarded(sizeof *ends);
    dv_opened *opened = guarded(sizeof *opened);
    dv_arrival *arrival = guarded(sizeof *arrival);
    CHECK(dv_receiver_open(receiver, of->opener, out, datagram.len, ends, opened, arrival) == DV_DONE);
    CHECK(opened->status == (len ? DV_OK : DV_EMPTY) && *ends == datagram.len);
    CHECK(!memcmp(out, plain, 12 + len));
    dv_receiver_free(receiver);
    free(plain);
}

/* ---- by themselves ---- */

static void aead(dv_mode mode, size_t key_len, size_t nonce_len, size_t len)
{
    dv_aead *made;
    begin_call("dv_aead_seal");
    dv_message *message = guarded(sizeof *message);
    const uint8_t *key = guarded_random(key_len);
    size_t aad_len = random_below(100);
    uint8_t *plain = guarded_random(len), *sealed = guarded(len + DV_TAG_LEN), *opened = guarded(len);
    dv_message filled = {guarded_random(nonce_len), nonce_len, guarded_random(aad_len), aad_len, plain, len};
    *message = filled;
    CHECK(dv_aead_new(&made, mode, key, key_len) == DV_DONE);
    CHECK(dv_aead_seal(made, message, sealed, len + DV_TAG_LEN) == DV_DONE);
    current_call = "dv_aead_open";
    message->text = sealed;
    message->text_len = len + DV_TAG_LEN;
    CHECK(dv_aead_open(made, message, opened, len) == DV_DONE);
    CHECK(!len || !memcmp(opened, plain, len));
    sealed[random_below(len + DV_TAG_LEN)] ^= 1;
    current_call = "dv_aead_open, forged";
    CHECK(dv_aead_open(made, message, opened, len) == DV_ERROR_TAG);
    CHECK(all_are(opened, len, 0));
    dv_aead_free(made);
}

static void legacy(size_t len)
{
    begin_call("dv_legacy_open_chacha20poly1305");
    size_t aad_len = random_below(100), sealed_len = len + DV_TAG_LEN;
    const uint8_t *key = guarded_random(DV_KEY_LEN), *nonce = guarded_random(12), *aad = guarded_random(aad_len);
    uint8_t *plain = guarded_random(len), *sealed = guarded(sealed_len), *opened = guarded(len);
    crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, plain, len, aad, aad_len, NULL, nonce, key);
    CHECK(dv_legacy_open_chacha20poly1305(key, nonce, aad, aad_len, sealed, sealed_len, opened));
    CHECK(!len || !memcmp(opened, plain, len));
    current_call = "dv_legacy_open_xsalsa20poly1305";
    nonce = guarded_random(24);
    crypto_secretbox_easy(sealed, plain, len, nonce, key);
    CHECK(dv_legacy_open_xsalsa20poly1305(key, nonce, sealed, sealed_len, opened));
    CHECK(!len || !memcmp(opened, plain, len));
}

static void all_calls(const keyed *of, size_t len)
{
    current_len = len;
    seal_one(of, len);
    seal_burst(of, len);
    for (size_t packetizer = 0; packetizer < dv_packetizer_count(); packetizer++)
        seal_frame(of, packetizer, len);
    receive(of, len);
    aead(of->mode, DV_KEY_LEN, of->mode == DV_MODE_AES256_GCM ? 12 : 24, len);
    if (of->mode == DV_MODE_AES256_GCM)
        aead(of->mode, 16 + 8 * random_below(3), 8 + random_below(121), len);
    legacy(len);
}

/* In one mode, by the engines that serve it now. */
static void all_lens(dv_mode mode)
{
    for (int at_end = 0; at_end <= 1; at_end++) {
        memory.at_end = at_end;
        keyed of = keyed_new(mode);
        for (size_t len = 0; len < SMALL_LENS; len++)
            all_calls(&of, len);
        for (size_t i = 0; i < sizeof large_lens / sizeof *large_lens; i++)
            all_calls(&of, large_lens[i]);
        keyed_free(&of);
    }
}

void test_guard(void)
{
    dv_net_calls real = dv_net;
    dv_net.receive = fake_receive;
    map_spans();
    watch();
    for (size_t i = 0; i < dv_engine_count(); i++) {
        char name[64];
        dv_engine_info info;
        dv_engine_describe(i, &info);
        if (dv_force_engine(info.name) != DV_DONE)
            continue;
        snprintf(name, sizeof name, "guard: %s", info.name);
        group(name);
        current_engine = info.name;
        all_lens((dv_mode)info.mode);
        group(NULL);
    }
    dv_dispatch_init();
    forget();
    unmap_spans();
    dv_net = real;
}

#else

void test_guard(void)
{
}

#endif
