/* A burst to a UDP socket, in as few system calls as the kernel has for it. */
#include "net.h"
#include "platform.h"

#include <string.h>

/*
 * From how much work on the interpreter lock is given up: a packet that travels by itself takes as long as sealing some 1 KiB
 * would, bytes that travel together a quarter of their sealing (docs/wire.md).
 */
#define PACKET_WORK_LEN 1024
#define BYTES_A_WORK 4

#define NO_BUFFERS_SLEEP_NS 1000000 /* a full device queue: nobody tells when there is room again */
#define NO_BUFFERS_TRIES 1000

/* Pacing: packets leave in groups of a millisecond, and what a late clock has cost is made up for within limits. */
#define GROUP_NS 1000000
#define GROUP_PACKETS 16
#define LATE_NS 3000000
#define IP4_UDP_LEN 28
#define IP6_UDP_LEN 48
#define RATE_MIN 8 /* bits a second: the time of a packet must not overflow */
#define NS_A_SECOND 1000000000

/* A call at work. */
typedef struct work {
    dv_sending *sending;
    intptr_t socket; /* the caller's, or while the host's lock is given up a duplicate: others may close the caller's */
    void *host_state;
    bool away;         /* the host's lock is given up, if there is one */
    size_t header_len; /* with a rate: of IP and UDP */
    int method;        /* for this call */
    bool may_wait;     /* for room */
    bool refused;      /* a faster method was, if what leaves instead does leave */
    bool failed;       /* the next packet did */
    int tries;         /* with a full device queue */
    size_t at;         /* the next packet */
} work;

static void go_away(work *now)
{
    if (now->away)
        return;
    intptr_t duplicate = dv_net.duplicate(now->sending->socket);
    now->host_state = dv_host_leave();
    now->away = true;
    if (duplicate >= 0)
        now->socket = duplicate;
}

static void come_back(work *now)
{
    if (!now->away)
        return;
    if (now->socket != now->sending->socket)
        dv_net.close(now->socket);
    dv_host_enter(now->host_state);
}

/* The ends as they were checked are not kept: who calls lets nobody change them meanwhile. */
static bool ends_follow(const dv_sending *sending)
{
    size_t before = 0;
    for (size_t i = 0; i < sending->packet_count; i++) {
        if (sending->ends[i] < before)
            return false;
        before = sending->ends[i];
    }
    return before <= sending->packets_len && sending->first <= sending->packet_count &&
           sending->sent <= sending->packet_count - sending->first;
}

static size_t start_of(const dv_sending *sending, size_t packet)
{
    return packet ? sending->ends[packet - 1] : 0;
}

static size_t len_of(const dv_sending *sending, size_t packet)
{
    return sending->ends[packet] - start_of(sending, packet);
}

/* How many packets from this one on, before limit, leave as one parcel: of equal length, and a shorter last one. */
static size_t run_count(const work *now, size_t packet, size_t limit)
{
    const dv_sending *sending = now->sending;
    size_t segment_len = len_of(sending, packet), total = segment_len, count = 1;
    if (now->method < DV_WIRE_GSO || segment_len == 0 || segment_len > UINT16_MAX)
        return 1;
    while (packet + count < limit && count < DV_SEGMENTS_MAX) {
        size_t len = len_of(sending, packet + count);
        if (len == 0 || len > segment_len || total + len > DV_PARCEL_MAX_LEN)
            break;
        total += len;
        count++;
        if (len < segment_len)
            break;
    }
    return count;
}

/* The parcels of the next call, and how many packets are in each. */
static size_t wrap(const work *now, size_t limit, dv_parcel *parcels, size_t *packet_counts)
{
    const dv_sending *sending = now->sending;
    const size_t parcels_max = now->method == DV_WIRE_LOOP ? 1 : DV_PARCELS_MAX;
    size_t count = 0;
    for (size_t packet = now->at; packet < limit && count < parcels_max; count++) {
        size_t run = run_count(now, packet, limit), start = start_of(sending, packet);
        parcels[count].bytes = sending->packets + start;
        parcels[count].len = sending->ends[packet + run - 1] - start;
        parcels[count].segment_len = run > 1 ? len_of(sending, packet) : 0;
        packet_counts[count] = run;
        packet += run;
    }
    return count;
}

static int64_t packet_ns(const work *now, size_t packet)
{
    size_t len = len_of(now->sending, packet) + now->header_len;
    return (int64_t)((double)len * 8 * NS_A_SECOND / (double)now->sending->rate);
}

/* The packet behind the last one that may leave now. Without a rate: all may. */
static size_t pace(const work *now)
{
    dv_sending *sending = now->sending;
    if (!sending->rate)
        return sending->packet_count;
    int64_t clock = dv_net.now(), late = GROUP_PACKETS * packet_ns(now, now->at);
    late = late > LATE_NS ? LATE_NS : late;
    if (sending->due_ns < clock - late)
        sending->due_ns = sending->due_ns ? clock - late : clock;
    size_t limit = now->at;
    int64_t due = sending->due_ns;
    if (due > clock) {
        sending->wait_ns = due - clock;
        return limit;
    }
    while (limit < sending->packet_count && limit - now->at < GROUP_PACKETS && due <= clock + GROUP_NS)
        due += packet_ns(now, limit++);
    return limit;
}

static void advance(work *now, size_t packets)
{
    dv_sending *sending = now->sending;
    for (size_t i = 0; i < packets && sending->rate; i++)
        sending->due_ns += packet_ns(now, now->at + i);
    now->at += packets;
    now->tries = 0;
    now->failed = false;
    if (now->refused)
        sending->method = (uint8_t)now->method;
    now->refused = false;
}

/* Where the system's answer ends the call; DV_STOP_DONE is to go on. */
static dv_stop stop(dv_sending *sending, int error)
{
    sending->error = error;
    return DV_STOP_ERROR;
}

/* A wait failed. A signal that comes as the time is over does not make the socket one that may not wait. */
static dv_stop woken(work *now, int error)
{
    if (dv_net.meaning(error) != DV_NET_INTERRUPTED)
        return stop(now->sending, error);
    return now->may_wait && now->sending->timeout_ns == 0 ? DV_STOP_TIMEOUT : DV_STOP_INTERRUPTED;
}

static dv_stop wait_for_room(work *now)
{
    dv_sending *sending = now->sending;
    if (sending->timeout_ns == 0)
        return now->may_wait ? DV_STOP_TIMEOUT : DV_STOP_FULL;
    go_away(now);
    int64_t began = dv_net.now();
    int ready = dv_net.wait(now->socket, true, sending->timeout_ns);
    if (sending->timeout_ns > 0) {
        int64_t left = sending->timeout_ns - (dv_net.now() - began);
        sending->timeout_ns = left < 0 || ready == 0 ? 0 : left;
    }
    if (ready < 0)
        return woken(now, -ready);
    return ready ? DV_STOP_DONE : DV_STOP_TIMEOUT;
}

static dv_stop sleep_for(work *now, int64_t ns)
{
    go_away(now);
    int result = dv_net.sleep(ns);
    return result < 0 ? woken(now, -result) : DV_STOP_DONE;
}

static dv_stop wait_for_buffers(work *now, int error)
{
    dv_sending *sending = now->sending;
    if (sending->timeout_ns == 0 || ++now->tries > NO_BUFFERS_TRIES)
        return stop(sending, error);
    int64_t time = NO_BUFFERS_SLEEP_NS;
    if (sending->timeout_ns > 0) {
        time = sending->timeout_ns < time ? sending->timeout_ns : time;
        sending->timeout_ns -= time;
    }
    return sleep_for(now, time);
}

/* Behind the first packet the error may be one of packets before, told once: sendmmsg keeps such to itself and goes on. */
static dv_stop fail(work *now, int error)
{
    if (now->failed || now->at == now->sending->first)
        return stop(now->sending, error);
    now->failed = true;
    return DV_STOP_DONE;
}

/* Nothing of the parcels left. What to do about it; the method may become a slower one. */
static dv_stop meet(work *now, int error, const dv_parcel *parcels, size_t count)
{
    bool cut = parcels[0].segment_len != 0;
    switch (dv_net.meaning(error)) {
    case DV_NET_FULL:
        return wait_for_room(now);
    case DV_NET_INTERRUPTED:
        return DV_STOP_DONE;
    case DV_NET_NO_BUFFERS:
        return wait_for_buffers(now, error);
    case DV_NET_ABSENT:
        if (now->method == DV_WIRE_LOOP)
            return stop(now->sending, error);
        now->method = count == 1 && !cut ? DV_WIRE_LOOP : now->method - 1;
        now->refused = true;
        return DV_STOP_DONE;
    case DV_NET_REFUSED:
        if (!cut)
            return fail(now, error);
        now->method = DV_WIRE_MMSG;
        now->refused = true;
        return DV_STOP_DONE;
    case DV_NET_LONG: /* a path may take in pieces what it does not take as one; nothing to remember */
        if (!cut)
            return fail(now, error);
        now->method = DV_WIRE_MMSG;
        return DV_STOP_DONE;
    default:
        return fail(now, error);
    }
}

static dv_stop send_some(work *now)
{
    dv_parcel parcels[DV_PARCELS_MAX];
    size_t packet_counts[DV_PARCELS_MAX];
    dv_sending *sending = now->sending;
    size_t limit = pace(now);
    if (limit == now->at)
        return sending->sleeps ? sleep_for(now, sending->wait_ns) : DV_STOP_PACED;
    size_t count = wrap(now, limit, parcels, packet_counts);
    int left = dv_net.send(now->socket, &sending->address, parcels, count);
    sending->system_calls++;
    if (left < 0)
        return meet(now, -left, parcels, count);
    size_t packets = 0;
    for (size_t i = 0; i < (size_t)left && i < count; i++)
        packets += packet_counts[i];
    if (packets == 0)
        return DV_STOP_FULL; /* which no kernel should say; it must not be asked for ever */
    advance(now, packets);
    return DV_STOP_DONE;
}

int dv_wire_best(void)
{
    return dv_net.best();
}

/* A kernel that does not know segments ignores them, and would send a parcel uncut. */
static int method_here(const dv_sending *sending)
{
    int best = dv_net.best(), method = sending->method > best ? best : sending->method;
    return method == DV_WIRE_GSO && !dv_net.cuts(sending->socket) ? DV_WIRE_MMSG : method;
}

/* An IPv6 socket sends IPv4's packets to IPv4's addresses, which are ::ffff:0:0/96 there (RFC 4291, section 2.5.5.2). */
static bool is_ip4(const dv_address *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return address->version == 4 || (address->version == 6 && !memcmp(address->bytes, mapped, sizeof mapped));
}

static size_t header_len(const dv_sending *sending)
{
    dv_address address = sending->address;
    if (!address.version) /* the socket is connected, by the same protocol as it has */
        dv_net.own(sending->socket, &address);
    return is_ip4(&address) ? IP4_UDP_LEN : IP6_UDP_LEN;
}

static size_t work_len(const work *now)
{
    const dv_sending *sending = now->sending;
    size_t packets = sending->packet_count - now->at;
    if (now->method == DV_WIRE_GSO && packets)
        return (sending->ends[sending->packet_count - 1] - start_of(sending, now->at)) / BYTES_A_WORK;
    return packets > SIZE_MAX / PACKET_WORK_LEN ? SIZE_MAX : packets * PACKET_WORK_LEN;
}

dv_result dv_wire_send(dv_sending *sending)
{
    sending->error = 0;
    sending->wait_ns = 0;
    sending->system_calls = 0;
    sending->stop = DV_STOP_DONE;
    if (!ends_follow(sending) || (sending->rate && sending->rate < RATE_MIN) || sending->method >= DV_WIRE_METHOD_COUNT)
        return DV_ERROR_ARGUMENT;
    work now = {0};
    now.sending = sending;
    now.socket = sending->socket;
    now.may_wait = sending->timeout_ns != 0;
    now.at = sending->first + sending->sent;
    now.method = method_here(sending);
    now.header_len = sending->rate ? header_len(sending) : 0;
    if (!sending->rate && dv_host_is_long(work_len(&now)))
        go_away(&now);
    dv_stop stopped = DV_STOP_DONE;
    while (stopped == DV_STOP_DONE && now.at < sending->packet_count)
        stopped = send_some(&now);
    come_back(&now);
    sending->sent = now.at - sending->first;
    sending->stop = (uint8_t)stopped;
    return DV_DONE;
}

int dv_wire_wait(intptr_t socket, int64_t timeout_ns)
{
    intptr_t duplicate = timeout_ns ? dv_net.duplicate(socket) : -1;
    void *host_state = timeout_ns ? dv_host_leave() : NULL;
    int ready = dv_net.wait(duplicate < 0 ? socket : duplicate, false, timeout_ns);
    if (duplicate >= 0)
        dv_net.close(duplicate);
    dv_host_enter(host_state);
    return ready;
}
