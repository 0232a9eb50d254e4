/*
 * The layout of RTP and RTCP packets (RFC 3550, RFC 8285) as Discord's rtpsize modes divide them; nothing else knows it.
 *
 *   RTP:  fixed header, CSRCs, extension preamble | extension body, payload, padding
 *   RTCP: the first 8 bytes                       | the rest of the compound packet
 *         clear header, the associated data       | body, encrypted
 */
#ifndef DV_RTP_H
#define DV_RTP_H

#include "dvcrypto.h"

#include <stdbool.h>

#define DV_RTP_FIXED_LEN 12
#define DV_RTCP_HEADER_LEN 8
#define DV_HEADER_MAX_LEN 76 /* 12, 15 CSRCs, 4 of the extension preamble */

/* A packet's clear header, copied, and what its bits say. Whoever reads it reads this copy alone. */
typedef struct dv_header {
    uint8_t bytes[DV_HEADER_MAX_LEN];
    size_t len;           /* of the clear header */
    size_t extension_len; /* of the extension's body, by the preamble */
    bool is_rtcp;
    bool has_padding;
} dv_header;

typedef struct dv_why {
    dv_fault fault;
    uint32_t value;
    uint32_t limit;
} dv_why;

/* The status that a fault gives a packet that was to be opened. */
dv_status dv_fault_status(dv_fault fault);

/* Copy and read the clear header of a plain packet of packet_len bytes, or of one that is sealed. */
dv_why dv_header_read_plain(dv_header *header, const uint8_t *packet, size_t packet_len);
dv_why dv_header_read_sealed(dv_header *header, const uint8_t *packet, size_t packet_len);

/* Copy and read a clear header that is given by itself: its length must be what its bits call for. */
dv_why dv_header_read_alone(dv_header *header, const uint8_t *bytes, size_t len);

uint16_t dv_header_sequence(const dv_header *header);
uint32_t dv_header_ssrc(const dv_header *header);

/* Whether extension and padding fit into the body, and how many bytes of it are padding. RTCP keeps its padding. */
dv_why dv_body_read(const dv_header *header, const uint8_t *body, size_t body_len, uint8_t *padding_len);

/* The clear header of a stream's next packet. */
void dv_header_write(dv_header *header, const dv_stream *stream, bool marker);

#endif
