"""Relays for the tests: a path between two UDP sockets that loses, doubles and reorders, or has a rate and a queue.

``python relay.py faults LISTEN_HOST:PORT TO_HOST:PORT SEED`` loses 1 %, doubles 1 % and reorders 2 % of all datagrams;
``python relay.py queue LISTEN_HOST:PORT TO_HOST:PORT BITS_A_SECOND PACKETS`` drops what would find the queue of a link
of that rate full, by the times at which the kernel took it in: that the relay itself may be late makes no difference.
Either prints the port it listens on, and at the end of its input one line of JSON: what it has done.
"""

import collections
import contextlib
import json
import random
import select
import socket
import struct
import sys
import time

IP_UDP_LEN = 28
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35  # Linux's


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


class Relay:
    """A listening socket, a sending one, and a count."""

    def __init__(self, listen: str, to: str) -> None:
        self.listener = socket.socket(type=socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):  # root may have more than the system's limit
            self.listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        with contextlib.suppress(OSError):
            self.listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.listener.bind(address(listen))
        self.listener.setblocking(False)
        self.sender = socket.socket(type=socket.SOCK_DGRAM)
        self.to = address(to)
        self.counts: collections.Counter[str] = collections.Counter()
        self.departures: list[float] = []
        print(self.listener.getsockname()[1], flush=True)

    def send(self, datagram: bytes) -> None:
        self.sender.sendto(datagram, self.to)
        self.counts["sent"] += 1

    def wait(self) -> tuple[list[tuple[float, bytes]], bool]:
        """What came in, with its time, and whether the input has ended."""
        readable = select.select([self.listener, sys.stdin], [], [])[0]
        came: list[tuple[float, bytes]] = []
        while self.listener in readable:
            try:
                datagram, beside, *_ = self.listener.recvmsg(65536, 64)
            except BlockingIOError:
                break
            stamps = [struct.unpack("@qq", data) for _, kind, data in beside if kind == SO_TIMESTAMPNS]
            came.append((stamps[0][0] + stamps[0][1] / 1e9 if stamps else time.time(), datagram))
        self.counts["received"] += len(came)
        return came, sys.stdin in readable


def faults(relay: Relay, seed: str) -> None:
    chance = random.Random(int(seed))
    held: list[bytes] = []
    ended = False
    while not ended:
        came, ended = relay.wait()
        for _, datagram in came:
            drawn = chance.random()
            if drawn < 0.01:
                relay.counts["lost"] += 1
                continue
            if drawn < 0.03:
                relay.counts["reordered"] += 1
                held.append(datagram)
                continue
            relay.send(datagram)
            if drawn < 0.04:
                relay.counts["doubled"] += 1
                relay.send(datagram)
            if held and chance.random() < 0.3:
                relay.send(held.pop())
    for datagram in held:
        relay.send(datagram)


def queue(relay: Relay, rate: str, room: str) -> None:
    leaving: collections.deque[float] = collections.deque()  # when the link is done with each: one on it, others queued
    ended = False
    while not ended:
        came, ended = relay.wait()
        for at, datagram in came:
            relay.departures.append(at)
            while leaving and leaving[0] <= at:
                leaving.popleft()
            if len(leaving) > int(room):
                relay.counts["lost"] += 1
                continue
            free_at = leaving[-1] if leaving else at
            leaving.append(free_at + (len(datagram) + IP_UDP_LEN) * 8 / float(rate))
            relay.send(datagram)


if __name__ == "__main__":
    kind, listen, to, *rest = sys.argv[1:]
    made = Relay(listen, to)
    {"faults": faults, "queue": queue}[kind](made, *rest)
    start = made.departures[0] if made.departures else 0.0
    print(json.dumps({**made.counts, "departures": [at - start for at in made.departures]}), flush=True)
