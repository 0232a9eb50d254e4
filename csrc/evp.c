#include "evp.h"

#include <openssl/err.h>

/*
 * What fails leaves entries in the thread's error queue, which is the host's too: ours go, and the host's stay. A mark is set
 * on the newest of the host's, and on nothing where there is none.
 */
bool dv_evp_mark(void)
{
    return ERR_set_mark();
}

void dv_evp_unmark(bool marked)
{
    if (marked)
        ERR_pop_to_mark();
}

static bool settle(bool done)
{
    if (!done) {
        ERR_pop_to_mark(); /* where there is none, all are ours */
        ERR_set_mark();
    }
    return done;
}

const EVP_CIPHER *dv_evp_cipher(EVP_CIPHER **fetched, const char *name)
{
    if (!*fetched) {
        bool marked = dv_evp_mark();
        *fetched = EVP_CIPHER_fetch(NULL, name, NULL);
        settle(*fetched != NULL);
        dv_evp_unmark(marked);
    }
    return *fetched;
}

EVP_CIPHER_CTX *dv_evp_new(const EVP_CIPHER *cipher, dv_direction direction, const uint8_t *key)
{
    bool marked = dv_evp_mark();
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (!settle(context && EVP_CipherInit_ex(context, cipher, NULL, key, NULL, direction == DV_SEAL))) {
        EVP_CIPHER_CTX_free(context);
        context = NULL;
    }
    dv_evp_unmark(marked);
    return context;
}

bool dv_evp_set_iv_len(EVP_CIPHER_CTX *context, size_t iv_len)
{
    bool marked = dv_evp_mark();
    bool set = settle(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)iv_len, NULL) > 0);
    dv_evp_unmark(marked);
    return set;
}

/* EVP takes int lengths: what is longer goes in pieces, each a multiple of every block. */
#define PIECE_LEN ((size_t)1 << 30)

/* Without out, the bytes are associated data. */
static bool update(EVP_CIPHER_CTX *context, const uint8_t *in, size_t in_len, uint8_t *out)
{
    int len;
    for (size_t done = 0; done < in_len; done += (size_t)len) {
        int piece_len = (int)(in_len - done < PIECE_LEN ? in_len - done : PIECE_LEN);
        if (!EVP_CipherUpdate(context, out ? out + done : NULL, &len, in + done, piece_len) || len != piece_len)
            return false;
    }
    return true;
}

/* The IV is always given: EVP would make up a random one, or use the last one again, without an error. */
static bool start(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len)
{
    return EVP_CipherInit_ex(context, NULL, NULL, key, iv, -1) && update(context, aad, aad_len, NULL);
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
    return settle(start(context, key, iv, aad, aad_len) && update(context, plain, plain_len, out) && finish(context) &&
                  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, DV_TAG_LEN, out + plain_len) > 0);
}

bool dv_evp_open(EVP_CIPHER_CTX *context, const uint8_t *key, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
                 const uint8_t *sealed, size_t sealed_len, uint8_t *out)
{
    /* The tag is set for every packet, always whole: EVP accepts tags of 1 byte, and keeps the last one. */
    return settle(start(context, key, iv, aad, aad_len) &&
                  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, DV_TAG_LEN, (void *)(sealed + sealed_len)) > 0 &&
                  update(context, sealed, sealed_len, out) && finish(context));
}
