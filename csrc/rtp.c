#include "rtp.h"

#include <string.h>

#define RTP_VERSION 2
#define KEEP_ALIVE_LEN 8
#define DISCOVERY_LEN 74

static const dv_why fine = {DV_FAULT_NONE, 0, 0};

static dv_why why(dv_fault fault, size_t value, size_t limit)
{
    dv_why reason = {fault, value > UINT32_MAX ? UINT32_MAX : (uint32_t)value, (uint32_t)limit};
    return reason;
}

static uint16_t read_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)read_u16(bytes) << 16 | read_u16(bytes + 2);
}

static void write_u16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

static void write_u32(uint8_t *bytes, uint32_t value)
{
    write_u16(bytes, (uint16_t)(value >> 16));
    write_u16(bytes + 2, (uint16_t)value);
}

dv_status dv_fault_status(dv_fault fault)
{
    static const dv_status statuses[DV_FAULT_COUNT] = {
        [DV_FAULT_NONE] = DV_OK,
        [DV_FAULT_SHORT] = DV_TRUNCATED,
        [DV_FAULT_LONG] = DV_MALFORMED,
        [DV_FAULT_VERSION] = DV_MALFORMED,
        [DV_FAULT_HEADER_LEN] = DV_MALFORMED,
        [DV_FAULT_EXTENSION_LONG] = DV_MALFORMED,
        [DV_FAULT_PADDING_ZERO] = DV_MALFORMED,
        [DV_FAULT_PADDING_LONG] = DV_MALFORMED,
        [DV_FAULT_KEEP_ALIVE] = DV_NOT_MEDIA,
        [DV_FAULT_DISCOVERY] = DV_NOT_MEDIA,
        [DV_FAULT_TAG] = DV_BAD_TAG,
        [DV_FAULT_REPLAY] = DV_REPLAYED,
        [DV_FAULT_DATAGRAM] = DV_TRUNCATED,
        /* Those of frames are never found in a packet that was to be opened. */
        [DV_FAULT_ROOM] = DV_MALFORMED,
        [DV_FAULT_UNCUT] = DV_MALFORMED,
        [DV_FAULT_NOTHING] = DV_MALFORMED,
        [DV_FAULT_START_CODE] = DV_MALFORMED,
        [DV_FAULT_UNIT_SHORT] = DV_MALFORMED,
        [DV_FAULT_FORBIDDEN] = DV_MALFORMED,
        [DV_FAULT_NAL_TYPE] = DV_MALFORMED,
        [DV_FAULT_OBU_LONG] = DV_MALFORMED,
        [DV_FAULT_OBU_SIZE] = DV_MALFORMED,
        [DV_FAULT_FRAME_MARKER] = DV_MALFORMED,
        [DV_FAULT_SUPERFRAME] = DV_MALFORMED,
    };
    return statuses[fault];
}

/* RFC 5761, section 4: payload types 64 to 95 with the marker bit set are left to RTCP's packet types. */
static bool is_rtcp(const uint8_t *bytes)
{
    return bytes[1] >= 192 && bytes[1] <= 223;
}

/* Read the header of a packet of which room bytes may be header and body; overhead_len more stand behind them. */
static dv_why read_header(dv_header *header, const uint8_t *bytes, size_t room, size_t overhead_len)
{
    size_t copied = room < DV_HEADER_MAX_LEN ? room : DV_HEADER_MAX_LEN;
    if (room < DV_RTCP_HEADER_LEN)
        return why(DV_FAULT_SHORT, room + overhead_len, DV_RTCP_HEADER_LEN + overhead_len);
    if (copied == DV_HEADER_MAX_LEN)
        memcpy(header->bytes, bytes, DV_HEADER_MAX_LEN); /* of a fixed length: a few moves, not a call */
    else
        memcpy(header->bytes, bytes, copied);
    if (header->bytes[0] >> 6 != RTP_VERSION)
        return why(DV_FAULT_VERSION, header->bytes[0] >> 6, RTP_VERSION);

    header->is_rtcp = is_rtcp(header->bytes);
    header->has_padding = header->bytes[0] & 0x20;
    header->extension_len = 0;
    if (header->is_rtcp) {
        header->len = DV_RTCP_HEADER_LEN;
        return fine;
    }
    bool has_extension = header->bytes[0] & 0x10;
    header->len = DV_RTP_FIXED_LEN + 4u * (header->bytes[0] & 0x0f) + (has_extension ? 4 : 0);
    if (room < header->len)
        return why(DV_FAULT_SHORT, room + overhead_len, header->len + overhead_len);
    if (has_extension)
        header->extension_len = 4u * read_u16(header->bytes + header->len - 2);
    return fine;
}

dv_why dv_header_read_plain(dv_header *header, const uint8_t *packet, size_t packet_len)
{
    if (packet_len > DV_PACKET_MAX_LEN - DV_OVERHEAD_LEN)
        return why(DV_FAULT_LONG, packet_len, DV_PACKET_MAX_LEN - DV_OVERHEAD_LEN);
    return read_header(header, packet, packet_len, 0);
}

dv_why dv_header_read_sealed(dv_header *header, const uint8_t *packet, size_t packet_len)
{
    if (packet_len == KEEP_ALIVE_LEN)
        return why(DV_FAULT_KEEP_ALIVE, packet_len, 0);
    if (packet_len > DV_PACKET_MAX_LEN)
        return why(DV_FAULT_LONG, packet_len, DV_PACKET_MAX_LEN);
    if (packet_len < DV_RTCP_HEADER_LEN + DV_OVERHEAD_LEN)
        return why(DV_FAULT_SHORT, packet_len, DV_RTCP_HEADER_LEN + DV_OVERHEAD_LEN);
    /* IP discovery: type 1 (request) or 2 (response), then the length of the rest, 70. */
    if (packet_len == DISCOVERY_LEN && packet[0] == 0 && (packet[1] == 1 || packet[1] == 2) &&
        read_u16(packet + 2) == 70)
        return why(DV_FAULT_DISCOVERY, packet_len, 0);
    return read_header(header, packet, packet_len - DV_OVERHEAD_LEN, DV_OVERHEAD_LEN);
}

dv_why dv_header_read_alone(dv_header *header, const uint8_t *bytes, size_t len)
{
    dv_why reason = dv_header_read_plain(header, bytes, len);
    if (reason.fault == DV_FAULT_NONE && len != header->len)
        return why(DV_FAULT_HEADER_LEN, len, header->len);
    return reason;
}

uint16_t dv_header_sequence(const dv_header *header)
{
    return read_u16(header->bytes + 2);
}

uint32_t dv_header_ssrc(const dv_header *header)
{
    return read_u32(header->bytes + (header->is_rtcp ? 4 : 8));
}

dv_why dv_body_read(const dv_header *header, const uint8_t *body, size_t body_len, uint8_t *padding_len)
{
    *padding_len = 0;
    if (header->extension_len > body_len)
        return why(DV_FAULT_EXTENSION_LONG, header->extension_len, body_len);
    if (header->is_rtcp || !header->has_padding)
        return fine;
    size_t room = body_len - header->extension_len;
    if (room == 0)
        return why(DV_FAULT_PADDING_LONG, 1, 0); /* there is no byte to hold the count */
    uint8_t count = body[body_len - 1];
    if (count == 0)
        return why(DV_FAULT_PADDING_ZERO, 0, 1);
    if (count > room)
        return why(DV_FAULT_PADDING_LONG, count, room);
    *padding_len = count;
    return fine;
}

void dv_header_write(dv_header *header, const dv_stream *stream, bool marker)
{
    uint8_t *bytes = header->bytes;
    bytes[0] = (uint8_t)(RTP_VERSION << 6 | (stream->has_extension ? 0x10 : 0));
    bytes[1] = (uint8_t)((marker ? 0x80 : 0) | stream->payload_type);
    write_u16(bytes + 2, stream->sequence);
    write_u32(bytes + 4, stream->timestamp);
    write_u32(bytes + 8, stream->ssrc);
    header->len = DV_RTP_FIXED_LEN;
    header->extension_len = 0;
    if (stream->has_extension) {
        write_u16(bytes + 12, stream->extension_profile);
        write_u16(bytes + 14, (uint16_t)(stream->extension_len / 4));
        header->len += 4;
        header->extension_len = stream->extension_len;
    }
    header->is_rtcp = false;
    header->has_padding = false;
}
