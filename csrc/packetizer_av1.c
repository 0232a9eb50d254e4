/*
 * AV1 (RTP Payload Format for AV1, Alliance for Open Media, section 4) from a temporal unit in the low-overhead format.
 * Each packet has an aggregation header and one OBU or a fragment of one, without its size field. Temporal delimiters and
 * tile lists are left out, as section 5 asks.
 */
#include "packetizer.h"

#define SIZE_FIELD_MAX_LEN 8 /* AV1 bitstream specification, section 4.10.5 */

enum { CONTINUES = 0x80, CONTINUED = 0x40, ONE_ELEMENT = 0x10, NEW_SEQUENCE = 0x08 }; /* Z, Y, W = 1, N */
enum { OBU_HAS_EXTENSION = 0x04, OBU_HAS_SIZE = 0x02 };
enum { OBU_SEQUENCE_HEADER = 1, OBU_TEMPORAL_DELIMITER = 2, OBU_FRAME_HEADER = 3, OBU_FRAME = 6, OBU_TILE_LIST = 8 };

static unsigned obu_type(const dv_cut *cut)
{
    return cut->unit_header[0] >> 3 & 15;
}

/* Read a size field, LEB128, from left bytes. Its length; 0 where it has no end. */
static size_t read_size(const uint8_t *bytes, size_t left, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < left && i < SIZE_FIELD_MAX_LEN; i++) {
        uint8_t byte = bytes[i];
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80))
            return i + 1;
    }
    return 0;
}

/* Go into the OBU at which the cut stands; the cut then stands at the next one. An OBU without a size is the last. */
static dv_step enter_obu(dv_cut *cut)
{
    size_t start = cut->at, at = start, left = cut->len - start;
    cut->unit_header[0] = cut->frame[at++];
    if (cut->unit_header[0] & 0x80)
        return dv_cut_refuse(cut, start, DV_FAULT_FORBIDDEN, cut->unit_header[0], 0x7f);
    cut->unit_header_len = cut->unit_header[0] & OBU_HAS_EXTENSION ? 2 : 1;
    if (left < cut->unit_header_len)
        return dv_cut_refuse(cut, start, DV_FAULT_UNIT_SHORT, left, cut->unit_header_len);
    if (cut->unit_header_len == 2)
        cut->unit_header[1] = cut->frame[at++];
    left = cut->len - at;
    if (cut->unit_header[0] & OBU_HAS_SIZE) {
        uint64_t obu_len;
        size_t size_len = read_size(cut->frame + at, left, &obu_len);
        if (size_len == 0)
            return dv_cut_refuse(cut, start, DV_FAULT_OBU_SIZE, left < SIZE_FIELD_MAX_LEN ? left : SIZE_FIELD_MAX_LEN,
                                 SIZE_FIELD_MAX_LEN);
        at += size_len;
        if (obu_len > cut->len - at)
            return dv_cut_refuse(cut, start, DV_FAULT_OBU_LONG, obu_len > SIZE_MAX ? SIZE_MAX : (size_t)obu_len,
                                 cut->len - at);
        left = (size_t)obu_len;
    }
    cut->unit_header[0] &= (uint8_t)~OBU_HAS_SIZE;
    cut->unit = at;
    cut->unit_end = cut->at = at + left;
    return DV_STEP_PIECE;
}

/*
 * Whether the temporal unit begins a coded video sequence: a sequence header, then a key frame that is shown (AV1
 * bitstream specification, sections 5.5.1, 5.9.2 and 7.5).
 */
static bool begins_sequence(const dv_cut *whole)
{
    dv_cut cut = *whole;
    bool has_header = false, is_reduced = false;
    while (cut.at < cut.len && enter_obu(&cut) == DV_STEP_PIECE) {
        uint8_t first = cut.unit < cut.unit_end ? cut.frame[cut.unit] : 0xff;
        if (obu_type(&cut) == OBU_SEQUENCE_HEADER) {
            has_header = true;
            is_reduced = first & 0x08; /* reduced_still_picture_header: all frames are key frames */
        } else if (obu_type(&cut) == OBU_FRAME || obu_type(&cut) == OBU_FRAME_HEADER) {
            return has_header &&
                   (is_reduced || (first & 0xf0) == 0x10); /* show_existing_frame, frame_type, show_frame */
        }
    }
    return false;
}

static dv_step next_av1(dv_cut *cut, dv_piece *piece)
{
    size_t prefix_len = 1;
    piece->prefix[0] = ONE_ELEMENT;
    if (!cut->started && begins_sequence(cut))
        piece->prefix[0] |= NEW_SEQUENCE;
    if (cut->in_unit) {
        piece->prefix[0] |= CONTINUES;
    } else {
        do {
            if (cut->at == cut->len)
                return DV_STEP_END;
            if (enter_obu(cut) != DV_STEP_PIECE)
                return DV_STEP_REFUSED;
        } while (obu_type(cut) == OBU_TEMPORAL_DELIMITER || obu_type(cut) == OBU_TILE_LIST);
        for (size_t i = 0; i < cut->unit_header_len; i++)
            piece->prefix[prefix_len++] = cut->unit_header[i];
    }
    cut->started = true;
    dv_cut_take(cut, piece, prefix_len, &cut->unit, cut->unit_end);
    cut->in_unit = cut->unit < cut->unit_end;
    if (cut->in_unit)
        piece->prefix[0] |= CONTINUED;
    return DV_STEP_PIECE;
}

/* The least room holds the aggregation header, an OBU header of 2 bytes and 1 byte of the OBU. */
const dv_packetizer dv_packetizer_av1 = {"av1", 4, 1, false, false, next_av1};
