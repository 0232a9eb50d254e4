/*
 * What a frame consists of, read once from the frame and once from the payloads that a packetizer made of it, with nothing
 * of what is tested: the whole frame, or its NAL units or OBUs, each behind its length.
 */
#ifndef FUZZ_FRAMES_H
#define FUZZ_FRAMES_H

#include "fuzz.h"

typedef struct content {
    uint8_t *bytes;
    size_t len;
    size_t unit; /* where the length of the last unit stands */
} content;

/* A frame's units take at most 4 bytes more each than they do in the frame, where each has at least 1. */
static inline content content_new(size_t frame_len)
{
    content made = {malloc(5 * frame_len + 64), 0, 0};
    MUST(made.bytes);
    return made;
}

static inline void add(content *to, const uint8_t *bytes, size_t len)
{
    if (len)
        memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

static inline void begin_unit(content *to)
{
    to->unit = to->len;
    to->len += 4;
}

static inline void end_unit(content *to)
{
    uint32_t len = (uint32_t)(to->len - to->unit - 4);
    memcpy(to->bytes + to->unit, &len, sizeof len);
}

static inline void add_unit(content *to, const uint8_t *bytes, size_t len)
{
    begin_unit(to);
    add(to, bytes, len);
    end_unit(to);
}

/* ITU-T H.264 and H.265, annex B; access unit delimiters are left out. */
static inline void add_nal_units(content *to, const uint8_t *frame, size_t len, bool is_h265)
{
    size_t start = 0, zeros = 0;
    bool inside = false;
    for (size_t at = 0; at <= len; at++) {
        bool code = at < len && frame[at] == 1 && zeros >= 2;
        if (code || at == len) {
            size_t end = at;
            while (end > start && frame[end - 1] == 0)
                end--;
            unsigned type = !inside || end == start ? 0 : is_h265 ? frame[start] >> 1 & 63 : frame[start] & 31;
            if (inside && type != (is_h265 ? 35 : 9))
                add_unit(to, frame + start, end - start);
            inside = true;
            start = at + 1;
        }
        zeros = at < len && frame[at] == 0 ? zeros + 1 : 0;
    }
}

/* RFC 6184, section 5.8, and RFC 7798, section 4.4.3. */
static inline void add_nal_payload(content *to, const uint8_t *payload, size_t len, bool is_h265)
{
    size_t header_len = is_h265 ? 2 : 1;
    MUST(len > header_len || (len == header_len && !is_h265) || len == header_len);
    unsigned type = is_h265 ? payload[0] >> 1 & 63 : payload[0] & 31;
    if (type != (is_h265 ? 49 : 28)) {
        add_unit(to, payload, len);
        return;
    }
    MUST(len > header_len + 1);
    uint8_t fragment = payload[header_len], header[2] = {payload[0], payload[1]};
    header[0] = is_h265 ? (uint8_t)((payload[0] & 0x81) | (fragment & 63) << 1)
                        : (uint8_t)((payload[0] & 0xe0) | (fragment & 31));
    MUST((fragment & 0xc0) != 0xc0);
    if (fragment & 0x80) {
        begin_unit(to);
        add(to, header, header_len);
    }
    add(to, payload + header_len + 1, len - header_len - 1);
    if (fragment & 0x40)
        end_unit(to);
}

/* AV1 bitstream specification, sections 5.3 and 4.10.5; temporal delimiters and tile lists are left out. */
static inline void add_obus(content *to, const uint8_t *frame, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint8_t header[2] = {frame[at], 0};
        size_t header_len = header[0] & 4 ? 2 : 1, obu_len = 0, shift = 0;
        if (header_len == 2)
            header[1] = frame[at + 1];
        at += header_len;
        if (header[0] & 2) {
            do
                obu_len |= (size_t)(frame[at] & 127) << shift;
            while (shift += 7, frame[at++] & 128);
        } else {
            obu_len = len - at;
        }
        header[0] &= 0xfd;
        unsigned type = header[0] >> 3;
        if (type != 2 && type != 8) {
            begin_unit(to);
            add(to, header, header_len);
            add(to, frame + at, obu_len);
            end_unit(to);
        }
        at += obu_len;
    }
}

/* RTP Payload Format for AV1, section 4.4, with one element a packet. */
static inline void add_av1_payload(content *to, const uint8_t *payload, size_t len)
{
    MUST(len >= 2 && (payload[0] & 0x30) == 0x10);
    if (!(payload[0] & 0x80))
        begin_unit(to);
    add(to, payload + 1, len - 1);
    if (!(payload[0] & 0x40))
        end_unit(to);
}

static inline void add_frame(content *to, const char *packetizer, const uint8_t *frame, size_t len)
{
    if (!strcmp(packetizer, "h264") || !strcmp(packetizer, "h265"))
        add_nal_units(to, frame, len, packetizer[3] == '5');
    else if (!strcmp(packetizer, "av1"))
        add_obus(to, frame, len);
    else
        add(to, frame, len);
}

static inline void add_payload(content *to, const char *packetizer, const uint8_t *payload, size_t len)
{
    if (!strcmp(packetizer, "h264") || !strcmp(packetizer, "h265")) {
        add_nal_payload(to, payload, len, packetizer[3] == '5');
    } else if (!strcmp(packetizer, "av1")) {
        add_av1_payload(to, payload, len);
    } else {
        size_t descriptor_len = 0; /* RFC 7741, section 4.2; RFC 9628, section 4.2 */
        if (!strcmp(packetizer, "vp8"))
            descriptor_len = 4;
        else if (!strcmp(packetizer, "vp9"))
            descriptor_len = payload[0] & 0x40 ? 4 : 3;
        MUST(len > descriptor_len || descriptor_len == 0);
        add(to, payload + descriptor_len, len - descriptor_len);
    }
}

#endif
