/* What the C layer's tests share: cases and checks, a seeded generator, guarded outputs, packets, and an AEAD apart. */
#ifndef TEST_CSRC_H
#define TEST_CSRC_H

#include "../dispatch.h"
#include "../rtp.h"

#define NONCE_COUNT ((uint64_t)1 << 32)
#define BURST_MAX 48

/* A group's cases are counted; a case has failed when one of its checks does not hold. From one thread. */
#define CHECK(holds) check((holds), __FILE__, __LINE__, #holds)

void group(const char *name); /* ends the group before it, and prints its line */
void begin_case(void);
bool check(bool holds, const char *file, int line, const char *what);

/* SplitMix64 from the seed, which is printed. */
uint64_t random_u64(void);
size_t random_below(size_t limit);
bool random_bool(void);
void random_bytes(uint8_t *bytes, size_t len);

/* A heap buffer of exactly len bytes: sanitizers and valgrind see a read behind it. */
uint8_t *exact_new(size_t len);
uint8_t *exact_copy(const uint8_t *bytes, size_t len);

/* Filled beforehand, with 0x55 and 0xcc in turn; guard bytes stand on both sides. */
typedef struct output {
    uint8_t *bytes;
    size_t len;
    uint8_t fill;
} output;

output output_new(size_t len);
bool output_untouched(const output *out);
void output_free(output *out); /* checks the guard bytes */

bool all_are(const uint8_t *bytes, size_t len, uint8_t value);

/* What a plain packet is made of. An RTCP packet has a payload alone, behind its 8 bytes. */
typedef struct shape {
    bool is_rtcp;
    size_t csrc_count;
    bool has_extension;
    size_t extension_words;
    size_t payload_len;
    size_t padding_len; /* 0 is no padding */
} shape;

typedef struct packet {
    uint8_t *bytes; /* exact */
    size_t len;
    size_t header_len;
    size_t extension_len;
    size_t padding_len;
    bool is_rtcp;
} packet;

shape shape_random(size_t max_payload_len);
packet packet_make(const shape *of);
packet packet_random(size_t max_payload_len);
void packet_free(packet *of);

/* Several plain packets, and the tables that the API takes. */
typedef struct burst {
    size_t count;
    packet packets[BURST_MAX];
    const uint8_t *starts[BURST_MAX];
    size_t lens[BURST_MAX];
    size_t sealed_len; /* of all */
} burst;

void burst_random(burst *made, size_t count, size_t max_payload_len);
void burst_free(burst *of);

/* The libraries called directly, by nothing that is tested: ciphertext, then tag. */
void aead_seal(dv_mode mode, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
               const uint8_t *plain, size_t plain_len, uint8_t *out);

/* A whole packet as docs/ describes it: header, ciphertext, tag, suffix. */
void packet_seal(dv_mode mode, const uint8_t *key, const uint8_t suffix[4], const packet *plain, uint8_t *out);
void suffix_write(uint32_t counter, bool big_endian, uint8_t suffix[4]);

/* Plan a frame for the plain packetizer, and seal it. */
dv_result seal_plain(dv_sealer *sealer, dv_stream *stream, const uint8_t *frame, size_t frame_len, int marker,
                     uint32_t advance, uint8_t *out, size_t out_capacity);

/* The host's hooks, for what happens between the check of a burst and its use. */
typedef struct host_record {
    int left;
    int entered;
    dv_sealer *sealer; /* NULL, or one whose lock must be free when the host's lock is taken back */
    void (*meddle)(void *argument);
    void *argument;
} host_record;

host_record *host_watch(size_t long_work_len);
void host_forget(void);

#ifndef _WIN32
/* What the function returns in a forked child, from 0 to 99; -1 where the child died or hung. */
int in_child(int (*work)(void *argument), void *argument);
#endif

/* OpenSSL's memory is test_faults.c's to give, from before its first use. */
void faults_begin(void);
void test_faults_of_init(void);

void test_sealer(void);
void test_opener(void);
void test_aead(void);
void test_packetizers(void);
void test_wire(void);
void test_faults(void);
void test_guard(void);

#endif
