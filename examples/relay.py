"""Relay many streams over several processes: packets come in under one key, and leave under another.

    python examples/relay.py routes.json --processes 2

``routes.json`` is a list: [{"listen": PORT, "key": HEX, "to": PORT, "to_key": HEX}, ...]. A route belongs to one
process, which alone has the sealer of its key: two sealers with one key would use the same nonces. It ends by Ctrl-C.
"""

import argparse
import contextlib
import json
import multiprocessing
import selectors
import socket
from pathlib import Path
from typing import Any

import dvcrypto

HOST = "127.0.0.1"
Routes = list[dict[str, Any]]


def relay(routes: Routes, mode: dvcrypto.Mode, idle: float | None) -> None:
    """Serve some routes, in a process of their own."""
    selector = selectors.DefaultSelector()
    for route in routes:
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.bind((HOST, route["listen"]))
        opener = dvcrypto.Opener(mode, bytes.fromhex(route["key"]), replay_window=1024)
        sealer = dvcrypto.Sealer(mode, bytes.fromhex(route["to_key"]))
        selector.register(sock, selectors.EVENT_READ, (dvcrypto.Receiver(sock, opener), sealer, route["to"]))
    count = 0
    with contextlib.suppress(KeyboardInterrupt):
        print(f"relaying {len(routes)} streams\n", end="", flush=True)  # in one write, beside other processes
        while ready := selector.select(idle if count else None):
            for selected, _ in ready:
                receiver, sealer, port = selected.data
                plain = [packet.plain for packet in receiver.receive(timeout=0) if packet is not None]
                count += sealer.seal_burst(plain).send(selected.fileobj, (HOST, port))
    print(f"relayed {count} packets\n", end="", flush=True)


def main() -> None:
    """Deal the routes out to processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("routes", type=Path, help="a JSON file")
    parser.add_argument("--processes", type=int, default=2, help="how many (%(default)s)")
    parser.add_argument("--mode", type=dvcrypto.Mode, default=dvcrypto.choose_mode(dvcrypto.Mode), help="%(default)s")
    parser.add_argument("--idle", type=float, help="end after so many seconds of silence behind packets (never)")
    options = parser.parse_args()

    routes: Routes = json.loads(options.routes.read_text())
    keys = [route["to_key"].lower() for route in routes]
    if len(set(keys)) < len(keys):
        parser.error("two routes have the same to_key: their nonces would repeat")
    spawning = multiprocessing.get_context("spawn")
    shares = (routes[start :: options.processes] for start in range(min(options.processes, len(routes))))
    workers = [spawning.Process(target=relay, args=(share, options.mode, options.idle)) for share in shares]
    for worker in workers:
        worker.start()
    with contextlib.suppress(KeyboardInterrupt):  # a terminal's goes to the workers too, and Python waits for their end
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()
