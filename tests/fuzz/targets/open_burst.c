/*
 * Bursts of sealed packets, of changed ones, of repeated ones and of any bytes, with and without a replay window. Packets
 * are sealed here by an engine and not by the sealer, which would refuse what is malformed behind the tag.
 */
#include "../packet.h"

#include "dispatch.h"
#include "rtp.h"

#define PACKETS_MAX 6

typedef enum kind { ANY_BYTES, SEALED, CHANGED } kind;

typedef struct packet {
    kind kind;
    bool is_repeated; /* the same as the packet before */
    uint8_t *bytes;
    size_t len;
    const uint8_t *plain; /* of SEALED */
    size_t plain_len;
} packet;

typedef struct burst {
    dv_mode mode;
    uint32_t window;
    layout layout;
    size_t count;
    packet packets[PACKETS_MAX];
    const uint8_t *starts[PACKETS_MAX];
    size_t lens[PACKETS_MAX];
    size_t len;
} burst;

/* Header, ciphertext, tag, suffix. */
static uint8_t *seal(dv_mode mode, const uint8_t *plain, size_t plain_len, size_t clear_len, const uint8_t suffix[4])
{
    static dv_engine_key keys[DV_MODE_COUNT];
    static const dv_engine *engines[DV_MODE_COUNT];
    uint8_t nonce[DV_NONCE_MAX_LEN] = {suffix[0], suffix[1], suffix[2], suffix[3]};
    if (!engines[mode]) {
        engines[mode] = mode == DV_MODE_AES256_GCM ? &dv_engine_openssl_aes256gcm : &dv_engine_sodium_xchacha20poly1305;
        MUST(engines[mode]->set_key(&keys[mode], DV_SEAL, fuzz_key));
    }
    uint8_t *sealed = fenced_new(plain_len + DV_OVERHEAD_LEN);
    memcpy(sealed, plain, clear_len);
    MUST(engines[mode]->seal(&keys[mode], nonce, plain, clear_len, plain + clear_len, plain_len - clear_len,
                             sealed + clear_len));
    memcpy(sealed + plain_len + DV_TAG_LEN, suffix, DV_SUFFIX_LEN);
    return sealed;
}

static packet take_packet(input *from, dv_mode mode, const packet *before)
{
    packet made = {0};
    uint8_t choice = take(from);
    if (choice % 4 == 3 && before) {
        made = *before;
        made.is_repeated = true;
        return made;
    }
    size_t len = take_len(from);
    uint8_t *bytes = take_bytes(from, len);
    parts of = take_apart(bytes, len);
    if (choice % 4 == 0 || of.clear_len == 0 || len < of.clear_len) {
        made.bytes = bytes;
        made.len = len;
        return made;
    }
    uint8_t suffix[4];
    suffix_write(take_u32(from), choice & 8, suffix);
    made.kind = SEALED;
    made.plain = bytes;
    made.plain_len = len;
    made.bytes = seal(mode, bytes, len, of.clear_len, suffix);
    made.len = len + DV_OVERHEAD_LEN;
    uint8_t change = choice % 4 == 2 ? take(from) : 0;
    if (change) {
        made.kind = CHANGED;
        made.bytes[take_u16(from) % made.len] ^= change;
    }
    return made;
}

static burst take_burst(input *from)
{
    static const uint32_t windows[] = {0, 1, 64, DV_REPLAY_WINDOW_MAX};
    burst made = {0};
    uint8_t choice = take(from);
    made.mode = (dv_mode)(choice % DV_MODE_COUNT);
    made.window = windows[choice >> 1 & 3];
    made.layout = (layout)((choice >> 3) % LAYOUT_COUNT);
    made.count = take(from) % (PACKETS_MAX + 1);
    for (size_t i = 0; i < made.count; i++) {
        made.packets[i] = take_packet(from, made.mode, i ? &made.packets[i - 1] : NULL);
        made.starts[i] = made.packets[i].bytes;
        made.lens[i] = made.packets[i].len;
        made.len += made.lens[i];
    }
    return made;
}

/* Move the packets into the output where the layout says so. Whether the burst must then be refused. */
static bool lay_out(burst *of, output *out)
{
    bool refused = false;
    size_t at = 0, shift = of->layout == SHIFTED;
    if (of->layout == APART || out->capacity < of->len + shift)
        return false;
    for (size_t i = 0; i < of->count; at += of->lens[i++]) {
        if (of->lens[i])
            memcpy(out->bytes + at + shift, of->packets[i].bytes, of->lens[i]);
        of->starts[i] = out->bytes + at + shift;
        refused |= shift && of->lens[i] && at + shift < of->len;
    }
    output_note(out);
    return refused;
}

static bool is_opened(const dv_opened *opened)
{
    return opened->status == DV_OK || opened->status == DV_EMPTY;
}

static void check_opened(const burst *of, const packet *from, const uint8_t *plain, const dv_opened *opened)
{
    size_t around = (size_t)opened->header_len + opened->extension_len + opened->padding_len;
    MUST(from->kind != CHANGED && opened->fault == DV_FAULT_NONE);
    MUST(from->len == opened->plain_len + (size_t)DV_OVERHEAD_LEN && around <= opened->plain_len);
    MUST((opened->status == DV_EMPTY) == (!opened->is_rtcp && around == opened->plain_len));
    MUST(all_zero(plain + opened->plain_len, DV_OVERHEAD_LEN));
    MUST(!memcmp(opened->suffix, from->bytes + from->len - DV_SUFFIX_LEN, DV_SUFFIX_LEN));
    MUST(!memcmp(plain, from->bytes, opened->header_len));
    parts parts = take_apart(plain, opened->plain_len);
    MUST(parts.fault == DV_FAULT_NONE && parts.is_rtcp == opened->is_rtcp);
    MUST(parts.clear_len == opened->header_len && parts.padding_len == opened->padding_len);
    MUST(parts.extension_len == opened->extension_len);
    if (from->kind == SEALED)
        MUST(!memcmp(plain, from->plain, from->plain_len));
    if (from->is_repeated)
        MUST(of->window == 0 || opened->is_rtcp);
}

static void check_refused(const burst *of, const packet *from, const uint8_t *plain, const dv_opened *opened)
{
    MUST(opened->fault > DV_FAULT_NONE && opened->fault < DV_FAULT_COUNT);
    MUST(opened->status == dv_fault_status(opened->fault));
    MUST(all_zero(plain, from->len));
    MUST(opened->plain_len == 0 && opened->header_len == 0 && opened->extension_len == 0 && opened->padding_len == 0);
    MUST(all_zero(opened->suffix, sizeof opened->suffix) && opened->is_rtcp == 0);
    if (opened->status == DV_REPLAYED)
        MUST(of->window && (from->bytes[1] & 0xe0) != 0xc0);
    else if (from->kind == SEALED)
        MUST(opened->fault == take_apart(from->plain, from->plain_len).fault);
}

static void check_burst(const burst *of, const uint8_t *plain, const dv_opened *opened, dv_opener *opener)
{
    uint64_t counts[DV_STATUS_COUNT], seen[DV_STATUS_COUNT] = {0};
    for (size_t i = 0; i < of->count; plain += of->lens[i++]) {
        const packet *from = &of->packets[i];
        MUST(opened[i].status < DV_STATUS_COUNT);
        seen[opened[i].status]++;
        if (is_opened(&opened[i]))
            check_opened(of, from, plain, &opened[i]);
        else
            check_refused(of, from, plain, &opened[i]);
    }
    dv_opener_count(opener, counts);
    MUST(!memcmp(counts, seen, sizeof seen));
}

static dv_opener *new_opener(const burst *of)
{
    dv_opener *opener;
    MUST(dv_opener_new(&opener, of->mode, fuzz_key, of->window) == DV_DONE);
    return opener;
}

/* One by one, with another opener, the packets become the same. */
static void check_singles(const burst *of, const uint8_t *plain, const dv_opened *opened)
{
    dv_opener *opener = new_opener(of);
    for (size_t i = 0; i < of->count; plain += of->lens[i++]) {
        dv_opened again;
        const uint8_t *start = of->packets[i].bytes;
        uint8_t *out = fenced_new(of->lens[i]);
        MUST(dv_opener_open_burst(opener, &start, &of->lens[i], 1, out, of->lens[i], &again) == DV_DONE);
        MUST(!memcmp(&again, &opened[i], sizeof again));
        MUST(of->lens[i] == 0 || !memcmp(out, plain, of->lens[i]));
    }
    dv_opener_free(opener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    input from = input_begin(data, len);
    burst made = take_burst(&from);
    size_t capacity = take_capacity(&from, made.len) + (made.layout == SHIFTED);
    output out = output_new(capacity);
    bool overlaps = lay_out(&made, &out);
    dv_opened *opened = (dv_opened *)(void *)fenced_new(made.count * sizeof *opened);
    dv_opener *opener = new_opener(&made);
    dv_result result =
        dv_opener_open_burst(opener, made.starts, made.lens, made.count, out.bytes, out.capacity, opened);
    MUST(result == (capacity < made.len ? DV_ERROR_CAPACITY : overlaps ? DV_ERROR_OVERLAP : DV_DONE));
    MUST(output_untouched_from(&out, result == DV_DONE ? made.len : 0));
    if (result == DV_DONE) {
        check_burst(&made, out.bytes, opened, opener);
        check_singles(&made, out.bytes, opened);
    }
    dv_opener_free(opener);
    return 0;
}
