/* A key and its nonce counter: one packet, a burst, a frame. */
#include "dispatch.h"
#include "packetizer.h"
#include "places.h"
#include "platform.h"
#include "rtp.h"

#include <sodium.h>
#include <string.h>

#define NONCE_END ((uint64_t)1 << 32)

struct dv_sealer {
    dv_cipher cipher;
    dv_lock lock;        /* guards all below, and the cipher */
    uint64_t next_nonce; /* NONCE_END once the counter is used up, for ever */
    unsigned generation; /* of the process that made it */
    bool big_endian;
    bool closed;
};

dv_result dv_sealer_new(dv_sealer **sealer, int mode, const uint8_t *key, uint32_t first_nonce, int big_endian)
{
    *sealer = NULL;
    if (mode < 0 || mode >= DV_MODE_COUNT)
        return DV_ERROR_ARGUMENT;
    dv_sealer *made = dv_aligned_new(sizeof *made);
    if (!made)
        return DV_ERROR_MEMORY;
    dv_result result = dv_cipher_init(&made->cipher, (dv_mode)mode, DV_SEAL, key);
    if (result == DV_DONE && !dv_lock_init(&made->lock)) {
        dv_cipher_wipe(&made->cipher);
        result = DV_ERROR_MEMORY;
    }
    if (result != DV_DONE) {
        dv_aligned_free(made);
        return result;
    }
    made->next_nonce = first_nonce;
    made->generation = dv_fork_generation();
    made->big_endian = big_endian;
    *sealer = made;
    return DV_DONE;
}

void dv_sealer_close(dv_sealer *sealer)
{
    void *host_state = dv_enter(&sealer->lock, 0);
    if (!sealer->closed)
        dv_cipher_wipe(&sealer->cipher);
    sealer->closed = true;
    dv_leave(&sealer->lock, host_state);
}

void dv_sealer_free(dv_sealer *sealer)
{
    if (!sealer)
        return;
    dv_sealer_close(sealer);
    dv_lock_destroy(&sealer->lock);
    dv_aligned_free(sealer);
}

uint64_t dv_sealer_packets_left(dv_sealer *sealer)
{
    void *host_state = dv_enter(&sealer->lock, 0);
    uint64_t left = sealer->closed ? 0 : NONCE_END - sealer->next_nonce;
    dv_leave(&sealer->lock, host_state);
    return left;
}

/* Take count nonces at once. When they are not all there, none is taken, now or ever after. */
static dv_result reserve(dv_sealer *sealer, size_t count, uint32_t *first)
{
    if (sealer->generation != dv_fork_generation())
        return DV_ERROR_FORKED;
    if (sealer->closed)
        return DV_ERROR_CLOSED;
    if (sealer->next_nonce == NONCE_END || count > NONCE_END - sealer->next_nonce) {
        sealer->next_nonce = NONCE_END;
        return DV_ERROR_EXHAUSTED;
    }
    *first = (uint32_t)sealer->next_nonce;
    sealer->next_nonce += count;
    return DV_DONE;
}

static void write_suffix(const dv_sealer *sealer, uint32_t counter, uint8_t suffix[DV_SUFFIX_LEN])
{
    const uint8_t little[DV_SUFFIX_LEN] = {(uint8_t)counter, (uint8_t)(counter >> 8), (uint8_t)(counter >> 16),
                                           (uint8_t)(counter >> 24)};
    const uint8_t big[DV_SUFFIX_LEN] = {little[3], little[2], little[1], little[0]};
    memcpy(suffix, sealer->big_endian ? big : little, DV_SUFFIX_LEN);
}

/* Header, ciphertext, tag, suffix. The header is a copy, so that what is authenticated is what was checked. */
static bool seal_packet(dv_sealer *sealer, uint32_t counter, const dv_header *header, const uint8_t *body,
                        size_t body_len, uint8_t *out)
{
    uint8_t nonce[DV_NONCE_MAX_LEN] = {0};
    write_suffix(sealer, counter, nonce);
    memcpy(out, header->bytes, header->len);
    out += header->len;
    memcpy(out + body_len + DV_TAG_LEN, nonce, DV_SUFFIX_LEN);
    return dv_cipher_seal(&sealer->cipher, nonce, header->bytes, header->len, body, body_len, out);
}

static dv_result refuse(dv_refusal *refusal, size_t index, dv_why why)
{
    refusal->index = index;
    refusal->fault = why.fault;
    refusal->value = why.value;
    refusal->limit = why.limit;
    return DV_ERROR_PACKET;
}

static dv_why read_parts(dv_header *header, const uint8_t *header_bytes, size_t header_len, const uint8_t *payload,
                         size_t payload_len)
{
    const size_t limit = DV_PACKET_MAX_LEN - DV_OVERHEAD_LEN;
    uint8_t padding_len;
    dv_why why = dv_header_read_alone(header, header_bytes, header_len);
    if (why.fault != DV_FAULT_NONE)
        return why;
    if (payload_len > limit - header_len) {
        dv_why too_long = {DV_FAULT_LONG, (uint32_t)(payload_len > UINT32_MAX ? UINT32_MAX : payload_len),
                           (uint32_t)(limit - header_len)};
        return too_long;
    }
    return dv_body_read(header, payload, payload_len, &padding_len);
}

dv_result dv_sealer_seal(dv_sealer *sealer, const uint8_t *header_bytes, size_t header_len, const uint8_t *payload,
                         size_t payload_len, uint8_t *out, size_t out_capacity, dv_refusal *refusal)
{
    dv_header header;
    uint32_t counter;
    dv_why why = read_parts(&header, header_bytes, header_len, payload, payload_len);
    if (why.fault != DV_FAULT_NONE)
        return refuse(refusal, 0, why);
    size_t sealed_len = header_len + payload_len + DV_OVERHEAD_LEN;
    if (out_capacity < sealed_len)
        return DV_ERROR_CAPACITY;
    if (!dv_overlap_allowed(header_bytes, header_len, out, out, sealed_len) ||
        !dv_overlap_allowed(payload, payload_len, out + header_len, out, sealed_len))
        return DV_ERROR_OVERLAP;

    void *host_state = dv_enter(&sealer->lock, sealed_len);
    dv_result result = reserve(sealer, 1, &counter);
    if (result == DV_DONE && !seal_packet(sealer, counter, &header, payload, payload_len, out)) {
        dv_wipe(out, sealed_len);
        result = DV_ERROR_ENGINE;
    }
    dv_cipher_rest(&sealer->cipher);
    dv_leave(&sealer->lock, host_state);
    return result;
}

/* The body of a plain packet, when the packet may be sealed. */
static dv_why read_plain(dv_header *header, const uint8_t *packet, size_t packet_len)
{
    uint8_t padding_len;
    dv_why why = dv_header_read_plain(header, packet, packet_len);
    if (why.fault != DV_FAULT_NONE)
        return why;
    return dv_body_read(header, packet + header->len, packet_len - header->len, &padding_len);
}

/* Look at every packet before a nonce is used. */
static dv_result check_packets(const uint8_t *const *packets, const size_t *packet_lens, size_t count,
                               dv_refusal *refusal)
{
    dv_header header;
    for (size_t i = 0; i < count; i++) {
        dv_why why = read_plain(&header, packets[i], packet_lens[i]);
        if (why.fault != DV_FAULT_NONE)
            return refuse(refusal, i, why);
    }
    return DV_DONE;
}

/* Seal a burst that was checked. What another thread has changed since is copied and checked again, packet by packet. */
static dv_result seal_checked(dv_sealer *sealer, const uint8_t *const *packets, const size_t *packet_lens, size_t count,
                              dv_places *places, uint32_t counter, dv_refusal *refusal)
{
    dv_header header;
    uint8_t *place;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *packet = packets[i];
        size_t packet_len = packet_lens[i];
        dv_why why = read_plain(&header, packet, packet_len);
        if (why.fault != DV_FAULT_NONE)
            return refuse(refusal, i, why);
        dv_result result = dv_places_take(places, packet, packet_len, &place);
        if (result != DV_DONE)
            return result;
        if (!seal_packet(sealer, counter + (uint32_t)i, &header, packet + header.len, packet_len - header.len, place))
            return DV_ERROR_ENGINE;
    }
    return DV_DONE;
}

dv_result dv_sealer_seal_burst(dv_sealer *sealer, const uint8_t *const *packets, const size_t *packet_lens,
                               size_t count, uint8_t *out, size_t out_capacity, dv_refusal *refusal)
{
    dv_places places;
    uint32_t counter;
    dv_result result = check_packets(packets, packet_lens, count, refusal);
    if (result == DV_DONE)
        result = dv_places_plan(&places, packets, packet_lens, count, DV_OVERHEAD_LEN, out, out_capacity);
    if (result != DV_DONE)
        return result;

    void *host_state = dv_enter(&sealer->lock, places.len);
    result = reserve(sealer, count, &counter);
    if (result == DV_DONE) {
        result = seal_checked(sealer, packets, packet_lens, count, &places, counter, refusal);
        if (result != DV_DONE)
            dv_wipe(out, places.len);
    }
    dv_cipher_rest(&sealer->cipher);
    dv_leave(&sealer->lock, host_state);
    return result;
}

/* The bytes of a packet that are neither payload nor fixed by it: header, extension, tag, suffix. */
static size_t frame_overhead(const dv_stream *stream)
{
    return DV_RTP_FIXED_LEN + (stream->has_extension ? 4u + stream->extension_len : 0) + DV_OVERHEAD_LEN;
}

/* The payload of all packets of a frame but the last; 0 where there is no room for any. */
static size_t payload_room(const dv_stream *stream)
{
    size_t overhead = frame_overhead(stream);
    if (stream->max_packet_len > DV_PACKET_MAX_LEN || stream->max_packet_len <= overhead ||
        stream->payload_type > 127 || stream->extension_len % 4)
        return 0;
    return stream->max_packet_len - overhead;
}

size_t dv_stream_sealed_len(const dv_stream *stream, size_t frame_len)
{
    size_t room = payload_room(stream);
    if (!room || frame_len > SIZE_MAX / 2 / stream->max_packet_len)
        return 0;
    return frame_len + (frame_len ? (frame_len - 1) / room + 1 : 1) * frame_overhead(stream);
}

/* Of what advances with each frame it reads nothing: a frame is planned without the lock that another one advances under. */
static dv_cut cut_begin(const dv_stream *stream, const uint8_t *frame, size_t frame_len)
{
    dv_cut cut = {0};
    cut.frame = frame;
    cut.len = frame_len;
    cut.room = payload_room(stream);
    return cut;
}

dv_result dv_stream_plan(const dv_stream *stream, size_t packetizer, const uint8_t *frame, size_t frame_len,
                         dv_plan *plan, dv_refusal *refusal)
{
    const dv_packetizer *chosen = dv_packetizer_get(packetizer);
    size_t pieces_len;
    if (!chosen || dv_stream_sealed_len(stream, frame_len) == 0)
        return DV_ERROR_ARGUMENT;
    dv_cut cut = cut_begin(stream, frame, frame_len);
    if (dv_packetizer_measure(chosen, &cut, &plan->packet_count, &pieces_len) == DV_STEP_REFUSED) {
        *refusal = cut.refusal;
        return DV_ERROR_PACKET;
    }
    plan->sealed_len = pieces_len + plan->packet_count * frame_overhead(stream);
    return DV_DONE;
}

/* A piece is sealed from where it is; with an extension or a prefix, all is put together in the output and sealed there. */
static bool seal_piece(dv_sealer *sealer, uint32_t counter, const dv_stream *stream, bool marker, const dv_piece *piece,
                       uint8_t *out)
{
    dv_header header;
    dv_header_write(&header, stream, marker);
    if (!header.extension_len && !piece->prefix_len)
        return seal_packet(sealer, counter, &header, piece->bytes, piece->len, out);
    uint8_t *body = out + header.len, *end = body;
    if (header.extension_len)
        memcpy(end, stream->extension, header.extension_len);
    end += header.extension_len;
    memcpy(end, piece->prefix, piece->prefix_len);
    end += piece->prefix_len;
    if (piece->len)
        memcpy(end, piece->bytes, piece->len);
    return seal_packet(sealer, counter, &header, body, (size_t)(end - body) + piece->len, out);
}

/*
 * Cut and seal a frame as it was planned; what another thread has made of it since stays within the plan or ends in an
 * error. Advances the stream's sequence number.
 */
static dv_result seal_pieces(dv_sealer *sealer, dv_stream *stream, const dv_packetizer *packetizer, dv_cut *cut,
                             const dv_plan *plan, bool marker, uint32_t counter, uint8_t *out, size_t *ends)
{
    const size_t overhead = frame_overhead(stream);
    size_t taken = 0, count = 0;
    dv_piece piece;
    dv_step step = dv_packetizer_begin(packetizer, cut);
    while (step == DV_STEP_PIECE && (step = packetizer->next(cut, &piece)) == DV_STEP_PIECE) {
        size_t payload_len = piece.prefix_len + piece.len, left = plan->sealed_len - taken;
        if (count == plan->packet_count || left < overhead || left - overhead < payload_len)
            return DV_ERROR_CHANGED;
        bool last = count == plan->packet_count - 1;
        if (!seal_piece(sealer, counter + (uint32_t)count, stream, marker && last, &piece, out + taken))
            return DV_ERROR_ENGINE;
        stream->sequence++;
        taken += overhead + payload_len;
        if (ends)
            ends[count] = taken;
        count++;
    }
    if (step == DV_STEP_REFUSED)
        return DV_ERROR_PACKET;
    return count == plan->packet_count && taken == plan->sealed_len ? DV_DONE : DV_ERROR_CHANGED;
}

/* Every packet reads the frame and the extension anew, so that neither may lie in the output at all. */
static bool frame_overlap_allowed(const dv_stream *stream, const uint8_t *frame, size_t frame_len, const uint8_t *out,
                                  size_t out_len)
{
    size_t extension_len = stream->has_extension ? stream->extension_len : 0;
    return dv_overlap_allowed(frame, frame_len, NULL, out, out_len) &&
           dv_overlap_allowed(stream->extension, extension_len, NULL, out, out_len);
}

dv_result dv_sealer_seal_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, const dv_plan *plan,
                               const uint8_t *frame, size_t frame_len, int marker, uint32_t advance, uint8_t *out,
                               size_t out_capacity, size_t *ends, dv_refusal *refusal)
{
    const dv_packetizer *chosen = dv_packetizer_get(packetizer);
    uint32_t counter;
    void *host_state = dv_enter(&sealer->lock, frame_len);
    dv_stream next = *stream; /* read under the lock; what advances is written back when the whole frame is sealed */
    dv_cut cut = cut_begin(&next, frame, frame_len);
    cut.picture_id = next.picture_id;
    dv_result result = DV_DONE;
    if (!chosen || dv_stream_sealed_len(&next, frame_len) == 0)
        result = DV_ERROR_ARGUMENT;
    else if (out_capacity < plan->sealed_len)
        result = DV_ERROR_CAPACITY;
    else if (!frame_overlap_allowed(&next, frame, frame_len, out, plan->sealed_len))
        result = DV_ERROR_OVERLAP;
    if (result == DV_DONE)
        result = reserve(sealer, plan->packet_count, &counter);
    if (result == DV_DONE) {
        result = seal_pieces(sealer, &next, chosen, &cut, plan, marker, counter, out, ends);
        if (result != DV_DONE)
            dv_wipe(out, plan->sealed_len);
        if (result == DV_ERROR_PACKET)
            *refusal = cut.refusal;
    }
    if (result == DV_DONE) {
        stream->sequence = next.sequence;
        stream->timestamp += advance;
        if (chosen->has_picture_id)
            stream->picture_id = (next.picture_id + 1) & 0x7fff;
    }
    dv_cipher_rest(&sealer->cipher);
    dv_leave(&sealer->lock, host_state);
    return result;
}
