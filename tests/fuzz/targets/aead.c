/* Messages of any length, nonce and associated data: what is sealed opens, what was changed does not. */
#include "../fuzz.h"

/* Which lengths a mode takes, by the page of the header. */
static bool key_allowed(int mode, size_t key_len)
{
    return key_len == 32 || (mode == DV_MODE_AES256_GCM && (key_len == 16 || key_len == 24));
}

static bool nonce_allowed(int mode, size_t nonce_len)
{
    return mode == DV_MODE_AES256_GCM ? nonce_len >= 8 && nonce_len <= 128 : nonce_len == 24;
}

static void open_changed(dv_aead *aead, const dv_message *sealed, input *from)
{
    dv_message changed = *sealed;
    uint8_t bit = (uint8_t)(1 << take(from) % 8), *part;
    size_t plain_len = sealed->text_len - DV_TAG_LEN, which = take(from);
    output out = output_new(plain_len + 1);
    if (which % 3 == 0 || (which % 3 == 1 && !sealed->aad_len)) {
        changed.text = part = fenced_copy(sealed->text, sealed->text_len);
        part[take_u16(from) % sealed->text_len] ^= bit;
    } else if (which % 3 == 1) {
        changed.aad = part = fenced_copy(sealed->aad, sealed->aad_len);
        part[take_u16(from) % sealed->aad_len] ^= bit;
    } else {
        changed.nonce = part = fenced_copy(sealed->nonce, sealed->nonce_len);
        part[take(from) % sealed->nonce_len] ^= bit;
    }
    MUST(dv_aead_open(aead, &changed, out.bytes, out.capacity) == DV_ERROR_TAG);
    MUST(all_zero(out.bytes, plain_len) && output_untouched_from(&out, plain_len));
    changed = *sealed;
    changed.text_len = take(from) % DV_TAG_LEN;
    MUST(dv_aead_open(aead, &changed, out.bytes, out.capacity) == DV_ERROR_TAG);
}

/* Open it again, apart or where it lies. */
static void open_again(dv_aead *aead, const dv_message *plain, const uint8_t *bytes, size_t len, input *from)
{
    dv_message sealed = *plain;
    sealed.text = fenced_copy(bytes, len);
    sealed.text_len = len;
    open_changed(aead, &sealed, from);
    if (take(from) & 1) {
        uint8_t *place = fenced_copy(bytes, len);
        sealed.text = place;
        MUST(dv_aead_open(aead, &sealed, place, plain->text_len) == DV_DONE);
        MUST(plain->text_len == 0 || !memcmp(place, plain->text, plain->text_len));
        MUST(!memcmp(place + plain->text_len, bytes + plain->text_len, DV_TAG_LEN));
        return;
    }
    output out = output_new(take_capacity(from, plain->text_len));
    dv_result expected = out.capacity < plain->text_len ? DV_ERROR_CAPACITY : DV_DONE;
    MUST(dv_aead_open(aead, &sealed, out.bytes, out.capacity) == expected);
    MUST(output_untouched_from(&out, expected == DV_DONE ? plain->text_len : 0));
    if (expected == DV_DONE && plain->text_len)
        MUST(!memcmp(out.bytes, plain->text, plain->text_len));
}

static void seal_and_open(dv_aead *aead, int mode, input *from)
{
    size_t nonce_len = take_len(from), aad_len = take_len(from), text_len = take_len(from);
    uint8_t choice = take(from);
    if (!(choice & 1)) /* mostly what the mode's engines take */
        nonce_len = mode == DV_MODE_AES256_GCM ? 12 : 24;
    layout layout = (choice >> 1) % LAYOUT_COUNT;
    const uint8_t *nonce = take_bytes(from, nonce_len), *aad = take_bytes(from, aad_len);
    const uint8_t *text = take_bytes(from, text_len);
    dv_message plain = {nonce, nonce_len, aad, aad_len, text, text_len}, moved = plain;
    size_t sealed_len = text_len + DV_TAG_LEN, shift = layout == SHIFTED;
    output out = output_new(take_capacity(from, sealed_len) + shift);
    dv_result expected = !nonce_allowed(mode, nonce_len) ? DV_ERROR_ARGUMENT
                         : out.capacity < sealed_len     ? DV_ERROR_CAPACITY
                                                         : DV_DONE;
    if (layout != APART && text_len && out.capacity >= sealed_len + shift) {
        memcpy(out.bytes + shift, text, text_len);
        moved.text = out.bytes + shift;
        if (shift && expected == DV_DONE)
            expected = DV_ERROR_OVERLAP;
    }
    output_note(&out);
    MUST(dv_aead_seal(aead, &moved, out.bytes, out.capacity) == expected);
    MUST(output_untouched_from(&out, expected == DV_DONE ? sealed_len : 0));
    if (expected == DV_DONE)
        open_again(aead, &plain, out.bytes, sealed_len, from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const size_t key_lens[] = {32, 32, 32, 32, 16, 24, 0, 33};
    input from = input_begin(data, len);
    dv_aead *aead;
    uint8_t choice = take(&from);
    int mode = choice & 16 ? (int8_t)take(&from) : choice % DV_MODE_COUNT;
    size_t key_len = key_lens[choice >> 1 & 7];
    const uint8_t *key = take_bytes(&from, key_len);
    bool allowed = mode >= 0 && mode < DV_MODE_COUNT && key_allowed(mode, key_len);
    MUST(dv_aead_new(&aead, mode, key, key_len) == (allowed ? DV_DONE : DV_ERROR_ARGUMENT));
    for (int i = 0; i < 2 && allowed; i++)
        seal_and_open(aead, mode, &from);
    dv_aead_free(aead);
    return 0;
}
