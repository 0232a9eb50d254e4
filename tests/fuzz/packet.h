/* A plain packet, read once more by RFC 3550 (sections 5.1, 5.3.1), with nothing of what is tested. */
#ifndef FUZZ_PACKET_H
#define FUZZ_PACKET_H

#include "fuzz.h"

#define PLAIN_MAX_LEN 65515

typedef struct parts {
    dv_fault fault;
    bool is_rtcp;
    size_t clear_len; /* by the header's bits, once there are 8 bytes of version 2 */
    size_t extension_len;
    size_t padding_len;
} parts;

static inline parts take_apart(const uint8_t *packet, size_t len)
{
    parts of = {DV_FAULT_NONE, false, 0, 0, 0};
    if (len > PLAIN_MAX_LEN || len < 8) {
        of.fault = len < 8 ? DV_FAULT_SHORT : DV_FAULT_LONG;
        return of;
    }
    if ((packet[0] & 0xc0) != 0x80) {
        of.fault = DV_FAULT_VERSION;
        return of;
    }
    of.is_rtcp = (packet[1] & 0xe0) == 0xc0;
    bool extended = !of.is_rtcp && packet[0] & 16, padded = !of.is_rtcp && packet[0] & 32;
    of.clear_len = of.is_rtcp ? 8 : 12 + 4u * (packet[0] % 16) + 4u * extended;
    if (len < of.clear_len) {
        of.fault = DV_FAULT_SHORT;
        return of;
    }
    if (extended)
        of.extension_len = 4 * ((size_t)packet[of.clear_len - 2] * 256 + packet[of.clear_len - 1]);
    if (of.clear_len + of.extension_len > len) {
        of.fault = DV_FAULT_EXTENSION_LONG;
        return of;
    }
    size_t rest = len - of.clear_len - of.extension_len;
    if (padded)
        of.padding_len = rest ? packet[len - 1] : 1;
    if (padded && of.padding_len > rest)
        of.fault = DV_FAULT_PADDING_LONG;
    if (padded && of.padding_len == 0)
        of.fault = DV_FAULT_PADDING_ZERO;
    return of;
}

static inline void suffix_write(uint32_t counter, bool big_endian, uint8_t suffix[4])
{
    for (unsigned i = 0; i < 4; i++)
        suffix[big_endian ? 3 - i : i] = (uint8_t)(counter >> 8 * i);
}

#endif
