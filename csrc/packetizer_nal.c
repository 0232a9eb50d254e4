/*
 * H.264 (RFC 6184, packetization mode 1) and H.265 (RFC 7798) from Annex-B byte streams. A NAL unit that fits is a packet
 * of its own, a longer one is cut into fragmentation units (RFC 6184, section 5.8; RFC 7798, section 4.4.3). Units are not
 * put together in one packet. Access unit delimiters are left out: the marker and the timestamp say the same.
 */
#include "packetizer.h"

#include <string.h>

#define START_CODE_LEN 3
#define FRAGMENT_FIRST 0x80
#define FRAGMENT_LAST 0x40

/* Where the two codecs differ. */
typedef struct nal_kind {
    size_t header_len;
    unsigned type_shift; /* of the type in the header's first byte */
    uint8_t type_mask;   /* once shifted */
    uint8_t type_last;   /* of those that RTP does not use for itself */
    uint8_t delimiter;   /* the type of access unit delimiters */
    uint8_t fragment;    /* RTP's type of fragmentation units */
} nal_kind;

static const nal_kind h264 = {1, 0, 0x1f, 23, 9, 28};
static const nal_kind h265 = {2, 1, 0x3f, 47, 35, 49};

/* Where the next start code begins: its two zeros that stand right before the 1. The frame's length where there is none. */
static size_t find_start_code(const uint8_t *frame, size_t len, size_t at)
{
    while (len - at >= START_CODE_LEN) {
        const uint8_t *one = memchr(frame + at + 2, 1, len - at - 2);
        if (!one)
            break;
        if (one[-1] == 0 && one[-2] == 0)
            return (size_t)(one - frame) - 2;
        at = (size_t)(one - frame) + 1;
    }
    return len;
}

/* Only zeros may stand before the first start code (ITU-T H.264, section B.1.1). */
static dv_step find_first(dv_cut *cut)
{
    size_t at = 0;
    while (cut->len - at > START_CODE_LEN && cut->frame[at] == 0 && cut->frame[at + 1] == 0 && cut->frame[at + 2] == 0)
        at++;
    const uint8_t *bytes = cut->frame + at;
    uint32_t found = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    if (found != 1)
        return dv_cut_refuse(cut, at, DV_FAULT_START_CODE, found, 1);
    cut->at = at;
    cut->started = true;
    return DV_STEP_PIECE;
}

/* Go into the unit behind the start code at which the cut stands; the cut then stands at the next one. */
static dv_step enter_unit(dv_cut *cut, const nal_kind *kind)
{
    size_t start = cut->at + START_CODE_LEN, end = find_start_code(cut->frame, cut->len, start);
    cut->at = end;
    while (end > start && cut->frame[end - 1] == 0)
        end--;
    if (end - start < kind->header_len)
        return dv_cut_refuse(cut, start, DV_FAULT_UNIT_SHORT, end - start, kind->header_len);
    memcpy(cut->unit_header, cut->frame + start, kind->header_len);
    if (cut->unit_header[0] & 0x80)
        return dv_cut_refuse(cut, start, DV_FAULT_FORBIDDEN, cut->unit_header[0], 0x7f);
    cut->unit = start;
    cut->unit_end = end;
    return DV_STEP_PIECE;
}

static dv_step next_fragment(dv_cut *cut, const nal_kind *kind, uint8_t type, dv_piece *piece)
{
    uint8_t *last = &piece->prefix[kind->header_len];
    uint8_t other_bits = (uint8_t)(cut->unit_header[0] & ~(kind->type_mask << kind->type_shift));
    memcpy(piece->prefix, cut->unit_header, kind->header_len);
    piece->prefix[0] = (uint8_t)(other_bits | kind->fragment << kind->type_shift);
    *last = (uint8_t)(type | (cut->in_unit ? 0 : FRAGMENT_FIRST));
    dv_cut_take(cut, piece, kind->header_len + 1, &cut->unit, cut->unit_end);
    cut->in_unit = cut->unit < cut->unit_end;
    if (!cut->in_unit)
        *last |= FRAGMENT_LAST;
    return DV_STEP_PIECE;
}

static dv_step next_nal(dv_cut *cut, const nal_kind *kind, dv_piece *piece)
{
    dv_step step = cut->started ? DV_STEP_PIECE : find_first(cut);
    uint8_t type = (uint8_t)(cut->unit_header[0] >> kind->type_shift & kind->type_mask);
    if (step != DV_STEP_PIECE)
        return step;
    if (cut->in_unit)
        return next_fragment(cut, kind, type, piece);
    do {
        if (cut->at == cut->len)
            return DV_STEP_END;
        step = enter_unit(cut, kind);
        type = (uint8_t)(cut->unit_header[0] >> kind->type_shift & kind->type_mask);
    } while (step == DV_STEP_PIECE && type == kind->delimiter);
    if (step != DV_STEP_PIECE)
        return step;
    if (type > kind->type_last)
        return dv_cut_refuse(cut, cut->unit, DV_FAULT_NAL_TYPE, type, kind->type_last);
    if (cut->unit_end - cut->unit <= cut->room)
        return dv_cut_take(cut, piece, 0, &cut->unit, cut->unit_end);
    cut->unit += kind->header_len; /* the fragments carry the header in another form */
    return next_fragment(cut, kind, type, piece);
}

static dv_step next_h264(dv_cut *cut, dv_piece *piece)
{
    return next_nal(cut, &h264, piece);
}

static dv_step next_h265(dv_cut *cut, dv_piece *piece)
{
    return next_nal(cut, &h265, piece);
}

/* The least room holds a fragment of 1 byte; the shortest frame is a start code and a unit's header. */
const dv_packetizer dv_packetizer_h264 = {"h264", 3, 4, false, false, next_h264};
const dv_packetizer dv_packetizer_h265 = {"h265", 4, 5, false, false, next_h265};
