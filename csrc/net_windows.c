/* The system calls of Windows: a call for each packet. */
#ifdef _WIN32

#include <winsock2.h>

#include <mswsock.h>
#include <ws2tcpip.h>

#include "net.h"
#include "net_name.h"

#define NS_A_MS 1000000

static int net_best(void)
{
    return DV_WIRE_LOOP;
}

static bool net_cuts(intptr_t socket)
{
    (void)socket;
    return false;
}

static void net_own(intptr_t socket, dv_address *address)
{
    name own;
    socklen_t own_len = sizeof own;
    own.any.ss_family = AF_UNSPEC;
    getsockname((SOCKET)socket, (struct sockaddr *)&own, &own_len);
    name_read(address, &own);
}

static int ready_within(intptr_t socket, short events, int timeout_ms)
{
    WSAPOLLFD watched = {(SOCKET)socket, events, 0};
    int ready = WSAPoll(&watched, 1, timeout_ms);
    return ready == SOCKET_ERROR ? -WSAGetLastError() : ready;
}

/* There is no call that does not block on a blocking socket: it is asked first. */
static int net_send(intptr_t socket, const dv_address *address, const dv_parcel *parcels, size_t count)
{
    name to;
    socklen_t to_len = address->version ? name_write(&to, address) : 0;
    int ready = ready_within(socket, POLLWRNORM, 0);
    (void)count;
    if (ready <= 0)
        return ready ? ready : -WSAEWOULDBLOCK;
    int sent = sendto((SOCKET)socket, (const char *)parcels[0].bytes, (int)parcels[0].len, 0,
                      to_len ? (const struct sockaddr *)&to : NULL, to_len);
    return sent == SOCKET_ERROR ? -WSAGetLastError() : 1;
}

static int net_receive(intptr_t socket, bool many, dv_slot *slots, size_t count)
{
    name from;
    int from_len = sizeof from;
    int ready = ready_within(socket, POLLRDNORM, 0);
    (void)many;
    (void)count;
    if (ready <= 0)
        return ready ? ready : -WSAEWOULDBLOCK;
    from.any.ss_family = AF_UNSPEC;
    int len = recvfrom((SOCKET)socket, (char *)slots[0].bytes, (int)slots[0].capacity, 0, (struct sockaddr *)&from,
                       &from_len);
    if (len == SOCKET_ERROR && WSAGetLastError() != WSAEMSGSIZE)
        return -WSAGetLastError();
    /* Windows does not tell the length of what it cut off: one byte more than there was room for says so. */
    slots[0].len = len == SOCKET_ERROR ? slots[0].capacity + 1 : (size_t)len;
    slots[0].segment_len = 0;
    slots[0].arrival.time_ns = 0;
    name_read(&slots[0].arrival.address, &from);
    return 1;
}

static int net_wait(intptr_t socket, bool to_send, int64_t timeout_ns)
{
    int64_t ms = timeout_ns / NS_A_MS + (timeout_ns % NS_A_MS > 0);
    return ready_within(socket, to_send ? POLLWRNORM : POLLRDNORM,
                        timeout_ns < 0   ? -1
                        : ms > INT32_MAX ? INT32_MAX
                                         : (int)ms);
}

static int net_sleep(int64_t ns)
{
    Sleep((DWORD)(ns / NS_A_MS + (ns % NS_A_MS > 0)));
    return 0;
}

static int64_t net_now(void)
{
    LARGE_INTEGER frequency, ticks;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    return (int64_t)((double)ticks.QuadPart * 1e9 / (double)frequency.QuadPart);
}

static intptr_t net_duplicate(intptr_t socket)
{
    (void)socket;
    return -1;
}

static void net_close(intptr_t socket)
{
    (void)socket;
}

static dv_net_fault net_meaning(int error)
{
    switch (error) {
    case WSAEWOULDBLOCK:
        return DV_NET_FULL;
    case WSAEINTR:
        return DV_NET_INTERRUPTED;
    case WSAENOBUFS:
        return DV_NET_NO_BUFFERS;
    case WSAEMSGSIZE:
        return DV_NET_LONG;
    default:
        return DV_NET_OTHER;
    }
}

int dv_wire_set(intptr_t socket, int option, int on)
{
    (void)socket;
    (void)option;
    (void)on;
    return WSAENOPROTOOPT;
}

dv_net_calls dv_net = {net_best,  net_cuts, net_own,       net_send,  net_receive, net_wait,
                       net_sleep, net_now,  net_duplicate, net_close, net_meaning};

#else

typedef int net_is_in_net_c;

#endif
