/*
 * A window of the RTP sequence numbers that were opened, for each SSRC (RFC 6479; RFC 3711, sections 3.3.1 and 3.3.2).
 *
 * SRTP authenticates how often the 16 bits have wrapped; Discord's modes do not, so that a packet from 32,768 sequence
 * numbers ago looks like one from the future, and one behind a long gap like an old one. What tells them apart is the
 * nonce, which is authenticated, and which every known sender counts up by one for each packet. Its byte order is not
 * known, but seen; until it is, and where nonces do not count, the sequence number decides alone.
 */
#ifndef DV_REPLAY_H
#define DV_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More senders than one voice session has; beyond it, the one that was silent longest is forgotten. */
#define DV_REPLAY_SSRC_MAX 1024

typedef struct dv_replay dv_replay;

dv_replay *dv_replay_new(uint32_t window); /* NULL when there is no memory */
void dv_replay_free(dv_replay *replay);

/* What tells one packet of a sender from another: the header's numbers, and the nonce's 4 bytes as on the wire. */
typedef struct dv_replay_mark {
    uint32_t ssrc;
    uint16_t sequence;
    uint8_t suffix[4];
} dv_replay_mark;

/* Whether the packet was accepted before or lies behind the window. Changes nothing. newest is for reports. */
bool dv_replay_seen(const dv_replay *replay, const dv_replay_mark *mark, uint16_t *newest);

/* Remember a packet that is authentic. False when there is no memory for a new SSRC. */
bool dv_replay_accept(dv_replay *replay, const dv_replay_mark *mark);

#endif
