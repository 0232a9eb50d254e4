"""A nonce is used once, whatever threads, forks, failures and the counter's end do; and a burst is its packets, sealed.

Packets are opened by another library where the mode allows it (AES-256-GCM), else by an Opener.
"""

import copy
import gc
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from concurrency import in_child, run_threads
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import searches_memory

import dvcrypto
from dvcrypto import (
    Burst,
    Mode,
    NonceExhausted,
    Opener,
    RtpStream,
    Sealer,
    SealerClosed,
    SealerForked,
    SealError,
    Status,
)

KEY = bytes(range(32))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
PLAIN = HEADER + b"payload"
RTCP = bytes.fromhex("80c8 0006 0000 0d10") + bytes(20)  # a sender report, RFC 3550, section 6.4.1
FIRST_NONCE = 0x8000_0000
LAST_NONCE = 0xFFFF_FFFF
LONG_BURST = [HEADER + bytes(1200)] * 40  # 48,000 bytes: above the 32 KiB from which a call gives up the GIL

MODES = pytest.mark.parametrize("mode", tuple(Mode), ids=lambda mode: mode.name)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
with_gil = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this interpreter runs without a GIL"
)


def suffix(packet: bytes | memoryview) -> int:
    """The counter that a packet was sealed under."""
    return int.from_bytes(packet[-4:], "little")


def open_elsewhere(mode: Mode, sealed: bytes, header_len: int = 12) -> bytes:
    """The plain packet; raises where the tag is wrong."""
    if mode is Mode.AES256_GCM:
        header, body = sealed[:header_len], sealed[header_len:-4]
        return header + AESGCM(KEY).decrypt(sealed[-4:] + bytes(8), body, header)
    return Opener(mode, KEY).open(sealed).plain


def error_of(call: Callable[[], object]) -> str | None:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


# A nonce is used once


@MODES
def test_the_counter_starts_where_the_official_client_s_does_and_counts_little_endian(mode: Mode) -> None:
    sealer = Sealer(mode, KEY)
    assert [sealer.seal(HEADER, b"")[-4:].hex() for _ in range(3)] == ["00000080", "01000080", "02000080"]
    assert sealer.packets_left == 2**31 - 3


@MODES
@pytest.mark.parametrize("first", [0, 0xFE, 0xFFFE, 0xFF_FFFE, 0x7FFF_FFFE, 0xFFFF_FFFC])
def test_the_counter_carries_through_every_byte_in_both_byte_orders(mode: Mode, first: int) -> None:
    orders: tuple[Literal["little"], Literal["big"]] = ("little", "big")
    for byteorder in orders:
        sealer = Sealer(mode, KEY, first_nonce=first, byteorder=byteorder)
        sealed = [sealer.seal(HEADER, b""), *sealer.seal_burst([PLAIN, RTCP]).tolist(), sealer.seal(HEADER, b"")]
        assert [packet[-4:] for packet in sealed] == [(first + i).to_bytes(4, byteorder) for i in range(4)]
        assert Opener(mode, KEY).open_burst(sealed).statuses == (Status.EMPTY, Status.OK, Status.OK, Status.EMPTY)


def test_every_way_to_seal_shares_one_counter() -> None:
    mode = Mode.AES256_GCM
    sealer = Sealer(mode, KEY)
    audio, video = RtpStream(sealer, 1, 120), RtpStream(sealer, 2, 101, max_packet=100)
    sealed: list[bytes] = [sealer.seal(HEADER, b"x"), *sealer.seal_burst([PLAIN, RTCP, PLAIN]).tolist()]
    sealed += [audio.seal(b"x"), *video.seal_frame(bytes(500)).tolist(), sealer.seal(RTCP[:8], RTCP[8:])]
    sealed += sealer.seal_burst_into([PLAIN, PLAIN], bytearray(99)).tolist()
    assert [suffix(packet) for packet in sealed] == list(range(FIRST_NONCE, FIRST_NONCE + len(sealed)))
    assert sealer.packets_left == 2**31 - len(sealed)


@MODES
def test_two_threads_sharing_a_sealer_use_no_nonce_twice_and_every_packet_opens(mode: Mode) -> None:
    """10,000 packets and more: one by one, in short bursts, in bursts and frames that give up the GIL."""
    sealer = Sealer(mode, KEY)
    made: dict[int, list[bytes]] = {0: [], 1: []}

    def seal_from(thread: int) -> None:
        sealed, stream = made[thread], RtpStream(sealer, thread, 120)
        body = bytes((thread,)) * 1200
        long_burst = [HEADER + body] * 40
        for _ in range(40):
            sealed.extend(sealer.seal_burst(long_burst).tolist())
            sealed.append(sealer.seal(HEADER, body))
            sealed.extend(sealer.seal_burst([HEADER + body[:100]] * 25).tolist())
            sealed.extend(stream.seal_frame(body * 64).tolist())
            sealed.extend(sealer.seal(HEADER, body[:20]) for _ in range(10))
            sealed.append(stream.seal(body[:50]))

    run_threads(lambda: seal_from(0), lambda: seal_from(1))
    packets = made[0] + made[1]
    assert len(packets) >= 10_000
    assert {suffix(packet) for packet in packets} == set(range(FIRST_NONCE, FIRST_NONCE + len(packets)))
    assert sealer.packets_left == 2**31 - len(packets)
    for thread, sealed in made.items():
        for packet in sealed:
            plain = open_elsewhere(mode, packet)
            assert set(plain[12:]) == {thread}
        counters = [suffix(packet) for packet in sealed]
        assert counters == sorted(counters)


@MODES
def test_two_threads_at_the_counter_s_end_share_what_is_left(mode: Mode) -> None:
    sealer = Sealer(mode, KEY, first_nonce=LAST_NONCE - 999)
    made: list[bytes] = []

    def seal_more_than_is_left() -> None:
        for _ in range(100):
            made.extend(sealer.seal_burst(LONG_BURST).tolist())
            made.append(sealer.seal(HEADER, b""))

    def seal_to_the_end() -> None:
        with pytest.raises(NonceExhausted):
            seal_more_than_is_left()

    run_threads(seal_to_the_end, seal_to_the_end)
    assert len({suffix(packet) for packet in made}) == len(made) <= 1000
    assert sealer.packets_left == 0


@MODES
def test_a_refused_burst_leaves_its_nonces_for_the_next(mode: Mode) -> None:
    sealer = Sealer(mode, KEY)
    refused: list[Callable[[], object]] = [
        lambda: sealer.seal_burst([PLAIN, PLAIN, b"short"]),
        lambda: sealer.seal_burst_into([PLAIN], bytearray(5)),
        lambda: sealer.seal_burst([*LONG_BURST, b""]),
        lambda: sealer.seal(HEADER[:11], b""),
        lambda: RtpStream(sealer, 1, 120).seal(bytes(5000)),
    ]
    for index, call in enumerate(refused):
        with pytest.raises(ValueError):  # noqa: PT011
            call()
        assert suffix(sealer.seal(HEADER, b"")) == FIRST_NONCE + index


# The counter's end


def exhausted_calls(sealer: Sealer, stream: RtpStream, out: bytearray) -> list[Callable[[], object]]:
    return [
        lambda: sealer.seal(HEADER, b""),
        lambda: sealer.seal_burst([PLAIN]),
        lambda: sealer.seal_burst([]),
        lambda: sealer.seal_burst_into([PLAIN], out),
        lambda: sealer.seal_burst(LONG_BURST),
        lambda: stream.seal(b"x"),
        lambda: stream.seal_frame(bytes(5000)),
    ]


@MODES
def test_the_last_nonce_is_used_and_then_every_call_is_refused_for_ever(mode: Mode) -> None:
    sealer, out = Sealer(mode, KEY, first_nonce=LAST_NONCE - 1), bytearray(b"\x55" * 64)
    stream = RtpStream(sealer, 1, 120)
    burst = sealer.seal_burst([PLAIN, PLAIN])
    assert [packet[-4:].hex() for packet in burst] == ["feffffff", "ffffffff"]
    assert sealer.packets_left == 0
    for _ in range(3):
        for call in exhausted_calls(sealer, stream, out):
            with pytest.raises(NonceExhausted, match="32-bit nonce counter"):
                call()
    assert sealer.packets_left == 0
    assert (stream.sequence, stream.timestamp) == (0, 0)
    assert out == b"\x55" * 64


@MODES
@pytest.mark.parametrize("left", [1, 2, 39])
@pytest.mark.parametrize("how", ["seal_burst", "seal_burst_into", "seal_frame"])
def test_a_burst_that_straddles_the_end_is_refused_whole_and_every_call_after_it(
    mode: Mode, left: int, how: str
) -> None:
    sealer = Sealer(mode, KEY, first_nonce=LAST_NONCE - left + 1)
    stream, out = RtpStream(sealer, 1, 120, max_packet=100), bytearray(b"\x55" * 60000)
    straddling: dict[str, Callable[[], object]] = {
        "seal_burst": lambda: sealer.seal_burst(LONG_BURST),
        "seal_burst_into": lambda: sealer.seal_burst_into(LONG_BURST, out),
        "seal_frame": lambda: stream.seal_frame(bytes(68 * left + 1), advance=960),
    }
    assert sealer.packets_left == left
    with pytest.raises(NonceExhausted):
        straddling[how]()
    for call in exhausted_calls(sealer, stream, out):
        with pytest.raises(NonceExhausted):
            call()
    assert sealer.packets_left == 0
    assert out == b"\x55" * 60000
    assert (stream.sequence, stream.timestamp) == (0, 0)


def test_a_refused_packet_does_not_bring_the_end_about() -> None:
    sealer = Sealer(Mode.AES256_GCM, KEY, first_nonce=LAST_NONCE)
    with pytest.raises(ValueError, match=r"packets.1. is 5 bytes"):
        sealer.seal_burst([PLAIN, b"short"])
    assert sealer.packets_left == 1
    assert suffix(sealer.seal(HEADER, b"")) == LAST_NONCE


# Forks


@forks
@MODES
def test_a_forked_child_is_refused_and_the_parent_goes_on(mode: Mode) -> None:
    sealer, out = Sealer(mode, KEY), bytearray(b"\x55" * 64)
    stream = RtpStream(sealer, 1, 120)
    sealer.seal(HEADER, b"")

    def child() -> object:
        refused = [error_of(call) for call in exhausted_calls(sealer, stream, out)]
        sealer.close()
        return [refused, out == b"\x55" * 64, stream.sequence, error_of(lambda: sealer.seal(HEADER, b""))]

    refused, untouched, sequence, closed = in_child(child)
    assert set(refused) == {"SealerForked"}
    assert issubclass(SealerForked, SealError)
    assert untouched
    assert sequence == 0
    assert closed in {"SealerForked", "SealerClosed"}
    packets = [sealer.seal(HEADER, b"parent"), *sealer.seal_burst([PLAIN]).tolist(), stream.seal(b"x")]
    assert [suffix(packet) for packet in packets] == [FIRST_NONCE + 1, FIRST_NONCE + 2, FIRST_NONCE + 3]
    assert open_elsewhere(mode, packets[0]) == HEADER + b"parent"


@forks
def test_a_child_seals_with_a_sealer_of_its_own_and_its_child_may_not() -> None:
    mode = Mode.AES256_GCM

    def child() -> object:
        own = Sealer(mode, KEY)
        own.seal(HEADER, b"")
        return [error_of(lambda: own.seal(HEADER, b"")), in_child(lambda: error_of(lambda: own.seal(HEADER, b"")))]

    assert in_child(child) == [None, "SealerForked"]


@forks
@MODES
def test_an_opener_opens_in_a_forked_child(mode: Mode) -> None:
    opener = Opener(mode, KEY, replay_window=64)
    sealer = Sealer(mode, KEY)
    packets = sealer.seal_burst([HEADER + bytes(n) for n in (1, 600, 1200)]).tolist()
    first = sealer.seal(b"\x80\x78\0\2" + HEADER[4:], b"first")
    opener.open(first)

    def child() -> object:
        again = error_of(lambda: opener.open(first))
        return [again, [opener.open(packet).payload.hex() for packet in packets[:1]], opener.stats.ok]

    assert in_child(child) == ["Replayed", ["00"], 2]
    assert opener.stats.ok == 1
    assert [Opener(mode, KEY).open(packet).payload for packet in packets] == [bytes(n) for n in (1, 600, 1200)]
    assert opener.open(packets[1]).payload == bytes(600)


@forks
@MODES
def test_a_child_forked_while_another_thread_seals_is_refused_and_does_not_hang(mode: Mode) -> None:
    sealer, opener = Sealer(mode, KEY), Opener(mode, KEY)
    sealed = sealer.seal(HEADER, bytes(1200))
    started, done, made = threading.Event(), threading.Event(), list[int]()

    def keep_sealing() -> None:
        while not done.is_set():
            burst = sealer.seal_burst(LONG_BURST * 10)
            opener.open_burst(burst)
            made.append(len(burst))
            started.set()

    def child() -> object:
        return [error_of(lambda: sealer.seal(HEADER, b"")), opener.open(sealed).payload == bytes(1200)]

    thread = threading.Thread(target=keep_sealing)
    thread.start()
    try:
        started.wait()
        for _ in range(10):
            assert in_child(child) == ["SealerForked", True]
    finally:
        done.set()
        thread.join()
    assert suffix(sealer.seal(HEADER, b"")) == FIRST_NONCE + 1 + sum(made)


# Copies


@pytest.mark.parametrize("kind", [Sealer, Opener, RtpStream])
def test_copies_and_pickles_are_refused(kind: type) -> None:
    sealer = Sealer(Mode.AES256_GCM, KEY)
    thing = {Sealer: sealer, Opener: Opener(Mode.AES256_GCM, KEY), RtpStream: RtpStream(sealer, 1, 120)}[kind]
    ways: list[Callable[[], object]] = [lambda: copy.copy(thing), lambda: copy.deepcopy(thing)]
    ways += [lambda: copy.deepcopy([thing])]
    ways += [lambda p=p: pickle.dumps(thing, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]  # type: ignore[misc]
    for way in ways:
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            way()


def test_a_subclass_is_not_copied_or_pickled_either() -> None:
    class Named(Sealer):
        pass

    sealer = Named(Mode.AES256_GCM, KEY)
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Named cannot be copied or pickled"):
            way(sealer)


# Close

# Counts copies of a key in this process's memory. The key is written nowhere but in one bytearray, and memory is read
# through one window that is left out: a copy of what is searched must not be found.
COUNT_KEYS = """
import ctypes, gc, mmap, os, re, sys
import dvcrypto

key = bytearray(os.urandom(32))
window = mmap.mmap(-1, 1 << 20)
window_start = ctypes.addressof(ctypes.c_char.from_buffer(window))

def count(length):
    found, at = 0, window.find(key, 0, length)
    while at >= 0:
        found, at = found + 1, window.find(key, at + 1, length)
    return found

def copies():
    gc.collect()
    found = 0
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    for line in open("/proc/self/maps").read().splitlines():
        if not re.match(r"[0-9a-f]+-[0-9a-f]+ rw", line) or "[v" in line:
            continue
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        parts = [(start, min(end, window_start)), (max(start, window_start + len(window)), end)]
        for start, end in parts:
            while end - start >= len(key):
                try:
                    length = os.preadv(memory, [memoryview(window)[: end - start]], start)
                except OSError:
                    break
                found += count(length)
                start += max(length - len(key) + 1, 1)
    os.close(memory)
    return found

def forget_garbage():
    for size in range(16, 512, 16):
        junk = [bytes(size) for _ in range(2000)]

before = copies()
make, how, form = sys.argv[1:4]
thing = getattr(dvcrypto, make)(sys.argv[4], list(key) if form == "list" else key)
packets = [bytes.fromhex("80780001000000000000000a") + bytes(n) for n in (10, 2000)]
thing.seal_burst(packets) if make == "Sealer" else thing.open_burst(packets)
alive = copies()
if how == "close":
    thing.close()
elif how == "with":
    with thing:
        pass
else:
    del thing
forget_garbage()
print(before, alive, copies())
"""


@searches_memory
@pytest.mark.parametrize("make", ["Sealer", "Opener"])
@pytest.mark.parametrize(("how", "form"), [("close", "bytearray"), ("with", "list"), ("collection", "list")])
@MODES
def test_the_key_is_wiped_from_memory(make: str, how: str, form: str, mode: Mode) -> None:
    inherited = {k: v for k, v in os.environ.items() if k not in {"DVCRYPTO_ENGINE", "DVCRYPTO_MODE"}}
    root = str(Path(dvcrypto.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, inherited.get("PYTHONPATH"))))
    command = [sys.executable, "-c", COUNT_KEYS, make, how, form, mode.value]
    run = subprocess.run(command, env={**inherited, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    before, alive, after = map(int, run.stdout.split())
    assert alive > before  # it is found where it is
    assert after == before


def test_a_with_block_closes_and_returns_the_sealer() -> None:
    mode = Mode.AES256_GCM
    made = Sealer(mode, KEY)
    with made as sealer:
        assert sealer is made
        sealer.seal(HEADER, b"")
    with pytest.raises(SealerClosed):
        made.seal(HEADER, b"")
    with pytest.raises(KeyError), Sealer(mode, KEY) as sealer:
        raise KeyError
    with pytest.raises(SealerClosed):
        sealer.seal(HEADER, b"")


@MODES
def test_closing_while_another_thread_seals_ends_its_bursts_whole(mode: Mode) -> None:
    def close_during_bursts() -> list[Burst]:
        sealer, made, started = Sealer(mode, KEY), list[Burst](), threading.Event()

        def seal_for_ever() -> None:
            while True:
                made.append(sealer.seal_burst(LONG_BURST * 4))
                started.set()

        def seal_until_closed() -> None:
            with pytest.raises(SealerClosed):
                seal_for_ever()

        def close() -> None:
            started.wait()
            sealer.close()

        run_threads(seal_until_closed, close)
        return made

    opener = Opener(mode, KEY)
    for _ in range(10):
        for burst in close_during_bursts():
            assert set(opener.open_burst(burst).statuses) == {Status.OK}


@MODES
def test_a_burst_outlives_its_sealer_and_its_packets_their_burst(mode: Mode) -> None:
    sealer = Sealer(mode, KEY)
    burst = sealer.seal_burst([HEADER + bytes((n,)) * 50 for n in range(20)])
    packets = burst[3:6]
    sealer.close()
    del sealer, burst
    gc.collect()
    _ = [bytes(82 * 20) for _ in range(1000)]
    assert [open_elsewhere(mode, bytes(packet))[12:] for packet in packets] == [bytes((n,)) * 50 for n in (3, 4, 5)]


@MODES
def test_sealers_in_number_hold_keys_of_their_own(mode: Mode) -> None:
    keys = [random.Random(n).randbytes(32) for n in range(50)]
    sealers = [Sealer(mode, key) for key in keys]
    sealed = [sealer.seal(HEADER, b"x") for sealer in sealers]
    for sealer in sealers[::2]:
        sealer.close()
    assert [Opener(mode, key).open(packet).payload for key, packet in zip(keys, sealed, strict=True)] == [b"x"] * 50
    assert len(set(sealed)) == 50
    assert all(sealer.seal(HEADER, b"") for sealer in sealers[1::2])


# The GIL


class Sleeper:
    """A thread that asks for the GIL and marks it when it gets it, while the main thread never has to give it up.

    With a switch interval of 1,000 seconds, nothing but a call that gives up the GIL lets the other thread in between.
    """

    def __init__(self) -> None:
        self._wake, self._woken, self._end = threading.Semaphore(0), threading.Semaphore(0), False
        self.ran = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while True:
            self._wake.acquire()
            self.ran = True
            self._woken.release()
            if self._end:
                return

    def __enter__(self) -> Self:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = True
        self._wake.release()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def runs_during(self, call: Callable[[], object]) -> bool:
        self.ran = False
        self._wake.release()
        call()
        ran = self.ran
        self._woken.acquire()
        return ran


@with_gil
@MODES
def test_a_long_burst_gives_up_the_gil_and_a_short_one_keeps_it(mode: Mode) -> None:
    sealer, opener = Sealer(mode, KEY), Opener(mode, KEY)
    short, long = [HEADER + bytes(200)] * 25, LONG_BURST * 300
    sealed_short, sealed_long = sealer.seal_burst(short), sealer.seal_burst(long)
    stream, frame = RtpStream(sealer, 1, 120), bytes(12_000_000)
    keeping: list[Callable[[], object]] = [
        lambda: sealer.seal(HEADER, bytes(200)),
        lambda: sealer.seal_burst(short),
        lambda: opener.open_burst(sealed_short),
        lambda: stream.seal_frame(frame[:20_000]),
        lambda: sealer.packets_left,
    ]
    giving: list[Callable[[], object]] = [
        lambda: sealer.seal_burst(long),
        lambda: opener.open_burst(sealed_long),
        lambda: stream.seal_frame(frame),
    ]
    with Sleeper() as sleeper:
        for call in keeping:
            assert not any(sleeper.runs_during(call) for _ in range(300))
        for call in giving:
            assert any(sleeper.runs_during(call) for _ in range(3000))  # a busy machine may not run it at once


# Results do not depend on how they were asked for

BODIES = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 2000).map(lambda n: random.Random(n).randbytes(n)),
    st.sampled_from([191, 192, 319, 320, 543, 544, 639, 640]).map(bytes),
)


@st.composite
def plain_packets(draw: st.DrawFn) -> bytes:
    """Well-formed RTP and RTCP packets."""
    body = draw(BODIES)
    if draw(st.integers(0, 9)) == 0:
        return b"\x81\xc9" + draw(st.binary(min_size=6, max_size=6)) + body
    cc, words, padding = draw(st.integers(0, 15)), draw(st.none() | st.integers(0, 5)), draw(st.integers(0, 255))
    first = 0x80 | cc | (0 if words is None else 0x10) | (0x20 if padding else 0)
    payload_type = draw(st.sampled_from([120, 101, 0x80 | 101, 0xE0, 0, 0xBF]))
    packet = bytes((first, payload_type)) + draw(st.binary(min_size=10, max_size=10)) + bytes(4 * cc)
    if words is not None:
        packet += b"\xbe\xde" + words.to_bytes(2, "big") + bytes(4 * words)
    return packet + body + (bytes(padding - 1) + bytes((padding,)) if padding else b"")


def clear_header_len(packet: bytes) -> int:
    """RFC 3550, section 5.1; RTCP's 8 bytes by RFC 5761, section 4."""
    if 192 <= packet[1] <= 223:
        return 8
    return 12 + 4 * (packet[0] & 15) + (4 if packet[0] & 0x10 else 0)


@pytest.mark.parametrize("mode", tuple(Mode))
@settings(deadline=None, max_examples=60)
@given(packets=st.lists(plain_packets(), max_size=12), data=st.data())
def test_bursts_equal_packets_sealed_one_by_one_whatever_their_size_and_type(
    mode: Mode, packets: list[bytes], data: st.DataObject
) -> None:
    def sealer() -> Sealer:
        return Sealer(mode, KEY, first_nonce=77)

    one_by_one, whole, cut, views = sealer(), sealer(), sealer(), sealer()
    expected = []
    for packet in packets:
        header_len = clear_header_len(packet)
        expected.append(one_by_one.seal(packet[:header_len], packet[header_len:]))
    assert whole.seal_burst(packets).tolist() == expected

    in_parts, rest = list[bytes](), packets
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        in_parts += cut.seal_burst(rest[:count]).tolist()
        rest = rest[count:]
    assert in_parts == expected

    shift = data.draw(st.integers(0, 15))
    forms: Sequence[Any] = [
        memoryview(bytearray(shift + i % 3) + packet)[shift + i % 3 :] if i % 2 else bytearray(packet)
        for i, packet in enumerate(packets)
    ]
    out = memoryview(bytearray(b"\x55" * (sum(map(len, expected)) + 40)))[shift:]
    assert views.seal_burst_into(forms, out).tolist() == expected

    for packet, sealed in zip(packets, expected, strict=True):
        assert open_elsewhere(mode, sealed, clear_header_len(packet)) == packet
    assert [opened and opened.plain for opened in Opener(mode, KEY).open_burst(expected)] == packets


@MODES
def test_every_alignment_of_input_and_output_gives_the_same_bytes(mode: Mode) -> None:
    for body_len in (0, 1, 31, 200, 600, 1200):
        packet = HEADER + random.Random(body_len).randbytes(body_len)
        expected = Sealer(mode, KEY).seal_burst([packet, packet]).tolist()
        for shift in range(32):
            source, target = bytearray(shift) + packet, memoryview(bytearray(2 * len(packet) + 80))[31 - shift :]
            view = memoryview(source)[shift:]
            assert Sealer(mode, KEY).seal_burst_into([view, view], target).tolist() == expected
            sealed = memoryview(bytearray(shift) + expected[1])[shift:]
            assert Opener(mode, KEY).open(sealed).plain == packet


@MODES
def test_a_reused_output_holds_the_newest_burst(mode: Mode) -> None:
    sealer, out = Sealer(mode, KEY), bytearray(500)
    for count in (5, 2, 4):
        burst = sealer.seal_burst_into([PLAIN] * count, out)
        assert len(burst) == count
        assert burst.buffer.nbytes == 39 * count
        assert [open_elsewhere(mode, bytes(packet)) for packet in burst] == [PLAIN] * count
        assert bytes(out[: 39 * count]) == burst.buffer


# A burst is a sequence


def burst_of_three() -> tuple[Burst, list[bytes]]:
    plain = [PLAIN, RTCP, HEADER]
    sealed = Sealer(Mode.AES256_GCM, KEY).seal_burst(plain).tolist()
    return Sealer(Mode.AES256_GCM, KEY).seal_burst(plain), sealed


def test_a_burst_is_a_sequence_of_views_into_one_buffer() -> None:
    burst, sealed = burst_of_three()
    assert len(burst) == 3
    assert burst.offsets == (0, 39, 87, 119)
    assert bytes(burst.buffer) == b"".join(sealed)
    assert burst.tolist() == list(burst) == [burst[0], burst[1], burst[2]] == sealed
    assert [burst[-1], burst[-3]] == [sealed[2], sealed[0]]
    assert list(reversed(burst)) == sealed[::-1]
    assert sealed[1] in burst
    assert burst.index(sealed[2]) == 2
    assert burst.count(sealed[0]) == 1
    assert all(type(packet) is memoryview for packet in burst)
    assert all(type(packet) is bytes for packet in burst.tolist())
    assert all(packet.obj is burst.buffer.obj for packet in burst)
    assert repr(burst) == "<dvcrypto.Burst of 3 packets, 119 bytes>"


@pytest.mark.parametrize(
    "cut", [slice(None), slice(1), slice(1, None), slice(-2, None), slice(None, None, -1), slice(5, 9), slice(0, 3, 2)]
)
def test_a_burst_s_slices_are_a_list_s(cut: slice) -> None:
    burst, sealed = burst_of_three()
    assert burst[cut] == sealed[cut]


@pytest.mark.parametrize("index", [3, -4, 2**70])
def test_a_burst_has_no_packet_outside_of_it(index: int) -> None:
    burst, _ = burst_of_three()
    with pytest.raises(IndexError):
        burst[index]


def test_a_burst_takes_no_index_but_integers_and_slices() -> None:
    burst, _ = burst_of_three()
    with pytest.raises(TypeError):
        burst["0"]  # type: ignore[call-overload]


def test_sealed_views_of_immutable_memory_are_read_only() -> None:
    burst, _ = burst_of_three()
    assert burst.buffer.readonly
    with pytest.raises(TypeError):
        burst[0][0] = 0


def test_a_burst_into_the_caller_s_buffer_is_a_view_of_it() -> None:
    out = bytearray(100)
    burst = Sealer(Mode.AES256_GCM, KEY).seal_burst_into([PLAIN, PLAIN], out)
    assert not burst.buffer.readonly
    out[39] = 0x99
    assert burst[1][0] == 0x99


@MODES
def test_the_properties_tell_what_the_sealer_is(mode: Mode) -> None:
    sealer = Sealer(mode.value, KEY, first_nonce=5)
    assert sealer.mode is mode
    assert any(engine.name in sealer.engine for engine in dvcrypto.engines()[mode])
    assert sealer.packets_left == 2**32 - 5
    assert repr(sealer) == f"<dvcrypto.Sealer {mode}, {sealer.engine}, {2**32 - 5} packets left>"
    for name in ("mode", "engine", "packets_left"):
        with pytest.raises(AttributeError):
            setattr(sealer, name, 1)
