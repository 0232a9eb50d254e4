/*
 * dvcrypto's C layer: seal and open bursts of RTP and RTCP packets in Discord's two transport modes.
 *
 * This is its whole API. The Python layer takes its declarations from this very page, so only plain C11 declarations,
 * integer macros and enums stand here. Lengths are bytes. Nothing here knows Python.
 */
#ifndef DVCRYPTO_H
#define DVCRYPTO_H

#include <stddef.h>
#include <stdint.h>

#define DV_KEY_LEN 32
#define DV_TAG_LEN 16
#define DV_SUFFIX_LEN 4         /* the part of the nonce that travels behind the tag */
#define DV_OVERHEAD_LEN 20      /* what sealing adds: tag and suffix */
#define DV_PACKET_MAX_LEN 65535 /* of a sealed packet */
#define DV_REPLAY_WINDOW_MAX 32768
#define DV_PACKETIZER_PLAIN 0 /* cuts anywhere; the others are known by dv_packetizer_name */

typedef enum dv_mode {
    DV_MODE_AES256_GCM,         /* aead_aes256_gcm_rtpsize */
    DV_MODE_XCHACHA20_POLY1305, /* aead_xchacha20_poly1305_rtpsize */
    DV_MODE_COUNT
} dv_mode;

/* What became of a call. */
typedef enum dv_result {
    DV_DONE,
    DV_ERROR_ARGUMENT, /* a value outside its range */
    DV_ERROR_VERSION,  /* a linked library is too old */
    DV_ERROR_ENGINE,   /* no engine of that name or mode can run here, or a library call failed */
    DV_ERROR_MEMORY,
    DV_ERROR_CLOSED,
    DV_ERROR_FORKED,    /* the sealer was made before a fork, in the parent */
    DV_ERROR_EXHAUSTED, /* the nonces are used up, for ever */
    DV_ERROR_CAPACITY,  /* the output is too small */
    DV_ERROR_OVERLAP,   /* an input overlaps the output without starting exactly at its own place in it */
    DV_ERROR_PACKET,    /* a packet or frame cannot be sealed: see dv_refusal */
    DV_ERROR_CHANGED,   /* a frame is no longer what was planned; the output was wiped */
    DV_ERROR_TAG        /* a message without its right tag; the output was wiped */
} dv_result;

/* What became of one packet that was opened. */
typedef enum dv_status {
    DV_OK,
    DV_EMPTY,     /* authentic, but without a byte of payload */
    DV_TRUNCATED, /* shorter than its header calls for */
    DV_MALFORMED,
    DV_NOT_MEDIA, /* a keep-alive or an IP discovery packet */
    DV_BAD_TAG,
    DV_REPLAYED,
    DV_STATUS_COUNT
} dv_status;

/* Why a packet or a frame is refused. Each comes with the value that was found and the limit it breaks. */
typedef enum dv_fault {
    DV_FAULT_NONE,
    DV_FAULT_SHORT,          /* bytes in the packet, bytes it needs */
    DV_FAULT_LONG,           /* bytes in the packet, bytes it may have */
    DV_FAULT_VERSION,        /* the RTP version, 2 */
    DV_FAULT_HEADER_LEN,     /* bytes in the header given, bytes its bits call for */
    DV_FAULT_EXTENSION_LONG, /* bytes in the extension's body, bytes behind the header */
    DV_FAULT_PADDING_ZERO,   /* 0, 1 */
    DV_FAULT_PADDING_LONG,   /* the padding count, bytes there are for it */
    DV_FAULT_KEEP_ALIVE,
    DV_FAULT_DISCOVERY,
    DV_FAULT_TAG,
    DV_FAULT_REPLAY,       /* the sequence number, the newest one seen */
    DV_FAULT_ROOM,         /* bytes of payload a packet has room for, bytes the packetizer needs */
    DV_FAULT_UNCUT,        /* bytes in a frame that is not cut, bytes of payload a packet has room for */
    DV_FAULT_NOTHING,      /* packets that a frame makes, 1 */
    DV_FAULT_START_CODE,   /* the 3 bytes that are there, those that should be */
    DV_FAULT_UNIT_SHORT,   /* bytes in a NAL unit or OBU, bytes it needs */
    DV_FAULT_FORBIDDEN,    /* the first byte of a NAL unit or OBU, the highest with the forbidden bit clear */
    DV_FAULT_NAL_TYPE,     /* the type, the last one that is not RTP's own */
    DV_FAULT_OBU_LONG,     /* bytes in the OBU by its size field, bytes left in the frame */
    DV_FAULT_OBU_SIZE,     /* bytes of a size field without an end, bytes it may have */
    DV_FAULT_FRAME_MARKER, /* VP9's frame marker, 2 */
    DV_FAULT_SUPERFRAME,   /* bytes that a VP9 superframe's index calls for, bytes there are */
    DV_FAULT_DATAGRAM,     /* bytes in a datagram, bytes the receiver has room for */
    DV_FAULT_COUNT
} dv_fault;

/* The first packet that a sealer refused, or what it refused in a frame. */
typedef struct dv_refusal {
    size_t index;   /* in the burst; in a frame the byte where the NAL unit or OBU starts, 0 for the frame itself */
    uint32_t fault; /* dv_fault */
    uint32_t value;
    uint32_t limit;
} dv_refusal;

/*
 * One packet opened. The plain packet is header (header_len), extension body (extension_len), payload, padding
 * (padding_len); its length is plain_len. All lengths are 0 unless status is DV_OK or DV_EMPTY.
 */
typedef struct dv_opened {
    uint8_t status; /* dv_status */
    uint8_t fault;  /* dv_fault */
    uint8_t is_rtcp;
    uint8_t padding_len;
    uint8_t suffix[4]; /* of the nonce, as it was on the wire */
    uint16_t header_len;
    uint16_t extension_len;
    uint32_t plain_len;
    uint32_t value; /* of the fault */
    uint32_t limit;
} dv_opened;

/*
 * A stream of RTP packets under one SSRC. The caller owns it; the sealer that serves it advances sequence, timestamp and
 * picture_id, under its lock, and nothing else reads them: threads may plan and seal frames of one stream at once.
 */
typedef struct dv_stream {
    uint32_t ssrc;
    uint32_t timestamp;    /* of the next packet */
    uint16_t sequence;     /* of the next packet */
    uint8_t payload_type;  /* 0 to 127 */
    uint8_t has_extension; /* 0 or 1 */
    uint16_t extension_profile;
    uint16_t extension_len;   /* of the body: a multiple of 4 */
    uint32_t max_packet_len;  /* of a sealed packet */
    uint16_t picture_id;      /* of the next frame of VP8 or VP9: 15 bits */
    const uint8_t *extension; /* the body; the caller keeps it alive */
} dv_stream;

/* What a frame's packets will be. */
typedef struct dv_plan {
    size_t packet_count;
    size_t sealed_len; /* of all packets */
} dv_plan;

/* What an engine is and what it serves on this machine. */
typedef struct dv_engine_info {
    const char *name;
    int mode;                /* dv_mode */
    const char *unavailable; /* NULL, or the reason why it cannot run here */
    size_t range_count;      /* how many ranges of plaintext length it serves */
    size_t range_from[4];    /* first length of each */
    size_t range_to[4];      /* the length after the last one; SIZE_MAX is no end */
} dv_engine_info;

/* What an AEAD takes by itself, without packets. The caller owns all of it. */
typedef struct dv_message {
    const uint8_t *nonce;
    size_t nonce_len;
    const uint8_t *aad;
    size_t aad_len;
    const uint8_t *text; /* the plaintext; when it is opened, the ciphertext and then the tag */
    size_t text_len;
} dv_message;

/* How packets leave and arrive. A method that the kernel or the device refuses gives way to the one before it. */
typedef enum dv_wire_method {
    DV_WIRE_LOOP, /* a system call for each packet */
    DV_WIRE_MMSG, /* one for many */
    DV_WIRE_GSO,  /* one for many, and packets of one length travel as one through the kernel */
    DV_WIRE_METHOD_COUNT
} dv_wire_method;

/* What ended a sending. */
typedef enum dv_stop {
    DV_STOP_DONE,        /* all packets left */
    DV_STOP_FULL,        /* the socket has no room now, and may not wait */
    DV_STOP_TIMEOUT,     /* it had none for so long */
    DV_STOP_INTERRUPTED, /* by a signal: let its handlers run, then go on */
    DV_STOP_PACED,       /* the next packet is not due yet, and the sending may not sleep */
    DV_STOP_ERROR
} dv_stop;

/* An IP address and a port, the same on every system. */
typedef struct dv_address {
    uint8_t bytes[16]; /* of IPv4 the first 4 */
    uint32_t flow_info;
    uint32_t scope_id;
    uint16_t port;
    uint8_t version; /* 4 or 6; 0 is no address */
    uint8_t unused;
} dv_address;

/* Packets one behind the other on their way into a UDP socket. The caller owns all of it. */
typedef struct dv_sending {
    intptr_t socket;
    dv_address address; /* none: the socket is connected */
    const uint8_t *packets;
    size_t packets_len;
    const size_t *ends; /* where each packet ends */
    size_t packet_count;
    size_t first;       /* the packet to begin with */
    int64_t timeout_ns; /* how long to wait for room: 0 not at all, negative for ever; gets what is left of it */
    int64_t due_ns;     /* with a rate: when the next packet is due on the clock; 0 before the first one */
    int64_t wait_ns;    /* gets how long that is from now, after DV_STOP_PACED */
    uint64_t rate;      /* bits a second, IP and UDP headers included; 0 is as fast as can be */
    uint8_t sleeps;     /* 1 where packets that are not due are waited for */
    uint8_t method;     /* dv_wire_method; gets what kernel or device has left of it */
    uint8_t stop;       /* gets a dv_stop */
    uint8_t unused;
    int error;             /* gets the system's error behind DV_STOP_ERROR */
    size_t sent;           /* how many from the first on left in calls before; gets how many have left now */
    uint64_t system_calls; /* gets how many calls that took, waits not counted */
} dv_sending;

/* Datagrams that came in, as dv_receiver_take left them for dv_receiver_open. */
typedef struct dv_batch {
    size_t count;
    size_t len; /* of all */
    int error;  /* the system's; 0 where there is none, also when nothing is waiting */
} dv_batch;

/* Where and when a datagram came in. */
typedef struct dv_arrival {
    int64_t time_ns; /* by the kernel, since 1970; 0 where it does not tell */
    dv_address address;
} dv_arrival;

typedef enum dv_socket_option { DV_OPTION_GRO, DV_OPTION_TIMESTAMPS } dv_socket_option;

typedef struct dv_sealer dv_sealer;
typedef struct dv_opener dv_opener;
typedef struct dv_aead dv_aead;
typedef struct dv_receiver dv_receiver;

/* Before anything else, from one thread: prepares the linked libraries and chooses the engines. Again, it does nothing. */
dv_result dv_init(void);

/* Serve the mode of the engine of this name by it alone, in sealers and openers that are made from now on. */
dv_result dv_force_engine(const char *name);

/*
 * Tell how a host language gives up its interpreter lock and takes it back; dvcrypto calls them around waits and around
 * bursts of at least long_work_len bytes, and never takes the interpreter lock back while it holds a lock of its own.
 */
void dv_set_host(void *(*leave)(void), void (*enter)(void *host_state), size_t long_work_len);

const char *dv_sodium_version(void);
const char *dv_openssl_version(void);
int dv_aes_accelerated(void); /* 1 where the CPU has instructions for AES and carry-less multiplication */
size_t dv_engine_count(void);
void dv_engine_describe(size_t index, dv_engine_info *info);

void dv_wipe(void *memory, size_t len); /* zeroes that no compiler removes */

/* The counter starts at first_nonce and is written big-endian where big_endian is 1. Copies the key. */
dv_result dv_sealer_new(dv_sealer **sealer, int mode, const uint8_t *key, uint32_t first_nonce, int big_endian);
void dv_sealer_close(dv_sealer *sealer); /* wipes the key; later calls are refused */
void dv_sealer_free(dv_sealer *sealer);  /* closes and frees; NULL is allowed */
uint64_t dv_sealer_packets_left(dv_sealer *sealer);

/*
 * Seal one packet given as its clear header and the rest. Writes header_len + payload_len + DV_OVERHEAD_LEN bytes.
 * Input and output may be the same memory where each part already stands at its place; any other overlap is refused.
 */
dv_result dv_sealer_seal(dv_sealer *sealer, const uint8_t *header, size_t header_len, const uint8_t *payload,
                         size_t payload_len, uint8_t *out, size_t out_capacity, dv_refusal *refusal);

/*
 * Seal count plain packets, one behind the other into out: packet i takes packet_lens[i] + DV_OVERHEAD_LEN bytes. The
 * whole burst is checked before a nonce is used; a failure after that wipes the output and burns the burst's nonces.
 */
dv_result dv_sealer_seal_burst(dv_sealer *sealer, const uint8_t *const *packets, const size_t *packet_lens,
                               size_t count, uint8_t *out, size_t out_capacity, dv_refusal *refusal);

/*
 * The bytes that a frame's sealed packets take: all but the last have max_packet_len. 0 where the stream's numbers leave no
 * room for payload.
 */
size_t dv_stream_sealed_len(const dv_stream *stream, size_t frame_len);

size_t dv_packetizer_count(void);
const char *dv_packetizer_name(size_t packetizer); /* the packetizers are numbered from 0 */

/*
 * Count the packets that a packetizer makes of a frame, and look for faults in it: DV_ERROR_PACKET where there is one,
 * DV_ERROR_ARGUMENT where the stream's numbers leave no room for payload.
 */
dv_result dv_stream_plan(const dv_stream *stream, size_t packetizer, const uint8_t *frame, size_t frame_len,
                         dv_plan *plan, dv_refusal *refusal);

/*
 * Cut a frame as planned, put RTP headers in front and seal the packets, one behind the other into out. ends, unless
 * NULL, gets where each packet ends. The last packet carries the marker where marker is 1. Then the sequence number has
 * advanced by the number of packets, the timestamp by advance, and the picture ID by 1 where the packetizer has one. A
 * frame that has changed since it was planned wipes the output and burns the nonces: DV_ERROR_CHANGED or DV_ERROR_PACKET.
 */
dv_result dv_sealer_seal_frame(dv_sealer *sealer, dv_stream *stream, size_t packetizer, const dv_plan *plan,
                               const uint8_t *frame, size_t frame_len, int marker, uint32_t advance, uint8_t *out,
                               size_t out_capacity, size_t *ends, dv_refusal *refusal);

/* replay_window 0 looks for no replays; otherwise the sequence numbers remembered for each SSRC. Copies the key. */
dv_result dv_opener_new(dv_opener **opener, int mode, const uint8_t *key, uint32_t replay_window);
void dv_opener_close(dv_opener *opener);
void dv_opener_free(dv_opener *opener);
void dv_opener_count(dv_opener *opener, uint64_t *counts); /* packets so far by status, DV_STATUS_COUNT of them */

/*
 * Open count sealed packets. Packet i is written where it starts when the packets lie one behind the other in out, its
 * last DV_OVERHEAD_LEN bytes zero; the whole of it is zero when it does not open. One bad packet touches no other.
 */
dv_result dv_opener_open_burst(dv_opener *opener, const uint8_t *const *packets, const size_t *packet_lens,
                               size_t count, uint8_t *out, size_t out_capacity, dv_opened *opened);

/* The best method that this system has. */
int dv_wire_best(void);

/*
 * Send the packets from the first on, in order, each at most once. Only what ends a sending before its first packet is an
 * error to its caller; later, the count tells, and the next sending meets the error. Behind its first packet an error ends
 * a call only where it is met twice at the same packet: once is how the system tells of a packet that left before and was
 * refused. DV_ERROR_ARGUMENT where the ends do not follow each other within the packets.
 */
dv_result dv_wire_send(dv_sending *sending);

/* Wait for a datagram, for timeout_ns (negative: for ever): 1 when there is one, 0 when not; or a system's error, negative. */
int dv_wire_wait(intptr_t socket, int64_t timeout_ns);

/* Turn an option of a socket on or off. 0, or the system's error. */
int dv_wire_set(intptr_t socket, int option, int on);

/*
 * Room for slot_count datagrams of slot_len bytes, taken in at once and used again and again, by one thread at a time. Packets
 * that came in as one share a slot, and may have packet_max_len bytes each, at most slot_len. NULL where a number is 0, too
 * large, or there is no memory.
 */
dv_receiver *dv_receiver_new(size_t slot_len, size_t slot_count, size_t packet_max_len);
void dv_receiver_free(dv_receiver *receiver); /* NULL is allowed */

/*
 * Take in what is waiting, without waiting for more: at most packet_max datagrams in the batch, the rest stays for the next
 * one. A batch that was not opened is given out again.
 */
void dv_receiver_take(dv_receiver *receiver, intptr_t socket, int method, size_t packet_max, dv_batch *batch);

/*
 * Open the batch as dv_opener_open_burst does. ends gets where each packet's place in out ends, arrivals whence each came,
 * unless NULL. A packet longer than packet_max_len has no place: it is DV_TRUNCATED.
 */
dv_result dv_receiver_open(dv_receiver *receiver, dv_opener *opener, uint8_t *out, size_t out_capacity, size_t *ends,
                           dv_opened *opened, dv_arrival *arrivals);

/*
 * An AEAD by itself: never the same nonce for two messages is then the caller's to see to. AES-GCM takes keys of 16, 24 and
 * 32 bytes and nonces of 8 to 128; the mode's engines serve 32 and 12, OpenSSL the others. XChaCha20-Poly1305 takes 32 and
 * 24. One aead seals and opens, for any thread, and in a forked child too. Copies the key.
 */
dv_result dv_aead_new(dv_aead **aead, int mode, const uint8_t *key, size_t key_len);
void dv_aead_free(dv_aead *aead); /* wipes the key; NULL is allowed */

/*
 * Seal text_len bytes to text_len + DV_TAG_LEN, or the other way round. The text may start where the output does; any other
 * overlap is refused. DV_ERROR_ARGUMENT for a nonce of a wrong length and for what is longer than the AEAD allows: in AES-GCM
 * plaintext and associated data may have INT32_MAX bytes each, which is what OpenSSL takes at once.
 */
dv_result dv_aead_seal(dv_aead *aead, const dv_message *plain, uint8_t *out, size_t out_capacity);
dv_result dv_aead_open(dv_aead *aead, const dv_message *sealed, uint8_t *out, size_t out_capacity);

/*
 * Ciphers that no mode uses, but that packets were sealed with by mistake or long ago: for telling so. The tag is in the last
 * 16 bytes of a ChaCha20-Poly1305 text (RFC 8439, nonce of 12 bytes), and in the first 16 of an XSalsa20-Poly1305 text
 * (NaCl's secretbox, nonce of 24). What is opened is 16 bytes shorter. They return 1, or 0 where the tag is wrong.
 */
int dv_legacy_open_chacha20poly1305(const uint8_t *key, const uint8_t *nonce, const uint8_t *aad, size_t aad_len,
                                    const uint8_t *sealed, size_t sealed_len, uint8_t *out);
int dv_legacy_open_xsalsa20poly1305(const uint8_t *key, const uint8_t *nonce, const uint8_t *sealed, size_t sealed_len,
                                    uint8_t *out);

#endif
