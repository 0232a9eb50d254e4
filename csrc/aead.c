/* An AEAD by itself: one message a call, with the nonce and the associated data that the caller gives. */
#include "dispatch.h"
#include "evp.h"
#include "places.h"
#include "platform.h"

#include <string.h>

#define GCM_NONCE_MIN_LEN 8
#define NONCE_MAX_LEN 128 /* of AES-GCM in OpenSSL */
#define DIRECTION_COUNT 2

static const struct {
    size_t nonce_len; /* which the mode's engines take */
    uint64_t text_max_len;
    uint64_t aad_max_len;
} limits[DV_MODE_COUNT] = {
    {12, INT32_MAX, INT32_MAX},
    {24, ((uint64_t)1 << 38) - 64, UINT64_MAX}, /* RFC 8439, section 2.8: 2^32 - 1 blocks */
};

/* A context is used by one thread at a time, and made when its direction is first asked for: many an aead has but one. */
struct dv_aead {
    dv_lock lock; /* guards all below */
    dv_cipher *ciphers[DIRECTION_COUNT];
    EVP_CIPHER_CTX *contexts[DIRECTION_COUNT]; /* of AES-GCM, where the engines do not take the key or the nonce */
    size_t key_len;
    uint8_t key[DV_KEY_LEN];
    dv_mode mode;
};

static const EVP_CIPHER *gcm_cipher(size_t key_len)
{
    return key_len == 16 ? EVP_aes_128_gcm() : key_len == 24 ? EVP_aes_192_gcm() : EVP_aes_256_gcm();
}

dv_result dv_aead_new(dv_aead **aead, int mode, const uint8_t *key, size_t key_len)
{
    *aead = NULL;
    if (mode < 0 || mode >= DV_MODE_COUNT)
        return DV_ERROR_ARGUMENT;
    if (key_len != DV_KEY_LEN && !(mode == DV_MODE_AES256_GCM && (key_len == 16 || key_len == 24)))
        return DV_ERROR_ARGUMENT;
    dv_aead *made = dv_aligned_new(sizeof *made);
    if (!made || !dv_lock_init(&made->lock)) {
        dv_aligned_free(made);
        return DV_ERROR_MEMORY;
    }
    made->mode = (dv_mode)mode;
    made->key_len = key_len;
    memcpy(made->key, key, key_len);
    *aead = made;
    return DV_DONE;
}

void dv_aead_free(dv_aead *aead)
{
    if (!aead)
        return;
    for (int direction = 0; direction < DIRECTION_COUNT; direction++) {
        if (aead->ciphers[direction])
            dv_cipher_wipe(aead->ciphers[direction]);
        dv_aligned_free(aead->ciphers[direction]);
        EVP_CIPHER_CTX_free(aead->contexts[direction]); /* cleanses the key schedule */
    }
    dv_lock_destroy(&aead->lock);
    dv_wipe(aead, sizeof *aead);
    dv_aligned_free(aead);
}

/* Whether the mode's engines serve a message, or OpenSSL by another key or nonce than they take. */
static bool by_engines(const dv_aead *aead, const dv_message *message)
{
    return aead->key_len == DV_KEY_LEN && message->nonce_len == limits[aead->mode].nonce_len;
}

static bool nonce_allowed(const dv_aead *aead, size_t nonce_len)
{
    if (aead->mode == DV_MODE_AES256_GCM)
        return nonce_len >= GCM_NONCE_MIN_LEN && nonce_len <= NONCE_MAX_LEN;
    return nonce_len == limits[aead->mode].nonce_len;
}

static dv_result cipher_ready(dv_aead *aead, dv_direction direction)
{
    if (aead->ciphers[direction])
        return DV_DONE;
    dv_cipher *made = dv_aligned_new(sizeof *made);
    if (!made)
        return DV_ERROR_MEMORY;
    dv_result result = dv_cipher_init(made, aead->mode, direction, aead->key);
    if (result == DV_DONE)
        aead->ciphers[direction] = made;
    else
        dv_aligned_free(made);
    return result;
}

static dv_result context_ready(dv_aead *aead, dv_direction direction, size_t nonce_len)
{
    if (!aead->contexts[direction])
        aead->contexts[direction] = dv_evp_new(gcm_cipher(aead->key_len), direction, aead->key);
    return aead->contexts[direction] && dv_evp_set_iv_len(aead->contexts[direction], nonce_len) ? DV_DONE
                                                                                                : DV_ERROR_ENGINE;
}

static dv_result ready(dv_aead *aead, dv_direction direction, const dv_message *message)
{
    return by_engines(aead, message) ? cipher_ready(aead, direction)
                                     : context_ready(aead, direction, message->nonce_len);
}

static bool seal(dv_aead *aead, const dv_message *plain, uint8_t *out)
{
    bool sealed, marked;
    if (by_engines(aead, plain)) {
        sealed = dv_cipher_seal(aead->ciphers[DV_SEAL], plain->nonce, plain->aad, plain->aad_len, plain->text,
                                plain->text_len, out);
        dv_cipher_rest(aead->ciphers[DV_SEAL]);
    } else {
        marked = dv_evp_mark();
        sealed = dv_evp_seal(aead->contexts[DV_SEAL], NULL, plain->nonce, plain->aad, plain->aad_len, plain->text,
                             plain->text_len, out);
        dv_evp_unmark(marked);
    }
    return sealed;
}

static bool open_(dv_aead *aead, const dv_message *sealed, size_t plain_len, uint8_t *out)
{
    bool opened, marked;
    if (by_engines(aead, sealed)) {
        opened = dv_cipher_open(aead->ciphers[DV_OPEN], sealed->nonce, sealed->aad, sealed->aad_len, sealed->text,
                                plain_len, out);
        dv_cipher_rest(aead->ciphers[DV_OPEN]);
    } else {
        marked = dv_evp_mark();
        opened = dv_evp_open(aead->contexts[DV_OPEN], NULL, sealed->nonce, sealed->aad, sealed->aad_len, sealed->text,
                             plain_len, out);
        dv_evp_unmark(marked);
    }
    return opened;
}

/* The text may be where the output is; nonce and associated data are read when some of the output may be there already. */
static dv_result check(const dv_aead *aead, const dv_message *message, size_t plain_len, const uint8_t *out,
                       size_t out_len, size_t out_capacity)
{
    if (plain_len > limits[aead->mode].text_max_len || message->aad_len > limits[aead->mode].aad_max_len)
        return DV_ERROR_ARGUMENT;
    if (out_capacity < out_len)
        return DV_ERROR_CAPACITY;
    if (!dv_overlap_allowed(message->text, message->text_len, out, out, out_len) ||
        !dv_overlap_allowed(message->aad, message->aad_len, NULL, out, out_len) ||
        !dv_overlap_allowed(message->nonce, message->nonce_len, NULL, out, out_len))
        return DV_ERROR_OVERLAP;
    return DV_DONE;
}

dv_result dv_aead_seal(dv_aead *aead, const dv_message *plain, uint8_t *out, size_t out_capacity)
{
    if (!nonce_allowed(aead, plain->nonce_len) || plain->text_len > SIZE_MAX - DV_TAG_LEN)
        return DV_ERROR_ARGUMENT;
    size_t sealed_len = plain->text_len + DV_TAG_LEN;
    dv_result result = check(aead, plain, plain->text_len, out, sealed_len, out_capacity);
    if (result != DV_DONE)
        return result;

    void *host_state = dv_enter(&aead->lock, plain->text_len + plain->aad_len);
    result = ready(aead, DV_SEAL, plain);
    if (result == DV_DONE && !seal(aead, plain, out)) {
        dv_wipe(out, sealed_len);
        result = DV_ERROR_ENGINE;
    }
    dv_leave(&aead->lock, host_state);
    return result;
}

dv_result dv_aead_open(dv_aead *aead, const dv_message *sealed, uint8_t *out, size_t out_capacity)
{
    if (!nonce_allowed(aead, sealed->nonce_len))
        return DV_ERROR_ARGUMENT;
    if (sealed->text_len < DV_TAG_LEN)
        return DV_ERROR_TAG;
    size_t plain_len = sealed->text_len - DV_TAG_LEN;
    dv_result result = check(aead, sealed, plain_len, out, plain_len, out_capacity);
    if (result != DV_DONE)
        return result;

    void *host_state = dv_enter(&aead->lock, sealed->text_len + sealed->aad_len);
    result = ready(aead, DV_OPEN, sealed);
    if (result == DV_DONE && !open_(aead, sealed, plain_len, out)) {
        dv_wipe(out, plain_len);
        result = DV_ERROR_TAG;
    }
    dv_leave(&aead->lock, host_state);
    return result;
}
