"""Opening releases nothing unauthenticated, tells each packet's fate, and moves its state only for real ones."""

import pickle
import random
import struct
import threading
from collections.abc import Sequence
from typing import Any

import oracle
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from dvcrypto import (
    AuthenticationFailed,
    DvcryptoError,
    Malformed,
    Mode,
    OpenedPacket,
    Opener,
    OpenError,
    Replayed,
    RtcpHeader,
    RtpExtension,
    Sealer,
    Status,
    Truncated,
)

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
HEADER = bytes.fromhex("8078 0001 0000 03c0 0000 0d10")
RTCP = bytes.fromhex("81c9 0007 0000 0d10") + bytes(range(24))  # a receiver report, RFC 3550, section 6.4.2

# All that RTP allows in one packet: P, X, two CSRCs, the marker; 8 bytes of extension, 5 of payload, 3 of padding.
FULL = bytes.fromhex("b2f8 1234 89abcdef 01020304 aaaaaaaa bbbbbbbb bede0002 51010200 32112233") + b"audio" + b"\0\0\3"

MODES = pytest.mark.parametrize("mode", tuple(Mode), ids=lambda mode: mode.name)


def rtp(sequence: int, *, ssrc: int = 0x0D10, body: bytes = b"payload") -> bytes:
    return struct.pack("!BBHII", 0x80, 120, sequence, 0, ssrc) + body


def seal(mode: Mode, *packets: bytes, key: bytes = KEY) -> list[bytes]:
    return Sealer(mode, key).seal_burst(packets).tolist()


def opened(opener: Opener, packet: bytes) -> OpenedPacket:
    """The packet, by way of open() and of open_burst(), which must agree."""
    alone = opener.open(packet)
    (in_burst,) = opener.open_burst([packet])
    assert in_burst is not None
    for name in ("plain", "payload", "extension", "nonce", "is_rtcp", "ssrc"):
        assert getattr(alone, name) == getattr(in_burst, name)
    return alone


def flip(packet: bytes, bit: int) -> bytes:
    changed = bytearray(packet)
    changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


# What is opened


@MODES
def test_every_part_of_a_packet_is_what_it_was(mode: Mode) -> None:
    (sealed,) = seal(mode, FULL)
    packet = opened(Opener(mode, KEY), sealed)
    header = packet.header
    assert tuple(header) == (2, True, True, 120, 0x1234, 0x89ABCDEF, 0x01020304, (0xAAAAAAAA, 0xBBBBBBBB))
    assert (header.version, header.padding, header.marker, header.payload_type) == (2, True, True, 120)
    assert (header.sequence, header.timestamp, header.ssrc) == (0x1234, 0x89ABCDEF, 0x01020304)
    assert header.csrcs == (0xAAAAAAAA, 0xBBBBBBBB)
    assert packet.extension == RtpExtension(0xBEDE, bytes.fromhex("5101020032112233"))
    assert packet.extension.elements == {5: b"\x01\x02", 3: b"\x11\x22\x33"}
    assert packet.payload == b"audio"
    assert packet.plain == FULL
    assert packet.nonce == bytes.fromhex("00000080")
    assert packet.is_rtcp is False
    assert packet.ssrc == 0x01020304
    with pytest.raises(ValueError, match="no RTCP header"):
        _ = packet.rtcp_header
    assert "5 bytes of payload" in repr(packet)


@MODES
def test_rtcp_is_opened_as_rtcp(mode: Mode) -> None:
    packet = opened(Opener(mode, KEY), Sealer(mode, KEY).seal(RTCP[:8], RTCP[8:]))
    assert packet.is_rtcp is True
    assert packet.rtcp_header == RtcpHeader(2, False, 1, 201, 7, 0x0D10)
    assert packet.plain == RTCP
    assert packet.payload == RTCP[8:]
    assert packet.extension is None
    assert packet.ssrc == 0x0D10
    with pytest.raises(ValueError, match="no RTP header"):
        _ = packet.header


@MODES
@pytest.mark.parametrize("second_byte", [*range(188, 228, 4), 191, 192, 223, 224, 120, 0xF8])
def test_bytes_192_to_223_are_rtcp_and_no_others(mode: Mode, second_byte: int) -> None:
    """RFC 5761, section 4."""
    plain = bytes((0x80, second_byte)) + bytes(30)
    packet = opened(Opener(mode, KEY), seal(mode, plain)[0])
    assert packet.is_rtcp is (192 <= second_byte <= 223)
    assert packet.plain == plain


@MODES
def test_rtcp_keeps_its_padding(mode: Mode) -> None:
    plain = b"\xa1" + RTCP[1:] + b"\0\0\0\4"
    assert opened(Opener(mode, KEY), seal(mode, plain)[0]).payload == plain[8:]


@MODES
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_the_nonce_is_the_bytes_on_the_wire_in_either_order(mode: Mode, byteorder: Any) -> None:
    sealer = Sealer(mode, KEY, first_nonce=0x01020304, byteorder=byteorder)
    sealed = sealer.seal(HEADER, b"x")
    assert opened(Opener(mode, KEY), sealed).nonce == sealed[-4:] == 0x01020304.to_bytes(4, byteorder)


@MODES
@pytest.mark.parametrize("padding", [1, 2, 4, 255])
def test_padding_alone_opens_as_empty(mode: Mode, padding: int) -> None:
    tail = bytes(padding - 1) + bytes((padding,))
    extended = b"\xb0" + HEADER[1:] + b"\xbe\xde\0\1EXT!" + tail
    packets = seal(mode, b"\xa0" + HEADER[1:] + tail, extended, HEADER, b"\x90" + HEADER[1:] + b"\xbe\xde\0\0")
    opener = Opener(mode, KEY)
    burst = opener.open_burst(packets)
    assert burst.statuses == (Status.EMPTY,) * 4
    assert [packet and packet.payload for packet in burst] == [b""] * 4
    assert [burst.reason(index) for index in range(4)] == [None] * 4
    assert [packet and packet.extension for packet in burst] == [
        None,
        RtpExtension(0xBEDE, b"EXT!"),
        None,
        RtpExtension(0xBEDE, b""),
    ]
    assert opener.open(packets[0]).payload == b""
    assert (opener.stats.empty, opener.stats.ok, opener.stats.opened, opener.stats.failed) == (5, 0, 5, 0)


@MODES
def test_bytes_behind_the_padding_count_are_not_mistaken_for_it(mode: Mode) -> None:
    """A payload that ends like padding, without the P bit, is whole."""
    assert opened(Opener(mode, KEY), seal(mode, HEADER + b"abc\2")[0]).payload == b"abc\2"


# What is not authentic


@MODES
def test_a_flipped_bit_anywhere_opens_nothing_and_touches_no_neighbour(mode: Mode) -> None:
    genuine, changed = seal(mode, FULL, rtp(9))
    packets = []
    for bit in range(8 * len(genuine)):
        packets += [flip(genuine, bit), changed]
    opener = Opener(mode, KEY)
    burst = opener.open_burst(packets)
    assert burst[::2] == [None] * (8 * len(genuine))
    assert set(burst.statuses[::2]) <= {Status.BAD_TAG, Status.MALFORMED, Status.TRUNCATED}
    assert burst.statuses[16::2].count(Status.BAD_TAG) == 8 * len(genuine) - 8
    assert set(burst.statuses[1::2]) == {Status.OK}
    assert {packet and packet.plain for packet in burst[1::2]} == {rtp(9)}
    assert opener.stats.opened == opener.stats.failed == 8 * len(genuine)


@MODES
def test_a_truncated_or_longer_packet_opens_nothing(mode: Mode) -> None:
    (sealed,) = seal(mode, HEADER + bytes(30))
    packets = [sealed[:length] for length in range(len(sealed))] + [sealed + bytes(n) for n in range(1, 5)]
    burst = Opener(mode, KEY).open_burst(packets)
    assert not any(burst)
    assert not {Status.OK, Status.EMPTY} & set(burst.statuses)


@MODES
@pytest.mark.parametrize("tag_len", [1, 4, 8, 12, 15])
def test_a_shorter_tag_is_not_accepted(mode: Mode, tag_len: int) -> None:
    (sealed,) = seal(mode, HEADER + bytes(30))
    shorter = sealed[: -20 + tag_len] + sealed[-4:]
    assert Opener(mode, KEY).open_burst([shorter]).statuses == (Status.BAD_TAG,)


@MODES
def test_nothing_unauthenticated_is_left_in_memory(mode: Mode) -> None:
    """CVE-2023-42811 is this: plaintext left after a bad tag."""
    for body_len in (5, 600, 1200):
        bad, good = seal(mode, HEADER + b"\xaa" * body_len, rtp(2))
        burst = Opener(mode, KEY).open_burst([flip(bad, 8 * len(bad) - 40), good, bad[:20]])
        memory = bytes(burst._plain)
        assert memory[: len(bad)] == bytes(len(bad))
        assert memory[len(bad) : len(bad) + len(good)] == rtp(2) + bytes(20)
        assert memory[len(bad) + len(good) :] == bytes(20)


def test_an_authentic_packet_that_is_malformed_releases_nothing() -> None:
    header, suffix = b"\xa0" + HEADER[1:], b"\1\2\3\4"
    sealed = header + AESGCM(KEY).encrypt(suffix + bytes(8), b"secret\0", header) + suffix
    burst = Opener(Mode.AES256_GCM, KEY).open_burst([sealed])
    assert burst.statuses == (Status.MALFORMED,)
    assert bytes(burst._plain) == bytes(len(sealed))


@MODES
def test_another_key_mode_or_header_does_not_open(mode: Mode) -> None:
    (sealed,) = seal(mode, HEADER + b"payload")
    (other_mode,) = set(Mode) - {mode}
    swapped = HEADER[:3] + b"\2" + HEADER[4:] + sealed[12:]
    told = "packet has a wrong tag: another key or mode, or it was changed"
    for opener, packet in (
        (Opener(mode, OTHER_KEY), sealed),
        (Opener(other_mode, KEY), sealed),
        (Opener(mode, KEY), swapped),
    ):
        with pytest.raises(AuthenticationFailed, match=told):
            opener.open(packet)
        assert opener.stats.bad_tag == 1


def test_the_errors_are_a_family() -> None:
    for error in (Truncated, Malformed, AuthenticationFailed, Replayed):
        assert issubclass(error, OpenError)
        assert issubclass(error, DvcryptoError)
        assert not issubclass(error, ValueError)


# Bursts


@MODES
def test_an_opened_burst_is_a_sequence(mode: Mode) -> None:
    good = seal(mode, rtp(1), RTCP, rtp(3, body=b""))
    burst = Opener(mode, KEY).open_burst([good[0], b"junk", *good[1:]])
    assert len(burst) == 4
    assert burst.statuses == (Status.OK, Status.TRUNCATED, Status.OK, Status.EMPTY)
    plain = [packet and packet.plain for packet in burst]
    assert plain == [rtp(1), None, RTCP, rtp(3, body=b"")]
    assert [packet and packet.plain for packet in burst[::-1]] == plain[::-1]
    assert [packet and packet.plain for packet in (burst[-1], burst[-4])] == [plain[-1], plain[-4]]
    assert [packet and packet.plain for packet in burst[1:3]] == plain[1:3]
    assert [packet and packet.plain for packet in reversed(burst)] == plain[::-1]
    assert repr(burst) == "<dvcrypto.OpenedBurst 2 ok, 1 empty, 1 truncated>"
    assert [burst.reason(i) for i in (0, 2, 3)] == [None] * 3
    assert burst.reason(1) == burst.reason(-3) == "packets[1] is 4 bytes; it needs at least 28"
    for index in (4, -5):
        with pytest.raises(IndexError):
            burst[index]
        with pytest.raises(IndexError):
            burst.reason(index)


@MODES
def test_statuses_are_names_and_every_status_has_a_count(mode: Mode) -> None:
    opener = Opener(mode, KEY, replay_window=64)
    good = seal(mode, rtp(1), rtp(2, body=b""))
    burst = opener.open_burst([*good, b"x", b"\x40" + good[0][1:], bytes(8), flip(seal(mode, rtp(3))[0], 200), good[0]])
    assert [str(status) for status in burst.statuses] == [
        "ok",
        "empty",
        "truncated",
        "malformed",
        "not_media",
        "bad_tag",
        "replayed",
    ]
    assert set(burst.statuses) == set(Status)
    assert opener.stats == (1, 1, 1, 1, 1, 1, 1)
    assert opener.stats._fields == tuple(status.value for status in Status)
    assert (opener.stats.opened, opener.stats.failed) == (2, 4)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_a_packet_that_is_too_long_is_counted_whatever_holds_it(form: Any) -> None:
    opener, packet = Opener(Mode.AES256_GCM, KEY), form(rtp(1) + bytes(65536))
    with pytest.raises(Malformed, match="is 65555 bytes; it may have at most 65535"):
        opener.open(packet)
    assert opener.stats.malformed == 1
    opener.close()
    with pytest.raises(ValueError, match="closed"):
        opener.open(packet)


@pytest.mark.parametrize("mode", tuple(Mode))
@settings(deadline=None, max_examples=150)
@given(packets=st.lists(st.binary(max_size=100) | st.binary(max_size=100).map(b"\x80\x78".__add__), max_size=6))
def test_arbitrary_bytes_raise_nothing_in_a_burst_and_an_open_error_alone(mode: Mode, packets: list[bytes]) -> None:
    opener = Opener(mode, KEY, replay_window=64)
    burst = opener.open_burst(packets)
    assert not any(burst)
    assert len(burst.statuses) == len(packets)
    assert not any(burst._plain)
    for index, packet in enumerate(packets):
        reason = burst.reason(index)
        assert reason
        assert reason.startswith(f"packets[{index}] ")
        with pytest.raises(OpenError) as caught:
            opener.open(packet)
        assert str(caught.value) == reason.replace(f"packets[{index}]", "packet", 1)


@settings(deadline=None, max_examples=150)
@given(first=st.integers(0x80, 0xBF), rest=st.binary(min_size=11, max_size=90), body=st.binary(max_size=60))
def test_arbitrary_authentic_bytes_open_as_rfc_3550_reads_them(first: int, rest: bytes, body: bytes) -> None:
    """A peer with the key sends what it likes. Read again here, field by field."""
    packet = bytes((first,)) + rest
    is_rtcp = 192 <= packet[1] <= 223
    header_len = 8 if is_rtcp else 12 + 4 * (first & 15) + (4 if first & 0x10 else 0)
    packet = packet[:header_len].ljust(header_len, b"\0")
    sealed = packet + AESGCM(KEY).encrypt(b"abcd" + bytes(8), body, packet) + b"abcd"
    burst = Opener(Mode.AES256_GCM, KEY).open_burst([sealed])
    words = int.from_bytes(packet[-2:], "big") if first & 0x10 and not is_rtcp else 0
    padding = body[-1] if body and first & 0x20 and not is_rtcp else 0
    fits = 4 * words <= len(body)
    if first & 0x20 and not is_rtcp:
        fits = fits and 1 <= padding <= len(body) - 4 * words
    if not fits:
        assert burst.statuses == (Status.MALFORMED,)
        assert not any(burst._plain)
        return
    payload = body[4 * words : len(body) - padding]
    assert burst.statuses == ((Status.OK if payload or is_rtcp else Status.EMPTY),)
    assert burst[0] is not None
    assert (burst[0].payload, burst[0].is_rtcp, burst[0].plain) == (payload, is_rtcp, packet + body)
    if not is_rtcp:
        assert burst[0].header.csrcs == struct.unpack(f"!{first & 15}I", packet[12 : 12 + 4 * (first & 15)])


@MODES
def test_opening_depends_on_neither_the_burst_nor_the_buffers(mode: Mode) -> None:
    chance = random.Random(7)
    lens = (0, 1, 191, 192, 319, 320, 543, 544, 639, 640, 1500)
    plain = [rtp(i, body=chance.randbytes(chance.choice(lens))) for i in range(60)]
    sealed = seal(mode, *plain)
    for index in range(0, 60, 7):
        sealed[index] = flip(sealed[index], 12 * 8 + index)
    expected = [packet and packet.plain for packet in Opener(mode, KEY).open_burst(sealed)]
    assert expected.count(None) == 9
    forms: list[Sequence[Any]] = [
        [memoryview(b"\0" * (i % 16) + packet)[i % 16 :] for i, packet in enumerate(sealed)],
        [bytearray(packet) for packet in sealed],
        [packet if i % 2 else bytearray(packet) for i, packet in enumerate(sealed)],
    ]
    for form in forms:
        assert [packet and packet.plain for packet in Opener(mode, KEY).open_burst(form)] == expected
        for size in (1, 7, 25):
            parts = [Opener(mode, KEY).open_burst(form[start : start + size]) for start in range(0, 60, size)]
            assert [packet and packet.plain for part in parts for packet in part] == expected


@MODES
def test_threads_share_an_opener(mode: Mode) -> None:
    plain = [rtp(i, body=bytes((i,)) * 1200) for i in range(64)]
    sealed, opener = seal(mode, *plain), Opener(mode, KEY, replay_window=64)
    barrier = threading.Barrier(2)
    seen = list[bytes]()

    def open_all() -> None:
        barrier.wait()
        for _ in range(20):
            for packet in opener.open_burst(sealed):
                if packet:
                    seen.append(packet.plain)

    threads = [threading.Thread(target=open_all) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(plain)  # each once: the window is shared
    assert opener.stats.ok == 64
    assert opener.stats.replayed == 64 * 39


# Replays


@MODES
def test_a_packet_opens_once(mode: Mode) -> None:
    packets, opener = seal(mode, *map(rtp, range(100, 110))), Opener(mode, KEY, replay_window=64)
    assert set(opener.open_burst(packets).statuses) == {Status.OK}
    again = opener.open_burst(packets)
    assert set(again.statuses) == {Status.REPLAYED}
    assert not any(again)
    assert "sequence number 104" in (again.reason(4) or "")
    assert "the newest is 109" in (again.reason(4) or "")
    for packet in packets:
        with pytest.raises(Replayed):
            opener.open(packet)


@MODES
def test_without_a_window_a_packet_opens_as_often_as_it_comes(mode: Mode) -> None:
    (packet,) = seal(mode, rtp(1))
    assert set(Opener(mode, KEY).open_burst([packet] * 5).statuses) == {Status.OK}


@MODES
@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 100, 1024, 32768])
def test_the_window_has_exactly_so_many_sequence_numbers(mode: Mode, window: int) -> None:
    newest = 40000
    inside, outside, first = seal(mode, rtp(newest - window + 1), rtp(newest - window), rtp(newest))
    opener = Opener(mode, KEY, replay_window=window)
    opener.open(first)
    assert opener.open_burst([inside, outside]).statuses == (
        Status.REPLAYED if window == 1 else Status.OK,
        Status.REPLAYED,
    )


@MODES
def test_reordered_packets_open_once_each(mode: Mode) -> None:
    packets = seal(mode, *map(rtp, range(64)))
    random.Random(3).shuffle(packets)
    opener = Opener(mode, KEY, replay_window=64)
    assert set(opener.open_burst(packets).statuses) == {Status.OK}
    assert set(opener.open_burst(packets).statuses) == {Status.REPLAYED}


@MODES
@pytest.mark.parametrize("window", [64, 100])
def test_gaps_are_filled_however_far_the_window_has_moved(mode: Mode, window: int) -> None:
    """Jumps ahead, and back to all that was jumped over: what was remembered long ago is not in the way."""
    jumps = [rtp(start - back) for start in range(1000, 3000, 50) for back in range(50)]
    assert set(Opener(mode, KEY, replay_window=window).open_burst(seal(mode, *jumps)).statuses) == {Status.OK}


@MODES
def test_the_window_goes_on_over_the_sequence_number_s_wrap(mode: Mode) -> None:
    packets = seal(mode, *(rtp(n % 65536) for n in range(65500, 65580)))
    opener = Opener(mode, KEY, replay_window=64)
    assert set(opener.open_burst(packets).statuses) == {Status.OK}
    again = opener.open_burst(packets)
    assert set(again.statuses) == {Status.REPLAYED}
    assert "the newest is 43" in (again.reason(0) or "")


@MODES
def test_a_forged_packet_does_not_move_the_window(mode: Mode) -> None:
    """CVE-2024-58265 is this: receive state moved before authentication."""
    first, older, far_ahead, next_one = seal(mode, rtp(1000), rtp(990), rtp(30000), rtp(1001))
    forged = [flip(far_ahead, 200), flip(next_one, 200), flip(older, 200), far_ahead[:-1]]
    opener = Opener(mode, KEY, replay_window=64)
    opener.open(first)
    assert opener.open_burst(forged).statuses == (Status.BAD_TAG,) * 4
    assert opener.open_burst([older, next_one]).statuses == (Status.OK, Status.OK)
    assert opener.open_burst([older, next_one, far_ahead]).statuses == (Status.REPLAYED, Status.REPLAYED, Status.OK)


@MODES
def test_a_forged_first_packet_does_not_start_a_window(mode: Mode) -> None:
    far, near = seal(mode, rtp(30000), rtp(5))
    opener = Opener(mode, KEY, replay_window=64)
    assert opener.open_burst([flip(far, 200), near]).statuses == (Status.BAD_TAG, Status.OK)
    assert opener.open_burst([near]).statuses == (Status.REPLAYED,)


@MODES
def test_every_sender_has_a_window_of_its_own(mode: Mode) -> None:
    packets = seal(mode, *(rtp(sequence, ssrc=ssrc) for ssrc in range(1, 30) for sequence in (5, 6)))
    opener = Opener(mode, KEY, replay_window=64)
    assert set(opener.open_burst(packets).statuses) == {Status.OK}
    assert set(opener.open_burst(packets).statuses) == {Status.REPLAYED}


def test_the_sender_that_was_silent_longest_is_forgotten_beyond_1024() -> None:
    mode = Mode.AES256_GCM
    packets = seal(mode, *(rtp(5, ssrc=ssrc) for ssrc in range(1025)))
    opener = Opener(mode, KEY, replay_window=64)
    assert set(opener.open_burst(packets).statuses) == {Status.OK}
    assert opener.open_burst(packets[2:]).statuses == (Status.REPLAYED,) * 1023
    assert opener.open_burst([packets[0]]).statuses == (Status.OK,)


@MODES
def test_rtcp_has_no_sequence_number_and_is_never_a_replay(mode: Mode) -> None:
    (packet,) = seal(mode, RTCP)
    opener = Opener(mode, KEY, replay_window=64)
    assert opener.open_burst([packet] * 3).statuses == (Status.OK,) * 3


class Window:
    """What RFC 3711, section 3.3.2, asks for, written the slow way."""

    def __init__(self, size: int) -> None:
        self.size, self.newest, self.seen = size, 0, set[int]()

    def accepts(self, sequence: int) -> bool:
        distance = (sequence - self.newest + 0x8000) % 0x10000 - 0x8000 if self.seen else 0
        index = self.newest + distance if self.seen else sequence
        if self.seen and (index in self.seen or self.newest - index >= self.size):
            return False
        self.newest = max(self.newest, index) if self.seen else index
        self.seen.add(index)
        return True


@settings(deadline=None, max_examples=150)
@given(
    window=st.sampled_from([1, 2, 63, 64, 65, 127, 500, 32768]),
    start=st.integers(0, 65535),
    steps=st.lists(st.integers(-70, 70) | st.sampled_from([-32768, -32767, 32767, 600, -600]), min_size=1, max_size=60),
)
def test_the_window_is_rfc_3711_s(window: int, start: int, steps: list[int]) -> None:
    sequences = [start]
    for step in steps:
        sequences.append((sequences[-1] + step) % 65536)
    model, sealer = Window(window), Sealer(Mode.AES256_GCM, KEY)
    expected = tuple(Status.OK if model.accepts(sequence) else Status.REPLAYED for sequence in sequences)
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=window)
    assert opener.open_burst(sealer.seal_burst(map(rtp, sequences))).statuses == expected


@MODES
def test_the_properties_tell_what_the_opener_is(mode: Mode) -> None:
    with Opener(mode.value, KEY) as opener:
        assert opener.mode is mode
        assert opener.engine == Sealer(mode, KEY).engine
        assert repr(opener) == f"<dvcrypto.Opener {mode}, {opener.engine}>"
    with pytest.raises(ValueError, match="closed"):
        opener.open_burst([])


def test_a_packet_that_changes_while_it_is_opened_is_never_released_half_authenticated() -> None:
    """The libraries read a packet twice, for the tag and for the plaintext; both must see the same bytes."""
    payload = bytes(range(256)) * 200
    packet = bytearray(Sealer(Mode.XCHACHA20_POLY1305, KEY).seal(HEADER, payload))
    opener, stop = Opener(Mode.XCHACHA20_POLY1305, KEY), threading.Event()

    def flip() -> None:
        while not stop.is_set():
            packet[30_000] ^= 1

    flipper = threading.Thread(target=flip)
    flipper.start()
    try:
        for _ in range(60):
            for opened in opener.open_burst([packet] * 40):
                assert opened is None or opened.payload == payload
    finally:
        stop.set()
        flipper.join()


def numbered(sequence: int) -> bytes:
    return b"\x80\x78" + (sequence & 0xFFFF).to_bytes(2, "big") + bytes(4) + b"\0\0\0\x0a" + b"payload"


@pytest.mark.parametrize("byteorder", ["little", "big"])
@pytest.mark.parametrize("first_nonce", [0x8000_0000, 0, 2**32 - 70_000])
def test_a_replay_from_half_the_sequence_numbers_ago_is_refused_too(byteorder: Any, first_nonce: int) -> None:
    """The tag does not cover how often the sequence number has wrapped; the nonce's counter tells."""
    sealer = Sealer(Mode.AES256_GCM, KEY, first_nonce=first_nonce, byteorder=byteorder)
    sealed = sealer.seal_burst([numbered(n) for n in range(67_000)]).tolist()
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=1024)
    assert set(opener.open_burst(sealed[:66_000]).statuses) == {Status.OK}
    old = [*range(0, 66_000 - 1024, 997), 33_231, 33_232, 33_233, 66_000 - 32_768, 464, 465]
    assert set(opener.open_burst([sealed[n] for n in old]).statuses) == {Status.REPLAYED}
    assert set(opener.open_burst(sealed[66_000:]).statuses) == {Status.OK}


def test_nonces_that_do_not_count_up_are_not_taken_for_replays() -> None:
    packets = [numbered(n) for n in range(0, 40_000, 7)]
    nonces = random.Random(5)
    sealed = [oracle.seal(Mode.AES256_GCM, KEY, packet, nonces.randbytes(4)) for packet in packets]
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=1024)
    assert set(opener.open_burst(sealed).statuses) == {Status.OK}


def video(ssrc: int, sequence: int) -> bytes:
    return b"\x80\x65" + (sequence & 0xFFFF).to_bytes(2, "big") + bytes(4) + ssrc.to_bytes(4, "big") + b"x"


def test_a_replay_is_refused_after_a_pause_however_long() -> None:
    """While other streams use the counter, a silent one keeps what it knows."""
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=1024)
    old = Sealer(Mode.AES256_GCM, KEY, first_nonce=0).seal_burst([video(1, n) for n in range(40_000)]).tolist()
    assert set(opener.open_burst(old).statuses) == {Status.OK}
    later = Sealer(Mode.AES256_GCM, KEY, first_nonce=40_000 + 2**23)
    assert opener.open_burst(later.seal_burst([video(1, 40_000)])).statuses == (Status.OK,)
    assert set(opener.open_burst(old).statuses) == {Status.REPLAYED}
    assert set(opener.open_burst(later.seal_burst([video(1, 40_001 + n) for n in range(999)])).statuses) == {Status.OK}


@pytest.mark.parametrize("byteorder", ["little", "big"])
@pytest.mark.parametrize("ssrcs", [1, 2, 3, 100, 255, 256, 257, 512, 1024])
def test_streams_that_share_a_counter_are_never_taken_for_replays(ssrcs: int, byteorder: Any) -> None:
    sealer = Sealer(Mode.AES256_GCM, KEY, byteorder=byteorder)
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=64)
    for tick in range(70_000 // ssrcs):
        burst = sealer.seal_burst([video(ssrc, tick) for ssrc in range(ssrcs)])
        assert set(opener.open_burst(burst).statuses) == {Status.OK}


def test_one_stream_of_many_alone_is_never_taken_for_a_replay() -> None:
    """Its nonces step by 256: in neither byte order by one."""
    sealer, opener = Sealer(Mode.AES256_GCM, KEY), Opener(Mode.AES256_GCM, KEY, replay_window=64)
    sealed = sealer.seal_burst([video(1, n // 256) for n in range(256 * 2000)])
    assert set(opener.open_burst(sealed[::256]).statuses) == {Status.OK}


@pytest.mark.parametrize("lost", [1, 20_000, 32_767, 32_768, 40_000, 60_000, 65_535, 65_536, 70_000, 100_000])
@pytest.mark.parametrize("window", [64, 1024, 32_768])
def test_nothing_is_refused_behind_a_gap_however_long(lost: int, window: int) -> None:
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=window)
    packets = [video(1, n) for n in (*range(5_000), *range(5_000 + lost, 10_000 + lost))]
    before, after = Sealer(Mode.AES256_GCM, KEY, first_nonce=0), Sealer(Mode.AES256_GCM, KEY, first_nonce=5_000 + lost)
    assert set(opener.open_burst(before.seal_burst(packets[:5_000])).statuses) == {Status.OK}
    sealed = after.seal_burst(packets[5_000:]).tolist()
    assert set(opener.open_burst(sealed).statuses) == {Status.OK}
    assert set(opener.open_burst(sealed).statuses) == {Status.REPLAYED}


def test_a_counter_may_wrap_and_pause_while_other_streams_use_it() -> None:
    opener = Opener(Mode.AES256_GCM, KEY, replay_window=64)
    sequence = 0
    for first_nonce in (2**32 - 100, 50, 2**22, 2**31 - 1, 2**32 - 60):  # steps of up to half the counter
        sealer = Sealer(Mode.AES256_GCM, KEY, first_nonce=first_nonce)
        for _ in range(40):
            assert opener.open(sealer.seal(numbered(sequence)[:12], b"payload")).payload == b"payload"
            sequence += 1


def test_opened_packets_are_equal_by_what_they_are_and_can_be_pickled() -> None:
    sealed = Sealer(Mode.AES256_GCM, KEY).seal_burst([video(1, 1), video(1, 2)])
    opener = Opener(Mode.AES256_GCM, KEY)
    burst = opener.open_burst(sealed)
    assert burst[0] == burst[0] == opener.open(sealed[0]) != burst[1]
    assert burst[0] != bytes(sealed[0])
    assert burst.index(burst[1]) == 1
    assert len({burst[0], burst[1], opener.open(sealed[1])}) == 2
    again = pickle.loads(pickle.dumps(burst[1]))
    assert again == burst[1]
    assert again.payload == b"x"
