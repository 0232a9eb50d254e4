"""Relays for the tests: a path between two UDP sockets that loses, doubles and reorders, or has a rate and a queue.

``python relay.py faults LISTEN_HOST:PORT TO_HOST:PORT SEED`` loses 1 %, doubles 1 % and reorders 2 % of all datagrams;
``python relay.py queue LISTEN_HOST:PORT TO_HOST:PORT BITS_A_SECOND PACKETS`` sends on at a rate, and drops what finds
its queue full. Either prints the port it listens on, and at the end of its input one line of JSON: what it has done.
"""

import collections
import json
import random
import select
import socket
import sys
import time

IP_UDP_LEN = 28


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


class Relay:
    """A listening socket, a sending one, and a count."""

    def __init__(self, listen: str, to: str) -> None:
        self.listener = socket.socket(type=socket.SOCK_DGRAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
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

    def wait(self, timeout: float | None) -> tuple[list[bytes], bool]:
        """What is waiting, and whether the input has ended."""
        readable = select.select([self.listener, sys.stdin], [], [], timeout)[0]
        datagrams: list[bytes] = []
        while self.listener in readable:
            try:
                datagrams.append(self.listener.recv(65536))
            except BlockingIOError:
                break
        self.counts["received"] += len(datagrams)
        return datagrams, sys.stdin in readable


def faults(relay: Relay, seed: str) -> None:
    chance = random.Random(int(seed))
    held: list[bytes] = []
    ended = False
    while not ended:
        datagrams, ended = relay.wait(None)
        for datagram in datagrams:
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
    waiting: collections.deque[bytes] = collections.deque()
    free_at = time.monotonic()
    ended = False
    while not ended or waiting:
        timeout = max(0.0, free_at - time.monotonic()) if waiting else None
        datagrams, ended = relay.wait(timeout if not ended else 0.0)
        now = time.monotonic()
        # What the link would have taken by now has left before what has just come in.
        while waiting and free_at <= now:
            datagram = waiting.popleft()
            free_at += (len(datagram) + IP_UDP_LEN) * 8 / float(rate)
            relay.send(datagram)
        if not waiting:
            free_at = max(free_at, now)
        for datagram in datagrams:
            relay.departures.append(now)
            if len(waiting) < int(room):
                waiting.append(datagram)
            else:
                relay.counts["lost"] += 1


if __name__ == "__main__":
    kind, listen, to, *rest = sys.argv[1:]
    made = Relay(listen, to)
    {"faults": faults, "queue": queue}[kind](made, *rest)
    start = made.departures[0] if made.departures else 0.0
    print(json.dumps({**made.counts, "departures": [at - start for at in made.departures]}), flush=True)
