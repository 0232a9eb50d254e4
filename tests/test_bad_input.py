"""Bad input has the error or the status that the documentation gives it, with the value and the limit in the message.

Sealing refuses a packet with ValueError and uses no nonce for it; opening gives it a status. Arguments that are no
bytes are TypeError or BufferError and name the argument. No message, repr or traceback holds a byte of a key.
"""

import array
import ctypes
import gc
import mmap
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import python

import dvcrypto
from dvcrypto import (
    AuthenticationFailed,
    Malformed,
    Mode,
    NoCommonMode,
    Opener,
    OpenError,
    Replayed,
    RtpExtension,
    RtpStream,
    Sealer,
    SealerClosed,
    Status,
    Truncated,
    choose_mode,
)

KEY = bytes(range(200, 232))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
PLAIN = HEADER + b"payload"
SEALED = Sealer(Mode.AES256_GCM, KEY).seal(HEADER, b"payload")
FIRST_NONCE = 0x8000_0000
PACKET_MAX_LEN = 65535
PLAIN_MAX_LEN = 65515

Call = Callable[[Any], object]


@pytest.fixture(params=tuple(Mode), ids=lambda mode: mode.name)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture
def sealer() -> Sealer:
    return Sealer(Mode.AES256_GCM, KEY)


@pytest.fixture
def opener() -> Opener:
    return Opener(Mode.AES256_GCM, KEY)


def rtp(*, first: int = 0x80, cc: int = 0, extension: bytes | None = None, body: bytes = b"") -> bytes:
    """A plain RTP packet; ``extension`` is its preamble and body, whether they fit or not."""
    fixed = bytes((first | cc | (0 if extension is None else 0x10), 120, 0, 1)) + bytes(4) + b"SSRC"
    return fixed + b"CSRC" * cc + (extension or b"") + body


def sealed_by_hand(header: bytes, body: bytes, *, suffix: bytes = b"\x07\0\0\0") -> bytes:
    """An authentic packet with any contents, made by another library."""
    return header + AESGCM(KEY).encrypt(suffix + bytes(8), body, header) + suffix


def everything_told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)


def assert_no_key(text: str, key: bytes) -> None:
    """No four bytes of the key in a row, in any of the ways in which bytes are written."""
    for start in range(len(key) - 3):
        part = key[start : start + 4]
        numbers = [str(number) for number in part]
        for written in (part.hex(), repr(part)[2:-1], ", ".join(numbers), " ".join(numbers), ",".join(numbers)):
            assert written not in text


# Keys

WRONG_KEYS = {
    "no bytes": (b"", ValueError, "key is 0 bytes; it must be 32"),
    "31 bytes": (KEY[:31], ValueError, "key is 31 bytes; it must be 32"),
    "33 bytes": (KEY + KEY[:1], ValueError, "key is 33 bytes; it must be 32"),
    "16 bytes": (bytearray(KEY[:16]), ValueError, "key is 16 bytes; it must be 32"),
    "hex": (KEY.hex(), TypeError, "key must be bytes-like, not str"),
    "32 characters": ("k" * 32, TypeError, "key must be bytes-like, not str"),
    "none": (None, TypeError, "key must be bytes-like, not NoneType"),
    "a number": (32, TypeError, "key must be bytes-like, not int"),
    "a set": (set(KEY), TypeError, "key must be bytes-like, not set"),
    "an iterator": (iter(KEY), TypeError, "key must be bytes-like, not bytes_iterator"),
    "no integers": ([], ValueError, "key has 0 integers; it must have 32"),
    "31 integers": (list(KEY[:31]), ValueError, "key has 31 integers; it must have 32"),
    "33 integers": ((*KEY, 0), ValueError, "key has 33 integers; it must have 32"),
    "256": ([*KEY[:3], 256, *KEY[4:]], ValueError, "key[3] is not an integer from 0 to 255"),
    "-1": ([*KEY[:31], -1], ValueError, "key[31] is not an integer from 0 to 255"),
    "2**70": ([2**70, *KEY[1:]], ValueError, "key[0] is not an integer from 0 to 255"),
    "a bool": ([*KEY[:5], True, *KEY[6:]], ValueError, "key[5] is not an integer from 0 to 255"),
    "a float": ([*KEY[:5], 1.0, *KEY[6:]], ValueError, "key[5] is not an integer from 0 to 255"),
    "digits": ([str(byte) for byte in KEY], ValueError, "key[0] is not an integer from 0 to 255"),
    "32-bit items": (array.array("I", KEY), TypeError, "key has items of 4 bytes; they must have 1"),
    "every second byte": (memoryview(KEY * 2)[::2], BufferError, "key is not contiguous in memory"),
}


@pytest.mark.parametrize("make", [Sealer, Opener])
@pytest.mark.parametrize(("key", "error", "message"), WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_a_wrong_key_is_refused_without_a_byte_of_it(
    make: type[Sealer] | type[Opener], mode: Mode, key: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        make(mode, key)
    assert_no_key(everything_told(caught.value), KEY)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert str(2**70) not in everything_told(caught.value)


@pytest.mark.parametrize("make", [Sealer, Opener])
@pytest.mark.parametrize("key", [KEY, bytearray(KEY), list(KEY), memoryview(KEY)], ids=lambda key: type(key).__name__)
def test_a_key_in_the_mode_s_place_is_not_printed(make: Any, key: object) -> None:
    with pytest.raises((TypeError, ValueError), match="mode") as caught:
        make(key, Mode.AES256_GCM)
    assert_no_key(everything_told(caught.value), KEY)


def test_no_repr_has_a_byte_of_the_key(mode: Mode) -> None:
    with Sealer(mode, KEY) as sealer, Opener(mode, KEY) as opener:
        burst = sealer.seal_burst([PLAIN])
        opened = opener.open_burst(burst)
        stream = RtpStream(sealer, 1, 120)
        for thing in (sealer, opener, burst, opened, opened[0], stream, opener.stats):
            assert_no_key(repr(thing) + str(thing), KEY)


def test_no_refusal_to_seal_or_open_has_a_byte_of_the_key(mode: Mode) -> None:
    sealer, opener = Sealer(mode, KEY, first_nonce=0xFFFF_FFFF), Opener(mode, KEY, replay_window=9)
    sealed = sealer.seal(HEADER, b"payload")
    opener.open(sealed)
    calls: list[Callable[[], object]] = [
        lambda: sealer.seal(HEADER, b""),
        lambda: sealer.seal_burst([b""]),
        lambda: opener.open(sealed),
        lambda: opener.open(sealed[:-1] + b"\1"),
        lambda: Opener(mode, KEY[::-1]).open(sealed),
    ]
    for call in calls:
        with pytest.raises((ValueError, dvcrypto.DvcryptoError)) as caught:
            call()
        assert_no_key(everything_told(caught.value), KEY)
        assert_no_key(everything_told(caught.value), KEY[::-1])


def bytes_like(data: bytes) -> Iterator[Any]:
    """The same bytes in every type that holds bytes."""
    yield data
    yield bytearray(data)
    yield memoryview(data)
    yield memoryview(b"\x55" + data + b"\x55")[1:-1]
    yield array.array("B", data)
    yield (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
    yield memoryview(data).cast("c")
    yield type("Bytes", (bytes,), {})(data)
    if data:
        mapped = mmap.mmap(-1, len(data))
        mapped[:] = data
        yield mapped
    if len(data) % 2 == 0 and data:
        yield memoryview(data).cast("B", [2, len(data) // 2])


def test_every_bytes_like_type_holds_a_key(mode: Mode) -> None:
    expected = Sealer(mode, KEY).seal(HEADER, b"payload")
    for key in (*bytes_like(KEY), list(KEY), tuple(KEY)):
        assert Sealer(mode, key).seal(HEADER, b"payload") == expected
        assert Opener(mode, key).open(expected).payload == b"payload"


def test_a_key_is_copied_at_once_and_its_buffer_let_go(mode: Mode) -> None:
    key, integers = bytearray(KEY), list(KEY)
    sealers = Sealer(mode, key), Sealer(mode, integers)
    opener = Opener(mode, key)
    key[:] = bytes(32)
    key.clear()
    integers.clear()
    for sealer in sealers:
        assert opener.open(sealer.seal(HEADER, b"payload")).payload == b"payload"


# Modes and numbers


@pytest.mark.parametrize(
    "name", ["", "aead_aes256_gcm", "AES256_GCM", "xsalsa20_poly1305_lite", "aead_aes256_gcm_rtpsize "]
)
@pytest.mark.parametrize("make", [Sealer, Opener])
def test_a_mode_name_that_is_none_is_told_with_the_modes_there_are(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"mode is {name!r}")) as caught:
        make(name, KEY)
    assert all(mode in str(caught.value) for mode in Mode)


@pytest.mark.parametrize("junk", [None, 0, 1, 2.5, b"aead_aes256_gcm_rtpsize", [], {}, object()])
@pytest.mark.parametrize("make", [Sealer, Opener])
def test_a_mode_that_is_no_str_is_refused(make: Any, junk: object) -> None:
    with pytest.raises((TypeError, ValueError), match="mode"):
        make(junk, KEY)


NUMBERS: dict[str, tuple[int, int, Call]] = {
    "first_nonce": (0, 2**32 - 1, lambda n: Sealer(Mode.AES256_GCM, KEY, first_nonce=n)),
    "replay_window": (0, 32768, lambda n: Opener(Mode.AES256_GCM, KEY, replay_window=n)),
    "ssrc": (0, 2**32 - 1, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), n, 120)),
    "payload_type": (0, 127, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, n)),
    "sequence": (0, 65535, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, sequence=n)),
    "timestamp": (0, 2**32 - 1, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, timestamp=n)),
    "max_packet": (33, PACKET_MAX_LEN, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, max_packet=n)),
    "advance": (0, 2**32 - 1, lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120).seal(b"", advance=n)),
    "extension.profile": (
        0,
        65535,
        lambda n: RtpStream(Sealer(Mode.AES256_GCM, KEY), 1, 120, extension=RtpExtension(n, b"")),
    ),
}


@pytest.mark.parametrize(("name", "lowest", "highest", "call"), [(k, *v) for k, v in NUMBERS.items()], ids=NUMBERS)
def test_a_number_outside_its_range_is_told_with_the_range(name: str, lowest: int, highest: int, call: Call) -> None:
    call(lowest)
    call(highest)
    for value in (lowest - 1, highest + 1, -(2**64), 2**64):
        with pytest.raises(ValueError, match=re.escape(f"{name} is {value}; it must be from {lowest} to {highest}")):
            call(value)
    for junk in ("1", 1.0, None, b"1", [1]):
        with pytest.raises(TypeError, match=re.escape(f"{name} must be an integer, not {type(junk).__name__}")):
            call(junk)


def test_max_packet_leaves_room_for_a_byte_behind_the_extension(sealer: Sealer) -> None:
    extension = RtpExtension(0xBEDE, bytes(8))
    RtpStream(sealer, 1, 120, extension=extension, max_packet=45)
    with pytest.raises(ValueError, match="max_packet is 44; it must be from 45 to 65535"):
        RtpStream(sealer, 1, 120, extension=extension, max_packet=44)


def test_an_extension_of_another_type_is_refused(sealer: Sealer) -> None:
    with pytest.raises(TypeError, match="extension must be an RtpExtension, not bytes"):
        RtpStream(sealer, 1, 120, extension=b"four")  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 65533])
def test_an_extension_that_is_not_whole_words_is_refused(sealer: Sealer, length: int) -> None:
    with pytest.raises(ValueError, match=f"extension.data is {length} bytes; it must be a multiple of 4"):
        RtpStream(sealer, 1, 120, extension=RtpExtension(0xBEDE, bytes(length)))


@pytest.mark.parametrize("length", [65500, 65532, 65536, 2**18])
def test_an_extension_that_fits_no_packet_is_told_by_its_length(sealer: Sealer, length: int) -> None:
    with pytest.raises(ValueError, match=f"extension.data is {length} bytes"):
        RtpStream(sealer, 1, 120, extension=RtpExtension(0x1000, bytes(length)), max_packet=PACKET_MAX_LEN)


@pytest.mark.parametrize("junk", ["native", "Little", "", b"little", None, 1, True])
def test_a_byte_order_that_is_none_is_told(junk: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"byteorder is {junk!r}; it must be 'little' or 'big'")):
        Sealer(Mode.AES256_GCM, KEY, byteorder=junk)


def test_a_stream_s_bad_advance_uses_no_nonce_and_moves_nothing(sealer: Sealer) -> None:
    stream = RtpStream(sealer, 1, 120, sequence=7, timestamp=9)
    for call in (stream.seal, stream.seal_frame):
        with pytest.raises(ValueError, match="advance"):
            call(b"x", advance=-1)
    assert (stream.sequence, stream.timestamp, sealer.packets_left) == (7, 9, 2**32 - FIRST_NONCE)


def test_a_payload_longer_than_the_stream_s_packet_is_told(sealer: Sealer) -> None:
    stream = RtpStream(sealer, 1, 120, max_packet=100)
    assert len(stream.seal(bytes(68))) == 100
    with pytest.raises(ValueError, match="payload is 69 bytes; max_packet=100 leaves room for 68"):
        stream.seal(bytes(69))
    assert stream.sequence == 1
    assert sealer.packets_left == 2**32 - FIRST_NONCE - 1


@pytest.mark.parametrize("junk", [None, 5, "aead_aes256_gcm_rtpsize"])
def test_choose_mode_wants_a_sequence_of_names(junk: Any) -> None:
    with pytest.raises(TypeError):
        choose_mode(junk)


@pytest.mark.parametrize(
    "junk",
    [[], (), {}, ["xsalsa20_poly1305"], [None, 1, b"aead_aes256_gcm_rtpsize", [], object()], ["", " "], iter(())],
)
def test_choose_mode_without_a_common_mode_tells_both_lists(junk: Any) -> None:
    with pytest.raises(NoCommonMode, match="no common mode: offered are") as caught:
        choose_mode(junk)
    assert all(mode in str(caught.value) for mode in Mode)
    assert all(repr(name) in str(caught.value) for name in caught.value.offered)


@pytest.mark.parametrize("junk", ["", "aes", "AES256_GCM", 5, b"x"])
def test_a_preference_that_is_no_mode_is_told(junk: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="prefer") as caught:
        choose_mode(list(Mode), prefer=junk)
    if isinstance(junk, str):
        assert repr(junk) in str(caught.value)
        assert all(mode in str(caught.value) for mode in Mode)


def test_a_wrong_mode_in_the_environment_is_told() -> None:
    code = "import dvcrypto; print(dvcrypto.choose_mode(list(dvcrypto.Mode)))"
    run = python(code, DVCRYPTO_MODE="chacha")
    assert run.returncode != 0
    assert "ValueError: DVCRYPTO_MODE is 'chacha'; the modes are" in run.stderr
    assert all(mode in run.stderr for mode in Mode)
    assert python(code, DVCRYPTO_MODE="").returncode == 0


@pytest.mark.parametrize("name", ["nonsense", "openssl", "sodium-aes256gcm,nonsense", "aead_aes256_gcm_rtpsize"])
def test_a_wrong_engine_in_the_environment_stops_the_import(name: str) -> None:
    run = python("import dvcrypto", DVCRYPTO_ENGINE=name)
    assert run.returncode != 0
    assert f"EngineUnavailable: DVCRYPTO_ENGINE names {name.split(',')[-1]!r}; the engines are" in run.stderr
    assert all(engine.name in run.stderr for of_mode in dvcrypto.engines().values() for engine in of_mode)


# Arguments that are no bytes


def argument_calls(sealer: Sealer, opener: Opener) -> dict[str, tuple[str, Call]]:
    """Every argument that takes bytes, by what calls it and the name that errors give it."""
    stream = RtpStream(sealer, 1, 120)
    return {
        "seal header": ("header", lambda bad: sealer.seal(bad, b"")),
        "seal payload": ("payload", lambda bad: sealer.seal(HEADER, bad)),
        "seal_burst": ("packets[1]", lambda bad: sealer.seal_burst([PLAIN, bad])),
        "seal_burst_into": ("packets[1]", lambda bad: sealer.seal_burst_into([bytearray(PLAIN), bad], bytearray(999))),
        "out": ("out", lambda bad: sealer.seal_burst_into([PLAIN], bad)),
        "stream.seal": ("payload", stream.seal),
        "stream.seal_frame": ("frame", stream.seal_frame),
        "extension": ("extension.data", lambda bad: RtpStream(sealer, 1, 120, extension=RtpExtension(1, bad))),
        "open": ("packet", opener.open),
        "open_burst": ("packets[2]", lambda bad: opener.open_burst([SEALED, SEALED, bad])),
    }


WRONG_BYTES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "str": (lambda: "text", TypeError, "must be bytes-like, not str"),
    "int": (lambda: 5, TypeError, "must be bytes-like, not int"),
    "none": (lambda: None, TypeError, "must be bytes-like, not NoneType"),
    "list": (lambda: [1, 2], TypeError, "must be bytes-like, not list"),
    "16-bit items": (lambda: array.array("H", [1, 2]), TypeError, "has items of 2 bytes; they must have 1"),
    "doubles": (lambda: memoryview(bytearray(64)).cast("d"), TypeError, "has items of 8 bytes; they must have 1"),
    "every second byte": (lambda: memoryview(bytearray(64))[::2], BufferError, "is not contiguous in memory"),
    "backwards": (lambda: memoryview(bytearray(64))[::-1], BufferError, "is not contiguous in memory"),
}


@pytest.mark.parametrize("where", argument_calls(Sealer(Mode.AES256_GCM, KEY), Opener(Mode.AES256_GCM, KEY)))
@pytest.mark.parametrize(("make", "error", "message"), WRONG_BYTES.values(), ids=WRONG_BYTES)
def test_what_is_not_contiguous_bytes_is_refused_by_the_argument_s_name(
    sealer: Sealer, opener: Opener, where: str, make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    name, call = argument_calls(sealer, opener)[where]
    with pytest.raises(error, match=re.escape(f"{name} {message}")):
        call(make())
    assert sealer.packets_left == 2**32 - FIRST_NONCE
    assert opener.stats.opened + opener.stats.failed == 0


@pytest.mark.parametrize("where", argument_calls(Sealer(Mode.AES256_GCM, KEY), Opener(Mode.AES256_GCM, KEY)))
def test_a_released_view_is_refused(sealer: Sealer, opener: Opener, where: str) -> None:
    released = memoryview(bytearray(64))
    released.release()
    with pytest.raises(ValueError, match="released"):
        argument_calls(sealer, opener)[where][1](released)
    assert sealer.packets_left == 2**32 - FIRST_NONCE


@pytest.mark.parametrize(
    "packets", [b"bytes", bytearray(9), memoryview(b"view"), "text", None, 5, array.array("B", [1])]
)
def test_packets_must_be_a_sequence_of_packets(sealer: Sealer, opener: Opener, packets: Any) -> None:
    calls: list[Call] = [
        sealer.seal_burst,
        opener.open_burst,
        lambda packets: sealer.seal_burst_into(packets, bytearray(99)),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call(packets)


def test_an_error_of_the_caller_s_iterator_is_the_caller_s(sealer: Sealer) -> None:
    def packets() -> Iterator[bytes]:
        yield PLAIN
        message = "mine"
        raise KeyError(message)

    with pytest.raises(KeyError, match="mine"):
        sealer.seal_burst(packets())
    assert sealer.packets_left == 2**32 - FIRST_NONCE


def test_a_view_without_dimensions_is_one_byte(sealer: Sealer, opener: Opener) -> None:
    one = memoryview(ctypes.c_ubyte(0x41))
    assert one.ndim == 0
    assert opener.open(sealer.seal(HEADER, one)).payload == b"A"
    with pytest.raises(ValueError, match=re.escape("packets[0] is 1 bytes; it needs at least 8")):
        sealer.seal_burst([one])
    with pytest.raises(ValueError, match="header is 1 bytes; it needs at least 8"):
        sealer.seal(one, b"")
    with pytest.raises(ValueError, match="out is 1 bytes; 39 are needed"):
        sealer.seal_burst_into([PLAIN], one)
    assert opener.open_burst([one]).statuses == (Status.TRUNCATED,)


def test_every_bytes_like_type_is_taken_as_input(mode: Mode) -> None:
    header, payload, frame = rtp(cc=1), b"pay" * 12, bytes(3000)
    sealed = Sealer(mode, KEY).seal(header, payload)
    frames = RtpStream(Sealer(mode, KEY), 1, 120).seal_frame(frame).tolist()
    for head, tail, packet in zip(bytes_like(header), bytes_like(payload), bytes_like(header + payload), strict=True):
        assert Sealer(mode, KEY).seal(head, tail) == sealed
        assert Sealer(mode, KEY).seal_burst([packet]).tolist() == [sealed]
    for form in bytes_like(sealed):
        assert Opener(mode, KEY).open(form).payload == payload
        assert Opener(mode, KEY).open_burst([form, sealed]).statuses == (Status.OK, Status.OK)
    for form in bytes_like(frame):
        assert RtpStream(Sealer(mode, KEY), 1, 120).seal_frame(form).tolist() == frames


def test_packets_may_come_from_any_iterable(sealer: Sealer, opener: Opener) -> None:
    for packets in ([PLAIN, PLAIN], (PLAIN, PLAIN), iter([PLAIN, PLAIN]), {1: PLAIN, 2: PLAIN}.values()):
        burst = sealer.seal_burst(packets)
        assert opener.open_burst(burst).statuses == (Status.OK, Status.OK)
        assert opener.open_burst(iter(burst)).statuses == (Status.OK, Status.OK)


def test_no_input_stays_locked_after_the_call(sealer: Sealer, opener: Opener) -> None:
    plain, sealed, out = bytearray(PLAIN), bytearray(SEALED), bytearray(39)
    burst, into = sealer.seal_burst([plain, plain]), sealer.seal_burst_into([plain], out)
    opened = opener.open_burst([sealed])
    sealer.seal(plain[:12], plain)
    opener.open(sealed)
    plain.append(0)
    sealed.append(0)
    with pytest.raises(BufferError):  # the burst is a view of it
        out.append(0)
    assert len(burst) == 2
    assert opened[0] is not None
    del into
    gc.collect()
    out.append(0)


# Packets that cannot be sealed


def extension_preamble(words: int) -> bytes:
    return b"\xbe\xde" + words.to_bytes(2, "big")


UNSEALABLE: dict[str, tuple[bytes, str]] = {
    **{f"{n} bytes": (PLAIN[:n], f"is {n} bytes; it needs at least {8 if n < 8 else 12}") for n in range(12)},
    "RTCP of 7 bytes": (b"\x80\xc8\0\1SSR", "is 7 bytes; it needs at least 8"),
    "too long": (HEADER + bytes(PLAIN_MAX_LEN - 11), "is 65516 bytes; it may have at most 65515"),
    "far too long": (HEADER + bytes(2**20), f"is {2**20 + 12} bytes; it may have at most 65515"),
    "version 0": (rtp(first=0x00, body=bytes(40)), "has RTP version 0; it must be 2"),
    "version 1": (rtp(first=0x40, body=bytes(40)), "has RTP version 1; it must be 2"),
    "version 3": (rtp(first=0xC0, body=bytes(40)), "has RTP version 3; it must be 2"),
    "CSRCs past the end": (rtp(first=0x8F), "is 12 bytes; it needs at least 72"),
    "half a CSRC": (rtp(first=0x81, body=b"CS"), "is 14 bytes; it needs at least 16"),
    "no preamble": (rtp(first=0x90), "is 12 bytes; it needs at least 16"),
    "no preamble behind CSRCs": (rtp(first=0x92, body=bytes(11)), "is 23 bytes; it needs at least 24"),
    "extension past the end": (
        rtp(extension=extension_preamble(2), body=bytes(7)),
        "has a header extension of 8 bytes; behind its header there are 7",
    ),
    "extension of 65,535 words": (
        rtp(extension=extension_preamble(65535), body=bytes(40)),
        "has a header extension of 262140 bytes; behind its header there are 40",
    ),
    "padding of 0": (rtp(first=0xA0, body=b"abc\0"), "has a padding count of 0; it is at least 1"),
    "padding beyond the payload": (
        rtp(first=0xA0, body=b"abcd\6"),
        "has a padding count of 6; there are 5 bytes for it",
    ),
    "padding of 255": (rtp(first=0xA0, body=b"\xff"), "has a padding count of 255; there are 1 bytes for it"),
    "padding into the extension": (
        rtp(first=0xA0, extension=extension_preamble(1), body=b"EXT!\0\0\4"),
        "has a padding count of 4; there are 3 bytes for it",
    ),
    "padding without a byte": (rtp(first=0xA0), "has a padding count of 1; there are 0 bytes for it"),
    "padding with an extension alone": (
        rtp(first=0xA0, extension=extension_preamble(1), body=b"EXT\1"),
        "has a padding count of 1; there are 0 bytes for it",
    ),
}


@pytest.mark.parametrize(("packet", "message"), UNSEALABLE.values(), ids=UNSEALABLE)
def test_a_packet_that_cannot_be_sealed_is_named_and_uses_no_nonce(mode: Mode, packet: bytes, message: str) -> None:
    sealer = Sealer(mode, KEY)
    for index in (0, 1, 2):
        packets = [PLAIN, PLAIN]
        packets.insert(index, packet)
        out = bytearray(b"\x55" * (sum(map(len, packets)) + 60))
        calls: list[Callable[[], object]] = [
            lambda packets=packets: sealer.seal_burst(packets),  # type: ignore[misc]
            lambda packets=packets: sealer.seal_burst(map(bytearray, packets)),  # type: ignore[misc]
            lambda packets=packets, out=out: sealer.seal_burst_into(packets, out),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(ValueError, match=re.escape(f"packets[{index}] {message}")):
                call()
        assert not out.strip(b"\x55")
    assert sealer.packets_left == 2**32 - FIRST_NONCE
    assert sealer.seal(HEADER, b"")[-4:] == FIRST_NONCE.to_bytes(4, "little")


SEAL_FAULTS: dict[str, tuple[bytes, bytes, str]] = {
    "no header": (b"", b"payload", "header is 0 bytes; it needs at least 8"),
    "half a header": (HEADER[:11], b"payload", "header is 11 bytes; it needs at least 12"),
    "a header too long": (HEADER + b"x", b"payload", "header is 13 bytes; its bits call for 12"),
    "an RTCP header too long": (b"\x80\xc8\0\6SSRC+", b"", "header is 9 bytes; its bits call for 8"),
    "CSRCs past the end": (b"\x8f" + HEADER[1:], b"payload", "header is 12 bytes; it needs at least 72"),
    "no preamble": (b"\x90" + HEADER[1:], b"payload", "header is 12 bytes; it needs at least 16"),
    "version 1": (b"\x40" + HEADER[1:], b"payload", "header has RTP version 1; it must be 2"),
    "a payload too long": (HEADER, bytes(70000), "payload is 70000 bytes; it may have at most 65503"),
    "one byte too long": (HEADER, bytes(65504), "payload is 65504 bytes; it may have at most 65503"),
    "a header far too long": (HEADER + bytes(70000), b"", "header is 70012 bytes"),
    "extension past the end": (
        b"\x90" + HEADER[1:] + extension_preamble(2),
        bytes(7),
        "payload has a header extension of 8 bytes; behind its header there are 7",
    ),
    "padding of 0": (b"\xa0" + HEADER[1:], b"abc\0", "payload has a padding count of 0; it is at least 1"),
    "padding beyond": (b"\xa0" + HEADER[1:], b"abc\5", "payload has a padding count of 5; there are 4 bytes for it"),
    "padding without a byte": (b"\xa0" + HEADER[1:], b"", "payload has a padding count of 1; there are 0 bytes"),
}


@pytest.mark.parametrize(("header", "payload", "message"), SEAL_FAULTS.values(), ids=SEAL_FAULTS)
def test_seal_names_the_argument_at_fault_and_uses_no_nonce(
    mode: Mode, header: bytes, payload: bytes, message: str
) -> None:
    sealer = Sealer(mode, KEY)
    for head, tail in ((header, payload), (bytearray(header), memoryview(payload))):
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            sealer.seal(head, tail)
    assert sealer.packets_left == 2**32 - FIRST_NONCE


def test_the_longest_packet_seals_and_opens(mode: Mode) -> None:
    packet = HEADER + bytes(PLAIN_MAX_LEN - len(HEADER))
    sealer, opener = Sealer(mode, KEY), Opener(mode, KEY)
    for sealed in (sealer.seal(packet[:12], packet[12:]), bytes(sealer.seal_burst([packet])[0])):
        assert len(sealed) == PACKET_MAX_LEN
        assert opener.open(sealed).plain == packet


def test_an_empty_payload_is_sealed_and_opens_as_empty(mode: Mode) -> None:
    sealer, opener = Sealer(mode, KEY), Opener(mode, KEY)
    sealed = sealer.seal(HEADER, b"")
    assert len(sealed) == 32
    assert opener.open(sealed).payload == b""
    assert opener.open_burst([sealed, *sealer.seal_burst([HEADER])]).statuses == (Status.EMPTY, Status.EMPTY)


def test_an_empty_burst_is_empty_and_uses_no_nonce(mode: Mode) -> None:
    sealer, opener, out = Sealer(mode, KEY), Opener(mode, KEY), bytearray(b"\x55" * 8)
    bursts = (sealer.seal_burst([]), sealer.seal_burst_into([], out), sealer.seal_burst_into((), bytearray()))
    for burst in bursts:
        assert (len(burst), burst.offsets, burst.tolist(), burst.buffer.nbytes, list(burst)) == (0, (0,), [], 0, [])
    assert out == b"\x55" * 8
    opened = opener.open_burst([])
    assert (len(opened), opened.statuses, list(opened)) == (0, (), [])
    assert sealer.packets_left == 2**32 - FIRST_NONCE


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_the_same_buffer_twice_makes_two_packets_under_two_nonces(mode: Mode, form: Callable[[bytes], Any]) -> None:
    plain = form(PLAIN)
    burst = Sealer(mode, KEY).seal_burst([plain] * 5)
    assert len({bytes(packet[-4:]) for packet in burst}) == 5
    assert [packet and packet.plain for packet in Opener(mode, KEY).open_burst(burst)] == [PLAIN] * 5


def test_the_same_sealed_buffer_twice_opens_twice_without_a_replay_window() -> None:
    assert Opener(Mode.AES256_GCM, KEY).open_burst([SEALED, SEALED]).statuses == (Status.OK, Status.OK)
    windowed = Opener(Mode.AES256_GCM, KEY, replay_window=64)
    assert windowed.open_burst([SEALED, SEALED]).statuses == (Status.OK, Status.REPLAYED)


# Outputs


def test_an_output_that_cannot_be_written_is_refused(sealer: Sealer) -> None:
    before = bytes(64)
    for out in (before, memoryview(before), memoryview(bytearray(64)).toreadonly()):
        with pytest.raises(BufferError, match=f"out is read-only .{type(out).__name__}.; it must be writable"):
            sealer.seal_burst_into([PLAIN], out)
    assert before == bytes(64)
    assert sealer.packets_left == 2**32 - FIRST_NONCE


@pytest.mark.parametrize("length", [0, 1, 38, 39 + 38])
def test_an_output_that_is_too_small_is_told_with_what_is_needed(sealer: Sealer, length: int) -> None:
    packets = [PLAIN] * (1 + (length > 39))
    out = bytearray(b"\x55" * length)
    with pytest.raises(ValueError, match=f"out is {length} bytes; {39 * len(packets)} are needed"):
        sealer.seal_burst_into(packets, out)
    assert out == b"\x55" * length
    assert sealer.packets_left == 2**32 - FIRST_NONCE


def test_every_writable_bytes_like_type_is_taken_as_output(mode: Mode) -> None:
    expected = Sealer(mode, KEY).seal_burst([PLAIN, PLAIN])
    space = b"\x55" * 100
    mapped = mmap.mmap(-1, 100)
    mapped[:] = space
    outs: list[Any] = [
        bytearray(space),
        memoryview(bytearray(space)),
        memoryview(bytearray(space)).cast("B", [10, 10]),
        memoryview(bytearray(space)).cast("c"),
        array.array("B", space),
        (ctypes.c_ubyte * 100).from_buffer_copy(space),
        mapped,
    ]
    for out in outs:
        burst = Sealer(mode, KEY).seal_burst_into([PLAIN, PLAIN], out)
        assert burst.tolist() == expected.tolist()
        written = memoryview(out).tobytes()
        assert written == bytes(expected.buffer) + b"\x55" * 22


def at(out: bytearray, start: int, packet: bytes = PLAIN) -> memoryview:
    """A packet that lies in ``out``."""
    out[start : start + len(packet)] = packet
    return memoryview(out)[start : start + len(packet)]


def test_packets_may_lie_exactly_where_their_sealed_form_goes(mode: Mode) -> None:
    out = bytearray(200)
    packets: list[bytes | memoryview] = [at(out, 0), at(out, 39), b"\x80" + PLAIN[1:], at(out, 117)]
    expected = Sealer(mode, KEY).seal_burst(map(bytes, packets)).tolist()
    assert Sealer(mode, KEY).seal_burst_into(packets, out).tolist() == expected


@pytest.mark.parametrize("starts", [(1,), (19,), (38,), (0, 19), (0, 38), (0, 40), (39, 0), (0, 0), (39, 39), (20, 78)])
def test_output_that_overlaps_input_otherwise_is_refused_whole(mode: Mode, starts: tuple[int, ...]) -> None:
    sealer, out = Sealer(mode, KEY), bytearray(b"\x55" * 200)
    packets = [at(out, start) for start in starts]
    before = bytes(out)
    with pytest.raises(ValueError, match="overlaps out"):
        sealer.seal_burst_into(packets, out)
    assert out == before
    assert sealer.packets_left == 2**32 - FIRST_NONCE


@settings(deadline=None, max_examples=200)
@given(
    starts_and_lens=st.lists(st.tuples(st.none() | st.integers(0, 150), st.integers(12, 50)), min_size=1, max_size=3),
    out_start=st.integers(0, 100),
)
def test_overlap_is_allowed_exactly_or_not_at_all(
    starts_and_lens: list[tuple[int | None, int]], out_start: int
) -> None:
    """A start of None is the packet's own place."""
    space = bytearray(b"\x80" * 400)  # every stretch of it is an RTP packet
    out_end = out_start + sum(length + 20 for _, length in starts_and_lens)
    packets, place, allowed = [], out_start, True
    for drawn, length in starts_and_lens:
        start = place if drawn is None else drawn
        packets.append(memoryview(space)[start : start + length])
        allowed = allowed and (start in (place, *range(out_end, 400)) or start + length <= out_start)
        place += length + 20
    copies, before, sealer = [bytes(packet) for packet in packets], bytes(space), Sealer(Mode.AES256_GCM, KEY)
    out = memoryview(space)[out_start:out_end]
    if allowed:
        expected = Sealer(Mode.AES256_GCM, KEY).seal_burst(copies).tolist()
        assert sealer.seal_burst_into(packets, out).tolist() == expected
        assert space[:out_start] + space[out_end:] == before[:out_start] + before[out_end:]
    else:
        with pytest.raises(ValueError, match="overlaps out"):
            sealer.seal_burst_into(packets, out)
        assert space == before
        assert sealer.packets_left == 2**32 - FIRST_NONCE


# Packets that do not open

DISCOVERY = b"\0\2\0\x46" + bytes(70)

UNOPENABLE: dict[str, tuple[bytes, Status, type[OpenError], str]] = {
    **{
        f"{n} bytes": (SEALED[:n], Status.TRUNCATED, Truncated, f"is {n} bytes; it needs at least 28")
        for n in range(28)
        if n != 8
    },
    "RTP of 31 bytes": (SEALED[:31], Status.TRUNCATED, Truncated, "is 31 bytes; it needs at least 32"),
    "keep-alive": (bytes(8), Status.NOT_MEDIA, Malformed, "is a keep-alive of 8 bytes, not media"),
    "keep-alive, counting": (b"\x80" + bytes(7), Status.NOT_MEDIA, Malformed, "is a keep-alive of 8 bytes, not media"),
    "discovery reply": (DISCOVERY, Status.NOT_MEDIA, Malformed, "is an IP discovery packet of 74 bytes, not media"),
    "discovery request": (
        b"\0\1" + DISCOVERY[2:],
        Status.NOT_MEDIA,
        Malformed,
        "is an IP discovery packet of 74 bytes, not media",
    ),
    "no discovery": (b"\0\3" + DISCOVERY[2:], Status.MALFORMED, Malformed, "has RTP version 0; it must be 2"),
    "too long": (SEALED + bytes(65536), Status.MALFORMED, Malformed, "is 65575 bytes; it may have at most 65535"),
    "one byte too long": (
        HEADER + bytes(65524),
        Status.MALFORMED,
        Malformed,
        "is 65536 bytes; it may have at most 65535",
    ),
    "version 1": (b"\x40" + SEALED[1:], Status.MALFORMED, Malformed, "has RTP version 1; it must be 2"),
    "version 3": (b"\xc0" + SEALED[1:], Status.MALFORMED, Malformed, "has RTP version 3; it must be 2"),
    "CSRCs past the end": (b"\x8f" + SEALED[1:], Status.TRUNCATED, Truncated, "is 39 bytes; it needs at least 92"),
    "no preamble": (
        b"\x91" + SEALED[1:12] + bytes(27),
        Status.TRUNCATED,
        Truncated,
        "is 39 bytes; it needs at least 40",
    ),
    "changed payload": (SEALED[:12] + b"\xff" + SEALED[13:], Status.BAD_TAG, AuthenticationFailed, "has a wrong tag"),
    "authentic, extension past the end": (
        sealed_by_hand(b"\x90" + HEADER[1:] + extension_preamble(2), bytes(7)),
        Status.MALFORMED,
        Malformed,
        "has a header extension of 8 bytes; behind its header there are 7",
    ),
    "authentic, padding of 0": (
        sealed_by_hand(b"\xa0" + HEADER[1:], b"abc\0"),
        Status.MALFORMED,
        Malformed,
        "has a padding count of 0; it is at least 1",
    ),
    "authentic, padding beyond": (
        sealed_by_hand(b"\xa0" + HEADER[1:], b"abcd\6"),
        Status.MALFORMED,
        Malformed,
        "has a padding count of 6; there are 5 bytes for it",
    ),
    "authentic, padding into the extension": (
        sealed_by_hand(b"\xb0" + HEADER[1:] + extension_preamble(1), b"EXT!\0\0\4"),
        Status.MALFORMED,
        Malformed,
        "has a padding count of 4; there are 3 bytes for it",
    ),
    "authentic, padding without a byte": (
        sealed_by_hand(b"\xa0" + HEADER[1:], b""),
        Status.MALFORMED,
        Malformed,
        "has a padding count of 1; there are 0 bytes for it",
    ),
}


@pytest.mark.parametrize(("packet", "status", "error", "message"), UNOPENABLE.values(), ids=UNOPENABLE)
def test_a_packet_that_does_not_open_has_a_status_a_reason_and_an_error(
    packet: bytes, status: Status, error: type[OpenError], message: str
) -> None:
    opener = Opener(Mode.AES256_GCM, KEY)
    for index in (0, 1, 2):
        packets = [SEALED, SEALED]
        packets.insert(index, packet)
        burst = opener.open_burst(packets)
        expected = [Status.OK, Status.OK]
        expected.insert(index, status)
        assert list(burst.statuses) == expected
        assert burst[index] is None
        assert (burst.reason(index) or "").startswith(f"packets[{index}] {message}")
        assert [packet and packet.payload for packet in burst].count(b"payload") == 2
    with pytest.raises(error, match=re.escape(f"packet {message}")) as caught:
        opener.open(packet)
    assert type(caught.value) is error
    assert getattr(opener.stats, status.value) == 4
    assert opener.stats.ok == 6


def test_a_replay_has_a_status_a_reason_and_an_error() -> None:
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=16)
    opener.open(SEALED)
    with pytest.raises(Replayed, match=r"packet has sequence number 1, .* the newest is 1"):
        opener.open(SEALED)


def test_only_74_bytes_with_discovery_s_header_are_discovery(sealer: Sealer, opener: Opener) -> None:
    sealed = sealer.seal(HEADER, bytes(74 - 20 - 12))
    assert len(sealed) == 74
    assert opener.open_burst([sealed]).statuses == (Status.OK,)


# Closed


def test_every_use_of_a_closed_sealer_is_refused(mode: Mode) -> None:
    sealer, out = Sealer(mode, KEY), bytearray(b"\x55" * 64)
    stream = RtpStream(sealer, 1, 120)
    sealer.close()
    sealer.close()
    calls: list[Callable[[], object]] = [
        lambda: sealer.seal(HEADER, b""),
        lambda: sealer.seal_burst([PLAIN]),
        lambda: sealer.seal_burst([]),
        lambda: sealer.seal_burst_into([PLAIN], out),
        lambda: stream.seal(b""),
        lambda: stream.seal_frame(bytes(5000)),
    ]
    for call in calls:
        with pytest.raises(SealerClosed, match="the sealer is closed"):
            call()
    assert sealer.packets_left == 0
    assert (stream.sequence, stream.timestamp) == (0, 0)
    assert out == b"\x55" * 64
    assert "0 packets left" in repr(sealer)


def test_every_use_of_a_closed_opener_is_refused(mode: Mode) -> None:
    sealed, opener = Sealer(mode, KEY).seal(HEADER, b"payload"), Opener(mode, KEY)
    opener.open(sealed)
    opener.close()
    opener.close()
    calls: list[Callable[[], object]] = [
        lambda: opener.open(sealed),
        lambda: opener.open_burst([sealed]),
        lambda: opener.open_burst([]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the opener is closed"):
            call()
    assert opener.stats.ok == 1
    assert opener.mode is mode


# What a hostile reviewer found


@pytest.mark.parametrize("thing", [Sealer, Opener])
def test_nothing_is_initialised_twice(thing: Any) -> None:
    made = thing(Mode.AES256_GCM, KEY)
    with pytest.raises(TypeError, match="made once"):
        made.__init__(Mode.AES256_GCM, KEY)


def test_a_stream_is_not_initialised_twice(sealer: Sealer) -> None:
    stream = RtpStream(sealer, 1, 120)
    with pytest.raises(TypeError, match="made once"):
        stream.__init__(sealer, 1, 120)  # type: ignore[misc]


def test_a_key_in_hexadecimal_in_the_mode_s_place_is_not_printed() -> None:
    with pytest.raises(ValueError, match="mode is a str of 64 characters") as caught:
        Sealer(KEY.hex(), Mode.AES256_GCM.value)  # type: ignore[arg-type]
    assert KEY.hex()[:16] not in everything_told(caught.value)


def test_a_list_that_lies_about_its_length_is_no_key() -> None:
    class Liar(list[int]):
        def __len__(self) -> int:
            return 32

    with pytest.raises(ValueError, match="key has 0 integers; it must have 32"):
        Sealer(Mode.AES256_GCM, Liar())


def test_an_integer_like_payload_type_is_judged_by_its_value(sealer: Sealer) -> None:
    class Index:
        def __index__(self) -> int:
            return 72

    with pytest.raises(ValueError, match="payload_type is 72"):
        RtpStream(sealer, 1, Index())  # type: ignore[arg-type]


def test_a_long_mutable_packet_is_refused_by_its_length() -> None:
    opener = Opener(Mode.AES256_GCM, KEY)
    with pytest.raises(Malformed, match="packet is 70000 bytes; it may have at most 65535"):
        opener.open(bytearray(70000))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python classes have buffers from 3.12 on")
def test_a_buffer_that_is_refused_the_second_time_is_told(sealer: Sealer) -> None:
    class Fickle:
        def __buffer__(self, flags: int) -> memoryview:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, BufferError)):
        sealer.seal_burst([Fickle()])
