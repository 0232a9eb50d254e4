/*
 * Datagrams from a kernel of the input's making: of any length, several as one, too long for their slots, and errors in
 * between. Each comes out once, in order, opened as it would be by itself.
 */
#include "../packet.h"

#include "net.h"

#include <errno.h>

#define PACKETS_MAX 256
#define CALLS_MAX 12
#define SOCKET 5

static input kernel;

/* What came in, as it must come out: a packet's bytes, or the length of a datagram that was longer than its slot. */
typedef struct packet {
    uint8_t bytes[256];
    size_t len;
    size_t too_long;
} packet;

static struct {
    packet packets[PACKETS_MAX];
    size_t count;
    size_t given;
} expected;

static void expect(const uint8_t *bytes, size_t len, size_t too_long)
{
    packet *added = &expected.packets[expected.count++];
    memcpy(added->bytes, bytes, len);
    added->len = len;
    added->too_long = too_long;
}

static void fill(dv_slot *slot)
{
    uint8_t choice = take(&kernel);
    slot->len = take(&kernel);
    slot->segment_len = choice & 1 ? take(&kernel) : 0;
    if (slot->segment_len && slot->len / slot->segment_len >= 8)
        slot->segment_len = slot->len / 8 + 1;
    slot->arrival.time_ns = choice;
    size_t there = slot->len < slot->capacity ? slot->len : slot->capacity;
    for (size_t i = 0; i < there; i++)
        slot->bytes[i] = take(&kernel);
    if (slot->len > slot->capacity) {
        expect(slot->bytes, 0, slot->len);
        return;
    }
    size_t at = 0, step = slot->segment_len ? slot->segment_len : slot->len;
    do {
        size_t len = slot->len - at < step ? slot->len - at : step;
        expect(slot->bytes + at, len, 0);
        at += len;
    } while (at < slot->len);
}

static int receive(intptr_t socket, bool many, dv_slot *slots, size_t count)
{
    static const int errors[] = {EAGAIN, EINTR, ENOSYS, ECONNREFUSED};
    uint8_t choice = take(&kernel);
    MUST(socket == SOCKET && count > 0);
    if (!kernel.left)
        return -EAGAIN;
    if (choice % 8 == 0)
        return -errors[choice >> 3 & (many ? 3 : 1)];
    size_t came = many ? 1 + (choice >> 3) % 8 : 1;
    came = came < count ? came : count;
    if (expected.count + 8 * came > PACKETS_MAX)
        return -EAGAIN;
    for (size_t i = 0; i < came; i++)
        fill(&slots[i]);
    return (int)came;
}

static void check_opened(dv_opener *opener, const packet *from, const uint8_t *place, const dv_opened *opened)
{
    dv_opened again;
    uint8_t out[256];
    const uint8_t *start = from->bytes;
    if (from->too_long) {
        MUST(opened->status == DV_TRUNCATED && opened->fault == DV_FAULT_DATAGRAM && opened->value == from->too_long);
        return;
    }
    MUST(dv_opener_open_burst(opener, &start, &from->len, 1, out, sizeof out, &again) == DV_DONE);
    MUST(!memcmp(&again, opened, sizeof again) && !memcmp(out, place, from->len));
}

static void take_and_open(dv_receiver *receiver, dv_opener *opener, dv_opener *other, input *from)
{
    dv_batch batch;
    size_t most = 1 + take(from) % 32, start = 0;
    dv_receiver_take(receiver, SOCKET, take(from) % DV_WIRE_METHOD_COUNT, most, &batch);
    MUST(batch.count <= most && batch.count <= expected.count - expected.given);
    uint8_t choice = take(from);
    if (choice & 1)
        return; /* it is given out again */
    output out = output_new(choice & 2 && batch.len ? batch.len - 1 : batch.len + choice);
    size_t *ends = (size_t *)(void *)fenced_new(batch.count * sizeof *ends);
    dv_opened *opened = (dv_opened *)(void *)fenced_new(batch.count * sizeof *opened);
    dv_arrival *arrivals = (dv_arrival *)(void *)fenced_new(batch.count * sizeof *arrivals);
    dv_result result = dv_receiver_open(receiver, opener, out.bytes, out.capacity, ends, opened, arrivals);
    MUST(result == (out.capacity < batch.len ? DV_ERROR_CAPACITY : DV_DONE));
    MUST(output_untouched_from(&out, result == DV_DONE ? batch.len : 0));
    for (size_t i = 0; i < batch.count && result == DV_DONE; start = ends[i++]) {
        const packet *next = &expected.packets[expected.given++];
        MUST(ends[i] - start == next->len);
        check_opened(other, next, out.bytes + start, &opened[i]);
    }
    MUST(result != DV_DONE || start == batch.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    input from = input_begin(data, len);
    dv_opener *opener, *other;
    size_t slot_len = 1 + take(&from), slot_count = 1 + take(&from) % 16;
    input calls = from;
    expected.count = expected.given = 0;
    calls.left = from.left < 3 * CALLS_MAX ? from.left : 3 * CALLS_MAX;
    kernel = (input){from.bytes + calls.left, from.left - calls.left};
    dv_net.receive = receive;
    MUST(dv_opener_new(&opener, DV_MODE_AES256_GCM, fuzz_key, 0) == DV_DONE);
    MUST(dv_opener_new(&other, DV_MODE_AES256_GCM, fuzz_key, 0) == DV_DONE);
    dv_receiver *receiver = dv_receiver_new(slot_len, slot_count, slot_len);
    MUST(receiver);
    for (int i = 0; i < CALLS_MAX; i++)
        take_and_open(receiver, opener, other, &calls);
    dv_receiver_free(receiver);
    dv_opener_free(opener);
    dv_opener_free(other);
    return 0;
}
