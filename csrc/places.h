/* Where the results of a burst go, one behind the other; and which input may share memory with them. */
#ifndef DV_PLACES_H
#define DV_PLACES_H

#include "dvcrypto.h"

#include <stdbool.h>

typedef struct dv_places {
    uint8_t *out;
    size_t len;       /* of all results */
    size_t extra_len; /* what a result has more than its packet */
    size_t taken;
} dv_places;

/* Lay out a burst. DV_ERROR_CAPACITY or DV_ERROR_OVERLAP where it cannot be done. */
dv_result dv_places_plan(dv_places *places, const uint8_t *const *packets, const size_t *packet_lens, size_t count,
                         size_t extra_len, uint8_t *out, size_t out_capacity);

/*
 * Whether input may be read while out_len bytes at out are written: it lies outside of them, or it starts exactly at
 * place, where its own result goes. libsodium's open and OpenSSL's seal give wrong results on any other overlap, without
 * an error.
 */
static inline bool dv_overlap_allowed(const uint8_t *input, size_t input_len, const uint8_t *place, const uint8_t *out,
                                      size_t out_len)
{
    uintptr_t in = (uintptr_t)input, start = (uintptr_t)out;
    return input_len == 0 || input == place || in >= start + out_len || start >= in + input_len;
}

/*
 * The place of the next packet. The caller's tables may have changed since they were laid out (another thread writes
 * them): what is used is the packet and length given here, and they are checked once more.
 */
static inline dv_result dv_places_take(dv_places *places, const uint8_t *packet, size_t packet_len, uint8_t **place)
{
    size_t left = places->len - places->taken;
    if (packet_len > left || places->extra_len > left - packet_len)
        return DV_ERROR_CAPACITY;
    *place = places->out + places->taken;
    if (!dv_overlap_allowed(packet, packet_len, *place, places->out, places->len))
        return DV_ERROR_OVERLAP;
    places->taken += packet_len + places->extra_len;
    return DV_DONE;
}

#endif
