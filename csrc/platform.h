/* What differs between operating systems: locks, forks, aligned memory; and the host language's interpreter lock. */
#ifndef DV_PLATFORM_H
#define DV_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK dv_native_lock;
#else
#include <pthread.h>
typedef pthread_mutex_t dv_native_lock;
#endif

/* How many forks lie between this process and the one that called dv_init. */
unsigned dv_fork_generation(void);

/* Registers the fork handler; once. */
bool dv_platform_init(void);

/* A lock that a forked child finds open, even when another thread of the parent held it. */
typedef struct dv_lock {
    dv_native_lock native;
    unsigned generation;
} dv_lock;

bool dv_lock_init(dv_lock *lock);
void dv_lock_destroy(dv_lock *lock);

/*
 * Take the lock for work on work_len bytes. Short work keeps the host's interpreter lock, unless it must wait; long
 * work gives it up. Returns what dv_leave needs. Nobody waits for either lock while holding the other: the interpreter
 * lock is given up before waiting here, and taken back after this lock is released.
 */
void *dv_enter(dv_lock *lock, size_t work_len);
void dv_leave(dv_lock *lock, void *host_state);

/* Give up the host's interpreter lock, for a wait or for long work; not while a dv_lock is held. */
bool dv_host_is_long(size_t work_len);
void *dv_host_leave(void);
void dv_host_enter(void *host_state);

void *dv_aligned_new(size_t len); /* 16-byte aligned, zeroed; NULL when there is no memory */
void dv_aligned_free(void *memory);

#endif
