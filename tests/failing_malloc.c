/* For tests, put in front of the C library: the nth allocation of the thread that asked for it fails, and no other. */
#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t len);
void *__libc_calloc(size_t count, size_t len);
void *__libc_realloc(void *memory, size_t len);
void *__libc_memalign(size_t alignment, size_t len);

static _Thread_local long until_failure; /* 0: none fails */

void fail_allocation(long nth)
{
    until_failure = nth;
}

/* 1 where it has failed. */
int allocation_failed(void)
{
    int failed = until_failure == 0;
    until_failure = 0;
    return failed;
}

static int fails(void)
{
    return until_failure && --until_failure == 0;
}

void *malloc(size_t len)
{
    return fails() ? NULL : __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
    return fails() ? NULL : __libc_calloc(count, len);
}

void *realloc(void *memory, size_t len)
{
    return fails() ? NULL : __libc_realloc(memory, len);
}

int posix_memalign(void **memory, size_t alignment, size_t len)
{
    if (fails() || !(*memory = __libc_memalign(alignment, len)))
        return ENOMEM;
    return 0;
}
