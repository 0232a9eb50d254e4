"""What goes wrong around a call does no harm: no memory, threads and interpreters that end, forks, signals.

Whatever fails, no nonce comes twice, nothing hangs or crashes, and the next call works.
"""

import ctypes
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from failing_malloc import PRELUDE, preload, preload_all
from programs import SANITIZED, python

from dvcrypto import Burst, Mode, Opener, Sealer, SealError, Status
from dvcrypto.dropin.aesgcm import AESGCM

__all__ = ["preload", "preload_all"]

KEY = bytes(range(32))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
LONG_BURST = [HEADER + bytes(1200)] * 40  # 48,000 bytes: above the 32 KiB from which a call gives up the GIL

MODES = pytest.mark.parametrize("mode", tuple(Mode), ids=lambda mode: mode.name)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def nonces(bursts: Iterable[Burst]) -> list[bytes]:
    """Of all packets."""
    return [bytes(packet[-4:]) for burst in bursts for packet in burst]


def run_until_done(*calls: Callable[[threading.Event], object], main: Callable[[], object]) -> None:
    """Run each in a thread of its own until ``main`` has returned; what one raises is raised here."""
    done, errors = threading.Event(), list[BaseException]()

    def guarded(call: Callable[[threading.Event], object]) -> None:
        try:
            call(done)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        main()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    for error in errors:
        raise error


# Memory

NO_MEMORY = (
    PRELUDE
    + """
import select, socket, sys
from dvcrypto import *
from dvcrypto import _sending
from dvcrypto._library import ffi, lib
from dvcrypto.dropin.aesgcm import AESGCM
from dvcrypto.dropin.nacl import Aead

mode, key = Mode(sys.argv[1] if len(sys.argv) > 1 else MODE), bytes(range(32))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
def rtp(number, length): return HEADER[:2] + number.to_bytes(2, "big") + HEADER[4:] + bytes(length)
plain = [rtp(number, 600) for number in range(150)]
sealer, seen, failures = Sealer(mode, key), set(), 0

def use(burst):
    suffixes = [bytes(packet[-4:]) for packet in burst]
    assert len(set(suffixes)) == len(suffixes) and seen.isdisjoint(suffixes)
    seen.update(suffixes)
    return burst

# Sealing: MemoryError, the output as it was or wiped, and never a nonce again.
stream = RtpStream(sealer, 1, 101)
target = bytearray(b"\\x55" * 100_000)
SEALING = [
    lambda: [sealer.seal(HEADER, bytes(1200))],
    lambda: sealer.seal_burst(plain),
    lambda: sealer.seal_burst([bytearray(packet) for packet in plain]),
    lambda: stream.seal_frame(bytes(150_000), advance=1),
    lambda: sealer.seal_burst_into(plain, target),
]
for call in SEALING:
    for failed, burst, error in at_each(call):
        failures += failed
        if error is None:
            use(burst)
        else:
            assert type(error) is MemoryError, repr(error)
            assert target.count(0x55) == len(target) or target.count(0) == 150 * 632 or not RETRIES
        target[:] = b"\\x55" * len(target)
        use(sealer.seal_burst([HEADER]))

# Opening: MemoryError or, where there is none for the window, Replayed.
sealed = Sealer(mode, key).seal_burst(plain).tolist()
for failed, opener, error in at_each(lambda: Opener(mode, key, replay_window=64)):
    failures += failed
    assert error is None or type(error) is MemoryError or isinstance(error, OpenError), repr(error)
def opening(opener):
    return [lambda: opener.open(sealed[0]), lambda: opener.open_burst(sealed)]
for way in range(2):
    for nth in range(1, 5000):
        opener = Opener(mode, key, replay_window=1024)
        failed, result, error = fails(nth, opening(opener)[way])
        failures += failed
        assert error is None or type(error) in (MemoryError, Replayed), repr(error)
        if RETRIES:
            again = opener.open_burst(sealed).statuses
            assert again[1] == ("replayed" if way and not error else "ok") and (not error or again[0] == "ok")
        if not failed:
            assert error is None
            break

# Receiving: what was taken in is given out by the next call.
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 0))
for nth in range(1, 5000):
    receiver = Receiver(sock, Opener(mode, key))
    for packet in sealed[:8]:
        sock.sendto(packet, sock.getsockname())
    failed, result, error = fails(nth, lambda: receiver.receive(timeout=5))
    failures += failed
    assert error is None or type(error) is MemoryError, repr(error)
    got = len(result or ())
    while got < 8 and (came := receiver.receive(timeout=0)):
        got += len(came)
    assert got == 8 or not RETRIES
    receiver.close()
    if not failed:
        break

# Sending: what becomes of it has its place before a packet leaves. Of a paced burst only the first one does at once.
sock.setblocking(False)
burst, told = Sealer(mode, key).seal_burst(plain), []
address = _sending.native_address(sock, sock.getsockname())
packets = sock.fileno(), id(address), id(burst._sealed), id(burst._ends), 0, 0
how = 0, lib.DV_WIRE_LOOP, 1e6, 0, 0, id(told)
for failed, result, error in at_each(lambda: lib.dv_python_send(*packets, *how)):
    failures += failed
    assert error is None or type(error) is MemoryError, repr(error)
    assert (result == -1) == bool(select.select([sock], [], [], 0)[0]), (result, error)
    if result == -1:
        assert ffi.from_buffer("dv_sending *", told[0]).stop == lib.DV_STOP_PACED and sock.recv(2048) == burst[0]
    told.clear()
sock.close()

# Making, and the stand-ins.
nonce = bytes(24)
without_aad = HEADER + Aead(key).encrypt(bytes(600), b"", nonce).ciphertext + nonce[:4]
MAKING = [
    lambda: Sealer(mode, key),
    lambda: Sealer(mode, list(key)),
    lambda: Aead(key).encrypt(bytes(600), b"", nonce),
    lambda: AESGCM(key).encrypt(nonce[:12], bytes(600), b""),
    lambda: AESGCM(key[:16]).encrypt(nonce[:12], bytes(600), b""),
    lambda: diagnose(without_aad, key).mistake,
]
for call in MAKING:
    for failed, made, error in at_each(call):
        failures += failed
        told = f"{error!r} {error}"
        assert error is None or type(error) is MemoryError or isinstance(error, DvcryptoError) or "failed" in told, told
        assert error or not made or call is not MAKING[-1] or made == "aad_empty", made
print(failures)
"""
)


def run_without_memory(mode: Mode, preload: str, allocator: str) -> None:
    constants = f"MODE, RETRIES = {mode.value!r}, {allocator == 'pymalloc'}\n"
    run = python(constants + NO_MEMORY, LD_PRELOAD=preload, PYTHONMALLOC=allocator)
    assert run.returncode == 0, run.stderr
    assert "ffi.gc" not in run.stderr, run.stderr  # of generators without memory Python says it too
    assert int(run.stdout) > 20


@MODES
def test_without_native_memory_there_is_a_memory_error_and_nothing_else_has_happened(preload: str, mode: Mode) -> None:
    run_without_memory(mode, preload, "pymalloc")


@MODES
def test_without_any_memory_there_is_a_memory_error_and_nothing_else_has_happened(preload_all: str, mode: Mode) -> None:
    # Of small Python objects pymalloc makes its own; with malloc each of them fails too, and a result that is there may
    # find no object to be in.
    run_without_memory(mode, preload_all, "malloc")


# Threads, signals


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is raised in a callback of the collector, Hypothesis's say, does not reach the code that was interrupted."""
    gc.disable()
    yield
    gc.enable()


def kill(thread: threading.Thread) -> None:
    """Raise SystemExit in it, where it is; nothing where it has ended."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


@pytest.mark.skipif(SANITIZED, reason="keeps all it seals")
@pytest.mark.usefixtures("no_collector")
@MODES
def test_a_thread_killed_amid_its_bursts_takes_no_nonce_that_comes_again(mode: Mode) -> None:
    sealer, made, started = Sealer(mode, KEY), list[Burst](), threading.Event()
    left = sealer.packets_left

    def seal_for_long() -> None:  # and not for ever: whoever kills it may be late, and memory ends
        with suppress(SystemExit):
            for _ in range(500):
                made.append(sealer.seal_burst(LONG_BURST))
                started.set()

    for _ in range(20):
        started.clear()
        thread = threading.Thread(target=seal_for_long)
        thread.start()
        started.wait()
        kill(thread)
        thread.join()
        made.append(sealer.seal_burst([HEADER]))
    used = nonces(made)
    assert len(set(used)) == len(used)
    assert 0 <= left - sealer.packets_left - len(used) <= 20 * len(LONG_BURST)
    assert {*Opener(mode, KEY).open_burst([packet for burst in made for packet in burst]).statuses} <= {
        Status.OK,
        Status.EMPTY,
    }


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
@pytest.mark.usefixtures("no_collector")
@MODES
def test_a_signal_handler_that_raises_amid_bursts_does_no_harm(mode: Mode) -> None:
    class Rang(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Rang

    sealer, opener, made, rings = Sealer(mode, KEY), Opener(mode, KEY), list[Burst](), 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        while rings < 20:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                while True:
                    made.append(sealer.seal_burst(LONG_BURST))
                    assert set(opener.open_burst(made[-1]).statuses) == {Status.OK}
                    del made[:-50]
            except Rang:
                rings += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    made.append(sealer.seal_burst(LONG_BURST))
    assert len(set(nonces(made))) == len(nonces(made))
    assert set(opener.open_burst(made[-1]).statuses) == {Status.OK}


@MODES
def test_closing_an_opener_while_another_thread_opens_ends_its_bursts_whole(mode: Mode) -> None:
    burst = Sealer(mode, KEY).seal_burst(LONG_BURST)
    for _ in range(10):
        opener, started = Opener(mode, KEY), threading.Event()

        def open_for_ever(_: threading.Event, opener: Opener = opener, started: threading.Event = started) -> None:
            with suppress(ValueError):
                while True:
                    opened = opener.open_burst(burst)
                    assert [packet.plain for packet in opened if packet] == LONG_BURST
                    started.set()
            assert opener.stats.ok % len(LONG_BURST) == 0

        def close(opener: Opener = opener, started: threading.Event = started) -> None:
            started.wait()
            opener.close()

        run_until_done(open_for_ever, open_for_ever, main=close)


@MODES
def test_a_packet_does_not_change_its_size_while_it_is_sealed(mode: Mode) -> None:
    packets = [bytearray(packet) for packet in LONG_BURST]
    sealer, sizes = Sealer(mode, KEY), {len(packet) for packet in LONG_BURST}

    def resize(done: threading.Event) -> None:
        while not done.is_set():
            for packet in packets:
                with suppress(BufferError):  # while it is being sealed
                    packet.append(0)
                with suppress(BufferError):
                    del packet[min(sizes) :]

    made: list[Burst] = []

    def seal() -> None:
        made.extend(sealer.seal_burst(packets) for _ in range(100))

    run_until_done(resize, main=seal)
    assert len(set(nonces(made))) == 100 * len(packets)
    for burst in made:
        assert set(Opener(mode, KEY).open_burst(burst).statuses) == {Status.OK}


@MODES
def test_packets_that_another_thread_changes_meanwhile_use_each_nonce_once(mode: Mode) -> None:
    # Header bits that decide lengths too: CSRC count, extension and its words, padding and its count.
    packets = [bytearray(packet) for packet in LONG_BURST]
    sealer, out = Sealer(mode, KEY), bytearray(2 * sum(map(len, LONG_BURST)))
    sealed_len = sum(len(packet) + 20 for packet in LONG_BURST)

    def change(done: threading.Event) -> None:
        draw = random.Random(1)
        while not done.is_set():
            packet = draw.choice(packets)
            packet[0] = 0x80 | draw.randrange(64)
            packet[draw.choice((12, 14, 15, 16, 76, 79, len(packet) - 1))] = draw.choice((0, 1, 200, 255))
            packet[0] = 0x80

    used: list[bytes] = []

    def seal() -> None:
        for _ in range(300):
            try:
                burst = sealer.seal_burst_into(packets, out)
            except (SealError, ValueError) as error:
                if isinstance(error, SealError):
                    assert out.count(0, 0, sealed_len) == sealed_len
                continue
            used.extend(nonces([burst]))

    run_until_done(change, main=seal)
    assert len(set(used)) == len(used)
    for packet, plain in zip(packets, LONG_BURST, strict=True):
        packet[:] = plain
    assert Opener(mode, KEY).open(sealer.seal_burst(packets)[0]).plain == LONG_BURST[0]


# Ends of objects and processes


def test_finalizers_in_a_ring_of_garbage_may_use_what_is_in_it() -> None:
    said: list[object] = []

    class Last:
        def __init__(self, *used: Any) -> None:
            self.used, self.ring = used, self

        def __del__(self) -> None:
            sealer, opener, aead = self.used
            packets = [packet for packet in opener.open_burst(sealer.seal_burst([HEADER + b"last"])) if packet]
            said.append((packets[0].payload, aead.decrypt(bytes(12), aead.encrypt(bytes(12), b"word", None), None)))

    for mode in Mode:  # all older than the ring, and so finalized before it
        Last(Sealer(mode, KEY), Opener(mode, KEY), AESGCM(KEY))
    gc.collect()
    assert said == [(b"last", b"word")] * 2


AT_WORK = """
import atexit, contextlib, gc, os, signal, socket, sys, threading, time
from dvcrypto import *
from dvcrypto.dropin.aesgcm import AESGCM

HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
burst = [HEADER + bytes(1200)] * 400  # long: the GIL is given up
sealers = [Sealer(mode, bytes(32)) for mode in Mode]
openers = [Opener(mode, bytes(32), replay_window=64) for mode in Mode]
started = threading.Semaphore(0)

def seal_and_open(sealer, opener):
    with contextlib.suppress(SealerClosed, ValueError):
        while True:
            opener.open_burst(sealer.seal_burst(burst))
            started.release()

def work(daemon):
    for sealer, opener in zip(sealers, openers):
        threading.Thread(target=seal_and_open, args=(sealer, opener), daemon=daemon).start()
    for _ in sealers:
        started.acquire()
"""

ENDS = {
    "daemon threads seal": "work(daemon=True)",
    "daemon threads seal, and their sealers are closed": "work(daemon=True)\nfor it in sealers + openers: it.close()",
    "everything is alive": """
made = [sealer.seal_burst(burst) for sealer in sealers]
views = [memoryview(one.buffer)[5:50] for one in made] + [one[3] for one in made]
opened = [opener.open_burst(one) for opener, one in zip(openers, made)]
sock = socket.socket(type=socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 0))
receiver = Receiver(sock, openers[0])
sealers[0].seal_burst(burst[:3]).send(sock, sock.getsockname())
class Node: pass
ring = Node()
ring.itself = ring
ring.held = Sealer(Mode.AES256_GCM, bytes(32)), Opener(Mode.AES256_GCM, bytes(32)), AESGCM(bytes(32))
del ring
local = threading.local()
local.sealer = Sealer(Mode.AES256_GCM, bytes(32))
stream = RtpStream(local.sealer, 1, 120)
""",
    "atexit and finalizers seal and open": """
class Last:
    def __init__(self): self.sealer, self.opener = sealers[0], openers[0]
    def __del__(self): assert self.opener.open_burst(self.sealer.seal_burst(burst)).statuses[0] == "replayed"
atexit.register(lambda: [opener.open_burst(sealer.seal_burst(burst)) for sealer, opener in zip(sealers, openers)])
last = Last()
""",
    "an exception nobody catches": """
work(daemon=True)
sys.excepthook = lambda *_: os.dup2(1, 2)
1 / 0
""",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_interpreter_ends_in_peace(end: str) -> None:
    for _ in range(5):
        run = python(AT_WORK + end)
        assert (run.returncode, run.stdout, run.stderr) == ("1 / 0" in end, "", ""), run.stderr


FORK = """
work(daemon=True)
aead = AESGCM(bytes(32))
sock = socket.socket(type=socket.SOCK_DGRAM)
receiver = Receiver(sock, openers[0])
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(60)  # and not for ever where it hangs
        for sealer in sealers:
            try:
                sealer.seal_burst(burst)
            except SealerForked:
                continue
            os._exit(3)
        for opener in openers:
            mine = Sealer(opener.mode, bytes(32), first_nonce=5)
            assert set(opener.open_burst(mine.seal_burst(burst)).statuses) <= {"ok", "replayed"}
            opener.close()
        assert aead.encrypt(bytes(12), b"", None)
        assert not len(receiver.receive(timeout=0))
        receiver.close()
        for sealer in sealers:
            sealer.close()
        del sealers[:], openers[:], sealer, opener, aead, receiver
        gc.collect()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@forks
def test_children_forked_amid_bursts_of_other_threads_end_in_peace() -> None:
    run = python(AT_WORK + FORK, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (run.returncode, run.stderr) == (0, ""), run.stderr


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
try:
    from dvcrypto import Mode, Opener, Sealer
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    packet = bytes.fromhex("80780001000003c000000d10") + bytes(1200)
    burst = Sealer(Mode.AES256_GCM, bytes(32)).seal_burst([packet] * 100)
    assert set(Opener(Mode.AES256_GCM, bytes(32)).open_burst(burst).statuses) == {"ok"}
'''
import dvcrypto
for _ in range(3):
    made = interpreters.create()
    failure = interpreters.run_string(made, code)
    assert failure is None, failure
    interpreters.destroy(made)
sealer = dvcrypto.Sealer(dvcrypto.Mode.AES256_GCM, bytes(32))
assert len(sealer.seal_burst([bytes.fromhex("80780001000003c000000d10") + bytes(1200)] * 100)) == 100
"""


def test_a_subinterpreter_works_or_is_told_that_it_cannot() -> None:
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    run = python(SUBINTERPRETER)
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
