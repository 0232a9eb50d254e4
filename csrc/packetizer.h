/*
 * How a media frame is cut into the payloads of RTP packets. A packetizer is a const struct; an iterator over one frame
 * yields its pieces one by one, so that counting them and sealing them is the same walk and needs no memory.
 *
 * Another thread may write to the frame meanwhile. A packetizer reads each byte that decides a length once, and every
 * piece it yields lies in the frame, whatever it has read.
 */
#ifndef DV_PACKETIZER_H
#define DV_PACKETIZER_H

#include "dvcrypto.h"

#include <stdbool.h>

#define DV_PREFIX_MAX_LEN 4
#define DV_UNIT_HEADER_MAX_LEN 2

/* A walk over one frame. The first part is the caller's, the second the packetizer's, zero at first. */
typedef struct dv_cut {
    const uint8_t *frame;
    size_t len;
    size_t room; /* for payload in a packet, prefix included */
    uint16_t picture_id;
    dv_refusal refusal;

    bool started;
    bool in_unit;    /* between two pieces of one NAL unit or OBU */
    size_t at;       /* what comes next in the frame */
    size_t unit;     /* what comes next of the NAL unit or OBU */
    size_t unit_end; /* behind its last byte */
    uint8_t unit_header[DV_UNIT_HEADER_MAX_LEN];
    size_t unit_header_len;
} dv_cut;

/* A packet's payload: some bytes of the packetizer's own, then a range of the frame. */
typedef struct dv_piece {
    uint8_t prefix[DV_PREFIX_MAX_LEN];
    size_t prefix_len;
    const uint8_t *bytes;
    size_t len;
} dv_piece;

typedef enum dv_step {
    DV_STEP_PIECE,
    DV_STEP_END,
    DV_STEP_REFUSED /* the cut's refusal says why */
} dv_step;

typedef struct dv_packetizer {
    const char *name;
    size_t min_room;      /* for payload in a packet */
    size_t min_frame_len; /* bytes */
    bool even;            /* all pieces have the first one's prefix length, and all but the last are full */
    bool has_picture_id;
    dv_step (*next)(dv_cut *cut, dv_piece *piece);
} dv_packetizer;

extern const dv_packetizer dv_packetizer_plain;
extern const dv_packetizer dv_packetizer_opus;
extern const dv_packetizer dv_packetizer_h264;
extern const dv_packetizer dv_packetizer_h265;
extern const dv_packetizer dv_packetizer_vp8;
extern const dv_packetizer dv_packetizer_vp9;
extern const dv_packetizer dv_packetizer_av1;

/* NULL where there is none of that number. */
const dv_packetizer *dv_packetizer_get(size_t packetizer);

/* Whether the frame and the room are long enough to begin with: DV_STEP_PIECE, or DV_STEP_REFUSED. */
dv_step dv_packetizer_begin(const dv_packetizer *packetizer, dv_cut *cut);

/* Count pieces and their bytes to the end of the frame, unless it is refused. */
dv_step dv_packetizer_measure(const dv_packetizer *packetizer, dv_cut *cut, size_t *piece_count, size_t *pieces_len);

/* For packetizers: end the walk with a fault in what starts at index. */
dv_step dv_cut_refuse(dv_cut *cut, size_t index, dv_fault fault, size_t value, size_t limit);

/* For packetizers: the next piece of at most room bytes, behind prefix_len bytes of prefix that are written already. */
dv_step dv_cut_take(dv_cut *cut, dv_piece *piece, size_t prefix_len, size_t *at, size_t end);

#endif
