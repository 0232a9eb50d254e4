/*
 * Sending and receiving against a kernel made up here, which follows a script: it takes some, all or none of what it is given,
 * and fails in every way that the real one can.
 */
#include "test_csrc.h"

#ifndef _WIN32

#include "../net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACKETS_MAX 400
#define SOCKET 7
#define DUPLICATE 1007
#define SCRIPTS 20000
#define NS_A_MS 1000000

static dv_net_calls real;

/* What the made-up kernel is, and what has become of the packets. A packet's first 4 bytes are its number. */
static struct {
    int best;
    bool knows_segments;
    bool cuts;       /* the device takes segments */
    bool has_many;   /* there is a sendmmsg */
    int cut_error;   /* what it says where it does not */
    size_t path_len; /* longer packets do not fit */
    bool fragments;  /* they do in pieces, but not where the device is to cut */
    dv_address to, own;
    bool may_sleep;
    size_t trouble; /* one call in so many fails or is cut short; 0 is none */
    size_t forced;  /* calls that fail with forced_error first */
    int forced_error;
    bool refuses; /* the peer, each packet: the next call that would send is told, once */
    bool refused;
    int64_t clock;
    bool sleeps_long;
    uint32_t next; /* the packet that must come next */
    size_t calls;
    size_t duplicates; /* open ones */
    size_t packet_count;
    size_t ends[PACKETS_MAX];
    int64_t left_at[PACKETS_MAX];
    uint8_t *packets; /* exact */
} kernel;

static dv_address address_new(uint8_t version, bool mapped)
{
    dv_address made = {0};
    memset(made.bytes, 1, version == 4 ? 4 : 16);
    if (mapped)
        memcpy(made.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
    made.port = 5004;
    made.version = version;
    return made;
}

static int fake_best(void)
{
    return kernel.best;
}

static void fake_own(intptr_t socket, dv_address *address)
{
    CHECK(socket == SOCKET);
    *address = kernel.own;
}

static bool fake_cuts(intptr_t socket)
{
    (void)socket;
    return kernel.knows_segments;
}

static size_t packet_len(size_t packet)
{
    return kernel.ends[packet] - (packet ? kernel.ends[packet - 1] : 0);
}

/* One packet goes out: it must be the next one, whole. */
static void leave(const uint8_t *bytes, size_t len)
{
    uint32_t number;
    CHECK(kernel.next < kernel.packet_count);
    if (kernel.next >= kernel.packet_count)
        return;
    CHECK(len == packet_len(kernel.next));
    if (len >= sizeof number) {
        memcpy(&number, bytes, sizeof number);
        CHECK(number == kernel.next);
    }
    CHECK(bytes + len == kernel.packets + kernel.ends[kernel.next]);
    CHECK(len <= kernel.path_len || kernel.fragments);
    kernel.left_at[kernel.next++] = kernel.clock;
}

/* 0 where the kernel can take it. */
static int refusal(const dv_parcel *parcel)
{
    size_t longest = parcel->segment_len ? parcel->segment_len : parcel->len;
    if (parcel->segment_len && !kernel.cuts)
        return kernel.cut_error;
    bool in_pieces = kernel.fragments && !parcel->segment_len;
    return longest > kernel.path_len && !in_pieces ? EMSGSIZE : 0;
}

static int random_error(void)
{
    static const int errors[] = {EAGAIN, EINTR, ENOBUFS, ECONNREFUSED, ENETUNREACH, EPERM, ENOMEM};
    return errors[random_below(sizeof errors / sizeof *errors)];
}

static void check_parcel(const dv_parcel *parcel)
{
    CHECK(parcel->len <= (parcel->segment_len ? DV_PARCEL_MAX_LEN : DV_PACKET_MAX_LEN));
    if (parcel->segment_len) {
        CHECK(parcel->len > parcel->segment_len);
        CHECK((parcel->len + parcel->segment_len - 1) / parcel->segment_len <= DV_SEGMENTS_MAX);
    }
}

static int fake_send(intptr_t socket, const dv_address *address, const dv_parcel *parcels, size_t count)
{
    kernel.calls++;
    kernel.clock += 1000;
    CHECK(socket == (kernel.duplicates ? DUPLICATE : SOCKET));
    CHECK(!memcmp(address, &kernel.to, sizeof *address));
    CHECK(count >= 1 && count <= DV_PARCELS_MAX);
    for (size_t i = 0; i < count; i++)
        check_parcel(&parcels[i]);
    if (!kernel.has_many && (count > 1 || parcels[0].segment_len))
        return -ENOSYS;
    if (kernel.forced) {
        kernel.forced--;
        return -kernel.forced_error;
    }
    size_t taken = count;
    if (kernel.trouble && random_below(kernel.trouble) == 0) {
        if (count == 1 || random_bool())
            return -random_error();
        taken = 1 + random_below(count - 1);
    }
    for (size_t i = 0; i < taken; i++) {
        int error = kernel.refused ? ECONNREFUSED : refusal(&parcels[i]);
        kernel.refused = false;
        if (error)
            return i ? (int)i : -error;
        size_t step = parcels[i].segment_len ? parcels[i].segment_len : parcels[i].len;
        for (size_t at = 0; at < parcels[i].len || at == 0; at += step ? step : 1)
            leave(parcels[i].bytes + at, step < parcels[i].len - at ? step : parcels[i].len - at);
        kernel.refused = kernel.refuses;
    }
    return (int)taken;
}

static int fake_wait(intptr_t socket, bool to_send, int64_t timeout_ns)
{
    CHECK(to_send && socket == (kernel.duplicates ? DUPLICATE : SOCKET));
    if (timeout_ns > 0 && random_below(4) == 0) {
        kernel.clock += timeout_ns;
        return 0;
    }
    kernel.clock += timeout_ns > 0 && timeout_ns < NS_A_MS ? timeout_ns / 2 : NS_A_MS / 2;
    return kernel.trouble && random_below(5) == 0 ? -EINTR : 1;
}

static int fake_sleep(int64_t ns)
{
    CHECK(ns > 0 && kernel.may_sleep);
    if (kernel.trouble && random_below(20) == 0)
        return -EINTR;
    kernel.clock += ns;
    if (kernel.sleeps_long && random_below(3) == 0)
        kernel.clock += (int64_t)random_below(20 * NS_A_MS);
    return 0;
}

static int64_t fake_now(void)
{
    return kernel.clock;
}

static intptr_t fake_duplicate(intptr_t socket)
{
    CHECK(socket == SOCKET && kernel.duplicates == 0);
    if (kernel.trouble && random_below(10) == 0)
        return -1;
    kernel.duplicates++;
    return DUPLICATE;
}

static void fake_close(intptr_t socket)
{
    CHECK(socket == DUPLICATE && kernel.duplicates == 1);
    kernel.duplicates--;
}

/* A kernel that has everything, and packets of these lengths for it. */
static void kernel_begin(const size_t *lens, size_t count)
{
    size_t end = 0;
    free(kernel.packets);
    memset(&kernel, 0, sizeof kernel);
    kernel.best = DV_WIRE_GSO;
    kernel.knows_segments = kernel.cuts = kernel.has_many = true;
    kernel.cut_error = EIO;
    kernel.path_len = DV_PACKET_MAX_LEN;
    kernel.clock = (int64_t)1 << 40;
    kernel.to = address_new(4, false);
    kernel.packet_count = count;
    for (size_t i = 0; i < count; i++)
        kernel.ends[i] = end += lens[i];
    kernel.packets = exact_new(end);
    for (uint32_t i = 0; i < count; i++)
        if (lens[i] >= sizeof i)
            memcpy(kernel.packets + kernel.ends[i] - lens[i], &i, sizeof i);
}

static void kernel_equal(size_t len, size_t count)
{
    size_t lens[PACKETS_MAX];
    for (size_t i = 0; i < count; i++)
        lens[i] = len;
    kernel_begin(lens, count);
}

static dv_sending sending_new(void)
{
    dv_sending made = {0};
    made.socket = SOCKET;
    made.address = kernel.to;
    made.packets = kernel.packets;
    made.packet_count = kernel.packet_count;
    made.packets_len = kernel.packet_count ? kernel.ends[kernel.packet_count - 1] : 0;
    made.ends = kernel.ends;
    made.method = DV_WIRE_GSO;
    made.sleeps = 1;
    return made;
}

/* One call, and what must be true of any. */
static void send_once(dv_sending *sending)
{
    size_t before = kernel.next - sending->sent, calls = kernel.calls;
    uint8_t method = sending->method;
    int64_t timeout_ns = sending->timeout_ns;
    kernel.may_sleep = sending->sleeps || sending->timeout_ns != 0;
    host_record *host = host_watch(random_bool() ? 1 : 100000);
    CHECK(dv_wire_send(sending) == DV_DONE);
    CHECK(host->left == host->entered);
    host_forget();
    CHECK(sending->sent == kernel.next - before);
    CHECK(sending->system_calls == kernel.calls - calls);
    CHECK(kernel.duplicates == 0);
    CHECK((sending->stop == DV_STOP_DONE) == (kernel.next == kernel.packet_count));
    CHECK((sending->stop == DV_STOP_ERROR) == (sending->error != 0));
    CHECK(sending->method <= method);
    CHECK(sending->stop != DV_STOP_FULL || timeout_ns == 0);
    CHECK(sending->stop != DV_STOP_TIMEOUT || timeout_ns > 0);
    /* What is left of a timeout goes on behind a signal; 0 would be a socket that may not wait. */
    CHECK(sending->stop != DV_STOP_INTERRUPTED || timeout_ns == 0 || sending->timeout_ns != 0);
}

static void script_lens(size_t *lens, size_t count)
{
    size_t common = 1 + random_below(1500);
    for (size_t i = 0; i < count; i++) {
        lens[i] = random_below(6) ? common : 4 + random_below(2000);
        if (random_below(200) == 0)
            lens[i] = random_bool() ? 0 : random_below(60000);
    }
}

/* A burst through a kernel that makes trouble, call after call until all left. A packet that never can is stepped over. */
static void run_script(void)
{
    size_t lens[PACKETS_MAX], count = 1 + random_below(random_below(8) ? 80 : PACKETS_MAX);
    size_t unsendable = 0;
    script_lens(lens, count);
    kernel_begin(lens, count);
    kernel.cuts = random_below(4) != 0;
    kernel.has_many = random_below(8) != 0;
    kernel.cut_error = random_bool() ? EIO : EINVAL;
    kernel.path_len = random_below(4) ? DV_PACKET_MAX_LEN : 1000;
    kernel.trouble = random_below(3) ? 1 + random_below(10) : 0;
    if (kernel.trouble == 1)
        kernel.trouble = 2; /* else nothing ever leaves */
    dv_sending sending = sending_new();
    sending.rate = random_below(4) ? 0 : 1000000 + random_below(2000000000);
    for (int calls = 0; kernel.next < count && calls < 20000; calls++) {
        uint32_t before = kernel.next;
        sending.first = random_below(kernel.next + 1);
        sending.sent = kernel.next - sending.first;
        sending.sleeps = random_bool();
        sending.timeout_ns = random_bool() ? 0 : random_bool() ? -1 : (int64_t)random_below(5 * NS_A_MS);
        send_once(&sending);
        if (sending.stop == DV_STOP_PACED) {
            CHECK(!sending.sleeps && sending.wait_ns > 0);
            kernel.clock += sending.wait_ns;
        }
        if (sending.stop == DV_STOP_ERROR && sending.error == EMSGSIZE && kernel.next == before) {
            CHECK(packet_len(kernel.next) > kernel.path_len);
            kernel.next++;
            unsendable++;
        }
    }
    size_t too_long = 0;
    for (size_t i = 0; i < count; i++)
        too_long += lens[i] > kernel.path_len;
    CHECK(kernel.next == count);
    CHECK(unsendable == too_long);
}

static void wire_scripts(void)
{
    for (int i = 0; i < SCRIPTS; i++) {
        begin_case();
        run_script();
    }
}

static void calls_needed(size_t len, size_t count, int method, size_t calls)
{
    begin_case();
    kernel_equal(len, count);
    dv_sending sending = sending_new();
    sending.method = (uint8_t)method;
    send_once(&sending);
    CHECK(sending.stop == DV_STOP_DONE && sending.sent == count);
    CHECK(kernel.calls == calls);
}

static void wire_calls(void)
{
    calls_needed(1200, 40, DV_WIRE_GSO, 1);
    calls_needed(1200, 54, DV_WIRE_GSO, 1);
    calls_needed(1200, 300, DV_WIRE_GSO, 1);
    calls_needed(100, 64, DV_WIRE_GSO, 1);
    calls_needed(100, 65, DV_WIRE_GSO, 1);
    calls_needed(1200, 0, DV_WIRE_GSO, 0);
    calls_needed(1200, 64, DV_WIRE_MMSG, 1);
    calls_needed(1200, 65, DV_WIRE_MMSG, 2);
    calls_needed(1200, 65, DV_WIRE_LOOP, 65);
    calls_needed(60000, 3, DV_WIRE_GSO, 1);
    begin_case();
    kernel_equal(1200, 65);
    kernel.best = DV_WIRE_LOOP;
    dv_sending sending = sending_new();
    send_once(&sending);
    CHECK(kernel.calls == 65);
    begin_case(); /* a kernel that would send a parcel uncut is given none */
    kernel_equal(1200, 65);
    kernel.knows_segments = kernel.cuts = false;
    sending = sending_new();
    send_once(&sending);
    CHECK(kernel.calls == 2);
}

/* What is remembered of a kernel or device that refuses: only what it has shown to be about the method. */
static void method_left(bool cuts, bool has_many, size_t path_len, int forced_error, uint8_t method)
{
    begin_case();
    kernel_equal(1200, 40);
    kernel.cuts = cuts;
    kernel.has_many = has_many;
    kernel.path_len = path_len;
    kernel.forced_error = forced_error;
    kernel.forced = forced_error ? 2 : 0;
    dv_sending sending = sending_new();
    send_once(&sending);
    CHECK(sending.method == method);
    CHECK((sending.stop == DV_STOP_DONE) == (path_len >= 1200 && !forced_error));
}

static void wire_methods(void)
{
    method_left(true, true, 1500, 0, DV_WIRE_GSO);
    method_left(false, true, 1500, 0, DV_WIRE_MMSG);
    method_left(true, false, 1500, 0, DV_WIRE_LOOP);
    method_left(true, true, 1000, 0, DV_WIRE_GSO);      /* every packet is too long: not the method's fault */
    method_left(true, true, 1500, EINVAL, DV_WIRE_GSO); /* refused either way: a wrong address, say */
}

/* A path that takes in pieces what no device cuts: other packets may be shorter, and nothing is remembered. */
static void wire_fragments(void)
{
    begin_case();
    kernel_equal(1200, 40);
    kernel.path_len = 1000;
    kernel.fragments = true;
    dv_sending sending = sending_new();
    send_once(&sending);
    CHECK(sending.stop == DV_STOP_DONE && sending.method == DV_WIRE_GSO && kernel.calls == 2);
}

static void wire_bad_ends(void)
{
    kernel_equal(100, 3);
    dv_sending sending = sending_new();
    begin_case();
    sending.packets_len = 299;
    CHECK(dv_wire_send(&sending) == DV_ERROR_ARGUMENT && kernel.calls == 0);
    begin_case();
    sending = sending_new();
    kernel.ends[1] = 50;
    CHECK(dv_wire_send(&sending) == DV_ERROR_ARGUMENT && kernel.calls == 0);
    begin_case();
    sending = sending_new();
    kernel.ends[1] = 200;
    sending.first = 4;
    CHECK(dv_wire_send(&sending) == DV_ERROR_ARGUMENT && kernel.calls == 0);
    begin_case();
    sending = sending_new();
    sending.first = 2;
    sending.sent = 2;
    CHECK(dv_wire_send(&sending) == DV_ERROR_ARGUMENT && kernel.calls == 0);
    begin_case();
    sending = sending_new();
    sending.first = 3;
    CHECK(dv_wire_send(&sending) == DV_DONE && kernel.calls == 0 && sending.stop == DV_STOP_DONE);
}

/* A peer that refuses every packet stops no burst, by no method; the next one is told of it before its first packet. */
static void wire_refused(void)
{
    for (int method = DV_WIRE_LOOP; method < DV_WIRE_METHOD_COUNT; method++) {
        begin_case();
        kernel_equal(1200, 300);
        kernel.refuses = true;
        dv_sending sending = sending_new();
        sending.method = (uint8_t)method;
        send_once(&sending);
        CHECK(sending.stop == DV_STOP_DONE && sending.sent == 300);
        kernel.next = 100;
        sending.first = 100;
        sending.sent = 0;
        send_once(&sending);
        CHECK(sending.stop == DV_STOP_ERROR && sending.error == ECONNREFUSED && sending.sent == 0);
        kernel.refused = true;
        sending.first = 99;
        sending.sent = 1;
        send_once(&sending);
        CHECK(sending.stop == DV_STOP_DONE && sending.sent == 201);
    }
}

/* In no stretch of time do more bits leave than the rate and the group allow, however late the clock is. */
static void wire_paces(void)
{
    for (int i = 0; i < 300; i++) {
        size_t lens[PACKETS_MAX], count = 2 + random_below(PACKETS_MAX - 2);
        for (size_t packet = 0; packet < count; packet++)
            lens[packet] = 200 + random_below(1000);
        begin_case();
        kernel_begin(lens, count);
        kernel.sleeps_long = random_bool();
        dv_sending sending = sending_new();
        sending.rate = 1000000 + random_below(200000000);
        int64_t began = kernel.clock;
        send_once(&sending);
        CHECK(sending.stop == DV_STOP_DONE);
        double all = 0;
        for (size_t packet = 0; packet < count; packet++)
            all += (double)(lens[packet] + 28) * 8e9 / (double)sending.rate;
        if (!kernel.sleeps_long)
            CHECK((double)(kernel.clock - began) < 1.2 * all + 5 * NS_A_MS);
        double group = 16 * 1228 * 8e9 / (double)sending.rate; /* 16 packets late, and 16 at once or a millisecond's */
        double allowed = 2 * group < 4 * NS_A_MS + 1228 * 8e9 / (double)sending.rate
                             ? 2 * group
                             : 4 * NS_A_MS + 1228 * 8e9 / (double)sending.rate;
        for (size_t from = 0; from < count; from++) {
            double bits_ns = 0;
            for (size_t to = from; to < count; to++) {
                bits_ns += (double)(lens[to] + 28) * 8e9 / (double)sending.rate;
                if (!CHECK(bits_ns <= (double)(kernel.left_at[to] - kernel.left_at[from]) + allowed + 10000))
                    return;
            }
        }
    }
}

static void wire_counts_headers(dv_address to, dv_address own, int64_t header_len)
{
    begin_case();
    kernel_equal(1000, 1);
    kernel.to = to;
    kernel.own = own;
    dv_sending sending = sending_new();
    sending.rate = 8000000000; /* a byte a nanosecond */
    int64_t due_ns = kernel.clock;
    sending.due_ns = due_ns;
    send_once(&sending);
    CHECK(sending.due_ns == due_ns + 1000 + header_len);
}

static void wire_counts_headers_of_every_address(void)
{
    const dv_address none = {{0}, 0, 0, 0, 0, 0}, ip4 = address_new(4, false), ip6 = address_new(6, false);
    const dv_address mapped = address_new(6, true);
    wire_counts_headers(ip4, none, 28);
    wire_counts_headers(ip6, none, 48);
    wire_counts_headers(mapped, none, 28);
    wire_counts_headers(none, ip4, 28);
    wire_counts_headers(none, ip6, 48);
    wire_counts_headers(none, mapped, 28);
    wire_counts_headers(none, none, 48);
    wire_counts_headers(mapped, ip6, 28);
}

/* Receiving: sealed packets that come in one by one, several as one, or too long. */

#define QUEUE_MAX 600

static struct {
    size_t datagram_count;
    size_t at; /* the next one to come in */
    size_t first_packet[QUEUE_MAX + 1];
    bool too_long[QUEUE_MAX];
    size_t trouble;
    size_t errors; /* told to the receiver */
} queue;

static int fake_receive(intptr_t socket, bool many, dv_slot *slots, size_t count)
{
    CHECK(socket == SOCKET && count >= 1);
    if (queue.trouble && random_below(queue.trouble) == 0) {
        int error = random_below(3) ? EINTR : ECONNREFUSED;
        queue.errors += error == ECONNREFUSED;
        return -error;
    }
    if (queue.at == queue.datagram_count)
        return -EAGAIN;
    size_t room = many ? 1 + random_below(count) : 1, taken = 0;
    for (; taken < room && queue.at < queue.datagram_count; taken++, queue.at++) {
        dv_slot *slot = &slots[taken];
        size_t first = queue.first_packet[queue.at], last = queue.first_packet[queue.at + 1] - 1;
        size_t start = first ? kernel.ends[first - 1] : 0;
        slot->len = kernel.ends[last] - start;
        slot->segment_len = last > first ? packet_len(first) : 0;
        if (queue.too_long[queue.at])
            slot->len = slot->capacity + 1 + random_below(100), slot->segment_len = 0;
        else if (CHECK(slot->len <= slot->capacity))
            memcpy(slot->bytes, kernel.packets + start, slot->len);
        memset(&slot->arrival, 0, sizeof slot->arrival);
        slot->arrival.time_ns = (int64_t)first + 1;
    }
    return (int)taken;
}

/* Sealed packets in the kernel's own room, of one length and now and then a shorter one. */
static void queue_begin(dv_sealer *sealer, size_t count)
{
    const uint8_t *starts[PACKETS_MAX];
    size_t lens[PACKETS_MAX], sealed_lens[PACKETS_MAX] = {0};
    dv_refusal why;
    uint8_t *plain = exact_new(count * 100);
    for (size_t i = 0; i < count; i++) {
        uint8_t *packet = plain + i * 100;
        random_bytes(packet, 100);
        packet[0] = 0x80;
        packet[1] = 120;
        packet[2] = (uint8_t)(i >> 8);
        packet[3] = (uint8_t)i;
        starts[i] = packet;
        lens[i] = random_below(10) ? 100 : 20 + random_below(80);
        sealed_lens[i] = lens[i] + DV_OVERHEAD_LEN;
    }
    kernel_begin(sealed_lens, count);
    CHECK(dv_sealer_seal_burst(sealer, starts, lens, count, kernel.packets, kernel.ends[count - 1], &why) == DV_DONE);
    free(plain);
    memset(&queue, 0, sizeof queue);
    for (size_t packet = 0; packet < count;) {
        size_t first = packet++, len = packet_len(first);
        bool together = random_bool();
        while (together && packet < count && packet - first < 8 && packet_len(packet) <= len) {
            if (packet_len(packet++) < len)
                break;
        }
        queue.too_long[queue.datagram_count] = random_below(12) == 0;
        queue.first_packet[queue.datagram_count++] = first;
    }
    queue.first_packet[queue.datagram_count] = count;
}

/* What must come out, in order: each packet of each datagram, and one that is truncated for one that was too long. */
static void receive_all(dv_receiver *receiver, dv_opener *opener, size_t count)
{
    static uint8_t out[PACKETS_MAX * 1100];
    size_t ends[1024], datagram = 0, packet = 0, errors = 0;
    dv_opened opened[1024];
    dv_arrival arrivals[1024];
    for (int calls = 0; datagram < queue.datagram_count && calls < 5000; calls++) {
        dv_batch batch;
        size_t most = 1 + random_below(40), end = 0;
        int method = random_bool() ? DV_WIRE_GSO : DV_WIRE_LOOP;
        dv_receiver_take(receiver, SOCKET, method, most, &batch);
        errors += batch.error == ECONNREFUSED;
        CHECK(batch.count <= most && !(batch.count && batch.error));
        if (batch.count && random_below(4) == 0)
            dv_receiver_take(receiver, SOCKET, method, 1 + random_below(40), &batch); /* unopened: given out again */
        if (!batch.count)
            continue;
        CHECK(dv_receiver_open(receiver, opener, out, batch.len, ends, opened, arrivals) == DV_DONE);
        for (size_t i = 0; i < batch.count && datagram < queue.datagram_count; i++) {
            if (queue.too_long[datagram]) {
                CHECK(opened[i].status == DV_TRUNCATED && opened[i].fault == DV_FAULT_DATAGRAM);
                CHECK(opened[i].value > opened[i].limit && opened[i].limit == 1000);
                packet = queue.first_packet[++datagram];
                CHECK(ends[i] == end);
                continue;
            }
            CHECK(opened[i].status == DV_OK || opened[i].status == DV_EMPTY);
            CHECK(ends[i] - end == packet_len(packet));
            CHECK((out[end + 2] << 8 | out[end + 3]) == (int)packet);
            CHECK(arrivals[i].time_ns == (int64_t)queue.first_packet[datagram] + 1);
            end = ends[i];
            if (++packet == queue.first_packet[datagram + 1])
                datagram++;
        }
    }
    CHECK(datagram == queue.datagram_count && packet == count);
    CHECK(errors == queue.errors || errors + 1 == queue.errors); /* the last one may not be told yet */
}

static void wire_receives(void)
{
    static const uint8_t key[DV_KEY_LEN] = {1};
    dv_sealer *sealer;
    dv_opener *opener;
    CHECK(dv_sealer_new(&sealer, DV_MODE_AES256_GCM, key, 0, 0) == DV_DONE);
    CHECK(dv_opener_new(&opener, DV_MODE_AES256_GCM, key, 0) == DV_DONE);
    for (int i = 0; i < 2000; i++) {
        size_t count = 1 + random_below(PACKETS_MAX - 1);
        dv_receiver *receiver = dv_receiver_new(1000, 1 + random_below(16), 1000);
        begin_case();
        queue_begin(sealer, count);
        queue.trouble = random_bool() ? 0 : 2 + random_below(8);
        receive_all(receiver, opener, count);
        dv_receiver_free(receiver);
    }
    dv_opener_close(opener);
    begin_case();
    dv_receiver *receiver = dv_receiver_new(1000, 4, 1000);
    dv_batch batch, again;
    dv_opened opened[4];
    size_t ends[4];
    uint8_t out[4000];
    queue_begin(sealer, 3);
    memset(queue.too_long, 0, sizeof queue.too_long);
    dv_receiver_take(receiver, SOCKET, DV_WIRE_GSO, 4, &batch);
    CHECK(dv_receiver_open(receiver, opener, out, batch.len, ends, opened, NULL) == DV_ERROR_CLOSED);
    dv_receiver_take(receiver, SOCKET, DV_WIRE_GSO, 4, &again);
    CHECK(again.count == batch.count && again.len == batch.len);
    dv_receiver_free(receiver);
    dv_receiver_free(NULL);
    CHECK(!dv_receiver_new(0, 1, 1) && !dv_receiver_new(1, 0, 1) && !dv_receiver_new(65537, 1, 1));
    CHECK(!dv_receiver_new(1, 1025, 1) && !dv_receiver_new(1, 1, 0) && !dv_receiver_new(1, 1, 2));
    dv_sealer_free(sealer);
    dv_opener_free(opener);
}

void test_wire(void)
{
    real = dv_net;
    dv_net.best = fake_best;
    dv_net.cuts = fake_cuts;
    dv_net.own = fake_own;
    dv_net.send = fake_send;
    dv_net.receive = fake_receive;
    dv_net.wait = fake_wait;
    dv_net.sleep = fake_sleep;
    dv_net.now = fake_now;
    dv_net.duplicate = fake_duplicate;
    dv_net.close = fake_close;
    group("wire: no packet twice, none lost unreported");
    wire_scripts();
    group("wire: system calls, and what is remembered of a refusal");
    wire_calls();
    wire_methods();
    wire_fragments();
    wire_bad_ends();
    wire_refused();
    group("wire: paced");
    wire_paces();
    wire_counts_headers_of_every_address();
    group("wire: received in order, each once");
    wire_receives();
    free(kernel.packets);
    kernel.packets = NULL;
    dv_net = real;
}

#else

void test_wire(void)
{
}

#endif
