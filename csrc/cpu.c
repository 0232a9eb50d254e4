/* What this CPU has: instructions for AES and for carry-less multiplication, GCM's two halves, and how wide they are. */
#include "cpu.h"

#include "dvcrypto.h"

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#define X86
#endif

#ifdef X86

#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* The bits below are named in Intel SDM, volume 2A, CPUID, and volume 1, section 13.3 (XCR0). */
typedef struct {
    unsigned eax, ebx, ecx, edx;
} registers;

static registers cpuid(unsigned leaf)
{
    registers r = {0, 0, 0, 0};
#ifdef _MSC_VER
    int found[4];
    __cpuid(found, 0);
    if ((unsigned)found[0] >= leaf) {
        __cpuidex(found, (int)leaf, 0);
        r = (registers){(unsigned)found[0], (unsigned)found[1], (unsigned)found[2], (unsigned)found[3]};
    }
#else
    __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
#endif
    return r;
}

/* Only where CPUID says OSXSAVE: others have no such instruction, and it must not be moved in front of the question. */
static unsigned xcr0(void)
{
#ifdef _MSC_VER
    return (unsigned)_xgetbv(0);
#else
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
#endif
}

static bool has(unsigned bits, unsigned needed)
{
    return (bits & needed) == needed;
}

int dv_aes_accelerated(void)
{
    return has(cpuid(1).ecx, 1u << 25 | 1u << 1); /* AES-NI, PCLMULQDQ */
}

bool dv_vaes_avx512(void)
{
    return sizeof(void *) == 8 &&                                          /* OpenSSL has no other code for them */
           has(cpuid(1).ecx, 1u << 27) &&                                  /* OSXSAVE */
           has(xcr0(), 1u << 1 | 1u << 2 | 1u << 5 | 1u << 6 | 1u << 7) && /* SSE, AVX and AVX-512's three parts */
           has(cpuid(7).ebx, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) && /* AVX-512 F, DQ, BW, VL */
           has(cpuid(7).ecx, 1u << 9 | 1u << 10);                          /* VAES, VPCLMULQDQ */
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

#ifndef X86

bool dv_vaes_avx512(void)
{
    return false;
}

#endif
