/*
 * What the C layer cannot know: Python. cffi puts this before the calls it generates.
 *
 * cffi gives up the GIL around every call, and a short call then waits up to a whole switch interval to get it back
 * behind a busy thread. Here the calls keep it, and the C layer itself gives it up for waits and for long bursts.
 *
 * Arguments and results are Python objects named by their id(): cffi has no cheaper way to hand over many objects than an
 * ffi.from_buffer for each, which costs more than sealing a packet, and none to return an object. The caller holds what it
 * names until the call returns. A burst is a tuple of bytes-like objects. Results are bytes objects, appended to a list that
 * nobody else has before they are written: where memory is short, no nonce is used yet and no window has moved.
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

/* What cffi calls when the key's object is collected: with one argument, as more want memory for a tuple. */
static void dv_python_wipe_key(uint8_t *key)
{
    dv_wipe(key, DV_KEY_LEN);
}

/*
 * What owns a thing of C's is a capsule, which frees it, and wipes its key, when nothing refers to it any more. An object of
 * ffi.gc does so earlier: in a ring of garbage it is finalized in any order, and others' __del__ may still use the thing.
 */
static void free_sealer(PyObject *capsule)
{
    dv_sealer_free(PyCapsule_GetPointer(capsule, NULL));
}

static void free_opener(PyObject *capsule)
{
    dv_opener_free(PyCapsule_GetPointer(capsule, NULL));
}

static void free_aead(PyObject *capsule)
{
    dv_aead_free(PyCapsule_GetPointer(capsule, NULL));
}

static void free_receiver(PyObject *capsule)
{
    dv_receiver_free(PyCapsule_GetPointer(capsule, NULL));
}

/* Append a capsule that owns nothing yet: it is there before what it will own is, which so is never left behind. */
static PyObject *append_owner(uintptr_t list_id)
{
    static char nothing;
    PyObject *owner = PyCapsule_New(&nothing, NULL, NULL);
    if (!owner || PyList_Append((PyObject *)list_id, owner) < 0) {
        PyErr_Clear();
        Py_XDECREF(owner);
        return NULL;
    }
    Py_DECREF(owner); /* the list holds it */
    return owner;
}

static void own(PyObject *owner, void *made, PyCapsule_Destructor destructor)
{
    PyCapsule_SetPointer(owner, made);
    PyCapsule_SetDestructor(owner, destructor);
}

/* What the capsule owns. */
static void *dv_python_owned(uintptr_t owner_id)
{
    return PyCapsule_GetPointer((PyObject *)owner_id, NULL);
}

/* Append what owns a new sealer; and so on. */
static int dv_python_sealer(int mode, const uint8_t *key, uint32_t first_nonce, int big_endian, uintptr_t list_id)
{
    dv_sealer *made;
    PyObject *owner = append_owner(list_id);
    dv_result result = owner ? dv_sealer_new(&made, mode, key, first_nonce, big_endian) : DV_ERROR_MEMORY;
    if (result == DV_DONE)
        own(owner, made, free_sealer);
    return result;
}

static int dv_python_opener(int mode, const uint8_t *key, uint32_t replay_window, uintptr_t list_id)
{
    dv_opener *made;
    PyObject *owner = append_owner(list_id);
    dv_result result = owner ? dv_opener_new(&made, mode, key, replay_window) : DV_ERROR_MEMORY;
    if (result == DV_DONE)
        own(owner, made, free_opener);
    return result;
}

static int dv_python_receiver(size_t slot_len, size_t slot_count, size_t packet_max_len, uintptr_t list_id)
{
    PyObject *owner = append_owner(list_id);
    dv_receiver *made = owner ? dv_receiver_new(slot_len, slot_count, packet_max_len) : NULL;
    if (!made)
        return DV_ERROR_MEMORY;
    own(owner, made, free_receiver);
    return DV_DONE;
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

/* The packets of a tuple as the C layer takes them. */
typedef struct gathered {
    size_t count;
    size_t total; /* bytes of all packets */
    const uint8_t **packets;
    size_t *packet_lens;
    Py_buffer *held; /* those that are not bytes; NULL while there are none */
    size_t held_count;
    const uint8_t *few_packets[GATHERED_ON_STACK];
    size_t few_lens[GATHERED_ON_STACK];
} gathered;

/* Let go of the packets. Python code may run in that, and may seal: the refusal is this call's all the same. */
static void release(gathered *burst)
{
    dv_refusal refusal = last_refusal;
    for (size_t i = 0; i < burst->held_count; i++)
        PyBuffer_Release(&burst->held[i]);
    free(burst->held);
    if (burst->packets != burst->few_packets) {
        free(burst->packets);
        free(burst->packet_lens);
    }
    last_refusal = refusal;
}

/*
 * Copy what other threads may write while it is read, each packet to its place in out, and open it there. The libraries
 * read a packet twice, for the tag and for the plaintext, and both must see the same.
 */
static void settle(gathered *burst, uint8_t *out)
{
    size_t held = 0;
    for (size_t i = 0; i < burst->count && held < burst->held_count; i++) {
        if (burst->packets[i] == burst->held[held].buf && burst->packet_lens[i] == (size_t)burst->held[held].len) {
            if (burst->packet_lens[i])
                memcpy(out, burst->packets[i], burst->packet_lens[i]);
            burst->packets[i] = out;
            held++;
        }
        out += burst->packet_lens[i];
    }
}

static dv_result gather(uintptr_t tuple_id, gathered *burst)
{
    PyObject *tuple = (PyObject *)tuple_id;
    burst->count = (size_t)PyTuple_Size(tuple);
    burst->total = 0;
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
        } else {
            if (!burst->held && !(burst->held = malloc(burst->count * sizeof *burst->held)))
                return DV_ERROR_MEMORY;
            Py_buffer *held = &burst->held[burst->held_count];
            if (!hold(item, held))
                return DV_ERROR_ARGUMENT;
            burst->held_count++;
            burst->packets[i] = held->buf;
            burst->packet_lens[i] = (size_t)held->len;
        }
        if (burst->packet_lens[i] > PY_SSIZE_T_MAX - burst->total)
            return DV_ERROR_MEMORY;
        burst->total += burst->packet_lens[i];
    }
    return DV_DONE;
}

/* Append a bytes object, and return where it is to be written; NULL, without an exception, where there is no memory for it. */
static uint8_t *append_new(uintptr_t list_id, size_t len)
{
    PyObject *made = len > PY_SSIZE_T_MAX ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
    if (!made || PyList_Append((PyObject *)list_id, made) < 0) {
        PyErr_Clear();
        Py_XDECREF(made);
        return NULL;
    }
    Py_DECREF(made); /* the list holds it */
    return (uint8_t *)PyBytes_AsString(made);
}

/* Append where the result of each packet ends, as size_t, when results are extra_len longer than their packets. */
static dv_result append_ends(const gathered *burst, size_t extra_len, uintptr_t list_id)
{
    size_t end = 0;
    uint8_t *ends = append_new(list_id, burst->count * sizeof end);
    if (!ends)
        return DV_ERROR_MEMORY;
    for (size_t i = 0; i < burst->count; i++) {
        end += burst->packet_lens[i] + extra_len;
        memcpy(ends + i * sizeof end, &end, sizeof end);
    }
    return DV_DONE;
}

/* Append the sealed packet. DV_ERROR_ARGUMENT where header or payload is not exactly bytes. */
static int dv_python_seal(dv_sealer *sealer, uintptr_t header_id, uintptr_t payload_id, uintptr_t list_id)
{
    PyObject *header = (PyObject *)header_id, *payload = (PyObject *)payload_id;
    if (!PyBytes_CheckExact(header) || !PyBytes_CheckExact(payload))
        return DV_ERROR_ARGUMENT;
    size_t header_len = (size_t)PyBytes_Size(header), payload_len = (size_t)PyBytes_Size(payload);
    size_t sealed_len = header_len + payload_len + DV_OVERHEAD_LEN;
    uint8_t *out = append_new(list_id, sealed_len);
    if (!out)
        return DV_ERROR_MEMORY;
    return dv_sealer_seal(sealer, (const uint8_t *)PyBytes_AsString(header), header_len,
                          (const uint8_t *)PyBytes_AsString(payload), payload_len, out, sealed_len, &last_refusal);
}

static dv_result seal_burst(dv_sealer *sealer, const gathered *burst, uint8_t *out, size_t out_capacity)
{
    return dv_sealer_seal_burst(sealer, burst->packets, burst->packet_lens, burst->count, out, out_capacity,
                                &last_refusal);
}

static dv_result seal_new(dv_sealer *sealer, const gathered *burst, uintptr_t list_id)
{
    size_t sealed_len = burst->total + burst->count * DV_OVERHEAD_LEN;
    uint8_t *out = append_new(list_id, sealed_len);
    if (!out || append_ends(burst, DV_OVERHEAD_LEN, list_id) != DV_DONE)
        return DV_ERROR_MEMORY;
    return seal_burst(sealer, burst, out, sealed_len);
}

static dv_result seal_into(dv_sealer *sealer, const gathered *burst, PyObject *target, uintptr_t list_id)
{
    Py_buffer out;
    if (append_ends(burst, DV_OVERHEAD_LEN, list_id) != DV_DONE)
        return DV_ERROR_MEMORY;
    if (PyObject_GetBuffer(target, &out, PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return DV_ERROR_ARGUMENT;
    }
    dv_result result = seal_burst(sealer, burst, out.buf, (size_t)out.len);
    PyBuffer_Release(&out);
    return result;
}

/*
 * Append the sealed packets, one behind the other, and where each ends. Where target_id is not 0 it is a writable buffer that
 * takes the packets, and only the ends are appended.
 */
static int dv_python_seal_burst(dv_sealer *sealer, uintptr_t tuple_id, uintptr_t target_id, uintptr_t list_id)
{
    gathered burst;
    dv_result result = gather(tuple_id, &burst);
    if (result == DV_DONE)
        result =
            target_id ? seal_into(sealer, &burst, (PyObject *)target_id, list_id) : seal_new(sealer, &burst, list_id);
    release(&burst);
    return result;
}

/* Append a frame's sealed packets, one behind the other, and where each ends. The frame is exactly bytes. */
static int dv_python_seal_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, uintptr_t frame_id, int marker,
                                uint32_t advance, uintptr_t list_id)
{
    PyObject *frame = (PyObject *)frame_id;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(frame);
    size_t frame_len = (size_t)PyBytes_Size(frame);
    dv_plan plan;
    dv_result result = dv_stream_plan(stream, packetizer, bytes, frame_len, &plan, &last_refusal);
    if (result != DV_DONE)
        return result;
    uint8_t *out = append_new(list_id, plan.sealed_len);
    uint8_t *ends = out ? append_new(list_id, plan.packet_count * sizeof(size_t)) : NULL;
    if (!ends)
        return DV_ERROR_MEMORY;
    return dv_sealer_seal_frame(sealer, stream, packetizer, &plan, bytes, frame_len, marker, advance, out,
                                plan.sealed_len, (size_t *)(void *)ends, &last_refusal);
}

/* Append the packet's place in the output, and its dv_opened. DV_ERROR_ARGUMENT where it is not exactly bytes. */
static int dv_python_open(dv_opener *opener, uintptr_t packet_id, uintptr_t list_id)
{
    PyObject *packet = (PyObject *)packet_id;
    if (!PyBytes_CheckExact(packet))
        return DV_ERROR_ARGUMENT;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(packet);
    size_t packet_len = (size_t)PyBytes_Size(packet);
    uint8_t *out = append_new(list_id, packet_len);
    uint8_t *opened = out ? append_new(list_id, sizeof(dv_opened)) : NULL;
    if (!opened)
        return DV_ERROR_MEMORY;
    return dv_opener_open_burst(opener, &bytes, &packet_len, 1, out, packet_len, (dv_opened *)(void *)opened);
}

static dv_result open_new(dv_opener *opener, gathered *burst, uintptr_t list_id)
{
    uint8_t *out = append_new(list_id, burst->total);
    if (!out || append_ends(burst, 0, list_id) != DV_DONE)
        return DV_ERROR_MEMORY;
    uint8_t *opened = append_new(list_id, burst->count * sizeof(dv_opened));
    if (!opened)
        return DV_ERROR_MEMORY;
    settle(burst, out);
    return dv_opener_open_burst(opener, burst->packets, burst->packet_lens, burst->count, out, burst->total,
                                (dv_opened *)(void *)opened);
}

/* Append the packets' places in the output, one behind the other, where each ends, and the dv_opened of all. */
static int dv_python_open_burst(dv_opener *opener, uintptr_t tuple_id, uintptr_t list_id)
{
    gathered burst;
    dv_result result = gather(tuple_id, &burst);
    if (result == DV_DONE)
        result = open_new(opener, &burst, list_id);
    release(&burst);
    return result;
}

/*
 * Send a burst's packets from the first on, of which so many were sent before. address_id is a dv_address as bytes, or 0.
 * Appends a dv_sending, whose pointers lead nowhere: what became of this call is this caller's, as a signal handler may send
 * before the caller looks. Returns how many have left when all have by the method given; -1 where what was appended tells
 * more; -2 where the burst is none, and below that -2 minus a dv_result, when nothing was sent.
 */
static int64_t dv_python_send(intptr_t socket, uintptr_t address_id, uintptr_t sealed_id, uintptr_t ends_id,
                              size_t first, size_t sent, int64_t timeout_ns, int method, double rate, int64_t due_ns,
                              int sleeps, uintptr_t list_id)
{
    PyObject *address = (PyObject *)address_id, *ends = (PyObject *)ends_id;
    Py_buffer packets;
    dv_sending *sending = (dv_sending *)(void *)append_new(list_id, sizeof *sending);
    if (!sending)
        return -2 - DV_ERROR_MEMORY;
    if (!PyBytes_CheckExact(ends) || !hold((PyObject *)sealed_id, &packets))
        return -2;
    memset(sending, 0, sizeof *sending);
    sending->socket = socket;
    if (address)
        memcpy(&sending->address, PyBytes_AsString(address), sizeof sending->address);
    sending->packets = packets.buf;
    sending->packets_len = (size_t)packets.len;
    sending->ends = (const size_t *)(const void *)PyBytes_AsString(ends);
    sending->packet_count = (size_t)PyBytes_Size(ends) / sizeof(size_t);
    sending->first = first;
    sending->sent = sent;
    sending->timeout_ns = timeout_ns;
    sending->due_ns = due_ns;
    sending->rate = (uint64_t)rate;
    sending->sleeps = (uint8_t)(sleeps != 0);
    sending->method = (uint8_t)method;
    dv_result result = dv_wire_send(sending);
    PyBuffer_Release(&packets);
    if (result != DV_DONE)
        return -2;
    return sending->stop == DV_STOP_DONE && sending->method == method ? (int64_t)sending->sent : -1;
}

/*
 * Seal a frame as dv_python_seal_frame does, with the marker, and send it as dv_python_send does. Where sealing failed,
 * nothing was sent.
 */
static int64_t dv_python_send_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, uintptr_t frame_id,
                                    uint32_t advance, intptr_t socket, uintptr_t address_id, int64_t timeout_ns,
                                    int method, double rate, int sleeps, uintptr_t list_id)
{
    int result = dv_python_seal_frame(sealer, stream, packetizer, frame_id, 1, advance, list_id);
    if (result != DV_DONE)
        return -2 - result;
    PyObject *sealed = PyList_GetItem((PyObject *)list_id, 0), *ends = PyList_GetItem((PyObject *)list_id, 1);
    return dv_python_send(socket, address_id, (uintptr_t)sealed, (uintptr_t)ends, 0, 0, timeout_ns, method, rate, 0,
                          sleeps, list_id);
}

/*
 * Take in what is waiting and open it. Appends what dv_python_open_burst does, and the dv_arrival of each packet; nothing
 * where nothing was waiting. Returns a dv_result, or the system's error, negative.
 */
static int dv_python_receive(dv_receiver *receiver, dv_opener *opener, intptr_t socket, int method, size_t packet_max,
                             uintptr_t list_id)
{
    dv_batch batch;
    dv_receiver_take(receiver, socket, method, packet_max, &batch);
    if (batch.count == 0)
        return -batch.error;
    const size_t lens[4] = {batch.len, batch.count * sizeof(size_t), batch.count * sizeof(dv_opened),
                            batch.count * sizeof(dv_arrival)};
    uint8_t *written[4];
    for (int i = 0; i < 4; i++)
        if (!(written[i] = append_new(list_id, lens[i])))
            return DV_ERROR_MEMORY;
    return dv_receiver_open(receiver, opener, written[0], batch.len, (size_t *)(void *)written[1],
                            (dv_opened *)(void *)written[2], (dv_arrival *)(void *)written[3]);
}

/* A contiguous buffer of native unsigned bytes, held until it is released. 0 where the object is none; no exception is left. */
static int hold_octets(PyObject *object, int flags, Py_buffer *held)
{
    if (PyObject_GetBuffer(object, held, PyBUF_ND | PyBUF_FORMAT | flags) < 0) {
        PyErr_Clear();
        return 0;
    }
    const char *format = held->format ? held->format : "B";
    if (*format == '@')
        format++;
    if (!strcmp(format, "B") || !strcmp(format, "c"))
        return 1;
    PyBuffer_Release(held);
    return 0;
}

/*
 * Bytes that nobody can change: the object itself, or a copy of its buffer. The libraries read a sealed text twice, and both
 * must see the same. NULL, without an exception, where it is no buffer.
 */
static PyObject *settled(PyObject *object)
{
    Py_buffer held;
    if (PyBytes_Check(object)) {
        Py_INCREF(object);
        return object;
    }
    if (!hold_octets(object, 0, &held))
        return NULL;
    PyObject *copy = PyBytes_FromStringAndSize(held.buf, held.len);
    PyBuffer_Release(&held);
    if (!copy)
        PyErr_Clear();
    return copy;
}

/* Append what owns a new aead. DV_ERROR_ARGUMENT where the key is not bytes-like, or has a length that the mode has not. */
static int dv_python_aead(int mode, uintptr_t key_id, uintptr_t list_id)
{
    Py_buffer key;
    dv_aead *made;
    PyObject *owner = append_owner(list_id);
    if (!owner)
        return DV_ERROR_MEMORY;
    if (!hold_octets((PyObject *)key_id, 0, &key))
        return DV_ERROR_ARGUMENT;
    dv_result result = dv_aead_new(&made, mode, key.buf, (size_t)key.len);
    PyBuffer_Release(&key);
    if (result == DV_DONE)
        own(owner, made, free_aead);
    return result;
}

/* One of dv_aead_seal and dv_aead_open, and how much longer than its text the result is. */
typedef struct aead_work {
    dv_result (*call)(dv_aead *aead, const dv_message *message, uint8_t *out, size_t out_capacity);
    int extra_len;
} aead_work;

static dv_result work_into(const aead_work *work, dv_aead *aead, const dv_message *message, size_t out_len,
                           PyObject *target)
{
    Py_buffer out;
    if (!hold_octets(target, PyBUF_WRITABLE, &out))
        return DV_ERROR_ARGUMENT;
    dv_result result = (size_t)out.len == out_len ? work->call(aead, message, out.buf, out_len) : DV_ERROR_CAPACITY;
    PyBuffer_Release(&out);
    return result;
}

static dv_result work_new(const aead_work *work, dv_aead *aead, const dv_message *message, size_t out_len,
                          uintptr_t list_id)
{
    uint8_t *out = append_new(list_id, out_len);
    return out ? work->call(aead, message, out, out_len) : DV_ERROR_MEMORY;
}

/*
 * Append the result; where target_id is not 0 it is a writable buffer of exactly that length, which takes it. The arguments
 * are bytes-like, and the associated data may be None.
 */
static dv_result do_work(const aead_work *work, dv_aead *aead, uintptr_t nonce_id, uintptr_t text_id, uintptr_t aad_id,
                         uintptr_t target_id, uintptr_t list_id)
{
    int has_aad = (PyObject *)aad_id != Py_None;
    PyObject *nonce = settled((PyObject *)nonce_id), *text = settled((PyObject *)text_id);
    PyObject *aad = has_aad ? settled((PyObject *)aad_id) : NULL;
    dv_result result = DV_ERROR_ARGUMENT;
    if (nonce && text && (aad || !has_aad)) {
        dv_message message = {
            (const uint8_t *)PyBytes_AsString(nonce),
            (size_t)PyBytes_Size(nonce),
            aad ? (const uint8_t *)PyBytes_AsString(aad) : NULL,
            aad ? (size_t)PyBytes_Size(aad) : 0,
            (const uint8_t *)PyBytes_AsString(text),
            (size_t)PyBytes_Size(text),
        };
        /* Below 0 is a sealed text without a whole tag, which the call refuses. */
        Py_ssize_t signed_len = PyBytes_Size(text) + work->extra_len;
        size_t out_len = signed_len < 0 ? 0 : (size_t)signed_len;
        result = target_id ? work_into(work, aead, &message, out_len, (PyObject *)target_id)
                           : work_new(work, aead, &message, out_len, list_id);
    }
    Py_XDECREF(nonce);
    Py_XDECREF(text);
    Py_XDECREF(aad);
    return result;
}

static int dv_python_aead_seal(dv_aead *aead, uintptr_t nonce_id, uintptr_t text_id, uintptr_t aad_id,
                               uintptr_t target_id, uintptr_t list_id)
{
    static const aead_work work = {dv_aead_seal, DV_TAG_LEN};
    return do_work(&work, aead, nonce_id, text_id, aad_id, target_id, list_id);
}

static int dv_python_aead_open(dv_aead *aead, uintptr_t nonce_id, uintptr_t text_id, uintptr_t aad_id,
                               uintptr_t target_id, uintptr_t list_id)
{
    static const aead_work work = {dv_aead_open, -DV_TAG_LEN};
    return do_work(&work, aead, nonce_id, text_id, aad_id, target_id, list_id);
}
