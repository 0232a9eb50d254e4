/*
 * VP9 (RFC 9628, section 4.2) in flexible mode with a 15-bit picture ID and one layer: every picture but a key frame names
 * the picture before it as its reference. What an encoder returns at once is one picture, a superframe of a hidden and a
 * shown frame too; its index stays in it, as decoders want it.
 */
#include "packetizer.h"

#define FRAME_MARKER 2

enum { PICTURE_ID = 0x80, PREDICTED = 0x40, FLEXIBLE = 0x10, FIRST = 0x08, LAST = 0x04 };

/* A superframe ends with an index of its frames' sizes (VP9 bitstream specification, annex B). */
static dv_step check_superframe(dv_cut *cut)
{
    uint8_t marker = cut->frame[cut->len - 1];
    size_t frame_count = (marker & 7u) + 1, size_len = (marker >> 3 & 3u) + 1;
    size_t index_len = 2 + frame_count * size_len, total = index_len;
    if (marker >> 5 != 6 || index_len > cut->len || cut->frame[cut->len - index_len] != marker)
        return DV_STEP_PIECE; /* there is none */
    const uint8_t *sizes = cut->frame + cut->len - index_len + 1;
    for (size_t i = 0; i < frame_count * size_len; i++) {
        size_t part = (size_t)sizes[i] << 8 * (i % size_len);
        total = part > SIZE_MAX - total ? SIZE_MAX : total + part;
    }
    if (total > cut->len)
        return dv_cut_refuse(cut, 0, DV_FAULT_SUPERFRAME, total, cut->len);
    return DV_STEP_PIECE;
}

/* Whether the first frame is a key frame, by the uncompressed header (section 6.2 of the specification). */
static bool is_key(uint8_t header)
{
    bool has_reserved_bit = (header & 0x30) == 0x30; /* profile 3 */
    if (has_reserved_bit)
        header = (uint8_t)(header << 1);
    return !(header & 0x0c); /* neither shows an earlier frame again, nor is an inter frame */
}

static dv_step next_vp9(dv_cut *cut, dv_piece *piece)
{
    if (cut->at == cut->len)
        return DV_STEP_END;
    if (!cut->started) {
        cut->unit_header[0] = cut->frame[0];
        if (cut->unit_header[0] >> 6 != FRAME_MARKER)
            return dv_cut_refuse(cut, 0, DV_FAULT_FRAME_MARKER, cut->unit_header[0] >> 6, FRAME_MARKER);
        if (check_superframe(cut) != DV_STEP_PIECE)
            return DV_STEP_REFUSED;
    }
    bool predicted = !is_key(cut->unit_header[0]);
    piece->prefix[0] = (uint8_t)(PICTURE_ID | FLEXIBLE | (predicted ? PREDICTED : 0) | (cut->started ? 0 : FIRST));
    piece->prefix[1] = (uint8_t)(0x80 | cut->picture_id >> 8);
    piece->prefix[2] = (uint8_t)cut->picture_id;
    piece->prefix[3] = 1 << 1; /* P_DIFF: the picture before; no more of them */
    cut->started = true;
    dv_cut_take(cut, piece, predicted ? 4 : 3, &cut->at, cut->len);
    if (cut->at == cut->len)
        piece->prefix[0] |= LAST;
    return DV_STEP_PIECE;
}

const dv_packetizer dv_packetizer_vp9 = {"vp9", 5, 1, true, true, next_vp9};
