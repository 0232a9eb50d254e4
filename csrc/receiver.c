/* Datagrams from a UDP socket into room that is used again and again, and opened from there. */
#include "net.h"
#include "platform.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_MAX_LEN 65536
#define SLOT_COUNT_MAX 1024
#define PACKETS_MAX 1024 /* in one batch */

/* Between slots, so that long ones do not all start in the same lines of the cache. */
#define SLOT_GAP_LEN 1280

struct dv_receiver {
    uint8_t *room;
    dv_slot *slots;
    size_t slot_len;
    size_t slot_count;
    size_t packet_max_len;
    size_t filled;  /* slots that came in */
    size_t slot;    /* of them, the next to give out */
    size_t slot_at; /* from there in it */
    int error;      /* the system's, to be told when all that came before it was given out */
    dv_batch batch;
    size_t next_slot; /* what the batch leaves behind, once it is opened */
    size_t next_at;
    const uint8_t *packets[PACKETS_MAX];
    size_t packet_lens[PACKETS_MAX]; /* 0 for one that was too long */
    size_t too_long[PACKETS_MAX];    /* how long that was, 0 for the others */
    const dv_slot *from[PACKETS_MAX];
};

dv_receiver *dv_receiver_new(size_t slot_len, size_t slot_count, size_t packet_max_len)
{
    if (packet_max_len == 0 || packet_max_len > slot_len || slot_len > SLOT_MAX_LEN || slot_count == 0 ||
        slot_count > SLOT_COUNT_MAX)
        return NULL;
    dv_receiver *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->room = malloc((slot_len + SLOT_GAP_LEN) * slot_count);
    made->slots = calloc(slot_count, sizeof *made->slots);
    if (!made->room || !made->slots) {
        dv_receiver_free(made);
        return NULL;
    }
    made->slot_len = slot_len;
    made->slot_count = slot_count;
    made->packet_max_len = packet_max_len;
    for (size_t i = 0; i < slot_count; i++) {
        made->slots[i].bytes = made->room + i * (slot_len + SLOT_GAP_LEN);
        made->slots[i].capacity = slot_len;
    }
    return made;
}

void dv_receiver_free(dv_receiver *receiver)
{
    if (!receiver)
        return;
    free(receiver->slots);
    free(receiver->room);
    free(receiver);
}

/* Fill the slots, which all were given out. */
static void fill(dv_receiver *receiver, intptr_t socket, int method, size_t slots_max)
{
    receiver->filled = receiver->slot = receiver->slot_at = 0;
    size_t room = slots_max < receiver->slot_count ? slots_max : receiver->slot_count;
    while (receiver->filled < room) {
        int came =
            dv_net.receive(socket, method > DV_WIRE_LOOP, receiver->slots + receiver->filled, room - receiver->filled);
        if (came > 0 && (size_t)came <= room - receiver->filled) {
            receiver->filled += (size_t)came;
            if (method > DV_WIRE_LOOP)
                return; /* a second call would cost more than what it mostly finds */
            continue;
        }
        dv_net_fault fault = came < 0 ? dv_net.meaning(-came) : DV_NET_FULL;
        if (fault == DV_NET_INTERRUPTED)
            continue;
        if (fault == DV_NET_ABSENT && method > DV_WIRE_LOOP) {
            method = DV_WIRE_LOOP;
            continue;
        }
        if (fault != DV_NET_FULL)
            receiver->error = -came;
        return;
    }
}

static void add(dv_receiver *receiver, const uint8_t *bytes, size_t len, const dv_slot *from)
{
    dv_batch *batch = &receiver->batch;
    bool fits = len <= receiver->packet_max_len;
    receiver->packets[batch->count] = bytes;
    receiver->packet_lens[batch->count] = fits ? len : 0;
    receiver->too_long[batch->count] = fits ? 0 : len;
    receiver->from[batch->count] = from;
    batch->len += receiver->packet_lens[batch->count];
    batch->count++;
}

/* Give out packets from the slots, a slot's packets one by one. */
static void give(dv_receiver *receiver, size_t packet_max)
{
    size_t slot = receiver->slot, at = receiver->slot_at;
    while (slot < receiver->filled && receiver->batch.count < packet_max) {
        const dv_slot *from = &receiver->slots[slot];
        bool whole = from->len <= from->capacity;
        size_t left = from->len - at, len = whole && from->segment_len ? from->segment_len : left;
        len = len < left ? len : left;
        add(receiver, from->bytes + at, len, from);
        at += len;
        if (at == from->len) {
            slot++;
            at = 0;
        }
    }
    receiver->next_slot = slot;
    receiver->next_at = at;
}

void dv_receiver_take(dv_receiver *receiver, intptr_t socket, int method, size_t packet_max, dv_batch *batch)
{
    memset(&receiver->batch, 0, sizeof receiver->batch);
    packet_max = packet_max < PACKETS_MAX ? packet_max : PACKETS_MAX;
    if (receiver->slot == receiver->filled && !receiver->error)
        fill(receiver, socket, method, packet_max);
    give(receiver, packet_max);
    if (!receiver->batch.count) {
        receiver->batch.error = receiver->error;
        receiver->error = 0;
    }
    *batch = receiver->batch;
}

/* Say of a datagram without a place how long it was. */
static void describe_truncated(size_t len, size_t limit, dv_opened *opened)
{
    memset(opened, 0, sizeof *opened);
    opened->status = DV_TRUNCATED;
    opened->fault = DV_FAULT_DATAGRAM;
    opened->value = (uint32_t)len;
    opened->limit = (uint32_t)limit;
}

dv_result dv_receiver_open(dv_receiver *receiver, dv_opener *opener, uint8_t *out, size_t out_capacity, size_t *ends,
                           dv_opened *opened, dv_arrival *arrivals)
{
    const dv_batch *batch = &receiver->batch;
    dv_result result =
        dv_opener_open_burst(opener, receiver->packets, receiver->packet_lens, batch->count, out, out_capacity, opened);
    if (result != DV_DONE)
        return result;
    size_t end = 0;
    for (size_t i = 0; i < batch->count; i++) {
        end += receiver->packet_lens[i];
        ends[i] = end;
        if (receiver->too_long[i])
            describe_truncated(receiver->too_long[i], receiver->packet_max_len, &opened[i]);
        if (arrivals)
            arrivals[i] = receiver->from[i]->arrival;
    }
    receiver->slot = receiver->next_slot;
    receiver->slot_at = receiver->next_at;
    memset(&receiver->batch, 0, sizeof receiver->batch);
    return DV_DONE;
}
