/* Headers and bodies of any bytes: what is read is what RFC 3550 says, and no byte more than there are. */
#include "../packet.h"

#include "rtp.h"

static void read_plain(const uint8_t *packet, size_t len)
{
    dv_header header;
    uint8_t padding_len = 0;
    parts of = take_apart(packet, len);
    dv_why why = dv_header_read_plain(&header, packet, len);
    if (why.fault == DV_FAULT_NONE) {
        MUST(header.len == of.clear_len && header.is_rtcp == of.is_rtcp && header.len <= len);
        MUST(!memcmp(header.bytes, packet, header.len));
        why = dv_body_read(&header, packet + header.len, len - header.len, &padding_len);
    }
    MUST(why.fault == of.fault);
    MUST(dv_fault_status(why.fault) < DV_STATUS_COUNT);
    if (why.fault == DV_FAULT_NONE)
        MUST(header.extension_len == of.extension_len && padding_len == of.padding_len);
    else
        MUST(padding_len == 0);
}

/* A clear header by itself. */
static void read_alone(const uint8_t *packet, size_t len)
{
    dv_header header;
    parts of = take_apart(packet, len);
    dv_fault fault = dv_header_read_alone(&header, packet, len).fault;
    if (of.clear_len == 0 || len < of.clear_len)
        MUST(fault == of.fault);
    else
        MUST(fault == (len == of.clear_len ? DV_FAULT_NONE : DV_FAULT_HEADER_LEN));
}

static void read_sealed(const uint8_t *packet, size_t len)
{
    dv_header header;
    dv_fault fault = dv_header_read_sealed(&header, packet, len).fault;
    if (len == 8)
        MUST(fault == DV_FAULT_KEEP_ALIVE);
    else if (len > DV_PACKET_MAX_LEN)
        MUST(fault == DV_FAULT_LONG);
    else if (len < 28)
        MUST(fault == DV_FAULT_SHORT);
    else if (len == 74 && packet[0] == 0 && (packet[1] == 1 || packet[1] == 2) && !memcmp(packet + 2, "\0\x46", 2))
        MUST(fault == DV_FAULT_DISCOVERY);
    else {
        parts of = take_apart(packet, len - DV_OVERHEAD_LEN);
        bool whole = of.clear_len && of.clear_len <= len - DV_OVERHEAD_LEN;
        MUST(fault == (whole ? DV_FAULT_NONE : of.fault));
        if (whole)
            MUST(header.len == of.clear_len && header.extension_len == (of.is_rtcp ? 0 : of.extension_len));
    }
}

/* A header that is written is read again as what it was written from. */
static void write_and_read(input *from)
{
    dv_header written, again;
    dv_stream stream = {0};
    stream.payload_type = take(from) % 64; /* 64 to 95 would be RTCP with the marker */
    stream.has_extension = take(from) & 1;
    stream.extension_profile = (uint16_t)take_u16(from);
    stream.extension_len = (uint16_t)(take_u16(from) & ~3u);
    stream.sequence = (uint16_t)take_u16(from);
    stream.timestamp = take_u32(from);
    stream.ssrc = take_u32(from);
    bool marker = take(from) & 1;
    dv_header_write(&written, &stream, marker);
    MUST(dv_header_read_alone(&again, written.bytes, written.len).fault == DV_FAULT_NONE);
    MUST(again.len == written.len && again.extension_len == (stream.has_extension ? stream.extension_len : 0u));
    MUST(!again.is_rtcp && !again.has_padding && again.bytes[1] == (stream.payload_type | marker << 7));
    MUST(dv_header_ssrc(&again) == stream.ssrc && dv_header_sequence(&again) == stream.sequence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    input from = input_begin(data, len);
    size_t packet_len = take_len(&from);
    const uint8_t *packet = take_bytes(&from, packet_len);
    read_plain(packet, packet_len);
    read_alone(packet, packet_len);
    read_sealed(packet, packet_len);
    write_and_read(&from);
    return 0;
}
