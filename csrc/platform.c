#define _POSIX_C_SOURCE 200809L /* posix_memalign, under -std=c11 */

#include "platform.h"

#include "dvcrypto.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16

static struct {
    void *(*leave)(void);
    void (*enter)(void *host_state);
    size_t long_work_len;
} host = {NULL, NULL, SIZE_MAX};

void dv_set_host(void *(*leave)(void), void (*enter)(void *host_state), size_t long_work_len)
{
    host.leave = leave;
    host.enter = enter;
    host.long_work_len = long_work_len;
}

#ifdef _WIN32

unsigned dv_fork_generation(void)
{
    return 0;
}

bool dv_platform_init(void)
{
    return true;
}

static bool native_init(dv_native_lock *lock)
{
    InitializeSRWLock(lock);
    return true;
}

static void native_destroy(dv_native_lock *lock)
{
    (void)lock;
}

static bool native_try(dv_native_lock *lock)
{
    return TryAcquireSRWLockExclusive(lock);
}

static void native_acquire(dv_native_lock *lock)
{
    AcquireSRWLockExclusive(lock);
}

static void native_release(dv_native_lock *lock)
{
    ReleaseSRWLockExclusive(lock);
}

static void adopt(dv_lock *lock)
{
    (void)lock;
}

void *dv_aligned_new(size_t len)
{
    void *memory = _aligned_malloc(len, ALIGNMENT);
    if (memory)
        memset(memory, 0, len);
    return memory;
}

void dv_aligned_free(void *memory)
{
    _aligned_free(memory);
}

#else

/* Written by a child's only thread, right after the fork. */
static unsigned generation;
static pthread_mutex_t adoption = PTHREAD_MUTEX_INITIALIZER;

static void after_fork_in_child(void)
{
    generation++;
    pthread_mutex_init(&adoption, NULL);
}

unsigned dv_fork_generation(void)
{
    return generation;
}

bool dv_platform_init(void)
{
    return pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
}

static bool native_init(dv_native_lock *lock)
{
    return pthread_mutex_init(lock, NULL) == 0;
}

static void native_destroy(dv_native_lock *lock)
{
    pthread_mutex_destroy(lock);
}

static bool native_try(dv_native_lock *lock)
{
    return pthread_mutex_trylock(lock) == 0;
}

static void native_acquire(dv_native_lock *lock)
{
    pthread_mutex_lock(lock);
}

static void native_release(dv_native_lock *lock)
{
    pthread_mutex_unlock(lock);
}

/* In a forked child, make a lock of the parent's anew: the thread that may have held it is not here. */
static void adopt(dv_lock *lock)
{
    if (__atomic_load_n(&lock->generation, __ATOMIC_ACQUIRE) == generation)
        return;
    pthread_mutex_lock(&adoption);
    if (lock->generation != generation) {
        pthread_mutex_init(&lock->native, NULL);
        __atomic_store_n(&lock->generation, generation, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&adoption);
}

void *dv_aligned_new(size_t len)
{
    void *memory;
    if (posix_memalign(&memory, ALIGNMENT, len) != 0)
        return NULL;
    return memset(memory, 0, len);
}

void dv_aligned_free(void *memory)
{
    free(memory);
}

#endif

bool dv_lock_init(dv_lock *lock)
{
    lock->generation = dv_fork_generation();
    return native_init(&lock->native);
}

void dv_lock_destroy(dv_lock *lock)
{
    adopt(lock);
    native_destroy(&lock->native);
}

bool dv_host_is_long(size_t work_len)
{
    return work_len >= host.long_work_len;
}

void *dv_host_leave(void)
{
    return host.leave ? host.leave() : NULL;
}

void dv_host_enter(void *host_state)
{
    if (host_state)
        host.enter(host_state);
}

void *dv_enter(dv_lock *lock, size_t work_len)
{
    void *host_state = NULL;
    adopt(lock);
    if (work_len < host.long_work_len && native_try(&lock->native))
        return NULL;
    if (host.leave)
        host_state = host.leave();
    native_acquire(&lock->native);
    return host_state;
}

void dv_leave(dv_lock *lock, void *host_state)
{
    native_release(&lock->native);
    dv_host_enter(host_state);
}
