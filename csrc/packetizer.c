/* Which packetizers there are, and what they share; the plain one. */
#include "packetizer.h"

static dv_step next_plain(dv_cut *cut, dv_piece *piece)
{
    if (cut->started && cut->at == cut->len)
        return DV_STEP_END;
    cut->started = true;
    return dv_cut_take(cut, piece, 0, &cut->at, cut->len);
}

const dv_packetizer dv_packetizer_plain = {"plain", 1, 0, true, false, next_plain};

static const dv_packetizer *const packetizers[] = {
    &dv_packetizer_plain, /* DV_PACKETIZER_PLAIN */
    &dv_packetizer_opus,  &dv_packetizer_h264, &dv_packetizer_h265,
    &dv_packetizer_vp8,   &dv_packetizer_vp9,  &dv_packetizer_av1,
};

size_t dv_packetizer_count(void)
{
    return sizeof packetizers / sizeof packetizers[0];
}

const dv_packetizer *dv_packetizer_get(size_t packetizer)
{
    return packetizer < dv_packetizer_count() ? packetizers[packetizer] : NULL;
}

const char *dv_packetizer_name(size_t packetizer)
{
    const dv_packetizer *found = dv_packetizer_get(packetizer);
    return found ? found->name : NULL;
}

dv_step dv_packetizer_begin(const dv_packetizer *packetizer, dv_cut *cut)
{
    if (cut->len < packetizer->min_frame_len)
        return dv_cut_refuse(cut, 0, DV_FAULT_SHORT, cut->len, packetizer->min_frame_len);
    if (cut->room < packetizer->min_room)
        return dv_cut_refuse(cut, 0, DV_FAULT_ROOM, cut->room, packetizer->min_room);
    return DV_STEP_PIECE;
}

dv_step dv_packetizer_measure(const dv_packetizer *packetizer, dv_cut *cut, size_t *piece_count, size_t *pieces_len)
{
    dv_piece piece;
    dv_step step = dv_packetizer_begin(packetizer, cut);
    *piece_count = *pieces_len = 0;
    if (step != DV_STEP_PIECE)
        return step;
    while ((step = packetizer->next(cut, &piece)) == DV_STEP_PIECE) {
        if (packetizer->even) {
            size_t room = cut->room - piece.prefix_len;
            *piece_count = cut->len ? (cut->len - 1) / room + 1 : 1;
            *pieces_len = cut->len + *piece_count * piece.prefix_len;
            return DV_STEP_END;
        }
        ++*piece_count;
        *pieces_len += piece.prefix_len + piece.len;
    }
    if (step == DV_STEP_END && *piece_count == 0)
        return dv_cut_refuse(cut, 0, DV_FAULT_NOTHING, 0, 1);
    return step;
}

dv_step dv_cut_refuse(dv_cut *cut, size_t index, dv_fault fault, size_t value, size_t limit)
{
    cut->refusal.index = index;
    cut->refusal.fault = fault;
    cut->refusal.value = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    cut->refusal.limit = limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
    return DV_STEP_REFUSED;
}

dv_step dv_cut_take(dv_cut *cut, dv_piece *piece, size_t prefix_len, size_t *at, size_t end)
{
    size_t left = end - *at, room = cut->room - prefix_len;
    piece->prefix_len = prefix_len;
    piece->bytes = cut->frame + *at;
    piece->len = left < room ? left : room;
    *at += piece->len;
    return DV_STEP_PIECE;
}
