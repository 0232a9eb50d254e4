/* What the fuzz targets share: an input that is read from its front, memory that ends at a fence, and checks. */
#ifndef FUZZ_H
#define FUZZ_H

#define _DEFAULT_SOURCE /* MAP_ANON, under -std=c11 */

#include "dvcrypto.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef FUZZ_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, len) ((void)(address), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(address, len) ((void)(address), (void)(len))
#endif

#define FENCED_MAX_LEN ((size_t)1 << 20)
#define FENCED_COUNT 64
#define BEFORE_LEN ((size_t)64)

/* What a fuzzer calls, and replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A promise that does not hold ends the process: the fuzzer then keeps the input. */
#define MUST(holds)                                                                    \
    do {                                                                               \
        if (!(holds)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static const uint8_t fuzz_key[DV_KEY_LEN] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                             17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

typedef struct input {
    const uint8_t *bytes;
    size_t left;
} input;

static size_t fenced_taken;

/* Begin with an input; what was fenced for the one before is free again. */
static inline input input_begin(const uint8_t *data, size_t len)
{
    input from = {data, len};
    fenced_taken = 0;
    MUST(dv_init() == DV_DONE);
    return from;
}

/* The next byte; 0 behind the end. */
static inline uint8_t take(input *from)
{
    if (!from->left)
        return 0;
    from->left--;
    return *from->bytes++;
}

static inline uint32_t take_u16(input *from)
{
    uint32_t high = take(from);
    return high << 8 | take(from);
}

static inline uint32_t take_u32(input *from)
{
    uint32_t high = take_u16(from);
    return high << 16 | take_u16(from);
}

/* Mostly a byte's worth; behind 0xff a length up to a little over a packet's. */
static inline size_t take_len(input *from)
{
    size_t len = take(from);
    return len < 0xff ? len : take_u16(from) + 64;
}

/*
 * Memory of exactly len bytes, right before a page that nobody may touch: there the linked libraries fault too, into which
 * no sanitizer sees. The bytes before it are poisoned.
 */
static inline uint8_t *fenced_new(size_t len)
{
    static uint8_t *room;
    static size_t lens[FENCED_COUNT];
    static size_t stride;
    if (!room) {
        stride = FENCED_MAX_LEN + (size_t)sysconf(_SC_PAGESIZE);
        room = mmap(NULL, FENCED_COUNT * stride, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
        MUST(room != MAP_FAILED);
        for (size_t i = 0; i < FENCED_COUNT; i++)
            MUST(mprotect(room + i * stride, FENCED_MAX_LEN, PROT_READ | PROT_WRITE) == 0);
    }
    MUST(fenced_taken < FENCED_COUNT && len <= FENCED_MAX_LEN - BEFORE_LEN);
    uint8_t *end = room + fenced_taken * stride + FENCED_MAX_LEN;
    ASAN_UNPOISON_MEMORY_REGION(end - lens[fenced_taken] - BEFORE_LEN, lens[fenced_taken] + BEFORE_LEN);
    ASAN_POISON_MEMORY_REGION(end - len - BEFORE_LEN, BEFORE_LEN);
    lens[fenced_taken++] = len;
    return end - len;
}

static inline uint8_t *fenced_copy(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = fenced_new(len);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

/* The next len bytes, fenced; behind the end of the input they are made up. */
static inline uint8_t *take_bytes(input *from, size_t len)
{
    uint8_t *bytes = fenced_new(len);
    size_t there = len < from->left ? len : from->left;
    if (there)
        memcpy(bytes, from->bytes, there);
    from->bytes += there;
    from->left -= there;
    memset(bytes + there, 0x5a, len - there);
    return bytes;
}

/* An output of exactly capacity bytes, and what was in it. */
typedef struct output {
    uint8_t *bytes;
    uint8_t *before;
    size_t capacity;
} output;

static inline output output_new(size_t capacity)
{
    output made = {fenced_new(capacity), fenced_new(capacity), capacity};
    memset(made.bytes, 0xcc, capacity);
    memset(made.before, 0xcc, capacity);
    return made;
}

/* Remember what is in it now. */
static inline void output_note(output *of)
{
    memcpy(of->before, of->bytes, of->capacity);
}

static inline bool output_untouched_from(const output *of, size_t start)
{
    return start >= of->capacity || !memcmp(of->bytes + start, of->before + start, of->capacity - start);
}

static inline bool all_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i])
            return false;
    return true;
}

/* How an output is laid out, and where the packets of a burst are. */
typedef enum layout { APART, IN_PLACE, SHIFTED, LAYOUT_COUNT } layout;

/* Exact, one byte too small, or larger. */
static inline size_t take_capacity(input *from, size_t needed)
{
    uint8_t choice = take(from);
    if (choice % 4 == 1)
        return needed ? needed - 1 : 0;
    return choice % 4 == 2 ? needed + choice : needed;
}

#endif
