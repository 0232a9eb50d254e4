/*
 * What the C layer cannot know: Python. cffi puts this before the calls it generates.
 *
 * cffi gives up the GIL around every call, and a short call then waits up to a whole switch interval to get it back
 * behind a busy thread. Here the calls keep it, and the C layer itself gives it up for waits and for long bursts.
 *
 * A burst comes as a tuple of bytes-like objects, named by its id(): cffi has no cheaper way to hand over many objects
 * than an ffi.from_buffer for each, which costs more than sealing one. The caller holds the tuple until the call returns.
 * Outputs that cffi takes as uint8_t are bytes objects that nobody else has seen yet.
 */
#include "dvcrypto.h"

#include <stdlib.h>
#include <string.h>

#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#define Py_END_ALLOW_THREADS }

#ifdef _MSC_VER
#define THREAD_LOCAL __declspec(thread)
#else
#define THREAD_LOCAL _Thread_local
#endif

#define GATHERED_ON_STACK 128

static void *leave_python(void)
{
    return PyEval_SaveThread();
}

static void enter_python(void *thread_state)
{
    PyEval_RestoreThread(thread_state);
}

/* Keep the GIL for bursts of fewer than long_work_len bytes. */
static void dv_python_host(size_t long_work_len)
{
    dv_set_host(leave_python, enter_python, long_work_len);
}

static THREAD_LOCAL dv_refusal last_refusal;

/* Why this thread's last call returned DV_ERROR_PACKET. */
static const dv_refusal *dv_python_refusal(void)
{
    return &last_refusal;
}

/* A contiguous buffer of single bytes, held until it is released. 0 where the object is none; no exception is left. */
static int hold(PyObject *object, Py_buffer *held)
{
    if (PyObject_GetBuffer(object, held, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (held->itemsize == 1)
        return 1;
    PyBuffer_Release(held);
    return 0;
}

/*
 * Write where the result of each packet ends, when results lie one behind the other and are extra_len longer than their
 * packets. Returns where the last one ends, or SIZE_MAX where an item is not contiguous bytes.
 */
static size_t dv_python_measure(uintptr_t tuple_id, size_t extra_len, uint8_t *ends)
{
    PyObject *tuple = (PyObject *)tuple_id;
    size_t total = 0;
    Py_ssize_t count = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        Py_buffer held;
        if (PyBytes_CheckExact(item)) {
            total += (size_t)PyBytes_Size(item) + extra_len;
        } else if (hold(item, &held)) {
            total += (size_t)held.len + extra_len;
            PyBuffer_Release(&held);
        } else {
            return SIZE_MAX;
        }
        memcpy(ends + (size_t)i * sizeof total, &total, sizeof total);
    }
    return total;
}

/* The packets of a tuple as the C layer takes them. */
typedef struct gathered {
    size_t count;
    const uint8_t **packets;
    size_t *packet_lens;
    Py_buffer *held; /* those that are not bytes; NULL while there are none */
    size_t held_count;
    const uint8_t *few_packets[GATHERED_ON_STACK];
    size_t few_lens[GATHERED_ON_STACK];
} gathered;

static void release(gathered *burst)
{
    for (size_t i = 0; i < burst->held_count; i++)
        PyBuffer_Release(&burst->held[i]);
    free(burst->held);
    if (burst->packets != burst->few_packets) {
        free(burst->packets);
        free(burst->packet_lens);
    }
}

static dv_result gather(uintptr_t tuple_id, gathered *burst)
{
    PyObject *tuple = (PyObject *)tuple_id;
    burst->count = (size_t)PyTuple_Size(tuple);
    burst->packets = burst->few_packets;
    burst->packet_lens = burst->few_lens;
    burst->held = NULL;
    burst->held_count = 0;
    if (burst->count > GATHERED_ON_STACK) {
        burst->packets = malloc(burst->count * sizeof *burst->packets);
        burst->packet_lens = malloc(burst->count * sizeof *burst->packet_lens);
        if (!burst->packets || !burst->packet_lens)
            return DV_ERROR_MEMORY;
    }
    for (size_t i = 0; i < burst->count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (PyBytes_CheckExact(item)) {
            burst->packets[i] = (const uint8_t *)PyBytes_AsString(item);
            burst->packet_lens[i] = (size_t)PyBytes_Size(item);
            continue;
        }
        if (!burst->held && !(burst->held = malloc(burst->count * sizeof *burst->held)))
            return DV_ERROR_MEMORY;
        Py_buffer *held = &burst->held[burst->held_count];
        if (!hold(item, held))
            return DV_ERROR_ARGUMENT;
        burst->held_count++;
        burst->packets[i] = held->buf;
        burst->packet_lens[i] = (size_t)held->len;
    }
    return DV_DONE;
}

static int dv_python_seal(dv_sealer *sealer, const uint8_t *header, size_t header_len, const uint8_t *payload,
                          size_t payload_len, uint8_t *out, size_t out_capacity)
{
    return dv_sealer_seal(sealer, header, header_len, payload, payload_len, out, out_capacity, &last_refusal);
}

static int dv_python_seal_burst(dv_sealer *sealer, uintptr_t tuple_id, uint8_t *out, size_t out_capacity)
{
    gathered burst;
    dv_result result = gather(tuple_id, &burst);
    if (result == DV_DONE)
        result = dv_sealer_seal_burst(sealer, burst.packets, burst.packet_lens, burst.count, out, out_capacity,
                                      &last_refusal);
    release(&burst);
    return result;
}

/* out has packet_len bytes for the packet, and behind them room for its dv_opened. */
static int dv_python_open(dv_opener *opener, const uint8_t *packet, size_t packet_len, uint8_t *out)
{
    dv_opened opened;
    dv_result result = dv_opener_open_burst(opener, &packet, &packet_len, 1, out, packet_len, &opened);
    memcpy(out + packet_len, &opened, sizeof opened);
    return result;
}

/* opened has a dv_opened for each packet. */
static int dv_python_open_burst(dv_opener *opener, uintptr_t tuple_id, uint8_t *out, size_t out_capacity,
                                uint8_t *opened)
{
    gathered burst;
    dv_result result = gather(tuple_id, &burst);
    if (result == DV_DONE)
        result = dv_opener_open_burst(opener, burst.packets, burst.packet_lens, burst.count, out, out_capacity,
                                      (dv_opened *)opened);
    release(&burst);
    return result;
}
