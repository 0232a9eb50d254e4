/* The linked libraries: their versions, and making them ready. */
#include "library.h"

#include "dispatch.h"
#include "platform.h"

#include <openssl/crypto.h>
#include <sodium.h>
#include <stdio.h>

/* The oldest that the tests are run with: Debian 12's libsodium, and the OpenSSL line it has. */
#define SODIUM_OLDEST DV_VERSION(1, 0, 18)
#define OPENSSL_OLDEST DV_VERSION(3, 0, 0)

int dv_sodium_number(void)
{
    int major = 0, minor = 0, patch = 0;
    if (sscanf(sodium_version_string(), "%d.%d.%d", &major, &minor, &patch) != 3)
        return 0;
    return DV_VERSION(major, minor, patch);
}

int dv_openssl_number(void)
{
    return DV_VERSION((int)OPENSSL_version_major(), (int)OPENSSL_version_minor(), (int)OPENSSL_version_patch());
}

dv_result dv_init(void)
{
    static bool ready;
    if (ready)
        return DV_DONE;
    if (dv_sodium_number() < SODIUM_OLDEST || dv_openssl_number() < OPENSSL_OLDEST)
        return DV_ERROR_VERSION;
    if (sodium_init() < 0 || !dv_platform_init())
        return DV_ERROR_MEMORY;
    dv_result result = dv_dispatch_init();
    ready = result == DV_DONE;
    return result;
}

const char *dv_sodium_version(void)
{
    return sodium_version_string();
}

const char *dv_openssl_version(void)
{
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}

void dv_wipe(void *memory, size_t len)
{
    sodium_memzero(memory, len);
}
