"""A key is nowhere in memory once its sealer, opener or stand-in is closed or collected, and nowhere in what is told.

A program of its own looks through all memory that it can write: Python's, OpenSSL's, libsodium's and the stack. The key
comes through a pipe into memory that is left out, so that what is searched for is not found there.
"""

import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import oracle
import pytest
from failing_malloc import PRELUDE as FAILING
from failing_malloc import preload, preload_all
from programs import environment, searches_memory

from dvcrypto import Mode, Opener, RtpStream, Sealer, diagnose
from dvcrypto.dropin.aesgcm import AESGCM
from dvcrypto.dropin.nacl import Aead

__all__ = ["preload", "preload_all"]

KEY = bytes(range(100, 132))
FIRST_NONCE = 0x8000_0000
PACKETS = 4

SEARCH = """
import gc, mmap, os, re, sys

def mapped(size):
    memory = mmap.mmap(-1, size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return memory, (start, start + size)

import ctypes
hidden, hidden_range = mapped(1 << 16)
window, window_range = mapped(1 << 20)
FORM_LEN = 32
given = os.readv(0, [hidden])  # the key, and other forms of it
forms = [memoryview(hidden)[at : at + FORM_LEN] for at in range(0, given, FORM_LEN)]
key = forms[0]

def ranges():
    for line in open("/proc/self/maps").read().splitlines():
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
        if not found or "[v" in line:
            continue
        start, end = (int(number, 16) for number in found.groups())
        for left_out, left_out_end in sorted((hidden_range, window_range)):
            if start <= left_out < end:
                yield start, left_out
                start = left_out_end
        yield start, end

def occurrences(form, length):
    found, at = 0, window.find(form, 0, length)
    while at >= 0:
        found, at = found + 1, window.find(form, at + 1, length)
    return found

def copies():
    gc.collect()
    found = [0] * len(forms)
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    for start, end in ranges():
        while end - start >= FORM_LEN:
            try:
                length = os.preadv(memory, [memoryview(window)[: end - start]], start)
            except OSError:
                break
            found = [count + occurrences(form, length) for count, form in zip(found, forms)]
            start += max(length - FORM_LEN + 1, 1)
    os.close(memory)
    return found
"""

USE = """
import dvcrypto, json
from dvcrypto.dropin.aesgcm import AESGCM

HEADER = bytes.fromhex("80780001000003c000000d10")
mode, thing, end, nonces = json.loads(sys.argv[1])
packets = [HEADER + bytes(length) for length in (10, 600, 800, 2000)]
sealed = [HEADER + bytes(length) + nonce for nonce, length in zip(map(bytes.fromhex, nonces), (30, 620, 820, 2000))]

def stand_in():
    used = AESGCM(key)
    [used.encrypt(bytes(11) + bytes((n,)), packet, b"") for n, packet in enumerate(packets)]
    return used

def stream():
    used = dvcrypto.RtpStream(dvcrypto.Sealer(mode, key), 1, 101)
    used.seal_frame(bytes(5000))
    return used

def sealer(form):
    used = dvcrypto.Sealer(mode, form(key))
    used.seal_burst(packets)
    return used

def opener(form):
    used = dvcrypto.Opener(mode, form(key), replay_window=64)
    used.open_burst(sealed)
    return used

def diagnoser():
    from dvcrypto.diagnosis import Diagnoser
    used = Diagnoser(key)
    used.diagnose(sealed[0])
    return used

make = {"sealer": lambda: sealer(memoryview), "sealer, of a list": lambda: sealer(list), "opener": lambda: opener(list),
        "stream": stream, "AESGCM": stand_in, "diagnoser": diagnoser}[thing]
before = copies()
used = make()
alive = copies()
if end == "close":
    used.close()
else:
    del used
print(json.dumps([before, alive, copies()]))
"""


def round_keys(key: bytes) -> bytes:
    """Of AES-256, the third and the fourth: what its schedule has behind the key itself (FIPS 197, section 5.2)."""
    words = [key[at : at + 4] for at in range(0, 32, 4)]
    for i in range(8, 16):
        last = words[-1]
        if i % 8 == 0:
            last = bytes(map(substitute, last[1:] + last[:1]))
            last = bytes((last[0] ^ 1,)) + last[1:]
        elif i % 8 == 4:
            last = bytes(map(substitute, last))
        words.append(bytes(a ^ b for a, b in zip(words[i - 8], last, strict=True)))
    return b"".join(words[8:])


def substitute(byte: int) -> int:
    """AES's S-box: the inverse in GF(2^8), and an affine map (FIPS 197, section 5.1.1)."""
    inverse = next((x for x in range(256) if times(x, byte) == 1), 0)
    turned = [(inverse << n | inverse >> (8 - n)) & 255 for n in range(5)]
    return turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63


def times(a: int, b: int) -> int:
    product = 0
    for bit in range(8):
        product ^= a << bit if b >> bit & 1 else 0
    for bit in range(15, 7, -1):
        product ^= 0x11B << (bit - 8) if product >> bit & 1 else 0
    return product


def forms_of(key: bytes, suffixes: list[bytes]) -> list[bytes]:
    """The key; AES's next round keys; words of both in the other byte order; XChaCha20's subkeys."""
    forms = [key, round_keys(key)]
    forms += [b"".join(form[at : at + 4][::-1] for at in range(0, 32, 4)) for form in forms]
    return forms + [oracle.hchacha20(key, suffix + bytes(12)) for suffix in suffixes]


def search(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program that gets a random key's forms."""
    suffixes = [(FIRST_NONCE + n).to_bytes(4, "little") for n in range(PACKETS)]
    return subprocess.run(
        [sys.executable, "-c", SEARCH + program, *arguments],
        input=b"".join(forms_of(os.urandom(32), suffixes)),
        env=environment(**variables),
        capture_output=True,
        check=False,
    )


ENGINES = [
    (Mode.AES256_GCM, "openssl-aes256gcm"),
    (Mode.AES256_GCM, "sodium-aes256gcm"),
    (Mode.XCHACHA20_POLY1305, "sodium-xchacha20poly1305"),
    (Mode.XCHACHA20_POLY1305, "openssl-xchacha20poly1305"),
]


@searches_memory
@pytest.mark.parametrize(
    ("thing", "end"),
    [
        ("sealer", "close"),
        ("sealer, of a list", "collection"),
        ("opener", "close"),
        ("stream", "collection"),
        ("AESGCM", "collection"),
        ("diagnoser", "collection"),
    ],
)
@pytest.mark.parametrize(("mode", "engine"), ENGINES)
def test_no_form_of_the_key_is_left_in_memory(mode: Mode, engine: str, thing: str, end: str) -> None:
    nonces = [(FIRST_NONCE + n).to_bytes(4, "little").hex() for n in range(PACKETS)]
    run = search(USE, json.dumps([mode.value, thing, end, nonces]), DVCRYPTO_ENGINE=engine)
    if b"cannot run here" in run.stderr:
        pytest.skip(f"{engine} cannot run here")
    assert run.returncode == 0, run.stderr.decode()
    before, alive, after = json.loads(run.stdout)
    assert sum(before) == 0
    assert alive[0] > 0  # it is found where it is
    assert alive[1] > 0 or mode is not Mode.AES256_GCM  # as is its schedule
    assert after == before


LEFT_BY_FAILURES = """
import dvcrypto, json, sys
from dvcrypto.diagnosis import Diagnoser
from dvcrypto.dropin.aesgcm import AESGCM

mode = sys.argv[1]
failures = 0
for call in [
    lambda: dvcrypto.Sealer(mode, key),
    lambda: dvcrypto.Sealer(mode, list(key)),
    lambda: dvcrypto.Opener(mode, list(key), replay_window=64),
    lambda: AESGCM(key).encrypt(bytes(12), bytes(600), None),
    lambda: Diagnoser(key),
]:
    for failed, made, error in at_each(call):
        failures += failed
        made = error = None
print(json.dumps([failures, copies()]))
"""


@searches_memory
@pytest.mark.parametrize("mode", tuple(Mode))
def test_what_fails_for_lack_of_memory_leaves_no_key(preload_all: str, mode: Mode) -> None:
    run = search(FAILING + LEFT_BY_FAILURES, mode.value, LD_PRELOAD=preload_all, PYTHONMALLOC="malloc")
    assert run.returncode == 0, run.stderr.decode()
    failures, left = json.loads(run.stdout)
    assert failures > 50
    assert sum(left) == 0


# What is told

PACKET = bytes.fromhex("8078 0001 0000 03c0 0000 0d10") + bytes(60)
SHORT, LIST, WRONG = KEY[:31], list(KEY), [*KEY[:31], 300]

WRONG_CALLS: dict[str, Callable[[], object]] = {
    "a short key": lambda: Sealer(Mode.AES256_GCM, SHORT),
    "a short key in a buffer": lambda: Sealer(Mode.AES256_GCM, bytearray(SHORT)),
    "a wrong integer": lambda: Sealer(Mode.AES256_GCM, WRONG),
    "no mode": lambda: Sealer("aes", LIST),
    "the key for the mode": lambda: Sealer(KEY, Mode.AES256_GCM),  # type: ignore[arg-type]
    "the key in hexadecimal for the mode": lambda: Sealer(KEY.hex(), Mode.AES256_GCM),  # type: ignore[arg-type]
    "a wrong nonce": lambda: Sealer(Mode.AES256_GCM, KEY, first_nonce=-1),
    "a wrong order": lambda: Sealer(Mode.AES256_GCM, KEY, byteorder="middle"),  # type: ignore[arg-type]
    "a wrong argument": lambda: Sealer(Mode.AES256_GCM, KEY, nonce=5),  # type: ignore[call-arg]
    "a key as str": lambda: Sealer(Mode.AES256_GCM, KEY.decode("latin1")),  # type: ignore[arg-type]
    "opener: a short key": lambda: Opener(Mode.AES256_GCM, SHORT),
    "opener: a wrong integer": lambda: Opener(Mode.AES256_GCM, WRONG),
    "opener: a wrong window": lambda: Opener(Mode.AES256_GCM, LIST, replay_window=-1),
    "stream: no sealer": lambda: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 500),
    "a closed sealer": lambda: closed(Sealer(Mode.AES256_GCM, KEY)).seal_burst([PACKET]),
    "a closed opener": lambda: closed(Opener(Mode.AES256_GCM, KEY)).open(PACKET),
    "a packet of another key": lambda: Opener(Mode.AES256_GCM, KEY).open(PACKET),
    "AESGCM: a short key": lambda: AESGCM(SHORT),
    "AESGCM: a list": lambda: AESGCM(LIST),  # type: ignore[arg-type]
    "AESGCM: a wrong tag": lambda: AESGCM(KEY).decrypt(bytes(12), bytes(40), None),
    "Aead: a short key": lambda: Aead(SHORT),
    "Aead: a list": lambda: Aead(LIST),  # type: ignore[arg-type]
    "Aead: a wrong tag": lambda: Aead(KEY).decrypt(bytes(60)),
    "diagnose: a short key": lambda: diagnose(PACKET, SHORT),
    "diagnose: no mode": lambda: diagnose(PACKET, KEY, mode="aes"),
    "diagnose: no packet": lambda: diagnose("packet", LIST),  # type: ignore[arg-type]
}


def closed(thing: Any) -> Any:
    thing.close()
    return thing


def pieces() -> Iterator[str]:
    """Of the key in the forms that Python shows: bytes, integers, hexadecimal digits."""
    for at in range(0, 28, 4):
        piece = KEY[at : at + 4]
        yield repr(piece)[2:-1]
        yield repr(list(piece))[1:-1]
        yield piece.hex()


@pytest.mark.parametrize("call", WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_no_traceback_shows_the_key_with_local_variables_too(
    call: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    told = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    every_frame = ""
    error: BaseException | None = caught.value
    while error:
        every_frame += repr(error) + repr([frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)][1:])
        error = error.__cause__ or error.__context__
    for piece in pieces():
        assert piece not in told + every_frame + caplog.text


def test_a_traceback_that_shows_the_key_is_noticed() -> None:
    def careless(key: bytes) -> None:
        raise ValueError(len(key))

    with pytest.raises(ValueError, match="32") as caught:
        careless(KEY)
    told = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert all(piece in told for piece in list(pieces())[::3])


@pytest.mark.parametrize("mode", tuple(Mode))
def test_no_object_has_the_key_in_an_attribute(mode: Mode) -> None:
    sealer = Sealer(mode, KEY)
    for thing in (sealer, Opener(mode, KEY, replay_window=5), RtpStream(sealer, 1, 101), AESGCM(KEY)):
        slots = [slot for kind in type(thing).__mro__ for slot in getattr(kind, "__slots__", ())]
        told = repr(thing) + str(thing) + repr([getattr(thing, slot, None) for slot in slots if slot != "__weakref__"])
        assert not hasattr(thing, "__dict__")
        for piece in pieces():
            assert piece not in told
