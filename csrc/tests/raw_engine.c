#include "raw_engine.h"

#include "../dispatch.h"

#include <string.h>

int raw_available(const char *engine)
{
    return dv_init() == DV_DONE && dv_engine_find(engine) && !dv_engine_find(engine)->unavailable();
}

int raw_seal(const char *engine, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
             const uint8_t *plain, size_t plain_len, uint8_t *out)
{
    const dv_engine *found = dv_engine_find(engine);
    dv_engine_key ready;
    memset(&ready, 0, sizeof ready);
    int sealed =
        found->set_key(&ready, DV_SEAL, key) && found->seal(&ready, nonce, aad, aad_len, plain, plain_len, out);
    found->wipe(&ready);
    return sealed;
}

int raw_open(const char *engine, const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
             const uint8_t *sealed, size_t sealed_len, uint8_t *out)
{
    const dv_engine *found = dv_engine_find(engine);
    dv_engine_key ready;
    memset(&ready, 0, sizeof ready);
    int opened =
        found->set_key(&ready, DV_OPEN, key) && found->open(&ready, nonce, aad, aad_len, sealed, sealed_len, out);
    found->wipe(&ready);
    return opened;
}
