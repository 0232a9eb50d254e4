#include "replay.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64

#define SEQUENCES 65536

/*
 * A byte order is known when packets have followed each other by steps of 1 to SHORT_STEP so often in it and never in the
 * other one: such a step in one order is one of at least 2^16 in the other, and other bytes make one in 2^26.
 */
#define STEPS_TO_KNOW 16
#define SHORT_STEP 64

/* No packet is sealed so much earlier than the one before it in sequence; what looks new and is further back is old. */
#define FURTHEST_BACK 16384

/* Half the sequence numbers: a packet that looks old, but was sealed so much later than the newest, lies behind a gap. */
#define GAP 32768

typedef enum order { LITTLE, BIG, UNKNOWN } order;

typedef struct sender {
    uint16_t newest;       /* sequence number */
    uint8_t suffix[4];     /* of the newest packet: by its nonce where that counts, else by its sequence number */
    uint64_t newest_index; /* the sequence number extended so that it never wraps */
    uint64_t last_used;    /* by the replay's clock */
    uint64_t bits[];       /* a ring: bit (index modulo its size) is set where that index was accepted */
} sender;

struct dv_replay {
    uint32_t window;
    size_t ring_bits; /* a power of two, at least window + WORD_BITS: whole words are cleared ahead of the window */
    uint64_t clock;
    uint64_t short_steps[UNKNOWN]; /* seen in each byte order */
    uint8_t last_suffix[4];        /* of the packet accepted last, from whomever */
    size_t count;
    uint32_t ssrcs[DV_REPLAY_SSRC_MAX]; /* by themselves, so that finding one reads little memory */
    sender *senders[DV_REPLAY_SSRC_MAX];
};

static size_t ring_bits_for(uint32_t window)
{
    size_t bits = WORD_BITS;
    while (bits < (size_t)window + WORD_BITS)
        bits *= 2;
    return bits;
}

dv_replay *dv_replay_new(uint32_t window)
{
    dv_replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return NULL;
    replay->window = window;
    replay->ring_bits = ring_bits_for(window);
    return replay;
}

void dv_replay_free(dv_replay *replay)
{
    if (!replay)
        return;
    for (size_t i = 0; i < replay->count; i++)
        free(replay->senders[i]);
    free(replay);
}

static size_t find(const dv_replay *replay, uint32_t ssrc)
{
    size_t i = 0;
    while (i < replay->count && replay->ssrcs[i] != ssrc)
        i++;
    return i;
}

/* How far the sequence number is ahead of the newest one: the nearer way round of the 16-bit circle. */
static int32_t ahead(const sender *from, uint16_t sequence)
{
    return (int16_t)(uint16_t)(sequence - from->newest);
}

static uint64_t bit_of(uint64_t index)
{
    return (uint64_t)1 << index % WORD_BITS;
}

static uint32_t read_counter(order by, const uint8_t suffix[4])
{
    if (by == LITTLE)
        return (uint32_t)suffix[3] << 24 | (uint32_t)suffix[2] << 16 | (uint32_t)suffix[1] << 8 | suffix[0];
    return (uint32_t)suffix[0] << 24 | (uint32_t)suffix[1] << 16 | (uint32_t)suffix[2] << 8 | suffix[3];
}

static uint32_t steps_between(order by, const uint8_t earlier[4], const uint8_t later[4])
{
    return read_counter(by, later) - read_counter(by, earlier);
}

static order known_order(const dv_replay *replay)
{
    if (replay->short_steps[LITTLE] >= STEPS_TO_KNOW && !replay->short_steps[BIG])
        return LITTLE;
    if (replay->short_steps[BIG] >= STEPS_TO_KNOW && !replay->short_steps[LITTLE])
        return BIG;
    return UNKNOWN;
}

/* How many packets were sealed between the newest one of the sender and this one; 0 where nobody can tell. */
static int32_t sealed_later(const dv_replay *replay, const sender *from, const dv_replay_mark *mark)
{
    order by = known_order(replay);
    return by == UNKNOWN ? 0 : (int32_t)steps_between(by, from->suffix, mark->suffix);
}

/* False for a replay; else how far the packet is ahead of the newest one, negative within the window. */
static bool judge(const dv_replay *replay, const sender *from, const dv_replay_mark *mark, int32_t *distance)
{
    int32_t later = sealed_later(replay, from, mark);
    *distance = ahead(from, mark->sequence);
    if (*distance > 0)
        return later >= -FURTHEST_BACK;
    if (later >= GAP) {
        *distance += SEQUENCES;
        return true;
    }
    if ((uint32_t)-*distance >= replay->window)
        return false;
    uint64_t index = from->newest_index + (uint64_t)(int64_t)*distance;
    return !(from->bits[index % replay->ring_bits / WORD_BITS] & bit_of(index));
}

bool dv_replay_seen(const dv_replay *replay, const dv_replay_mark *mark, uint16_t *newest)
{
    int32_t distance;
    size_t i = find(replay, mark->ssrc);
    if (i == replay->count)
        return false;
    *newest = replay->senders[i]->newest;
    return !judge(replay, replay->senders[i], mark, &distance);
}

/* Learn the byte order from a packet that is authentic, and whom it follows. */
static void learn(dv_replay *replay, const uint8_t earlier[4], const uint8_t later[4])
{
    for (order by = LITTLE; by < UNKNOWN; by++) {
        uint32_t steps = steps_between(by, earlier, later);
        if (steps >= 1 && steps <= SHORT_STEP)
            replay->short_steps[by]++;
    }
}

static sender *add(dv_replay *replay, const dv_replay_mark *mark)
{
    size_t place = replay->count;
    if (place == DV_REPLAY_SSRC_MAX) {
        place = 0;
        for (size_t i = 1; i < replay->count; i++)
            if (replay->senders[i]->last_used < replay->senders[place]->last_used)
                place = i;
    }
    sender *added = calloc(1, sizeof *added + replay->ring_bits / 8);
    if (!added)
        return NULL;
    added->newest = mark->sequence;
    memcpy(added->suffix, mark->suffix, sizeof added->suffix);
    added->newest_index = (uint64_t)1 << 32; /* far from 0, so that going back never wraps */
    sender *forgotten = place < replay->count ? replay->senders[place] : NULL;
    replay->senders[place] = added; /* first, so that a fork between any two lines leaves the child a whole table */
    replay->ssrcs[place] = mark->ssrc;
    if (!forgotten)
        replay->count++;
    free(forgotten);
    return added;
}

/* Move the newest index forward, clearing the words that come into use. */
static void advance(dv_replay *replay, sender *of, uint32_t distance)
{
    uint64_t from_word = of->newest_index / WORD_BITS, to_word = (of->newest_index + distance) / WORD_BITS;
    size_t words = replay->ring_bits / WORD_BITS;
    if (to_word - from_word >= words)
        memset(of->bits, 0, words * sizeof of->bits[0]);
    else
        for (uint64_t word = from_word + 1; word <= to_word; word++)
            of->bits[word % words] = 0;
    of->newest_index += distance;
}

bool dv_replay_accept(dv_replay *replay, const dv_replay_mark *mark)
{
    int32_t distance = 0;
    size_t i = find(replay, mark->ssrc);
    sender *from = i < replay->count ? replay->senders[i] : add(replay, mark);
    if (!from)
        return false;
    judge(replay, from, mark, &distance);
    uint64_t index = from->newest_index + (uint64_t)(int64_t)distance;
    int32_t later = sealed_later(replay, from, mark);
    learn(replay, from->suffix, mark->suffix);
    learn(replay, replay->last_suffix, mark->suffix);
    memcpy(replay->last_suffix, mark->suffix, sizeof replay->last_suffix);
    if (distance > 0) {
        advance(replay, from, (uint32_t)distance);
        from->newest = mark->sequence;
    }
    if (later > 0 || (later == 0 && distance > 0))
        memcpy(from->suffix, mark->suffix, sizeof from->suffix);
    from->bits[index % replay->ring_bits / WORD_BITS] |= bit_of(index);
    from->last_used = ++replay->clock;
    return true;
}
