"""``python -m benchmarks.departures CHART.svg``: when the packets of a large frame leave, at once and paced."""

import select
import socket
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

import dvcrypto
from benchmarks import peers

_PACKETS, _PAYLOAD_LEN = 500, 1168
_RATE = 20e6
_MODE = dvcrypto.Mode.AES256_GCM


def main() -> None:
    """Draw how many packets have left by when, by the kernel's time of their arrival on loopback."""
    mpl.rcParams.update({"svg.hashsalt": "dvcrypto", "font.size": 10})
    figure, panel = plt.subplots(figsize=(8, 4.5))
    for label, rate, colour in (("send(sock)", None, "#cf222e"), ("send(sock, rate=20e6)", _RATE, "#1f6feb")):
        times = _departures(rate)
        panel.step(times, range(1, len(times) + 1), where="post", label=label, color=colour)
    takes_ms = _PACKETS * (1200 + 28) * 8 / _RATE * 1e3
    panel.plot([0, takes_ms], [0, _PACKETS], "--", color="black", linewidth=1, label="20 Mbit/s")
    panel.set(xlabel="ms since the first packet", ylabel="packets that have left")
    panel.grid(alpha=0.3)
    panel.legend()
    figure.suptitle(f"A key frame of {_PACKETS} packets of 1,200 bytes")
    figure.tight_layout()
    figure.savefig(Path(sys.argv[1]), metadata={"Date": None})


def _departures(rate: float | None) -> list[float]:
    """Milliseconds since the first packet."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock, socket.socket(type=socket.SOCK_DGRAM) as sender:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(("127.0.0.1", 0))
        sender.connect(sock.getsockname())
        stream = dvcrypto.RtpStream(dvcrypto.Sealer(_MODE, peers.KEY), 1, 101)
        with dvcrypto.Receiver(sock, dvcrypto.Opener(_MODE, peers.KEY), timestamps=True) as receiver:
            stream.send_frame(sender, bytes(_PACKETS * _PAYLOAD_LEN), rate=rate)
            times: list[int] = []
            while select.select([sock], [], [], 0.1)[0]:
                times += [at for at in receiver.receive(timeout=0).times if at]
    return [(at - times[0]) / 1e6 for at in times]


if __name__ == "__main__":
    main()
