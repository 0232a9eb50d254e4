/* The system calls of sending and receiving, behind one table: tests put a kernel of their own in its place. */
#ifndef DV_NET_H
#define DV_NET_H

#include "dvcrypto.h"

#include <stdbool.h>

#define DV_PARCELS_MAX 64       /* in one call */
#define DV_SEGMENTS_MAX 64      /* in one parcel: UDP_MAX_SEGMENTS of the oldest kernels that have it */
#define DV_PARCEL_MAX_LEN 65507 /* what an IPv4 datagram holds */

/* One packet, or packets of segment_len bytes and a shorter last one. */
typedef struct dv_parcel {
    const uint8_t *bytes;
    size_t len;
    size_t segment_len; /* 0 where it is one packet */
} dv_parcel;

/* Room for a datagram, and what came in. */
typedef struct dv_slot {
    uint8_t *bytes;
    size_t capacity;
    size_t len;         /* of the datagram, which may be more than there was room for */
    size_t segment_len; /* of the packets that came in as one; 0 where it is one packet */
    dv_arrival arrival;
} dv_slot;

/* What an error code of the system means to us. */
typedef enum dv_net_fault {
    DV_NET_FULL, /* nothing can leave, or nothing is waiting */
    DV_NET_INTERRUPTED,
    DV_NET_NO_BUFFERS, /* the device's queue is full */
    DV_NET_LONG,       /* a packet is longer than the path takes */
    DV_NET_REFUSED,    /* the kernel or the device cannot do it in this way */
    DV_NET_ABSENT,     /* the kernel has no such call */
    DV_NET_OTHER
} dv_net_fault;

/* Nothing here blocks but wait and sleep. What fails returns the system's error code, negated. */
typedef struct dv_net_calls {
    int (*best)(void);             /* dv_wire_method */
    bool (*cuts)(intptr_t socket); /* whether the kernel knows segments: without, a parcel would leave uncut */
    void (*own)(intptr_t socket, dv_address *address); /* the socket's; of version 0 where it has none */
    int (*send)(intptr_t socket, const dv_address *address, const dv_parcel *parcels, size_t count); /* how many left */
    int (*receive)(intptr_t socket, bool many, dv_slot *slots, size_t count);                        /* how many came */
    int (*wait)(intptr_t socket, bool to_send, int64_t timeout_ns); /* 1 ready, 0 not in time; negative: for ever */
    int (*sleep)(int64_t ns);
    int64_t (*now)(void);                   /* ns of a clock that only goes forward */
    intptr_t (*duplicate)(intptr_t socket); /* the same socket under a number of its own, or -1 */
    void (*close)(intptr_t socket);         /* a duplicate */
    dv_net_fault (*meaning)(int error);
} dv_net_calls;

extern dv_net_calls dv_net;

#endif
