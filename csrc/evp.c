#include "evp.h"

#include <openssl/err.h>

const EVP_CIPHER *dv_evp_cipher(EVP_CIPHER **fetched, const char *name)
{
    if (!*fetched) {
        *fetched = EVP_CIPHER_fetch(NULL, name, NULL);
        if (!*fetched)
            ERR_clear_error();
    }
    return *fetched;
}

EVP_CIPHER_CTX *dv_evp_new(const EVP_CIPHER *cipher, dv_direction direction, const uint8_t *key)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (context && EVP_CipherInit_ex(context, cipher, NULL, key, NULL, direction == DV_SEAL))
        return context;
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    return NULL;
}

/* EVP takes int lengths; no packet is near that, but what arrives here is checked, not trusted. */
static bool lengths_fit(size_t aad_len, size_t text_len)
{
    return aad_len <= INT32_MAX && text_len <= INT32_MAX;
}

/* The IV is always given: EVP would make up a random one, or use the last one again, without an error. */
static bool start(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len)
{
    int len;
    return EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1) &&
           (aad_len == 0 || EVP_CipherUpdate(context, NULL, &len, aad, (int)aad_len));
}

static bool run(EVP_CIPHER_CTX *context, const uint8_t *in, size_t in_len, uint8_t *out)
{
    int len;
    return in_len == 0 || (EVP_CipherUpdate(context, out, &len, in, (int)in_len) && (size_t)len == in_len);
}

static bool finish(EVP_CIPHER_CTX *context)
{
    int len;
    uint8_t nothing[EVP_MAX_BLOCK_LENGTH];
    return EVP_CipherFinal_ex(context, nothing, &len) > 0;
}

bool dv_evp_seal(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
                 const uint8_t *plain, size_t plain_len, uint8_t *out)
{
    if (lengths_fit(aad_len, plain_len) && start(context, key, iv, aad, aad_len) &&
        run(context, plain, plain_len, out) && finish(context) &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, DV_TAG_LEN, out + plain_len) > 0)
        return true;
    ERR_clear_error();
    return false;
}

bool dv_evp_open(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
                 const uint8_t *sealed, size_t sealed_len, uint8_t *out)
{
    /* The tag is set for every packet, always whole: EVP accepts tags of 1 byte, and keeps the last one. */
    if (lengths_fit(aad_len, sealed_len) && start(context, key, iv, aad, aad_len) &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, DV_TAG_LEN, (void *)(sealed + sealed_len)) > 0 &&
        run(context, sealed, sealed_len, out) && finish(context))
        return true;
    ERR_clear_error(); /* a wrong tag leaves an entry in the thread's error queue */
    return false;
}
