/* The system calls of Linux, macOS and other POSIX systems. */
#ifndef _WIN32

#if defined(__linux__)
#define _GNU_SOURCE /* sendmmsg, recvmmsg */
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE /* SO_TIMESTAMP */
#endif

#include "net.h"
#include "net_name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS_A_SECOND 1000000000

#ifdef __linux__
/* linux/udp.h; glibc and musl name them only since 2.31 and 1.2.3. */
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#endif

/* Linux alone tells of a socket that was shut down for reading, which is always ready and has nothing. */
#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

/* What may come beside a datagram: the two things asked for, and what the socket's owner has asked for. */
#define CONTROL_LEN 256

typedef union control {
    size_t aligned; /* as a cmsghdr starts */
    unsigned char bytes[CONTROL_LEN];
} control;

static struct timespec as_timespec(int64_t ns)
{
    struct timespec made = {(time_t)(ns / NS_A_SECOND), (long)(ns % NS_A_SECOND)};
    return made;
}

static void message_write(struct msghdr *message, struct iovec *part, const dv_parcel *parcel, name *to,
                          socklen_t to_len)
{
    memset(message, 0, sizeof *message);
    part->iov_base = (void *)(uintptr_t)parcel->bytes; /* sending only reads it */
    part->iov_len = parcel->len;
    message->msg_iov = part;
    message->msg_iovlen = 1;
    message->msg_name = to_len ? to : NULL;
    message->msg_namelen = to_len;
}

static int send_one(intptr_t socket, const dv_address *address, const dv_parcel *parcel)
{
    name to;
    struct msghdr message;
    struct iovec part;
    message_write(&message, &part, parcel, &to, address->version ? name_write(&to, address) : 0);
    return sendmsg((int)socket, &message, MSG_DONTWAIT) < 0 ? -errno : 1;
}

#ifdef __linux__

typedef union segment_control {
    size_t aligned;
    unsigned char bytes[CMSG_SPACE(sizeof(uint16_t))];
} segment_control;

static void segment_write(struct msghdr *message, segment_control *space, size_t segment_len)
{
    uint16_t len = (uint16_t)segment_len;
    memset(space, 0, sizeof *space);
    message->msg_control = space;
    message->msg_controllen = sizeof *space;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof len);
    memcpy(CMSG_DATA(header), &len, sizeof len);
}

static int net_send(intptr_t socket, const dv_address *address, const dv_parcel *parcels, size_t count)
{
    struct mmsghdr messages[DV_PARCELS_MAX];
    struct iovec parts[DV_PARCELS_MAX];
    segment_control controls[DV_PARCELS_MAX];
    name to;
    if (count == 1 && !parcels[0].segment_len)
        return send_one(socket, address, parcels);
    socklen_t to_len = address->version ? name_write(&to, address) : 0;
    for (size_t i = 0; i < count; i++) {
        messages[i].msg_len = 0;
        message_write(&messages[i].msg_hdr, &parts[i], &parcels[i], &to, to_len);
        if (parcels[i].segment_len)
            segment_write(&messages[i].msg_hdr, &controls[i], parcels[i].segment_len);
    }
    int sent = sendmmsg((int)socket, messages, (unsigned)count, MSG_DONTWAIT);
    return sent < 0 ? -errno : sent;
}

static int net_best(void)
{
    return DV_WIRE_GSO;
}

/* The kernel is asked once; a socket that does not tell, as it is closed or not UDP, says nothing about the next one. */
static bool net_cuts(intptr_t socket)
{
    static int known = -1;
    int value, here = __atomic_load_n(&known, __ATOMIC_RELAXED);
    socklen_t value_len = sizeof value;
    if (here >= 0)
        return here;
    if (getsockopt((int)socket, SOL_UDP, UDP_SEGMENT, &value, &value_len) == 0)
        here = 1;
    else if (errno == ENOPROTOOPT)
        here = 0;
    __atomic_store_n(&known, here, __ATOMIC_RELAXED);
    return here > 0;
}

#else

static int net_send(intptr_t socket, const dv_address *address, const dv_parcel *parcels, size_t count)
{
    (void)count;
    return send_one(socket, address, parcels);
}

static int net_best(void)
{
    return DV_WIRE_LOOP;
}

static bool net_cuts(intptr_t socket)
{
    (void)socket;
    return false;
}

#endif

static void net_own(intptr_t socket, dv_address *address)
{
    name own;
    socklen_t own_len = sizeof own;
    own.any.ss_family = AF_UNSPEC;
    getsockname((int)socket, (struct sockaddr *)&own, &own_len);
    name_read(address, &own);
}

static void slot_prepare(const dv_slot *slot, struct msghdr *message, struct iovec *part, name *from, control *space)
{
    memset(message, 0, sizeof *message);
    part->iov_base = slot->bytes;
    part->iov_len = slot->capacity;
    message->msg_iov = part;
    message->msg_iovlen = 1;
    from->any.ss_family = AF_UNSPEC;
    message->msg_name = from;
    message->msg_namelen = sizeof *from;
    message->msg_control = space;
    message->msg_controllen = sizeof *space;
}

static void slot_finish(dv_slot *slot, struct msghdr *message, size_t len, const name *from)
{
    slot->len = len;
    slot->segment_len = 0;
    slot->arrival.time_ns = 0;
    name_read(&slot->arrival.address, from);
    /* Where the call does not tell the length of what it cut off, one byte more than there was room for says so. */
    if (message->msg_flags & MSG_TRUNC && slot->len <= slot->capacity)
        slot->len = slot->capacity + 1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
#ifdef __linux__
        if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO) {
            int segment_len;
            memcpy(&segment_len, CMSG_DATA(header), sizeof segment_len);
            slot->segment_len = segment_len > 0 ? (size_t)segment_len : 0;
        }
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(header), sizeof at);
            slot->arrival.time_ns = (int64_t)at.tv_sec * NS_A_SECOND + at.tv_nsec;
        }
#elif defined(SCM_TIMESTAMP)
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMP) {
            struct timeval at;
            memcpy(&at, CMSG_DATA(header), sizeof at);
            slot->arrival.time_ns = (int64_t)at.tv_sec * NS_A_SECOND + (int64_t)at.tv_usec * 1000;
        }
#endif
    }
}

static int receive_one(intptr_t socket, dv_slot *slot)
{
    struct msghdr message;
    struct iovec part;
    name from;
    control space;
    int flags = MSG_DONTWAIT;
#ifdef __linux__
    flags |= MSG_TRUNC; /* the datagram's own length */
#endif
    slot_prepare(slot, &message, &part, &from, &space);
    ssize_t len = recvmsg((int)socket, &message, flags);
    if (len < 0)
        return -errno;
    slot_finish(slot, &message, (size_t)len, &from);
    return 1;
}

static int net_receive(intptr_t socket, bool many, dv_slot *slots, size_t count)
{
#ifdef __linux__
    struct mmsghdr messages[DV_PARCELS_MAX];
    struct iovec parts[DV_PARCELS_MAX];
    name from[DV_PARCELS_MAX];
    control spaces[DV_PARCELS_MAX];
    if (many && count > 1) {
        count = count > DV_PARCELS_MAX ? DV_PARCELS_MAX : count;
        for (size_t i = 0; i < count; i++)
            slot_prepare(&slots[i], &messages[i].msg_hdr, &parts[i], &from[i], &spaces[i]);
        int received = recvmmsg((int)socket, messages, (unsigned)count, MSG_DONTWAIT | MSG_TRUNC, NULL);
        if (received < 0)
            return -errno;
        for (int i = 0; i < received; i++)
            slot_finish(&slots[i], &messages[i].msg_hdr, messages[i].msg_len, &from[i]);
        return received;
    }
#endif
    (void)many;
    (void)count;
    return receive_one(socket, slots);
}

static int net_wait(intptr_t socket, bool to_send, int64_t timeout_ns)
{
    struct pollfd watched = {(int)socket, to_send ? POLLOUT : POLLIN | POLLRDHUP, 0};
#ifdef __linux__
    struct timespec timeout = as_timespec(timeout_ns < 0 ? 0 : timeout_ns);
    int ready = ppoll(&watched, 1, timeout_ns < 0 ? NULL : &timeout, NULL);
#else
    int64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 > 0);
    int ready = poll(&watched, 1, timeout_ns < 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
#endif
    if (ready < 0)
        return -errno;
    if (watched.revents & POLLRDHUP)
        return 0;
    return ready > 0 && watched.revents & POLLNVAL ? -EBADF : ready;
}

static int net_sleep(int64_t ns)
{
    struct timespec time = as_timespec(ns);
    return nanosleep(&time, NULL) < 0 ? -errno : 0;
}

static int64_t net_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_A_SECOND + now.tv_nsec;
}

static intptr_t net_duplicate(intptr_t socket)
{
    return fcntl((int)socket, F_DUPFD_CLOEXEC, 3);
}

static void net_close(intptr_t socket)
{
    close((int)socket);
}

static dv_net_fault net_meaning(int error)
{
    if (error == EAGAIN || error == EWOULDBLOCK)
        return DV_NET_FULL;
    switch (error) {
    case EINTR:
        return DV_NET_INTERRUPTED;
    case ENOBUFS:
        return DV_NET_NO_BUFFERS;
    case EMSGSIZE:
        return DV_NET_LONG;
    case EINVAL:
    case EIO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
        return DV_NET_REFUSED;
    case ENOSYS:
        return DV_NET_ABSENT;
    default:
        return DV_NET_OTHER;
    }
}

int dv_wire_set(intptr_t socket, int option, int on)
{
    int level = SOL_SOCKET, name = -1;
#ifdef __linux__
    if (option == DV_OPTION_GRO)
        level = SOL_UDP, name = UDP_GRO;
    if (option == DV_OPTION_TIMESTAMPS)
        name = SO_TIMESTAMPNS;
#elif defined(SO_TIMESTAMP)
    if (option == DV_OPTION_TIMESTAMPS)
        name = SO_TIMESTAMP;
#endif
    if (name < 0)
        return ENOPROTOOPT;
    return setsockopt((int)socket, level, name, &on, sizeof on) < 0 ? errno : 0;
}

dv_net_calls dv_net = {net_best,  net_cuts, net_own,       net_send,  net_receive, net_wait,
                       net_sleep, net_now,  net_duplicate, net_close, net_meaning};

#else

typedef int net_is_in_net_windows_c;

#endif
