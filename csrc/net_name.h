/* Socket addresses as the system has them: the same in all systems, but for the headers. */
#ifndef DV_NET_NAME_H
#define DV_NET_NAME_H

#include "dvcrypto.h"

#include <string.h>

#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#include <netinet/in.h>
#include <sys/socket.h>
#endif

typedef union name {
    struct sockaddr_storage any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} name;

static socklen_t name_write(name *written, const dv_address *address)
{
    memset(written, 0, sizeof *written);
    if (address->version == 6) {
        written->v6.sin6_family = AF_INET6;
        written->v6.sin6_port = htons(address->port);
        written->v6.sin6_flowinfo = htonl(address->flow_info);
        written->v6.sin6_scope_id = address->scope_id;
        memcpy(&written->v6.sin6_addr, address->bytes, 16);
        return sizeof written->v6;
    }
    written->v4.sin_family = AF_INET;
    written->v4.sin_port = htons(address->port);
    memcpy(&written->v4.sin_addr, address->bytes, 4);
    return sizeof written->v4;
}

static void name_read(dv_address *address, const name *from)
{
    memset(address, 0, sizeof *address);
    if (from->any.ss_family == AF_INET6) {
        address->version = 6;
        address->port = ntohs(from->v6.sin6_port);
        address->flow_info = ntohl(from->v6.sin6_flowinfo);
        address->scope_id = from->v6.sin6_scope_id;
        memcpy(address->bytes, &from->v6.sin6_addr, 16);
    } else if (from->any.ss_family == AF_INET) {
        address->version = 4;
        address->port = ntohs(from->v4.sin_port);
        memcpy(address->bytes, &from->v4.sin_addr, 4);
    }
}

#endif
