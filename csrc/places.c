#include "places.h"

dv_result dv_places_plan(dv_places *places, const uint8_t *const *packets, const size_t *packet_lens, size_t count,
                         size_t extra_len, uint8_t *out, size_t out_capacity)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t packet_len = packet_lens[i];
        if (packet_len > out_capacity - total || extra_len > out_capacity - total - packet_len)
            return DV_ERROR_CAPACITY;
        total += packet_len + extra_len;
    }
    places->out = out;
    places->len = total;
    places->extra_len = extra_len;
    places->taken = 0;

    dv_places trial = *places;
    uint8_t *place;
    dv_result result = DV_DONE;
    for (size_t i = 0; i < count && result == DV_DONE; i++)
        result = dv_places_take(&trial, packets[i], packet_lens[i], &place);
    return result;
}
