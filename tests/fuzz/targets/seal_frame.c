/*
 * Frames of any bytes through every packetizer, with any stream's numbers: what is planned is what is sealed, it opens, and
 * put together again it is the frame. A frame that changes after it was planned leaves nothing behind but zeros.
 */
#include "../frames.h"
#include "../packet.h"

#include "packetizer.h"

#define FIRST_NONCE 0xffffff00u /* some frames are longer than the nonces last */

typedef struct bed {
    dv_sealer *sealer;
    dv_opener *opener;
    dv_stream stream;
    size_t packetizer;
    uint8_t *frame;
    size_t frame_len;
    bool marker;
    uint32_t advance;
} bed;

static bed bed_new(input *from)
{
    bed made = {0};
    uint8_t choice = take(from);
    int mode = choice % DV_MODE_COUNT;
    made.packetizer = (choice >> 1) % (dv_packetizer_count() + 1);
    made.marker = choice & 32;
    made.stream.has_extension = choice >> 6 & 1;
    made.stream.max_packet_len = choice & 128 ? take_u32(from) : take_len(from);
    made.stream.payload_type = take(from);
    if (made.stream.payload_type >= 64 && made.stream.payload_type <= 95)
        made.stream.payload_type -= 64; /* with the marker they would be RTCP (RFC 5761, section 4) */
    made.stream.extension_len = made.stream.has_extension ? (uint16_t)take_len(from) : 0;
    made.stream.extension_profile = 0xbede;
    made.stream.extension = take_bytes(from, made.stream.extension_len);
    made.stream.sequence = (uint16_t)take_u16(from);
    made.stream.picture_id = take_u16(from) & 0x7fff;
    made.stream.ssrc = 0x01020304;
    made.stream.timestamp = made.advance = 0xfffffc40;
    MUST(dv_sealer_new(&made.sealer, mode, fuzz_key, FIRST_NONCE, 0) == DV_DONE);
    MUST(dv_opener_new(&made.opener, mode, fuzz_key, 0) == DV_DONE);
    return made;
}

static size_t overhead_len(const dv_stream *stream)
{
    return 12 + (stream->has_extension ? 4u + stream->extension_len : 0u) + DV_OVERHEAD_LEN;
}

static bool has_room(const dv_stream *stream)
{
    return stream->payload_type < 128 && stream->extension_len % 4 == 0 &&
           stream->max_packet_len <= DV_PACKET_MAX_LEN && stream->max_packet_len > overhead_len(stream);
}

static void check_header(const bed *of, const uint8_t *packet, size_t i, bool last)
{
    const dv_stream *stream = &of->stream;
    uint8_t numbers[8] = {1, 2, 3, 4}; /* of the SSRC, behind the timestamp */
    MUST(packet[0] == (stream->has_extension ? 0x90 : 0x80));
    MUST(packet[1] == (stream->payload_type | (of->marker && last ? 128 : 0)));
    MUST((packet[2] << 8 | packet[3]) == (uint16_t)(stream->sequence + i));
    MUST(!memcmp(packet + 4, "\xff\xff\xfc\x40", 4) && !memcmp(packet + 8, numbers, 4));
    if (stream->has_extension)
        MUST(packet[12] == 0xbe && packet[13] == 0xde && (packet[14] << 8 | packet[15]) * 4 == stream->extension_len);
}

/* What the payloads of opened packets consist of. */
static void check_payloads(const bed *of, const uint8_t *plain, const size_t *ends, size_t count)
{
    const char *name = dv_packetizer_name(of->packetizer);
    content sent = content_new(of->frame_len), received = content_new(of->frame_len);
    size_t start = 0, before_len = overhead_len(&of->stream) - DV_OVERHEAD_LEN;
    for (size_t i = 0; i < count; start = ends[i++]) {
        const uint8_t *body = plain + start + before_len - of->stream.extension_len;
        MUST(of->stream.extension_len == 0 || !memcmp(body, of->stream.extension, of->stream.extension_len));
        add_payload(&received, name, plain + start + before_len, ends[i] - start - before_len - DV_OVERHEAD_LEN);
    }
    add_frame(&sent, name, of->frame, of->frame_len);
    MUST(received.len == sent.len && !memcmp(received.bytes, sent.bytes, sent.len));
    free(sent.bytes);
    free(received.bytes);
}

static void check_sealed(const bed *of, const dv_plan *plan, const uint8_t *sealed, const size_t *ends)
{
    size_t count = plan->packet_count, start = 0;
    const uint8_t **packets = malloc(count * sizeof *packets);
    size_t *lens = malloc(count * sizeof *lens);
    dv_opened *opened = malloc(count * sizeof *opened);
    uint8_t *plain = fenced_new(plan->sealed_len), suffix[4];
    MUST(packets && lens && opened && ends[count - 1] == plan->sealed_len);
    for (size_t i = 0; i < count; start = ends[i++]) {
        MUST(ends[i] - start >= overhead_len(&of->stream) && ends[i] - start <= of->stream.max_packet_len);
        packets[i] = sealed + start;
        lens[i] = ends[i] - start;
        check_header(of, packets[i], i, i == count - 1);
        suffix_write(FIRST_NONCE + (uint32_t)i, false, suffix);
        MUST(!memcmp(sealed + ends[i] - 4, suffix, 4));
    }
    MUST(dv_opener_open_burst(of->opener, packets, lens, count, plain, plan->sealed_len, opened) == DV_DONE);
    for (size_t i = 0; i < count; i++)
        MUST(opened[i].status == DV_OK || (opened[i].status == DV_EMPTY && of->frame_len == 0));
    check_payloads(of, plain, ends, count);
    free(packets);
    free(lens);
    free(opened);
}

static void check_stream(const bed *of, const dv_stream *after, size_t packet_count)
{
    dv_stream expected = of->stream;
    expected.sequence = (uint16_t)(expected.sequence + packet_count);
    if (packet_count) {
        expected.timestamp += of->advance;
        if (dv_packetizer_get(of->packetizer)->has_picture_id)
            expected.picture_id = (expected.picture_id + 1) & 0x7fff;
    }
    MUST(!memcmp(&expected, after, sizeof expected));
}

static void check_refusal(const bed *of, const dv_refusal *refusal)
{
    MUST(refusal->fault > DV_FAULT_NONE && refusal->fault < DV_FAULT_COUNT && refusal->index <= of->frame_len);
}

/* Seal what was planned; where a byte of the frame has changed since, that may still fit. */
static void seal(bed *of, input *from, const dv_plan *plan, bool changed)
{
    const uint64_t left = dv_sealer_packets_left(of->sealer);
    dv_stream stream = of->stream;
    dv_refusal refusal = {0, DV_FAULT_NONE, 0, 0};
    output out = output_new(take_capacity(from, plan->sealed_len));
    size_t *ends = malloc(plan->packet_count * sizeof *ends);
    MUST(ends);
    dv_result result = dv_sealer_seal_frame(of->sealer, &stream, of->packetizer, plan, of->frame, of->frame_len,
                                            of->marker, of->advance, out.bytes, out.capacity, ends, &refusal);
    bool taken = out.capacity >= plan->sealed_len && plan->packet_count <= left;
    if (out.capacity < plan->sealed_len)
        MUST(result == DV_ERROR_CAPACITY && dv_sealer_packets_left(of->sealer) == left);
    else if (!taken)
        MUST(result == DV_ERROR_EXHAUSTED && dv_sealer_packets_left(of->sealer) == 0);
    else
        MUST(dv_sealer_packets_left(of->sealer) == left - plan->packet_count);
    if (taken && changed)
        MUST(result == DV_DONE || result == DV_ERROR_CHANGED || result == DV_ERROR_PACKET);
    else if (taken)
        MUST(result == DV_DONE);
    MUST(output_untouched_from(&out, taken ? plan->sealed_len : 0));
    check_stream(of, &stream, result == DV_DONE ? plan->packet_count : 0);
    if (result == DV_DONE)
        check_sealed(of, plan, out.bytes, ends);
    else if (taken)
        MUST(all_zero(out.bytes, plan->sealed_len));
    if (result == DV_ERROR_PACKET)
        check_refusal(of, &refusal);
    free(ends);
}

/* Where the frame lies in the output, or the extension does, nothing is sealed. */
static void check_overlap(bed *of, const dv_plan *plan)
{
    dv_stream stream = of->stream;
    dv_refusal refusal;
    output out = output_new(plan->sealed_len + of->frame_len);
    uint8_t *frame = out.bytes + plan->sealed_len - 1;
    if (!of->frame_len)
        return;
    memcpy(frame, of->frame, of->frame_len);
    output_note(&out);
    MUST(dv_sealer_seal_frame(of->sealer, &stream, of->packetizer, plan, frame, of->frame_len, 1, 0, out.bytes,
                              plan->sealed_len, NULL, &refusal) == DV_ERROR_OVERLAP);
    MUST(output_untouched_from(&out, 0));
    check_stream(of, &stream, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    input from = input_begin(data, len);
    bed of = bed_new(&from);
    dv_plan plan = {0, 0};
    dv_refusal refusal = {0, DV_FAULT_NONE, 0, 0};
    uint8_t change = take(&from), change_at = take(&from);
    input rest = {from.bytes, from.left ? 1 : 0}; /* the capacity's choice, and then the frame */
    take(&from);
    of.frame_len = from.left;
    of.frame = take_bytes(&from, of.frame_len);
    bool possible = of.packetizer < dv_packetizer_count() && has_room(&of.stream);
    dv_result result = dv_stream_plan(&of.stream, of.packetizer, of.frame, of.frame_len, &plan, &refusal);
    if (!possible) {
        MUST(result == DV_ERROR_ARGUMENT);
    } else if (result == DV_ERROR_PACKET) {
        check_refusal(&of, &refusal);
    } else if (plan.sealed_len < FENCED_MAX_LEN / 2) { /* beyond, it is long extensions in many packets */
        MUST(result == DV_DONE && plan.packet_count > 0);
        MUST(plan.sealed_len <= plan.packet_count * of.stream.max_packet_len);
        check_overlap(&of, &plan);
        if (of.frame_len)
            of.frame[change_at * of.frame_len / 256] ^= change;
        seal(&of, &rest, &plan, change);
    }
    dv_sealer_free(of.sealer);
    dv_opener_free(of.opener);
    return 0;
}
