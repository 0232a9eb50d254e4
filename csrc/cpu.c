/* Whether this CPU has instructions for AES and for carry-less multiplication, GCM's two halves. */
#include "dvcrypto.h"

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)

#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* CPUID leaf 1, ECX: bit 25 is AES-NI, bit 1 is PCLMULQDQ (Intel SDM, volume 2A, table 3-10). */
int dv_aes_accelerated(void)
{
    const unsigned needed = 1u << 25 | 1u << 1;
#ifdef _MSC_VER
    int registers[4];
    __cpuid(registers, 1);
    unsigned ecx = (unsigned)registers[2];
#else
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return 0;
#endif
    return (ecx & needed) == needed;
}

#elif defined(_WIN32)

#include <windows.h>

int dv_aes_accelerated(void)
{
    return IsProcessorFeaturePresent(PF_ARM_V8_CRYPTO_INSTRUCTIONS_AVAILABLE) != 0;
}

#elif defined(__APPLE__)

/* Every arm64 machine of Apple's has them. */
int dv_aes_accelerated(void)
{
    return 1;
}

#elif defined(__linux__) && defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

int dv_aes_accelerated(void)
{
    const unsigned long needed = HWCAP_AES | HWCAP_PMULL;
    return (getauxval(AT_HWCAP) & needed) == needed;
}

#else

int dv_aes_accelerated(void)
{
    return 0;
}

#endif
