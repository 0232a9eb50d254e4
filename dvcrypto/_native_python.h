/*
 * What the C layer cannot know: Python. cffi puts this before the calls it generates.
 *
 * cffi gives up the GIL around every call, and a short call then waits up to a whole switch interval to get it back
 * behind a busy thread. Here the calls keep it, and the C layer itself gives it up for waits and for long bursts.
 *
 * Arguments and results are Python objects named by their id(): cffi has no cheaper way to hand over many objects than an
 * ffi.from_buffer for each, which costs more than sealing a packet, and none to return an object. The caller holds what it
 * names until the call returns. A burst is a tuple of bytes-like objects; results are appended to a list, as bytes objects
 * that were written before anyone else could see them.
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

/* A bytes object that nobody else has seen, to be written through the pointer. NULL, without an exception, where there is no
 * memory for it. */
static PyObject *new_bytes(size_t len, uint8_t **written)
{
    PyObject *made = len > PY_SSIZE_T_MAX ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
    if (made)
        *written = (uint8_t *)PyBytes_AsString(made);
    else
        PyErr_Clear();
    return made;
}

/* Append the object, which is given up in any case. */
static dv_result give(uintptr_t list_id, PyObject *object)
{
    int failed = PyList_Append((PyObject *)list_id, object);
    Py_DECREF(object);
    if (!failed)
        return DV_DONE;
    PyErr_Clear();
    return DV_ERROR_MEMORY;
}

/* Append where the result of each packet ends, as size_t, when results are extra_len longer than their packets. */
static dv_result give_ends(const gathered *burst, size_t extra_len, uintptr_t list_id)
{
    uint8_t *written;
    size_t end = 0;
    PyObject *ends = new_bytes(burst->count * sizeof end, &written);
    if (!ends)
        return DV_ERROR_MEMORY;
    for (size_t i = 0; i < burst->count; i++) {
        end += burst->packet_lens[i] + extra_len;
        memcpy(written + i * sizeof end, &end, sizeof end);
    }
    return give(list_id, ends);
}

/* Append the sealed packet. DV_ERROR_ARGUMENT where header or payload is not exactly bytes. */
static int dv_python_seal(dv_sealer *sealer, uintptr_t header_id, uintptr_t payload_id, uintptr_t list_id)
{
    PyObject *header = (PyObject *)header_id, *payload = (PyObject *)payload_id;
    uint8_t *out;
    if (!PyBytes_CheckExact(header) || !PyBytes_CheckExact(payload))
        return DV_ERROR_ARGUMENT;
    size_t header_len = (size_t)PyBytes_Size(header), payload_len = (size_t)PyBytes_Size(payload);
    size_t sealed_len = header_len + payload_len + DV_OVERHEAD_LEN;
    PyObject *sealed = new_bytes(sealed_len, &out);
    if (!sealed)
        return DV_ERROR_MEMORY;
    dv_result result =
        dv_sealer_seal(sealer, (const uint8_t *)PyBytes_AsString(header), header_len,
                       (const uint8_t *)PyBytes_AsString(payload), payload_len, out, sealed_len, &last_refusal);
    if (result == DV_DONE)
        return give(list_id, sealed);
    Py_DECREF(sealed);
    return result;
}

static dv_result seal_new(dv_sealer *sealer, const gathered *burst, uintptr_t list_id)
{
    uint8_t *out;
    size_t sealed_len = burst->total + burst->count * DV_OVERHEAD_LEN;
    PyObject *sealed = new_bytes(sealed_len, &out);
    if (!sealed)
        return DV_ERROR_MEMORY;
    dv_result result =
        dv_sealer_seal_burst(sealer, burst->packets, burst->packet_lens, burst->count, out, sealed_len, &last_refusal);
    if (result == DV_DONE)
        return give(list_id, sealed);
    Py_DECREF(sealed);
    return result;
}

static dv_result seal_into(dv_sealer *sealer, const gathered *burst, PyObject *target)
{
    Py_buffer out;
    if (PyObject_GetBuffer(target, &out, PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return DV_ERROR_ARGUMENT;
    }
    dv_result result = dv_sealer_seal_burst(sealer, burst->packets, burst->packet_lens, burst->count, out.buf,
                                            (size_t)out.len, &last_refusal);
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
    if (result == DV_DONE && target_id)
        result = seal_into(sealer, &burst, (PyObject *)target_id);
    else if (result == DV_DONE)
        result = seal_new(sealer, &burst, list_id);
    if (result == DV_DONE)
        result = give_ends(&burst, DV_OVERHEAD_LEN, list_id);
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
    uint8_t *out, *ends = NULL;
    dv_plan plan;
    dv_result result = dv_stream_plan(stream, packetizer, bytes, frame_len, &plan, &last_refusal);
    if (result != DV_DONE)
        return result;
    PyObject *sealed = new_bytes(plan.sealed_len, &out);
    PyObject *ends_object = sealed ? new_bytes(plan.packet_count * sizeof(size_t), &ends) : NULL;
    if (ends_object)
        result = dv_sealer_seal_frame(sealer, stream, packetizer, &plan, bytes, frame_len, marker, advance, out,
                                      plan.sealed_len, (size_t *)ends, &last_refusal);
    else
        result = DV_ERROR_MEMORY;
    if (result != DV_DONE) {
        Py_XDECREF(sealed);
        Py_XDECREF(ends_object);
        return result;
    }
    result = give(list_id, sealed);
    if (result == DV_DONE)
        return give(list_id, ends_object);
    Py_DECREF(ends_object);
    return result;
}

/* Append the packet's place in the output, and its dv_opened. DV_ERROR_ARGUMENT where it is not exactly bytes. */
static int dv_python_open(dv_opener *opener, uintptr_t packet_id, uintptr_t list_id)
{
    PyObject *packet = (PyObject *)packet_id;
    uint8_t *out, *described;
    dv_opened opened;
    if (!PyBytes_CheckExact(packet))
        return DV_ERROR_ARGUMENT;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(packet);
    size_t packet_len = (size_t)PyBytes_Size(packet);
    PyObject *plain = new_bytes(packet_len, &out);
    if (!plain)
        return DV_ERROR_MEMORY;
    dv_result result = dv_opener_open_burst(opener, &bytes, &packet_len, 1, out, packet_len, &opened);
    if (result != DV_DONE) {
        Py_DECREF(plain);
        return result;
    }
    result = give(list_id, plain);
    PyObject *description = new_bytes(sizeof opened, &described);
    if (result != DV_DONE || !description) {
        Py_XDECREF(description);
        return DV_ERROR_MEMORY;
    }
    memcpy(described, &opened, sizeof opened);
    return give(list_id, description);
}

/* Append the packets' places in the output, one behind the other, where each ends, and the dv_opened of all. */
static int dv_python_open_burst(dv_opener *opener, uintptr_t tuple_id, uintptr_t list_id)
{
    gathered burst;
    uint8_t *out = NULL, *opened = NULL;
    PyObject *plain = NULL, *descriptions = NULL;
    dv_result result = gather(tuple_id, &burst);
    if (result == DV_DONE) {
        plain = new_bytes(burst.total, &out);
        descriptions = new_bytes(burst.count * sizeof(dv_opened), &opened);
        if (plain)
            settle(&burst, out);
        result = plain && descriptions ? dv_opener_open_burst(opener, burst.packets, burst.packet_lens, burst.count,
                                                              out, burst.total, (dv_opened *)opened)
                                       : DV_ERROR_MEMORY;
    }
    if (result == DV_DONE) {
        Py_INCREF(plain);
        result = give(list_id, plain);
    }
    if (result == DV_DONE)
        result = give_ends(&burst, 0, list_id);
    if (result == DV_DONE) {
        Py_INCREF(descriptions);
        result = give(list_id, descriptions);
    }
    Py_XDECREF(plain);
    Py_XDECREF(descriptions);
    release(&burst);
    return result;
}

static THREAD_LOCAL dv_sending last_sending;

/* What became of this thread's last sending, for those who count system calls. Its pointers lead nowhere. */
static const dv_sending *dv_python_sending(void)
{
    return &last_sending;
}

/*
 * Send a burst's packets from the first on, of which so many were sent before. address_id is a dv_address as bytes, or 0.
 * Returns how many have left when all have by the method given; -1 where what was appended, a dv_sending, tells more; -2
 * where the burst is none, and below that -2 minus a dv_result. A signal handler may send before the caller looks: what
 * became of this call is this caller's.
 */
static int64_t dv_python_send(intptr_t socket, uintptr_t address_id, uintptr_t sealed_id, uintptr_t ends_id,
                              size_t first, size_t sent, int64_t timeout_ns, int method, double rate, int64_t due_ns,
                              int sleeps, uintptr_t list_id)
{
    PyObject *address = (PyObject *)address_id, *ends = (PyObject *)ends_id;
    Py_buffer packets;
    uint8_t *written;
    dv_sending sending = {0};
    if (!PyBytes_CheckExact(ends) || !hold((PyObject *)sealed_id, &packets))
        return -2;
    sending.socket = socket;
    if (address)
        memcpy(&sending.address, PyBytes_AsString(address), sizeof sending.address);
    sending.packets = packets.buf;
    sending.packets_len = (size_t)packets.len;
    sending.ends = (const size_t *)(const void *)PyBytes_AsString(ends);
    sending.packet_count = (size_t)PyBytes_Size(ends) / sizeof(size_t);
    sending.first = first;
    sending.sent = sent;
    sending.timeout_ns = timeout_ns;
    sending.due_ns = due_ns;
    sending.rate = (uint64_t)rate;
    sending.sleeps = (uint8_t)(sleeps != 0);
    sending.method = (uint8_t)method;
    dv_result result = dv_wire_send(&sending);
    PyBuffer_Release(&packets);
    last_sending = sending;
    if (result != DV_DONE)
        return -2;
    if (sending.stop == DV_STOP_DONE && sending.method == method)
        return (int64_t)sending.sent;
    PyObject *told = new_bytes(sizeof sending, &written);
    if (!told)
        return -2 - DV_ERROR_MEMORY;
    memcpy(written, &sending, sizeof sending);
    result = give(list_id, told);
    return result == DV_DONE ? -1 : -2 - (int64_t)result;
}

/*
 * Seal a frame as dv_python_seal_frame does, with the marker, and send it as dv_python_send does. Where sealing failed,
 * nothing was appended and nothing sent.
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
    uint8_t *out = NULL, *written[3];
    dv_receiver_take(receiver, socket, method, packet_max, &batch);
    if (batch.count == 0)
        return -batch.error;
    const size_t lens[3] = {batch.count * sizeof(size_t), batch.count * sizeof(dv_opened),
                            batch.count * sizeof(dv_arrival)};
    PyObject *plain = new_bytes(batch.len, &out), *parts[3] = {NULL, NULL, NULL};
    dv_result result = plain ? DV_DONE : DV_ERROR_MEMORY;
    for (int i = 0; i < 3 && result == DV_DONE; i++)
        if (!(parts[i] = new_bytes(lens[i], &written[i])))
            result = DV_ERROR_MEMORY;
    if (result == DV_DONE)
        result = dv_receiver_open(receiver, opener, out, batch.len, (size_t *)(void *)written[0],
                                  (dv_opened *)(void *)written[1], (dv_arrival *)(void *)written[2]);
    if (result == DV_DONE) {
        Py_INCREF(plain);
        result = give(list_id, plain);
    }
    for (int i = 0; i < 3 && result == DV_DONE; i++) {
        Py_INCREF(parts[i]);
        result = give(list_id, parts[i]);
    }
    Py_XDECREF(plain);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(parts[i]);
    return result;
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

/* A key that the caller frees; NULL where it is not bytes-like, has a length that the mode has not, or without memory. */
static dv_aead *dv_python_aead(int mode, uintptr_t key_id)
{
    dv_aead *aead = NULL;
    Py_buffer key;
    if (hold_octets((PyObject *)key_id, 0, &key)) {
        dv_aead_new(&aead, mode, key.buf, (size_t)key.len);
        PyBuffer_Release(&key);
    }
    return aead;
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
    uint8_t *out;
    PyObject *made = new_bytes(out_len, &out);
    if (!made)
        return DV_ERROR_MEMORY;
    dv_result result = work->call(aead, message, out, out_len);
    if (result == DV_DONE)
        return give(list_id, made);
    Py_DECREF(made);
    return result;
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
