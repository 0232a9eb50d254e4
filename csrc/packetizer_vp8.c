/*
 * VP8 (RFC 7741, section 4.2): each packet has a payload descriptor with a 15-bit picture ID. Frames are cut anywhere, so
 * that the partition index stays 0, as the RFC allows. N stays 0: whether a frame is a reference stands behind the
 * entropy coder.
 */
#include "packetizer.h"

#define KEY_FRAME_LEN 10 /* the frame tag, the start code, width and height (RFC 6386, section 9.1) */
#define KEY_START_CODE 0x9d012a

static dv_step check(dv_cut *cut)
{
    const uint8_t *frame = cut->frame;
    if (frame[0] & 1)
        return DV_STEP_PIECE; /* no key frame */
    if (cut->len < KEY_FRAME_LEN)
        return dv_cut_refuse(cut, 0, DV_FAULT_SHORT, cut->len, KEY_FRAME_LEN);
    uint32_t start_code = (uint32_t)frame[3] << 16 | (uint32_t)frame[4] << 8 | frame[5];
    if (start_code != KEY_START_CODE)
        return dv_cut_refuse(cut, 0, DV_FAULT_START_CODE, start_code, KEY_START_CODE);
    return DV_STEP_PIECE;
}

static dv_step next_vp8(dv_cut *cut, dv_piece *piece)
{
    bool first = !cut->started;
    if (cut->at == cut->len)
        return DV_STEP_END;
    if (first && check(cut) != DV_STEP_PIECE)
        return DV_STEP_REFUSED;
    cut->started = true;
    piece->prefix[0] = first ? 0x90 : 0x80; /* X; S on the first */
    piece->prefix[1] = 0x80;                /* I */
    piece->prefix[2] = (uint8_t)(0x80 | cut->picture_id >> 8);
    piece->prefix[3] = (uint8_t)cut->picture_id;
    return dv_cut_take(cut, piece, 4, &cut->at, cut->len);
}

/* A frame has a tag of 3 bytes. */
const dv_packetizer dv_packetizer_vp8 = {"vp8", 5, 3, true, true, next_vp8};
