/* A key and what it has opened: bursts of packets, a status for each. */
#include "dispatch.h"
#include "places.h"
#include "platform.h"
#include "replay.h"
#include "rtp.h"

#include <string.h>

struct dv_opener {
    dv_cipher cipher;
    dv_lock lock; /* guards all below, and the cipher */
    uint64_t counts[DV_STATUS_COUNT];
    dv_replay *replay; /* NULL where nobody asked for it */
    bool closed;
};

dv_result dv_opener_new(dv_opener **opener, int mode, const uint8_t *key, uint32_t replay_window)
{
    *opener = NULL;
    if (mode < 0 || mode >= DV_MODE_COUNT || replay_window > DV_REPLAY_WINDOW_MAX)
        return DV_ERROR_ARGUMENT;
    dv_opener *made = dv_aligned_new(sizeof *made);
    if (!made)
        return DV_ERROR_MEMORY;
    dv_result result = dv_cipher_init(&made->cipher, (dv_mode)mode, DV_OPEN, key);
    if (result != DV_DONE) {
        dv_aligned_free(made);
        return result;
    }
    if (replay_window)
        made->replay = dv_replay_new(replay_window);
    if ((replay_window && !made->replay) || !dv_lock_init(&made->lock)) {
        dv_replay_free(made->replay);
        dv_cipher_wipe(&made->cipher);
        dv_aligned_free(made);
        return DV_ERROR_MEMORY;
    }
    *opener = made;
    return DV_DONE;
}

void dv_opener_close(dv_opener *opener)
{
    void *host_state = dv_enter(&opener->lock, 0);
    if (!opener->closed)
        dv_cipher_wipe(&opener->cipher);
    opener->closed = true;
    dv_leave(&opener->lock, host_state);
}

void dv_opener_free(dv_opener *opener)
{
    if (!opener)
        return;
    dv_opener_close(opener);
    dv_lock_destroy(&opener->lock);
    dv_replay_free(opener->replay);
    dv_aligned_free(opener);
}

void dv_opener_count(dv_opener *opener, uint64_t *counts)
{
    void *host_state = dv_enter(&opener->lock, 0);
    memcpy(counts, opener->counts, sizeof opener->counts);
    dv_leave(&opener->lock, host_state);
}

static dv_why fault(dv_fault which)
{
    dv_why why = {which, 0, 0};
    return why;
}

/* Before authentication the window is only looked at. */
static dv_why check_replay(const dv_opener *opener, const dv_replay_mark *mark)
{
    uint16_t newest = 0;
    if (!dv_replay_seen(opener->replay, mark, &newest))
        return fault(DV_FAULT_NONE);
    dv_why why = {DV_FAULT_REPLAY, mark->sequence, newest};
    return why;
}

/* Decrypt one packet into its place and describe it. What it returns is why the packet's output must be wiped. */
static dv_why open_packet(dv_opener *opener, const uint8_t *packet, size_t packet_len, uint8_t *out, dv_opened *opened)
{
    dv_header header;
    uint8_t nonce[DV_NONCE_MAX_LEN] = {0};
    dv_why why = dv_header_read_sealed(&header, packet, packet_len);
    if (why.fault != DV_FAULT_NONE)
        return why;

    size_t body_len = packet_len - DV_OVERHEAD_LEN - header.len;
    memcpy(nonce, packet + packet_len - DV_SUFFIX_LEN, DV_SUFFIX_LEN);
    bool watched = opener->replay && !header.is_rtcp; /* RTCP carries no sequence number, and passes */
    dv_replay_mark mark = {
        dv_header_ssrc(&header), dv_header_sequence(&header), {nonce[0], nonce[1], nonce[2], nonce[3]}};
    if (watched)
        why = check_replay(opener, &mark);
    if (why.fault != DV_FAULT_NONE)
        return why;
    if (!dv_cipher_open(&opener->cipher, nonce, header.bytes, header.len, packet + header.len, body_len,
                        out + header.len))
        return fault(DV_FAULT_TAG);
    memcpy(out, header.bytes, header.len);
    if (watched && !dv_replay_accept(opener->replay, &mark))
        return fault(DV_FAULT_REPLAY); /* no memory to tell the next replay by: fail closed */
    why = dv_body_read(&header, out + header.len, body_len, &opened->padding_len);
    if (why.fault != DV_FAULT_NONE)
        return why;

    memset(out + header.len + body_len, 0, DV_OVERHEAD_LEN);
    memcpy(opened->suffix, nonce, DV_SUFFIX_LEN);
    opened->is_rtcp = header.is_rtcp;
    opened->header_len = (uint16_t)header.len;
    opened->extension_len = (uint16_t)header.extension_len;
    opened->plain_len = (uint32_t)(header.len + body_len);
    return why;
}

static bool without_payload(const dv_opened *opened)
{
    return !opened->is_rtcp &&
           opened->plain_len == (uint32_t)opened->header_len + opened->extension_len + opened->padding_len;
}

static void open_into(dv_opener *opener, const uint8_t *packet, size_t packet_len, uint8_t *out, dv_opened *opened)
{
    memset(opened, 0, sizeof *opened);
    dv_why why = open_packet(opener, packet, packet_len, out, opened);
    dv_status status = dv_fault_status(why.fault);
    if (status != DV_OK) {
        dv_wipe(out, packet_len);
        memset(opened, 0, sizeof *opened);
        opened->fault = (uint8_t)why.fault;
        opened->value = why.value;
        opened->limit = why.limit;
    } else if (without_payload(opened)) {
        status = DV_EMPTY;
    }
    opened->status = (uint8_t)status;
    opener->counts[status]++;
}

static dv_result open_all(dv_opener *opener, const uint8_t *const *packets, const size_t *packet_lens, size_t count,
                          dv_places *places, dv_opened *opened)
{
    uint8_t *place;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *packet = packets[i];
        size_t packet_len = packet_lens[i];
        dv_result result = dv_places_take(places, packet, packet_len, &place);
        if (result != DV_DONE)
            return result;
        open_into(opener, packet, packet_len, place, &opened[i]);
    }
    return DV_DONE;
}

dv_result dv_opener_open_burst(dv_opener *opener, const uint8_t *const *packets, const size_t *packet_lens,
                               size_t count, uint8_t *out, size_t out_capacity, dv_opened *opened)
{
    dv_places places;
    dv_result result = dv_places_plan(&places, packets, packet_lens, count, 0, out, out_capacity);
    if (result != DV_DONE)
        return result;

    void *host_state = dv_enter(&opener->lock, places.len);
    if (opener->closed) {
        result = DV_ERROR_CLOSED;
    } else {
        result = open_all(opener, packets, packet_lens, count, &places, opened);
        if (result != DV_DONE) {
            dv_wipe(out, places.len);
            memset(opened, 0, count * sizeof *opened);
        }
    }
    dv_cipher_rest(&opener->cipher);
    dv_leave(&opener->lock, host_state);
    return result;
}
