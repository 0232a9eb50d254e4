#include "replay.h"

#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64

/* A counter counts when it has gone on so often in a row by less than 2^23, as other bytes would once in 2^128 times. */
#define TRUSTED_STEPS 16
#define LONGEST_STEP ((int32_t)1 << 23)

/* No packet is sealed so much earlier than the one before it in sequence; what looks new and is further back is old. */
#define FURTHEST_BACK ((int32_t)1 << 14)

/* The nonce's bytes read as a counter in one byte order. Which order a sender uses is not known, but seen. */
typedef struct counter {
    uint32_t newest;
    uint8_t steps; /* in a row, up to TRUSTED_STEPS */
} counter;

typedef struct sender {
    counter little, big;
    uint16_t newest;       /* sequence number */
    uint64_t newest_index; /* the same, extended so that it never wraps */
    uint64_t last_used;    /* by the replay's clock */
    uint64_t bits[];       /* a ring: bit (index modulo its size) is set where that index was accepted */
} sender;

struct dv_replay {
    uint32_t window;
    size_t ring_bits; /* a power of two, at least window + WORD_BITS: whole words are cleared ahead of the window */
    uint64_t clock;
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

static uint64_t *word_of(const dv_replay *replay, sender *of, uint64_t index)
{
    return &of->bits[index % replay->ring_bits / WORD_BITS];
}

static uint64_t bit_of(uint64_t index)
{
    return (uint64_t)1 << index % WORD_BITS;
}

static uint32_t read_little(const uint8_t suffix[4])
{
    return (uint32_t)suffix[3] << 24 | (uint32_t)suffix[2] << 16 | (uint32_t)suffix[1] << 8 | suffix[0];
}

static uint32_t read_big(const uint8_t suffix[4])
{
    return (uint32_t)suffix[0] << 24 | (uint32_t)suffix[1] << 16 | (uint32_t)suffix[2] << 8 | suffix[3];
}

static bool went_back(const counter *from, uint32_t value)
{
    return from->steps == TRUSTED_STEPS && (int32_t)(value - from->newest) < -FURTHEST_BACK;
}

static void step(counter *of, uint32_t value)
{
    int32_t distance = (int32_t)(value - of->newest);
    if (distance < -FURTHEST_BACK || distance >= LONGEST_STEP)
        of->steps = 0;
    else if (of->steps < TRUSTED_STEPS)
        of->steps++;
    of->newest = value;
}

bool dv_replay_seen(const dv_replay *replay, const dv_replay_mark *mark, uint16_t *newest)
{
    size_t i = find(replay, mark->ssrc);
    if (i == replay->count)
        return false;
    sender *from = replay->senders[i];
    int32_t distance = ahead(from, mark->sequence);
    *newest = from->newest;
    if (distance > 0)
        return went_back(&from->little, read_little(mark->suffix)) || went_back(&from->big, read_big(mark->suffix));
    if ((uint32_t)-distance >= replay->window)
        return true;
    uint64_t index = from->newest_index + (uint64_t)(int64_t)distance;
    return *word_of(replay, from, index) & bit_of(index);
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
    added->little.newest = read_little(mark->suffix);
    added->big.newest = read_big(mark->suffix);
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
    size_t i = find(replay, mark->ssrc);
    sender *from = i < replay->count ? replay->senders[i] : add(replay, mark);
    if (!from)
        return false;
    int32_t distance = ahead(from, mark->sequence);
    uint64_t index = from->newest_index + (uint64_t)(int64_t)distance;
    if (distance > 0) {
        advance(replay, from, (uint32_t)distance);
        from->newest = mark->sequence;
        step(&from->little, read_little(mark->suffix));
        step(&from->big, read_big(mark->suffix));
    }
    *word_of(replay, from, index) |= bit_of(index);
    from->last_used = ++replay->clock;
    return true;
}
