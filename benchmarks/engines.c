/*
 * Which engine of a mode is faster at which plaintext length: nanoseconds of one seal, a mode's engines side by side. The
 * rounds are interleaved and the best of each engine counts, so that a busy machine disturbs both alike. Modes come one
 * after the other: OpenSSL's ChaCha20-Poly1305 may leave the upper halves of AVX's registers in use, which slows libsodium's
 * AES-256-GCM down.
 *
 *   make bench-engines
 */
#define _POSIX_C_SOURCE 200809L

#include "dispatch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 60
#define HEADER_LEN 12
#define ENGINES 2 /* of a mode */

static const size_t lens[] = {2,   31,  64,  100, 136, 168,  200,  256,  320,  384,  448,  512,  576,  640,
                              704, 768, 832, 896, 960, 1024, 1100, 1200, 1400, 2048, 4096, 8192, 16384};

static const dv_engine *const engines[DV_MODE_COUNT][ENGINES] = {
    {&dv_engine_sodium_aes256gcm, &dv_engine_openssl_aes256gcm},
    {&dv_engine_sodium_xchacha20poly1305, &dv_engine_openssl_xchacha20poly1305},
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static double seal_once(const dv_engine *engine, dv_engine_key *key, size_t len, int repeats)
{
    static uint8_t plain[16384], out[16384 + DV_TAG_LEN], header[HEADER_LEN];
    uint8_t nonce[DV_NONCE_MAX_LEN] = {0};
    double began = now();
    for (int i = 0; i < repeats; i++) {
        memcpy(nonce, &i, sizeof i);
        engine->seal(key, nonce, header, HEADER_LEN, plain, len, out);
    }
    return (now() - began) / repeats;
}

static void compare(const dv_engine *const of_mode[ENGINES])
{
    dv_engine_key keys[ENGINES];
    const uint8_t key[DV_KEY_LEN] = {1};
    printf("\n%8s", "bytes");
    for (int e = 0; e < ENGINES; e++) {
        printf(" %26s", of_mode[e]->name);
        if (!of_mode[e]->unavailable())
            of_mode[e]->set_key(&keys[e], DV_SEAL, key);
    }
    for (size_t l = 0; l < sizeof lens / sizeof lens[0]; l++) {
        double best[ENGINES] = {1e18, 1e18};
        int repeats = (int)(200000 / (lens[l] + 400));
        for (int round = 0; round < ROUNDS; round++)
            for (int e = 0; e < ENGINES; e++) {
                if (of_mode[e]->unavailable())
                    continue;
                double ns = seal_once(of_mode[e], &keys[e], lens[l], repeats);
                best[e] = ns < best[e] ? ns : best[e];
            }
        printf("\n%8zu", lens[l]);
        for (int e = 0; e < ENGINES; e++)
            best[e] < 1e18 ? printf(" %26.0f", best[e]) : printf(" %26s", "-");
    }
    printf("\n");
}

int main(void)
{
    if (dv_init() != DV_DONE)
        return 1;
    printf("libsodium %s, OpenSSL %s; ns a seal, %d-byte header\n", dv_sodium_version(), dv_openssl_version(),
           HEADER_LEN);
    for (int mode = 0; mode < DV_MODE_COUNT; mode++)
        compare(engines[mode]);
    return 0;
}
