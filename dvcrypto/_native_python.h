/*
 * What the C layer cannot know: Python. cffi puts this before the calls it generates.
 *
 * cffi gives up the GIL around every call, and a short call then waits up to a whole switch interval to get it back
 * behind a busy thread. Here the calls keep it, and the C layer itself gives it up for waits and for long bursts.
 */
#include "dvcrypto.h"

#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#define Py_END_ALLOW_THREADS }

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

/*
 * Point at the packets of a tuple, given as its id(): cffi has no cheaper way to hand over many bytes objects than an
 * ffi.from_buffer for each, which costs more than sealing one. Returns the sum of the lengths, or SIZE_MAX where an item
 * is not exactly bytes. The caller holds the tuple, and with it the packets, until it is done with the pointers.
 */
static size_t dv_python_gather(uintptr_t tuple_id, const uint8_t **packets, size_t *packet_lens)
{
    PyObject *tuple = (PyObject *)tuple_id;
    size_t total = 0;
    Py_ssize_t count = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (!PyBytes_CheckExact(item))
            return SIZE_MAX;
        packets[i] = (const uint8_t *)PyBytes_AsString(item);
        packet_lens[i] = (size_t)PyBytes_Size(item);
        total += packet_lens[i];
    }
    return total;
}
