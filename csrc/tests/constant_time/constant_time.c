/*
 * Under valgrind's memcheck, with keys and payloads marked as undefined: it then reports every branch and every address that
 * depends on them. Sealed packets are public, and so is the verdict on a tag; both are marked as defined where they come out.
 * There is no padding here: its count is read from the opened payload, and any receiver tells it by the length it hands on.
 */
#undef crypto_aead_aes256gcm_decrypt_afternm
#undef crypto_aead_xchacha20poly1305_ietf_decrypt

#include "../../dispatch.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <valgrind/memcheck.h>

#define HEADER_LEN 20 /* with an extension of a word */
#define PAYLOAD_MAX_LEN 1300
#define SEALED_MAX_LEN (HEADER_LEN + PAYLOAD_MAX_LEN + DV_OVERHEAD_LEN)

static const size_t lens[] = {0, 1, 15, 16, 17, 63, 64, 65, 160, 255, 256, 543, 544, 639, 640, 1023, 1200, 1300};

/* Of the next packet; a sequence number comes once. */
static uint8_t plain_header[HEADER_LEN] = {0x90, 120, [12] = 0xbe, 0xde, 0, 1};

static size_t failed;

static void expect(bool holds, const char *what)
{
    if (!holds)
        printf("it does not hold that %s\n", what);
    failed += !holds;
}

static void make_secret(uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(17 * i + len);
    (void)VALGRIND_MAKE_MEM_UNDEFINED(bytes, len);
}

static void make_public(void *bytes, size_t len)
{
    (void)VALGRIND_MAKE_MEM_DEFINED(bytes, len);
}

int verdict_aes256gcm(unsigned char *out, unsigned long long *out_len, unsigned char *secret_nonce,
                      const unsigned char *sealed, unsigned long long sealed_len, const unsigned char *aad,
                      unsigned long long aad_len, const unsigned char *nonce, const crypto_aead_aes256gcm_state *state)
{
    int verdict = crypto_aead_aes256gcm_decrypt_afternm(out, out_len, secret_nonce, sealed, sealed_len, aad, aad_len,
                                                        nonce, state);
    make_public(&verdict, sizeof verdict);
    return verdict;
}

int verdict_xchacha20poly1305(unsigned char *out, unsigned long long *out_len, unsigned char *secret_nonce,
                              const unsigned char *sealed, unsigned long long sealed_len, const unsigned char *aad,
                              unsigned long long aad_len, const unsigned char *nonce, const unsigned char *key)
{
    int verdict = crypto_aead_xchacha20poly1305_ietf_decrypt(out, out_len, secret_nonce, sealed, sealed_len, aad,
                                                             aad_len, nonce, key);
    make_public(&verdict, sizeof verdict);
    return verdict;
}

static void open_one(dv_opener *opener, const uint8_t *sealed, size_t sealed_len, dv_status status)
{
    uint8_t out[SEALED_MAX_LEN];
    dv_opened opened;
    expect(dv_opener_open_burst(opener, &sealed, &sealed_len, 1, out, sizeof out, &opened) == DV_DONE, "it is opened");
    make_public(&opened, sizeof opened);
    expect(opened.status == status, "the status is the right one");
}

/* With each byte of the tag wrong in turn, for where a tag differs must not show; then as it is. */
static void open_all(dv_opener *opener, uint8_t *sealed, size_t sealed_len, size_t payload_len)
{
    for (size_t i = 0; i < DV_TAG_LEN; i++) {
        uint8_t *wrong = sealed + sealed_len - DV_OVERHEAD_LEN + i;
        *wrong ^= 0x80;
        open_one(opener, sealed, sealed_len, DV_BAD_TAG);
        *wrong ^= 0x80;
    }
    open_one(opener, sealed, sealed_len, payload_len ? DV_OK : DV_EMPTY);
}

static void seal_one(dv_sealer *sealer, dv_opener *opener, const uint8_t *payload, size_t len)
{
    uint8_t sealed[SEALED_MAX_LEN];
    size_t header_len = HEADER_LEN - 4, sealed_len = header_len + 4 + len + DV_OVERHEAD_LEN;
    dv_refusal refusal;
    plain_header[3]++;
    expect(dv_sealer_seal(sealer, plain_header, header_len, payload, 4 + len, sealed, sizeof sealed, &refusal) ==
               DV_DONE,
           "a packet is sealed");
    make_public(sealed, sealed_len);
    open_all(opener, sealed, sealed_len, len);
}

static void seal_burst(dv_sealer *sealer, dv_opener *opener, const uint8_t *payload, size_t len)
{
    uint8_t plain[HEADER_LEN + PAYLOAD_MAX_LEN], sealed[SEALED_MAX_LEN];
    const uint8_t *packets = plain;
    size_t plain_len = HEADER_LEN + len;
    dv_refusal refusal;
    plain_header[3]++;
    memcpy(plain, plain_header, HEADER_LEN);
    memcpy(plain + HEADER_LEN, payload, len);
    expect(dv_sealer_seal_burst(sealer, &packets, &plain_len, 1, sealed, sizeof sealed, &refusal) == DV_DONE,
           "a burst is sealed");
    make_public(sealed, plain_len + DV_OVERHEAD_LEN);
    open_all(opener, sealed, plain_len + DV_OVERHEAD_LEN, len);
}

/* Other packetizers look for the parts of a frame, which the sizes of its packets show. */
static void seal_frame(dv_sealer *sealer, const uint8_t *frame, size_t len)
{
    uint8_t sealed[2 * SEALED_MAX_LEN];
    dv_stream stream = {.max_packet_len = 900};
    dv_plan plan = {0, 0};
    dv_refusal refusal;
    expect(dv_stream_plan(&stream, DV_PACKETIZER_PLAIN, frame, len, &plan, &refusal) == DV_DONE, "a frame is planned");
    expect(dv_sealer_seal_frame(sealer, &stream, DV_PACKETIZER_PLAIN, &plan, frame, len, 1, 960, sealed, sizeof sealed,
                                NULL, &refusal) == DV_DONE,
           "a frame is sealed");
}

static void packets(dv_mode mode)
{
    uint8_t key[DV_KEY_LEN], payload[4 + PAYLOAD_MAX_LEN];
    dv_sealer *sealer;
    dv_opener *opener;
    make_secret(key, sizeof key);
    make_secret(payload, sizeof payload);
    expect(dv_sealer_new(&sealer, mode, key, 0, 0) == DV_DONE, "there is a sealer");
    expect(dv_opener_new(&opener, mode, key, 64) == DV_DONE, "there is an opener");
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        seal_one(sealer, opener, payload, lens[i]);
        seal_burst(sealer, opener, payload, lens[i]);
        seal_frame(sealer, payload, lens[i]);
    }
    dv_sealer_free(sealer);
    dv_opener_free(opener);
}

static void messages(dv_mode mode, size_t key_len, size_t nonce_len)
{
    uint8_t key[DV_KEY_LEN], plain[PAYLOAD_MAX_LEN], sealed[PAYLOAD_MAX_LEN + DV_TAG_LEN], out[PAYLOAD_MAX_LEN];
    uint8_t nonce[24] = {1}, aad[] = {1, 2, 3};
    dv_aead *aead;
    make_secret(key, sizeof key);
    make_secret(plain, sizeof plain);
    expect(dv_aead_new(&aead, mode, key, key_len) == DV_DONE, "there is an AEAD");
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t len = lens[i], sealed_len = len + DV_TAG_LEN;
        dv_message message = {nonce, nonce_len, aad, sizeof aad, plain, len};
        expect(dv_aead_seal(aead, &message, sealed, sizeof sealed) == DV_DONE, "a message is sealed");
        make_public(sealed, sealed_len);
        message.text = sealed;
        message.text_len = sealed_len;
        expect(dv_aead_open(aead, &message, out, sizeof out) == DV_DONE, "a message is opened");
        sealed[sealed_len - 1] ^= 1;
        expect(dv_aead_open(aead, &message, out, sizeof out) == DV_ERROR_TAG, "a forged message is refused");
    }
    dv_aead_free(aead);
}

int main(void)
{
    if (!RUNNING_ON_VALGRIND || dv_init() != DV_DONE) {
        puts("this runs under valgrind, with the libraries there");
        return 2;
    }
    for (size_t i = 0; i < dv_engine_count(); i++) {
        dv_engine_info info;
        dv_engine_describe(i, &info);
        bool runs = dv_force_engine(info.name) == DV_DONE;
        printf("%s%s\n", info.name, runs ? "" : ": cannot run here");
        if (!runs)
            continue;
        packets((dv_mode)info.mode);
        messages((dv_mode)info.mode, DV_KEY_LEN, info.mode == DV_MODE_AES256_GCM ? 12 : 24);
    }
    /*
     * By no engine, but by OpenSSL. A nonce of any other length is hashed under the key to the first block's counter, and
     * OpenSSL branches where the counter carries.
     */
    messages(DV_MODE_AES256_GCM, 16, 12);
    printf("%zu checks failed\n", failed);
    return failed != 0;
}
