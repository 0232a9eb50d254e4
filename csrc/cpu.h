/* What this CPU has, as dispatch.c asks for it; whether it accelerates AES at all is in dvcrypto.h. */
#ifndef DV_CPU_H
#define DV_CPU_H

#include <stdbool.h>

/* Whether the CPU has VAES and VPCLMULQDQ in AVX-512's registers, the system saves those, and this is a 64-bit program. */
bool dv_vaes_avx512(void);

#endif
