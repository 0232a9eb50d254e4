/* Packetizers: real frames, mutated ones, and frames that change between being planned and being sealed. */
#include "test_csrc.h"

#include "../packetizer.h"
#include "real_frames.h"

#include <stdlib.h>
#include <string.h>

#define REAL_COUNT (sizeof real_frames / sizeof real_frames[0])
#define MUTATIONS 2000 /* of real frames, through each packetizer */
#define GROWTH_MAX 64

typedef struct bed {
    dv_sealer *sealer;
    dv_opener *opener;
    uint64_t left;
    dv_stream stream;
    uint8_t extension[16];
} bed;

static size_t packetizer_named(const char *name)
{
    for (size_t i = 0; i < dv_packetizer_count(); i++)
        if (!strcmp(dv_packetizer_name(i), name))
            return i;
    exit(2);
}

static size_t overhead_len(const dv_stream *stream)
{
    return 32 + (stream->has_extension ? 4u + stream->extension_len : 0u);
}

static void bed_new(bed *made, size_t room)
{
    uint8_t key[DV_KEY_LEN];
    dv_mode mode = (dv_mode)random_below(DV_MODE_COUNT);
    memset(made, 0, sizeof *made);
    random_bytes(key, sizeof key);
    random_bytes(made->extension, sizeof made->extension);
    if (dv_sealer_new(&made->sealer, mode, key, 0, 0) != DV_DONE ||
        dv_opener_new(&made->opener, mode, key, 0) != DV_DONE)
        exit(2);
    made->left = NONCE_COUNT;
    made->stream.ssrc = (uint32_t)random_u64();
    made->stream.timestamp = (uint32_t)random_u64();
    made->stream.sequence = (uint16_t)random_u64();
    made->stream.picture_id = (uint16_t)(random_u64() & 0x7fff);
    made->stream.payload_type = 101;
    made->stream.has_extension = random_bool();
    made->stream.extension_len = (uint16_t)(made->stream.has_extension ? 4 * random_below(5) : 0);
    made->stream.extension = made->extension;
    made->stream.max_packet_len = (uint32_t)(overhead_len(&made->stream) + room);
}

static void bed_free(bed *of)
{
    dv_sealer_free(of->sealer);
    dv_opener_free(of->opener);
}

/* Sealed packets open, one behind the other, each within its limit, in sequence, and the last alone has the marker. */
static void packets_are_right(bed *of, const dv_stream *first, const dv_plan *plan, const output *out,
                              const size_t *ends)
{
    size_t count = plan->packet_count, start = 0;
    const uint8_t **packets = malloc(count * sizeof *packets);
    size_t *lens = malloc(count * sizeof *lens);
    dv_opened *opened = malloc(count * sizeof *opened);
    uint8_t *plain = exact_new(out->len);
    if (!packets || !lens || !opened)
        exit(2);
    for (size_t i = 0; i < count; start = ends[i++]) {
        packets[i] = out->bytes + start;
        lens[i] = ends[i] - start;
        CHECK(ends[i] > start && lens[i] <= first->max_packet_len);
        CHECK(packets[i][1] == (101 | (i == count - 1 ? 128 : 0)));
        CHECK((packets[i][2] << 8 | packets[i][3]) == (first->sequence + (int)i) % 65536);
    }
    CHECK(start == out->len);
    CHECK(dv_opener_open_burst(of->opener, packets, lens, count, plain, out->len, opened) == DV_DONE);
    for (size_t i = 0; i < count; i++) {
        CHECK(opened[i].status == DV_OK || (opened[i].status == DV_EMPTY && out->len == overhead_len(first)));
        CHECK(opened[i].extension_len == first->extension_len);
    }
    free(packets);
    free(lens);
    free(opened);
    free(plain);
}

static bool stream_went_on(const dv_stream *before, const dv_stream *after, size_t packet_count, bool has_picture_id)
{
    return after->sequence == (uint16_t)(before->sequence + packet_count) &&
           after->timestamp == before->timestamp + 960 &&
           after->picture_id == (before->picture_id + has_picture_id) % 0x8000;
}

/* Plan and seal a frame, which may be refused. */
static dv_result frame_through(bed *of, size_t packetizer, const uint8_t *frame, size_t len)
{
    dv_plan plan = {0, 0};
    dv_refusal refusal = {0, 0, 0, 0};
    dv_stream before = of->stream;
    dv_result result = dv_stream_plan(&of->stream, packetizer, frame, len, &plan, &refusal);
    if (result == DV_ERROR_PACKET) {
        CHECK(refusal.fault > DV_FAULT_NONE && refusal.fault < DV_FAULT_COUNT && refusal.index <= len);
        CHECK(refusal.value != refusal.limit || refusal.fault == DV_FAULT_OBU_SIZE);
        return result;
    }
    CHECK(result == DV_DONE && plan.packet_count > 0);
    CHECK(plan.sealed_len <= plan.packet_count * before.max_packet_len);
    output out = output_new(plan.sealed_len);
    size_t *ends = (size_t *)(void *)exact_new(plan.packet_count * sizeof *ends);
    CHECK(dv_sealer_seal_frame(of->sealer, &of->stream, packetizer, &plan, frame, len, 1, 960, out.bytes, out.len - 1,
                               ends, &refusal) == DV_ERROR_CAPACITY);
    CHECK(output_untouched(&out) && dv_sealer_packets_left(of->sealer) == of->left);
    result = dv_sealer_seal_frame(of->sealer, &of->stream, packetizer, &plan, frame, len, 1, 960, out.bytes, out.len,
                                  ends, &refusal);
    of->left -= plan.packet_count;
    if (CHECK(result == DV_DONE)) {
        packets_are_right(of, &before, &plan, &out, ends);
        CHECK(stream_went_on(&before, &of->stream, plan.packet_count, dv_packetizer_get(packetizer)->has_picture_id));
    }
    CHECK(dv_sealer_packets_left(of->sealer) == of->left);
    free(ends);
    output_free(&out);
    return result;
}

static void real_frames_at_every_room(void)
{
    for (size_t i = 0; i < REAL_COUNT; i++) {
        size_t packetizer = packetizer_named(real_frames[i].packetizer);
        const dv_packetizer *of = dv_packetizer_get(packetizer);
        uint8_t *frame = exact_copy(real_frames[i].bytes, real_frames[i].len);
        for (size_t room = 1; room < 1500; room += room < 80 ? 1 : 71) {
            bed made;
            bed_new(&made, room);
            begin_case();
            dv_result result = frame_through(&made, packetizer, frame, real_frames[i].len);
            bool fits = room >= of->min_room && (strcmp(of->name, "opus") || room >= real_frames[i].len);
            CHECK(result == (fits ? DV_DONE : DV_ERROR_PACKET));
            bed_free(&made);
        }
        free(frame);
    }
}

/* Every beginning of a real frame, in memory that ends there. */
static void real_frames_cut_short(void)
{
    for (size_t i = 0; i < REAL_COUNT; i++)
        for (size_t len = 0; len < real_frames[i].len; len += len < 100 ? 1 : 37)
            for (size_t packetizer = 0; packetizer < dv_packetizer_count(); packetizer++) {
                bed made;
                uint8_t *frame = exact_copy(real_frames[i].bytes, len);
                bed_new(&made, 4 + random_below(300));
                begin_case();
                frame_through(&made, packetizer, frame, len);
                bed_free(&made);
                free(frame);
            }
}

/* A start code, an OBU's size, a superframe's index: what packetizers look for. */
static void plant(uint8_t *frame, size_t len)
{
    static const uint8_t planted[][5] = {
        {0, 0, 0, 1, 0x65}, {0, 0, 1, 0x26, 1},       {0, 0, 1, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0x0f},
        {0x12, 0, 0x32, 3}, {0xc1, 0xff, 0xff, 0xc1}, {0, 0, 0, 0, 0}, {0x80, 0x80, 0x80, 0x80, 0x80},
    };
    const uint8_t *chosen = planted[random_below(sizeof planted / sizeof planted[0])];
    size_t at = random_below(len);
    for (size_t i = 0; i < 5 && at + i < len; i++)
        frame[at + i] = chosen[i];
}

/* A real frame, changed in one of several ways, in memory of exactly its length. */
static uint8_t *mutated(size_t *len)
{
    size_t chosen = random_below(REAL_COUNT), grown = random_below(4) ? 0 : random_below(GROWTH_MAX);
    *len = real_frames[chosen].len + grown;
    uint8_t *whole = exact_new(*len);
    memcpy(whole, real_frames[chosen].bytes, real_frames[chosen].len);
    random_bytes(whole + real_frames[chosen].len, grown);
    for (size_t changes = random_below(6); changes; changes--) {
        size_t at = random_below(random_bool() && *len > 40 ? 40 : *len);
        switch (random_below(3)) {
        case 0:
            whole[at] ^= (uint8_t)(1 << random_below(8));
            break;
        case 1:
            whole[at] = (uint8_t)random_u64();
            break;
        default:
            plant(whole, *len);
        }
    }
    if (random_below(4) == 0)
        *len = random_below(*len + 1);
    uint8_t *frame = exact_copy(whole, *len);
    free(whole);
    return frame;
}

static void mutations(size_t packetizer)
{
    bed made;
    bed_new(&made, 1);
    for (int i = 0; i < MUTATIONS; i++) {
        size_t len;
        uint8_t *frame = mutated(&len);
        made.stream.max_packet_len = (uint32_t)(overhead_len(&made.stream) + 1 + random_below(i % 3 == 0 ? 12 : 1400));
        begin_case();
        frame_through(&made, packetizer, frame, len);
        free(frame);
    }
    bed_free(&made);
}

/* A frame planned, and another one of its length sealed: within the plan, or wiped, its nonces burnt. */
static void changed(size_t packetizer)
{
    bed made;
    size_t done = 0;
    bed_new(&made, 1);
    for (int i = 0; i < MUTATIONS; i++) {
        size_t chosen = random_below(REAL_COUNT), len = real_frames[chosen].len;
        dv_plan plan;
        dv_refusal refusal = {0, 0, 0, 0};
        uint8_t *frame = exact_copy(real_frames[chosen].bytes, len);
        made.stream.max_packet_len = (uint32_t)(overhead_len(&made.stream) + 5 + random_below(300));
        if (dv_stream_plan(&made.stream, packetizer, frame, len, &plan, &refusal) != DV_DONE) {
            free(frame);
            continue;
        }
        for (size_t changes = random_below(4); changes; changes--)
            plant(frame, len);
        dv_stream before = made.stream;
        output out = output_new(plan.sealed_len);
        size_t *ends = (size_t *)(void *)exact_new(plan.packet_count * sizeof *ends);
        begin_case();
        dv_result result = dv_sealer_seal_frame(made.sealer, &made.stream, packetizer, &plan, frame, len, 1, 960,
                                                out.bytes, out.len, ends, &refusal);
        made.left -= plan.packet_count;
        CHECK(dv_sealer_packets_left(made.sealer) == made.left);
        if (result == DV_DONE) {
            packets_are_right(&made, &before, &plan, &out, ends);
            done++;
        } else {
            CHECK(result == DV_ERROR_CHANGED || result == DV_ERROR_PACKET);
            CHECK(all_are(out.bytes, out.len, 0));
            CHECK(!memcmp(&made.stream, &before, sizeof before));
        }
        free(ends);
        free(frame);
        output_free(&out);
    }
    CHECK(done > 0);
    bed_free(&made);
}

/* A plan of other packets than the frame has: more, fewer, longer, shorter. */
static void plans_of_other_frames(void)
{
    static const int counts[] = {-1, 1, 0, 0, 1, -1, 5, 0}, lens[] = {0, 0, -1, 1, 40, -40, -7, 300};
    for (size_t i = 0; i < REAL_COUNT; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            bed made;
            dv_plan plan;
            dv_refusal refusal;
            size_t packetizer = packetizer_named(real_frames[i].packetizer);
            bed_new(&made, 400);
            begin_case();
            CHECK(dv_stream_plan(&made.stream, packetizer, real_frames[i].bytes, real_frames[i].len, &plan, &refusal) ==
                  DV_DONE);
            plan.packet_count += (size_t)counts[j];
            plan.sealed_len += (size_t)lens[j];
            dv_stream before = made.stream;
            output out = output_new(plan.sealed_len);
            CHECK(dv_sealer_seal_frame(made.sealer, &made.stream, packetizer, &plan, real_frames[i].bytes,
                                       real_frames[i].len, 1, 960, out.bytes, out.len, NULL,
                                       &refusal) == DV_ERROR_CHANGED);
            CHECK(all_are(out.bytes, out.len, 0));
            CHECK(!memcmp(&made.stream, &before, sizeof before));
            CHECK(dv_sealer_packets_left(made.sealer) == NONCE_COUNT - plan.packet_count);
            output_free(&out);
            bed_free(&made);
        }
}

/* A frame too short for its packetizer, with a plan that says otherwise. */
static void plans_of_no_frame(void)
{
    for (size_t packetizer = 1; packetizer < dv_packetizer_count(); packetizer++)
        for (size_t len = 0; len < dv_packetizer_get(packetizer)->min_frame_len; len++) {
            bed made;
            dv_refusal refusal;
            uint8_t *frame = exact_copy((const uint8_t *)"\0\0\1\0\0\0\0\0", len);
            bed_new(&made, 100);
            dv_plan plan = {1, overhead_len(&made.stream) + 20};
            output out = output_new(plan.sealed_len);
            begin_case();
            CHECK(dv_sealer_seal_frame(made.sealer, &made.stream, packetizer, &plan, frame, len, 1, 960, out.bytes,
                                       out.len, NULL, &refusal) == DV_ERROR_PACKET);
            CHECK(refusal.fault == DV_FAULT_SHORT && refusal.value == len);
            CHECK(all_are(out.bytes, out.len, 0));
            output_free(&out);
            bed_free(&made);
            free(frame);
        }
}

static void numbers_of_none(void)
{
    bed made;
    dv_plan plan = {1, 100};
    dv_refusal refusal;
    uint8_t frame[8] = {0};
    bed_new(&made, 100);
    begin_case();
    output out = output_new(100);
    for (size_t i = 0; i < 2; i++) {
        size_t packetizer = i ? SIZE_MAX : dv_packetizer_count();
        CHECK(!dv_packetizer_get(packetizer) && !dv_packetizer_name(packetizer));
        CHECK(dv_stream_plan(&made.stream, packetizer, frame, 8, &plan, &refusal) == DV_ERROR_ARGUMENT);
        CHECK(dv_sealer_seal_frame(made.sealer, &made.stream, packetizer, &plan, frame, 8, 1, 0, out.bytes, out.len,
                                   NULL, &refusal) == DV_ERROR_ARGUMENT);
    }
    CHECK(output_untouched(&out) && dv_sealer_packets_left(made.sealer) == NONCE_COUNT);
    CHECK(!strcmp(dv_packetizer_name(DV_PACKETIZER_PLAIN), "plain"));
    output_free(&out);
    bed_free(&made);
}

static void turn(void *argument)
{
    uint8_t *frame = argument;
    memset(frame, 0, 200); /* and no start code is left */
}

/* Another thread writes to the frame while the host's lock is given up. */
static void changed_while_sealing(void)
{
    bed made;
    dv_plan plan;
    dv_refusal refusal;
    uint8_t frame[200] = {0, 0, 1, 0x65};
    size_t packetizer = packetizer_named("h264");
    memset(frame + 4, 0xab, sizeof frame - 4);
    bed_new(&made, 50);
    begin_case();
    CHECK(dv_stream_plan(&made.stream, packetizer, frame, sizeof frame, &plan, &refusal) == DV_DONE);
    output out = output_new(plan.sealed_len);
    host_record *host = host_watch(1);
    host->meddle = turn;
    host->argument = frame;
    CHECK(dv_sealer_seal_frame(made.sealer, &made.stream, packetizer, &plan, frame, sizeof frame, 1, 0, out.bytes,
                               out.len, NULL, &refusal) == DV_ERROR_PACKET);
    host_forget();
    CHECK(refusal.fault == DV_FAULT_START_CODE);
    CHECK(all_are(out.bytes, out.len, 0));
    CHECK(dv_sealer_packets_left(made.sealer) == NONCE_COUNT - plan.packet_count);
    output_free(&out);
    bed_free(&made);
}

void test_packetizers(void)
{
    group("packetizers: real frames at every room");
    real_frames_at_every_room();
    group("packetizers: real frames cut short");
    real_frames_cut_short();
    group("packetizers: mutations of real frames");
    for (size_t packetizer = 0; packetizer < dv_packetizer_count(); packetizer++)
        mutations(packetizer);
    group("packetizers: another frame than was planned");
    for (size_t packetizer = 0; packetizer < dv_packetizer_count(); packetizer++)
        changed(packetizer);
    plans_of_other_frames();
    plans_of_no_frame();
    numbers_of_none();
    changed_while_sealing();
}
