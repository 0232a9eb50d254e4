/* What this CPU has, as dispatch.c asks for it; whether it accelerates AES at all is in dvcrypto.h. */
#ifndef DV_CPU_H
#define DV_CPU_H

#include <stdbool.h>

/* Whether the CPU has VAES and VPCLMULQDQ in AVX-512's registers, and the system saves those. */
bool dv_vaes_avx512(void);

#endif
