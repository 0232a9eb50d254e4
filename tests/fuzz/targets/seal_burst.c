/* Bursts and single packets of any bytes to one sealer, up to the end of its nonces: what it seals opens again. */
#include "../packet.h"

#define PACKETS_MAX 5
#define CALLS_MAX 3
#define NONCE_END ((uint64_t)1 << 32)

typedef struct bed {
    dv_sealer *sealer;
    dv_opener *opener;
    bool big_endian;
    uint64_t next; /* nonce, by what was sealed so far */
} bed;

static bed bed_new(input *from)
{
    bed made = {0};
    uint8_t choice = take(from);
    int mode = choice % DV_MODE_COUNT;
    uint32_t first = choice & 4 ? UINT32_MAX - take(from) % 16 : take_u32(from);
    made.big_endian = choice & 2;
    made.next = first;
    MUST(dv_sealer_new(&made.sealer, mode, fuzz_key, first, made.big_endian) == DV_DONE);
    MUST(dv_opener_new(&made.opener, mode, fuzz_key, 0) == DV_DONE);
    return made;
}

/* What taking nonces must come to; the model of the counter. */
static dv_result reserve(bed *of, size_t count)
{
    if (of->next == NONCE_END || count > NONCE_END - of->next) {
        of->next = NONCE_END;
        return DV_ERROR_EXHAUSTED;
    }
    of->next += count;
    return DV_DONE;
}

static void check_sealed(const bed *of, uint64_t counter, const uint8_t *plain, size_t len, const uint8_t *sealed)
{
    dv_opened opened;
    uint8_t suffix[4], *again = fenced_new(len + DV_OVERHEAD_LEN);
    size_t sealed_len = len + DV_OVERHEAD_LEN;
    suffix_write((uint32_t)counter, of->big_endian, suffix);
    MUST(counter < NONCE_END && !memcmp(sealed + len + DV_TAG_LEN, suffix, sizeof suffix));
    MUST(dv_opener_open_burst(of->opener, &sealed, &sealed_len, 1, again, sealed_len, &opened) == DV_DONE);
    MUST(opened.status == DV_OK || opened.status == DV_EMPTY);
    MUST(opened.plain_len == len && !memcmp(again, plain, len));
}

static void seal_several(bed *of, input *from, layout layout)
{
    const uint8_t *plain[PACKETS_MAX], *starts[PACKETS_MAX];
    size_t lens[PACKETS_MAX], count = take(from) % (PACKETS_MAX + 1), sealed_len = 0, at = 0, shift = layout == SHIFTED;
    dv_refusal refusal = {0, DV_FAULT_NONE, 0, 0};
    dv_result expected = DV_DONE;
    for (size_t i = 0; i < count; i++) {
        lens[i] = take_len(from);
        starts[i] = plain[i] = take_bytes(from, lens[i]);
        sealed_len += lens[i] + DV_OVERHEAD_LEN;
        if (expected == DV_DONE && take_apart(plain[i], lens[i]).fault != DV_FAULT_NONE) {
            expected = DV_ERROR_PACKET;
            refusal.index = i;
            refusal.fault = take_apart(plain[i], lens[i]).fault;
        }
    }
    output out = output_new(take_capacity(from, sealed_len) + shift);
    if (expected == DV_DONE && out.capacity < sealed_len)
        expected = DV_ERROR_CAPACITY;
    for (size_t i = 0; i < count && layout != APART && out.capacity >= sealed_len + shift; at += lens[i++] + 20) {
        if (lens[i])
            memcpy(out.bytes + at + shift, plain[i], lens[i]);
        starts[i] = out.bytes + at + shift;
        if (expected == DV_DONE && shift && lens[i])
            expected = DV_ERROR_OVERLAP;
    }
    output_note(&out);

    uint64_t counter = of->next;
    dv_refusal found = {0, DV_FAULT_NONE, 0, 0};
    if (expected == DV_DONE)
        expected = reserve(of, count);
    MUST(dv_sealer_seal_burst(of->sealer, starts, lens, count, out.bytes, out.capacity, &found) == expected);
    MUST(found.index == refusal.index && found.fault == refusal.fault);
    MUST(output_untouched_from(&out, expected == DV_DONE ? sealed_len : 0));
    at = 0;
    for (size_t i = 0; i < count && expected == DV_DONE; at += lens[i++] + DV_OVERHEAD_LEN)
        check_sealed(of, counter + i, plain[i], lens[i], out.bytes + at);
}

/* What a header that is given by itself, and the rest, must come to. */
static dv_fault fault_of_parts(const uint8_t *packet, size_t len, size_t header_len)
{
    parts of = take_apart(packet, header_len);
    if (of.clear_len == 0 || header_len < of.clear_len)
        return of.fault;
    return header_len == of.clear_len ? take_apart(packet, len).fault : DV_FAULT_HEADER_LEN;
}

static void seal_one(bed *of, input *from, layout layout)
{
    size_t len = take_len(from), shift = layout == SHIFTED;
    const uint8_t *plain = take_bytes(from, len);
    uint8_t choice = take(from);
    size_t header_len = choice < 0xf0 ? take_apart(plain, len).clear_len : choice; /* mostly what it should be */
    header_len = header_len < len ? header_len : len;
    size_t payload_len = len - header_len, sealed_len = len + DV_OVERHEAD_LEN;
    const uint8_t *header = fenced_copy(plain, header_len), *payload = fenced_copy(plain + header_len, payload_len);
    output out = output_new(take_capacity(from, sealed_len) + shift);
    dv_fault fault = fault_of_parts(plain, len, header_len);
    dv_result expected = fault != DV_FAULT_NONE ? DV_ERROR_PACKET : DV_DONE;
    if (expected == DV_DONE && out.capacity < sealed_len)
        expected = DV_ERROR_CAPACITY;
    if (layout != APART && out.capacity >= sealed_len + shift) {
        if (len)
            memcpy(out.bytes + shift, plain, len);
        header = out.bytes + shift;
        payload = out.bytes + shift + header_len;
        if (expected == DV_DONE && shift)
            expected = DV_ERROR_OVERLAP;
    }
    output_note(&out);

    uint64_t counter = of->next;
    dv_refusal found = {0, DV_FAULT_NONE, 0, 0};
    if (expected == DV_DONE)
        expected = reserve(of, 1);
    MUST(dv_sealer_seal(of->sealer, header, header_len, payload, payload_len, out.bytes, out.capacity, &found) ==
         expected);
    MUST(found.fault == fault);
    MUST(output_untouched_from(&out, expected == DV_DONE ? sealed_len : 0));
    if (expected == DV_DONE)
        check_sealed(of, counter, plain, len, out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    input from = input_begin(data, len);
    bed of = bed_new(&from);
    for (int i = 0; i < CALLS_MAX; i++) {
        uint8_t choice = take(&from);
        layout layout = (choice >> 1) % LAYOUT_COUNT;
        if (choice & 1)
            seal_several(&of, &from, layout);
        else
            seal_one(&of, &from, layout);
        MUST(dv_sealer_packets_left(of.sealer) == NONCE_END - of.next);
    }
    dv_sealer_free(of.sealer);
    dv_opener_free(of.opener);
    return 0;
}
