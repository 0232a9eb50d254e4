/* Opus (RFC 7587, section 4.2): an Opus packet is the payload, whole. */
#include "packetizer.h"

static dv_step next_opus(dv_cut *cut, dv_piece *piece)
{
    if (cut->started)
        return DV_STEP_END;
    if (cut->len > cut->room)
        return dv_cut_refuse(cut, 0, DV_FAULT_UNCUT, cut->len, cut->room);
    cut->started = true;
    return dv_cut_take(cut, piece, 0, &cut->at, cut->len);
}

const dv_packetizer dv_packetizer_opus = {"opus", 1, 1, true, false, next_opus};
