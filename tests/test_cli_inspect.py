"""``dvcrypto inspect``: every finding in a capture that has it and none in one that has not, and no way to crash it.

The packets are sealed by ``cryptography`` alone, rightly and wrongly; captures are written here, by the format's pages.
"""

import io
import itertools
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dvcrypto import Mode
from dvcrypto.cli import main, reference

KEY = bytes.fromhex("4405dfc5d83d86c231d3313a59cef41d6b780641acf007c9af841dc616b278a2")
OTHER_KEY = bytes(range(100, 132))
GCM, XCHACHA = reference.GCM, reference.XCHACHA
SSRC = 0x0A0D10
US, THEM, STRANGER = ("192.0.2.10", 61234), ("192.0.2.50", 50004), ("198.51.100.9", 40000)
KEEP_ALIVE = struct.pack("<Q", 7)
DISCOVERY = struct.pack("!HHI64sH", 2, 70, SSRC, b"192.0.2.10", 61234)


class Sent(NamedTuple):
    """A datagram on its way."""

    payload: bytes
    source: tuple[str, int] = US
    destination: tuple[str, int] = THEM


def frame(sent: Sent) -> bytes:
    """IPv4 and UDP, without checksums."""
    addresses = b"".join(bytes(map(int, address.split("."))) for address, _ in (sent.source, sent.destination))
    udp = struct.pack("!HHHH", sent.source[1], sent.destination[1], 8 + len(sent.payload), 0)
    return struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(sent.payload), 0, 0, 64, 17, 0) + addresses + udp + sent.payload


def pcap(sent: Iterable[Sent | bytes], *, link_type: int = 101, snap_length: int = 65535) -> bytes:
    """Raw IP, a packet every 20 ms."""
    data = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap_length, link_type))
    for index, each in enumerate(sent):
        packet = frame(each) if isinstance(each, Sent) else frame(Sent(each))
        kept = packet[:snap_length]
        seconds, micros = divmod(1_700_000_000_000_000 + 20_000 * index, 1_000_000)
        data += struct.pack("<IIII", seconds, micros, len(kept), len(packet)) + kept
    return bytes(data)


def rtp(sequence: int, ssrc: int = SSRC, payload: bytes = b"20 ms of Opus") -> bytes:
    return struct.pack("!BBHII", 0x80, 120, sequence & 0xFFFF, 960 * sequence & 0xFFFFFFFF, ssrc) + payload


def report(ssrc: int = SSRC) -> bytes:
    """A sender report."""
    return struct.pack("!BBHIIIIII", 0x80, 200, 6, ssrc, 0xE957A59B, 0x69374BC6, 173760976, 23438, 1992219)


def little(count: int) -> bytes:
    return struct.pack("<I", count & 0xFFFFFFFF)


def big(count: int) -> bytes:
    return struct.pack(">I", count & 0xFFFFFFFF)


def sealed(packet: bytes, nonce: bytes, *, mode: str = GCM, key: bytes = KEY) -> bytes:
    return reference.seal(mode, key, packet, nonce)


def run_of(
    counts: Iterable[int], *, order: Callable[[int], bytes] = little, start: int = 0, mode: str = GCM
) -> list[bytes]:
    """RTP packets in sequence, sealed under these counts of the nonce."""
    return [sealed(rtp(start + index), order(count), mode=mode) for index, count in enumerate(counts)]


GOOD = run_of(range(0x8000_0000, 0x8000_0014))


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def told(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded

    def found(self, name: str) -> list[dict[str, Any]]:
        return [finding for finding in self.told["findings"] if finding["finding"] == name]


@pytest.fixture
def inspect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Done]:
    """Run the command in this process, at 80 columns. Packets become a capture; the key is in the environment."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("DVCRYPTO_KEY", KEY.hex())

    def run(what: Any, *arguments: str | Path, stdin: bytes = b"") -> Done:
        if isinstance(what, list):
            what = pcap(what)
        if isinstance(what, bytes):
            (tmp_path / "capture.pcap").write_bytes(what)
            what = tmp_path / "capture.pcap"
        (tmp_path / "stdin").write_bytes(stdin)
        with (tmp_path / "stdin").open("rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            status = main(["inspect", str(what), *map(str, arguments)])
            sys.stdin.close()
        out, err = capsys.readouterr()
        for key in (KEY, OTHER_KEY):
            assert key.hex() not in (out + err).lower()
            assert str(list(key))[1:-1] not in out + err
        assert "Traceback" not in err
        return Done(status, out, err)

    return run


Inspect = Callable[..., Done]


def names(done: Done) -> set[str]:
    return {finding["finding"] for finding in done.told["findings"]}


# What is right


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
@pytest.mark.parametrize("order", [little, big])
def test_a_conversation_in_which_all_is_right(inspect: Inspect, mode: str, order: Callable[[int], bytes]) -> None:
    ours = run_of(range(200, 230), order=order, start=65520, mode=mode)
    theirs = [sealed(rtp(index, ssrc=9), little(0x8000_0000 + index), mode=mode) for index in range(30)]
    both = [each for pair in zip(ours, [Sent(p, THEM, US) for p in theirs], strict=True) for each in pair]
    ends: list[Any] = [Sent(DISCOVERY, THEM, US), KEEP_ALIVE, sealed(report(), order(230), mode=mode)]
    packets = [*ends[:2], *both, ends[2]]
    for asked in ((), ("--mode", mode)):
        done = inspect(packets, "--json", *asked)
        assert done.status == 0
        assert done.told["findings"] == []
        assert (done.told["opened"], done.told["failed"], done.told["other"]) == (61, 0, 0)
    assert [row["kind"] for row in done.told["packets"]] == ["discovery", "keep-alive", *["rtp"] * 60, "rtcp"]
    assert [row["packet"] for row in done.told["packets"]] == list(range(1, 64))
    assert done.told["packets"][2] == {
        "packet": 3,
        "time": 0.04,
        "source": "192.0.2.10:61234",
        "destination": "192.0.2.50:50004",
        "length": 45,
        "kind": "rtp",
        "ssrc": SSRC,
        "sequence": 65520,
        "packet_type": 120,
        "nonce": order(200).hex(),
        "mode": mode,
        "opens": True,
        "verdict": "opens",
        "reason": None,
        "notes": [],
    }
    first = done.told["by_ssrc"][0]
    assert first == {
        "ssrc": SSRC,
        "source": "192.0.2.10:61234",
        "packets": 31,
        "rtp": 30,
        "rtcp": 1,
        "opened": 31,
        "first_sequence": 65520,
        "last_sequence": 13,
        "gaps": 0,
        "lost": 0,
        "late": 0,
        "duplicates": 0,
        "padding_only": 0,
        "modes": [mode],
        "nonce_byteorder": order.__name__,
        "faults": {},
    }


# Findings across packets: each with a capture that has it; the one above has none


def test_a_nonce_that_two_packets_have_is_reuse_and_both_are_named(inspect: Inspect) -> None:
    again = sealed(rtp(20), little(0x8000_0003))
    done = inspect([*GOOD, again], "--json")
    assert done.status == 1
    assert names(done) == {"nonce_reuse", "nonce_back"}
    (finding,) = done.found("nonce_reuse")
    assert (finding["packets"], finding["repeats"], finding["serious"]) == ([21], [4], True)
    assert done.told["packets"][20]["notes"][0] == "nonce of #4 again"
    assert "21 repeats 4" in inspect([*GOOD, again]).out


def test_both_directions_and_rtcp_share_one_key_and_so_the_nonces(inspect: Inspect) -> None:
    for other in (Sent(sealed(rtp(5, ssrc=77), little(0x8000_0003)), THEM, US), sealed(report(), little(0x8000_0003))):
        (finding,) = inspect([*GOOD, other], "--json").found("nonce_reuse")
        assert (finding["packets"], finding["repeats"]) == ([21], [4])


def test_the_same_nonce_in_the_other_mode_or_under_another_key_is_none(inspect: Inspect) -> None:
    for other in (
        sealed(rtp(20), little(0x8000_0014), mode=XCHACHA),
        sealed(rtp(20), little(0x8000_0003), key=OTHER_KEY),
    ):
        assert inspect([*GOOD, other], "--json").found("nonce_reuse") == []
    assert inspect([GOOD[0], sealed(rtp(1), GOOD[0][-4:], mode=XCHACHA)], "--json").found("nonce_reuse") == []


def test_wrongly_sealed_packets_share_the_nonces_too(inspect: Inspect) -> None:
    packet = rtp(20)
    empty_aad = (
        packet[:12] + reference.encrypt(GCM, KEY, GOOD[3][-4:].ljust(12, b"\0"), b"", packet[12:]) + GOOD[3][-4:]
    )
    done = inspect([*GOOD, empty_aad], "--json")
    assert {"aad_empty", "nonce_reuse"} <= names(done)
    swapped = (
        packet[:12]
        + reference.encrypt(GCM, KEY, GOOD[3][:-5:-1].ljust(12, b"\0"), packet[:12], packet[12:])
        + GOOD[3][-4:]
    )
    assert names(inspect([*GOOD, swapped], "--json")) & {"nonce_swapped", "nonce_reuse"} == {"nonce_swapped"}


def test_nonces_are_remembered_for_long_and_not_for_ever(inspect: Inspect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcrypto.cli.inspect.findings._NONCES_REMEMBERED", 20)
    packets = run_of(range(60))
    for age, found in ((10, True), (39, True), (41, False)):
        again = sealed(rtp(60), little(60 - age))
        assert bool(inspect([*packets, again], "--json").found("nonce_reuse")) is found


def test_the_same_datagram_twice_is_a_duplicate_and_nothing_else(inspect: Inspect) -> None:
    done = inspect([*GOOD, GOOD[7]], "--json")
    assert done.status == 0
    (finding,) = done.told["findings"]
    assert (finding["finding"], finding["packets"], finding["repeats"]) == ("duplicate", [21], [8])
    assert done.told["by_ssrc"][0]["duplicates"] == 1
    assert done.told["by_ssrc"][0]["late"] == 0


@pytest.mark.parametrize("order", [little, big])
def test_a_counter_that_jumps_back(inspect: Inspect, order: Callable[[int], bytes]) -> None:
    counts = [*range(500, 510), *range(100, 110)]
    done = inspect(run_of(counts, order=order), "--json")
    assert done.status == 1
    (finding,) = done.told["findings"]
    assert (finding["finding"], finding["packets"]) == ("nonce_back", [11])
    assert finding["subject"] == "192.0.2.10:61234"
    assert done.told["by_ssrc"][0]["nonce_byteorder"] == order.__name__
    reports = [sealed(report(), order(count)) for count in (600, 601, 602, 400)]
    assert inspect(reports, "--json").found("nonce_back")[0]["packets"] == [4]


def test_late_packets_are_no_jump_of_the_counter_and_no_gap(inspect: Inspect) -> None:
    shuffled = [*GOOD[:5], *GOOD[9:12], *GOOD[5:9], *GOOD[12:]]
    done = inspect(shuffled, "--json")
    assert done.status == 0
    assert done.told["findings"] == []
    (stream,) = done.told["by_ssrc"]
    assert (stream["late"], stream["gaps"], stream["lost"]) == (4, 0, 0)


def test_a_counter_that_stands_still(inspect: Inspect) -> None:
    done = inspect(run_of([0] * 5), "--json")
    assert names(done) == {"nonce_reuse", "nonce_still"}
    assert done.found("nonce_still")[0]["packets"] == [2, 3, 4, 5]
    assert done.found("nonce_reuse")[0]["repeats"] == [1, 1, 1, 1]


@pytest.mark.parametrize("order", [little, big])
def test_a_counter_that_wraps(inspect: Inspect, order: Callable[[int], bytes]) -> None:
    done = inspect(run_of(range(2**32 - 5, 2**32 + 5), order=order), "--json")
    assert done.status == 1
    (finding,) = done.told["findings"]
    assert (finding["finding"], finding["packets"]) == ("nonce_wrapped", [6])


def test_nonces_that_are_random(inspect: Inspect) -> None:
    chance = random.Random(3)
    done = inspect(run_of([chance.randrange(2**32) for _ in range(40)]), "--json")
    assert done.status == 1
    assert names(done) == {"nonce_random"}
    assert done.told["by_ssrc"][0]["nonce_byteorder"] is None
    assert "random" in inspect(run_of([chance.randrange(2**32) for _ in range(40)])).out


def test_the_byte_order_is_that_of_each_sender(inspect: Inspect) -> None:
    theirs = [Sent(sealed(rtp(index, ssrc=9), big(index)), THEM, US) for index in range(20)]
    done = inspect([each for pair in zip(GOOD, theirs, strict=True) for each in pair], "--json")
    assert done.status == 0
    assert [each["nonce_byteorder"] for each in done.told["by_sender"]] == ["little", "big"]
    assert [each["first_nonce"] for each in done.told["by_sender"]] == ["00000080", "00000000"]


@pytest.mark.parametrize("start", [100, 65530])
def test_gaps_in_the_sequence(inspect: Inspect, start: int) -> None:
    packets = run_of(range(30), start=start)
    done = inspect([*packets[:4], *packets[7:12], *packets[13:]], "--json")
    assert done.status == 0
    (finding,) = done.told["findings"]
    assert (finding["finding"], finding["serious"], finding["count"]) == ("sequence_gap", False, 2)
    assert finding["packets"] == [5, 10]
    lost = [start + 4 & 0xFFFF, start + 6 & 0xFFFF, start + 12 & 0xFFFF]
    assert finding["text"].endswith(f": {lost[0]} to {lost[1]}, {lost[2]}")
    (stream,) = done.told["by_ssrc"]
    assert (stream["gaps"], stream["lost"], stream["late"]) == (2, 4, 0)


def test_a_jump_in_the_sequence_and_a_number_that_comes_again(inspect: Inspect) -> None:
    jump = [sealed(rtp(30_000 + index), little(0x8000_0014 + index)) for index in range(3)]
    done = inspect([*GOOD, *jump], "--json")
    assert done.found("sequence_jump")[0]["packets"] == [21]
    assert names(done) == {"sequence_jump"}
    done = inspect([*GOOD, sealed(rtp(19, payload=b"other"), little(0x8000_0014))], "--json")
    assert done.found("sequence_repeated")[0]["packets"] == [21]
    assert names(done) == {"sequence_repeated"}


def test_a_key_that_changes_is_told_with_the_packet(inspect: Inspect) -> None:
    later = [sealed(rtp(20 + index), little(0x8000_0014 + index), key=OTHER_KEY) for index in range(5)]
    done = inspect([*GOOD, *later], "--json")
    assert names(done) == {"wrong_key", "key_changed"}
    assert done.found("key_changed")[0]["packets"] == [21]
    assert "from packet 21 on" in done.found("key_changed")[0]["text"]
    before = [sealed(rtp(index - 5), little(index), key=OTHER_KEY) for index in range(5)]
    done = inspect([*before, *GOOD], "--json")
    assert names(done) == {"wrong_key", "key_came_later"}
    assert done.found("key_came_later")[0]["packets"] == [5]


def test_single_damaged_packets_are_no_change_of_the_key(inspect: Inspect) -> None:
    damaged = [packet[:-10] + bytes([packet[-10] ^ 1]) + packet[-9:] for packet in GOOD]
    done = inspect([*damaged[:2], *GOOD[2:10], *damaged[10:16], *GOOD[16:18], *damaged[18:]], "--json")
    assert names(done) == {"wrong_key"}


def test_the_other_mode_is_named_where_one_is_asked_for(inspect: Inspect) -> None:
    done = inspect(GOOD, "--json", "--mode", XCHACHA)
    assert done.status == 1
    assert done.found("other_mode")[0]["count"] == 20
    assert done.told["packets"][0]["mode"] == GCM
    assert done.told["by_ssrc"][0]["faults"] == {"other_mode": 20}
    assert inspect(GOOD, "--json", "--mode", GCM).status == 0


# Inside of packets


def extended(profile: int, body: bytes, payload: bytes = b"20 ms of Opus") -> bytes:
    head = struct.pack("!BBHIIHH", 0x90, 120, 1, 960, SSRC, profile, len(body) // 4)
    return head + body + payload


def test_extension_elements_that_run_past_their_body(inspect: Inspect) -> None:
    bad = [extended(0xBEDE, bytes.fromhex("13aabbcc")), extended(0x1000, bytes.fromhex("0105aabb"))]
    for packet in bad:
        done = inspect([sealed(packet, little(5))], "--json")
        assert done.status == 1
        (finding,) = done.told["findings"]
        assert (finding["finding"], finding["packets"]) == ("broken_extension", [1])
        assert done.told["packets"][0]["opens"]
    for packet in (
        extended(0xBEDE, bytes.fromhex("12aabbcc")),
        extended(0x1000, bytes.fromhex("0102aabb")),
        extended(0xBEDE, bytes.fromhex("00f3aabb")),
        extended(0x1234, b"any!"),
        extended(0xBEDE, b""),
    ):
        assert inspect([sealed(packet, little(5))], "--json").told["findings"] == []


def padded(payload: bytes, count: int) -> bytes:
    return b"\xa0" + rtp(1)[1:12] + payload + bytes(3) + bytes((count,))


def test_padding_faults_and_packets_of_padding_alone(inspect: Inspect) -> None:
    for packet, words in ((padded(b"", 5), "padding count of 5"), (padded(b"abc", 0), "padding count of 0")):
        done = inspect([sealed(packet, little(5))], "--json")
        assert done.status == 1
        (finding,) = done.told["findings"]
        assert finding["finding"] == "bad_padding"
        assert words in finding["text"]
    done = inspect([sealed(padded(b"", 4), little(5))], "--json")
    assert done.status == 0
    assert names(done) == {"padding_only"}
    assert done.told["by_ssrc"][0]["padding_only"] == 1
    assert inspect([sealed(padded(b"abc", 4), little(5))], "--json").told["findings"] == []


def test_an_extension_longer_than_its_packet(inspect: Inspect) -> None:
    packet = bytearray(extended(0xBEDE, bytes(4)))
    packet[15] = 200
    done = inspect([sealed(bytes(packet), little(5))], "--json")
    assert names(done) == {"bad_extension"}
    assert done.status == 1


# What is shown


def test_few_packets_have_a_line_each_and_of_many_those_with_faults(inspect: Inspect) -> None:
    few = inspect(GOOD).out
    assert len(re.findall(r"^ *\d+ +\d\.\d{3} A +rtp", few, re.MULTILINE)) == 20
    many = run_of(range(10_000))
    many[5000] = many[5000][:-10] + bytes(10)
    shown = inspect(many).out
    assert len(shown.splitlines()) < 40
    assert re.search(r"^ *5001 +100\.000 A +rtp +658704 +5000 00000000 wrong key", shown, re.MULTILINE)
    assert "9,999 that are right; --all has a line for each" in shown
    every = inspect(many, "--all").out
    assert len(re.findall(r"^ *\d+ +\d+\.\d{3} A +rtp", every, re.MULTILINE)) == 10_000


def test_many_faults_of_one_kind_do_not_hide_another(inspect: Inspect) -> None:
    many = [packet[:-5] + bytes(5) for packet in run_of(range(500))]
    many[400] = sealed(padded(b"", 5), little(5))
    done = inspect(many)
    assert len(done.out.splitlines()) < 40
    assert re.search(r"^ *401 .* bad padding", done.out, re.MULTILINE)
    assert "492 more like these" in done.out or "491 more like these" in done.out


def test_no_line_is_wider_than_the_terminal(inspect: Inspect) -> None:
    long = Sent(sealed(rtp(1, ssrc=2**32 - 1), b"\xff" * 4), ("255.255.255.255", 65535), ("255.255.255.254", 65534))
    reused = [sealed(rtp(50), GOOD[3][-4:]), sealed(rtp(51, ssrc=2**32 - 2), GOOD[3][-4:])]
    packets = [*GOOD, long, *reused, *run_of([0] * 9), DISCOVERY, KEEP_ALIVE]
    outputs = [inspect(packets).out, *(inspect(packets, "--packet", str(n)).out for n in range(1, len(packets) + 1))]
    for line in itertools.chain(*(output.splitlines() for output in outputs)):
        assert len(line) <= 80 or "capture.pcap" in line, line


def test_real_packets_of_discord_are_described_field_by_field(inspect: Inspect, vectors: Path) -> None:
    packets = json.loads((vectors / "discord" / "discord_packets.json").read_text(encoding="utf-8"))
    opus, sender_report = packets["xchacha_opus_with_extension"], packets["gcm_rtcp_sender_report"]
    done = inspect(opus["encrypted"], "--key", opus["key"])
    assert done.status == 0
    assert opus["key"] not in done.out
    for line in (
        "Packet 1, rtp, 97 bytes: opens",
        "    0 bits               90           version 2, 0 CSRCs, extension",
        "    2 sequence           56 66        22118",
        "    4 timestamp          bf f3 34 30  3220386864",
        "   12 extension profile  be de        0xbede",
        "   16 ciphertext         61 bytes",
        "   77 tag                16 bytes",
        "   93 nonce              0f 01 00 00  0x0000010f little-endian, 0x0f010000 big",
        "   16 element 3          32 64 e6 62  3 bytes",
        "   20 element 1          10 e3        1 byte",
        "   22 element 9          90 02        1 byte",
        "   24 payload            53 bytes",
        "                         78 07 d6 2f 52 23 20 9a ab 2c cc 1c 88 8e cb d9",
    ):
        assert line in done.out.splitlines()
    done = inspect(sender_report["encrypted"], "--mode", sender_report["mode"])
    assert done.status == 0
    for line in (
        "    1 packet type        c8           200 sender report",
        "    8 NTP time           2024-01-21 14:15:55.411 UTC",
        "   16 RTP timestamp      0a 5b 61 d0  173760976",
        "   20 packets sent       00 00 5b 8e  23438",
        "   24 bytes sent         00 1e 66 1b  1992219",
        "   28 RTCP packet        81 ca 00 02  202 source description, count 1, 12 bytes",
    ):
        assert line in done.out.splitlines()


RTCP_WITH_ALL = (
    struct.pack("!BBHIIIIII", 0x81, 200, 12, SSRC, 1, 2, 3, 4, 5)
    + struct.pack("!IIIIII", 9, 0x40FFFFFF, 70_000, 12, 0, 0)
    + struct.pack("!BBHI", 0x80, 201, 1, SSRC)
    + struct.pack("!BBHI", 0x81, 202, 4, SSRC) + b"\x01\x04name\x09\x01x\0\0\0"
    + struct.pack("!BBHII", 0x81, 206, 2, SSRC, 77)
    + struct.pack("!BBHIII", 0x81, 205, 3, SSRC, 77, 0x00010000)
    + struct.pack("!BBHI", 0x81, 203, 1, SSRC)
    + struct.pack("!BBHII", 0x80, 222, 2, SSRC, 5)
)  # fmt: skip


def kinds_of_packets() -> Iterator[tuple[str, bytes, list[str]]]:
    yield "rtp", sealed(rtp(1), little(5)), ["payload"]
    yield "padding", sealed(padded(b"abc", 4), little(5)), ["payload", "padding"]
    yield "padding only", sealed(padded(b"", 4), little(5)), ["padding"]
    one_byte = extended(0xBEDE, bytes.fromhex("10aa0000 f3112233".replace(" ", "")))
    yield "one-byte", sealed(one_byte, little(5)), ["element 1", "extension padding", "extension rest", "payload"]
    two_byte = extended(0x1000, bytes.fromhex("0102aabb07000000"))
    yield "two-byte", sealed(two_byte, little(5)), ["element 1", "element 7", "extension padding", "payload"]
    yield "broken", sealed(extended(0xBEDE, bytes.fromhex("13aabbcc")), little(5)), ["broken element", "payload"]
    yield "other profile", sealed(extended(0x1234, b"any!"), little(5)), ["extension body", "payload"]
    yield "sender report", sealed(report(), little(5)), ["NTP time", "RTP timestamp", "packets sent", "bytes sent"]
    compound = [
        *("NTP time", "RTP timestamp", "packets sent", "bytes sent", "report block"),
        *("RTCP packet", "SSRC"),
        *("RTCP packet", "SSRC", "CNAME", "item 9", "end of items"),
        *("RTCP packet", "SSRC", "media SSRC"),
        *("RTCP packet", "SSRC", "media SSRC", "contents"),
        *("RTCP packet", "SSRC"),
        *("RTCP packet", "SSRC", "contents"),
    ]
    yield "compound", sealed(RTCP_WITH_ALL, little(5)), compound
    yield (
        "rest",
        sealed(report() + b"\x80\xc8", little(5)),
        [
            *("NTP time", "RTP timestamp", "packets sent", "bytes sent"),
            "rest",
        ],
    )
    two_chunks = struct.pack("!BBHI", 0x82, 202, 6, SSRC) + b"\x01\x03abc" + bytes(3)
    two_chunks += struct.pack("!I", 9) + b"\x01\x02de" + bytes(4)
    yield "two chunks", sealed(two_chunks, little(5)), ["CNAME", "end of items", "SSRC", "CNAME", "end of items"]


@pytest.mark.parametrize(
    ("packet", "expected"), [case[1:] for case in kinds_of_packets()], ids=[case[0] for case in kinds_of_packets()]
)
def test_all_about_one_packet(inspect: Inspect, packet: bytes, expected: list[str]) -> None:
    done = inspect([*GOOD, packet], "--packet", "21", "--json")
    assert done.status == 0
    (row,) = done.told["packets"]
    assert row["packet"] == 21
    for fields, ends in ((row["fields"], (0, len(packet))), (row["inside"], (None, len(packet) - 20))):
        assert ends[0] in {None, fields[0]["start"]}
        assert fields[-1]["end"] == ends[1]
        assert all(a["end"] == b["start"] for a, b in itertools.pairwise(fields))
        assert all(len(each["hex"]) == 2 * (each["end"] - each["start"]) > 0 for each in fields)
    assert "".join(each["hex"] for each in row["fields"]) == packet.hex()
    assert [each["name"] for each in row["inside"]] == expected
    shown = inspect([*GOOD, packet], "--packet", "21").out
    for each in (*row["fields"], *row["inside"]):
        assert re.search(rf"^ *{each['start']} {re.escape(each['name'])}( |$)", shown, re.MULTILINE)
    squeezed = re.sub(r"\s", "", shown)
    assert all(each["hex"] in squeezed for each in row["inside"] if each["end"] - each["start"] > 4)


def test_a_report_block_is_read(inspect: Inspect) -> None:
    shown = inspect([sealed(RTCP_WITH_ALL, little(5))], "--packet", "1").out
    assert "SSRC 9: 64/256 lost, -1 in all, newest" in shown


def test_one_packet_that_does_not_open_says_why_and_shows_nothing_inside(inspect: Inspect) -> None:
    done = inspect([GOOD[0], sealed(rtp(1), little(6), key=OTHER_KEY)], "--packet", "2")
    assert done.status == 1
    assert "wrong key" in done.out
    assert "most likely another key" in re.sub(r"\s+", " ", done.out)
    assert "Inside" not in done.out
    assert inspect([GOOD[0], GOOD[1][:-5] + bytes(5)], "--packet", "1").status == 0


def test_keep_alives_discovery_and_junk_are_shown_as_what_they_are(inspect: Inspect) -> None:
    packets = [DISCOVERY, KEEP_ALIVE, *GOOD[:2], b"junk"]
    shown = inspect(packets)
    assert shown.status == 1
    assert inspect(packets[:-1]).status == 0
    for number, word in ((1, "discovery"), (2, "keep-alive"), (5, "no packet")):
        assert re.search(rf"^ *{number} .*{word}", shown.out, re.MULTILINE)
        assert word in inspect(packets, "--packet", str(number)).out
    assert "192.0.2.10" in inspect(packets, "--packet", "1").out


def test_a_packet_that_is_not_there_is_an_error(inspect: Inspect) -> None:
    for number in ("0", "21", "-1"):
        done = inspect(GOOD, "--packet", number)
        assert done.status == 2
        assert f"packet {number} of" in done.err


def test_colours_are_for_terminals_alone(inspect: Inspect, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in inspect(GOOD).out + inspect(GOOD, "--packet", "1").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in inspect(GOOD).out
    assert "\x1b[36m" in inspect(GOOD, "--packet", "1").out
    assert "\x1b" not in inspect(GOOD, "--packet", "1", "--json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in inspect(GOOD, "--packet", "1").out


# Which datagrams


def test_what_is_not_of_the_conversation_is_counted_only(inspect: Inspect) -> None:
    dns = Sent(b"\x80" + bytes(40), ("192.0.2.1", 53), US)
    strange = Sent(b"something else", STRANGER, US)
    done = inspect([strange, *GOOD, dns, strange], "--json")
    assert done.status == 0
    assert done.told["other"] == 3
    assert inspect([strange, *GOOD], "--json", "--port", "40000").told["packets"][0]["verdict"] == "no_packet"
    assert len(inspect([strange, *GOOD], "--json", "--port", "40000").told["packets"]) == 1
    assert len(inspect([strange, *GOOD], "--json", "--port", "40000", "--port", "50004").told["packets"]) == 21


# Inputs


@pytest.mark.parametrize("form", ["{}", "0x{}", " {} ", "colons", "spaces", "lines", "prefixed"])
def test_a_packet_in_hexadecimal_in_any_form(inspect: Inspect, form: str) -> None:
    packet = GOOD[0]
    text = {
        "colons": packet.hex(":").upper(),
        "spaces": packet.hex(" "),
        "lines": packet.hex("\n", 16),
        "prefixed": ", ".join(f"0x{byte:02X}" for byte in packet),
    }.get(form) or form.format(packet.hex())
    plain = inspect(text, "--json")
    assert plain.told["packets"][0]["opens"]
    assert plain.told["packets"][0]["source"] is None
    assert plain.status == 0
    words = text.split()
    assert inspect(words[0], *words[1:], "--json").told["packets"] == plain.told["packets"]
    piped = inspect("-", "--json", stdin=text.encode() + b"\n")
    assert piped.told["packets"] == plain.told["packets"]


def test_a_capture_from_standard_input(inspect: Inspect) -> None:
    for data in (pcap(GOOD), pcapng(GOOD)):
        done = inspect("-", "--json", stdin=data)
        assert done.status == 0
        assert done.told["opened"] == 20
    done = inspect("-", stdin=b"\xff\xfenothing")
    assert done.status == 2
    assert "neither a capture nor hexadecimal" in done.err


def pcapng(sent: Iterable[bytes], resolution: int = 6) -> bytes:
    """One interface of raw IP."""
    data = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    options = struct.pack("<HHB3xHH", 9, 1, resolution, 0, 0)
    data += struct.pack("<IIHHI", 1, 20 + len(options), 101, 0, 0) + options + struct.pack("<I", 20 + len(options))
    ticks = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    for index, payload in enumerate(sent):
        packet = frame(Sent(payload))
        moment = 1_700_000_000 * ticks + index * ticks // 4
        body = struct.pack("<IIIII", 0, moment >> 32, moment & 0xFFFFFFFF, len(packet), len(packet)) + packet
        body += bytes(-len(body) % 4)
        data += struct.pack("<II", 6, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    return data


@pytest.mark.parametrize("resolution", [6, 9, 3, 0x80 | 20])
def test_times_count_from_the_first_packet_in_any_resolution(inspect: Inspect, resolution: int) -> None:
    done = inspect(pcapng(GOOD[:4], resolution), "--json")
    assert [row["time"] for row in done.told["packets"]] == pytest.approx([0, 0.25, 0.5, 0.75], abs=1e-5)
    nanoseconds = bytearray(pcap(GOOD[:2]))
    nanoseconds[:4] = struct.pack("<I", 0xA1B23C4D)
    assert inspect(bytes(nanoseconds), "--json").told["packets"][1]["time"] == pytest.approx(20e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("80f", "3 hexadecimal digits; a byte takes two"),
        ("nowhere.pcap", "nowhere.pcap is no file"),
        ("8" * 131072, "65536 bytes"),
        ("", "no bytes"),
        ("a\0b", "no file"),
        ("/", "directory"),
    ],
)
def test_what_is_no_input_is_refused_in_a_sentence(inspect: Inspect, text: str, said: str) -> None:
    done = inspect(text)
    assert done.status == 2
    assert said in done.err


def test_a_file_that_has_the_name_of_a_packet_wins(
    inspect: Inspect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("80").write_bytes(pcap(GOOD))
    assert inspect("80", "--json").told["opened"] == 20


# Hostile captures


def test_captures_cut_anywhere_end_in_a_report(inspect: Inspect) -> None:
    for data in (pcap(GOOD[:3]), pcapng(GOOD[:3])):
        for end in range(len(data)):
            done = inspect(data[:end], "--json")
            assert (done.status == 2) is (end < 4), end  # by then it is known to be a capture
            if done.status < 2:
                assert bool(done.told["damage"]) or done.told["opened"] < 3  # cut between two records
                assert done.status == bool(done.told["damage"] or not done.told["opened"])
            else:
                assert "capture.pcap" in done.err


@pytest.mark.parametrize("snap_length", [0, 10, 28, 40, 60])
def test_what_a_snap_length_cut_is_told(inspect: Inspect, snap_length: int) -> None:
    done = inspect(pcap(GOOD, snap_length=snap_length), "--json")
    assert done.status == 1
    assert done.found("cut")[0]["count"] == 20
    assert done.found("cut")[0]["packets"] == list(range(1, 21))


@pytest.mark.parametrize("link_type", [0, 1, 105, 113, 147, 276, 65535])
def test_a_wrong_link_type_is_told(inspect: Inspect, link_type: int) -> None:
    done = inspect(pcap(GOOD, link_type=link_type))
    assert done.status == 1
    assert "none of the 20 packets" in re.sub(r"\s+", " ", done.out)


def test_ten_thousand_random_datagrams_end_in_a_report(inspect: Inspect) -> None:
    chance = random.Random(4)
    datagrams = [Sent(chance.randbytes(chance.randrange(1400)), US, THEM) for _ in range(10_000)]
    done = inspect(datagrams, "--json")
    assert done.status == 1
    assert done.told["opened"] == 0
    assert done.told["failed"] + done.told["other"] > 9900
    assert not names(done) & {"nonce_reuse", "nonce_random", "nonce_back", "key_changed", "sequence_gap"}
    shown = inspect([*datagrams[:300], *GOOD])
    assert len(shown.out.splitlines()) < 100


def test_random_bytes_inside_of_packets_end_in_a_report(inspect: Inspect) -> None:
    chance = random.Random(5)
    packets = []
    for index in range(2000):
        first, second = chance.choice(
            [(0x90, 120), (0xB0, 120), (0x80 | chance.randrange(32), chance.randrange(200, 208))]
        )
        plain = bytearray(bytes((first, second)) + chance.randbytes(10 + chance.randrange(60)))
        if second == 120:
            plain[12:16] = chance.choice([b"\xbe\xde", b"\x10\0"]) + bytes((0, chance.randrange(8)))
        packets.append(sealed(bytes(plain), little(index)))
    assert inspect(packets, "--json").status == 1
    for packet in packets[:300]:
        (row,) = inspect(packet.hex(), "--json").told["packets"]
        for fields in filter(None, (row["fields"], row["inside"])):
            assert all(a["end"] == b["start"] for a, b in itertools.pairwise(fields))
            assert fields[-1]["end"] in {row["length"], row["length"] - 20}


# Keys


@pytest.fixture
def without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVCRYPTO_KEY", raising=False)


def as_process(
    *arguments: str, stdin: Any = subprocess.DEVNULL, **environment: str
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "DVCRYPTO_KEY"}
    return subprocess.run(
        [sys.executable, "-m", "dvcrypto", *arguments],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**inherited, **environment},
    )


def test_keys_come_from_an_argument_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(json.dumps(list(KEY)))
    packet, file = GOOD[0].hex(), f"@{tmp_path / 'key'}"
    for done in (
        as_process("inspect", packet, "--key", KEY.hex()),
        as_process("inspect", packet, "--key", file),
        as_process("inspect", packet, DVCRYPTO_KEY=KEY.hex()),
        as_process("inspect", packet, DVCRYPTO_KEY=file),
        as_process("inspect", packet, "--key", KEY.hex(), DVCRYPTO_KEY=OTHER_KEY.hex()),
    ):
        assert done.returncode == 0, done.stderr
        assert "opens" in done.stdout
        assert KEY.hex() not in done.stdout + done.stderr
    assert as_process("inspect", packet, DVCRYPTO_KEY=OTHER_KEY.hex()).returncode == 1


def test_without_a_key_the_ways_to_give_one_are_told() -> None:
    for command in (
        ("inspect", GOOD[0].hex()),
        ("seal", "a", "b", "--mode", GCM),
        ("open", "a", "b", "--mode", GCM),
    ):
        done = as_process(*command)
        assert done.returncode == 2
        assert "give --key, or set DVCRYPTO_KEY" in done.stderr


def test_a_bad_key_of_the_environment_is_not_shown() -> None:
    done = as_process("inspect", GOOD[0].hex(), DVCRYPTO_KEY=KEY.hex()[:-2])
    assert done.returncode == 2
    assert "DVCRYPTO_KEY is 31 bytes; it must be 32" in done.stderr
    assert KEY.hex()[:8] not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_key_is_asked_for_without_echo() -> None:
    import pty

    try:
        master, slave = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be made here: {error}")
    environment = {name: value for name, value in os.environ.items() if name != "DVCRYPTO_KEY"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dvcrypto", "inspect", GOOD[0].hex()],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=environment,
    )
    os.close(slave)
    shown = b""
    while b"Key (not shown)" not in shown:
        shown += os.read(master, 1000)
    os.write(master, KEY.hex().encode() + b"\n")
    while True:
        try:
            more = os.read(master, 1000)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.close(master)
    assert process.wait(30) == 0
    assert b"opens" in shown
    assert KEY.hex().encode() not in shown


def test_a_key_is_in_no_repr() -> None:
    from dvcrypto.cli.keys import read_key

    key = read_key(KEY.hex())
    assert key == KEY
    for shown in (repr(key), str(key), f"{key}", repr([key]), f"{key!r:>10}"):
        assert KEY.hex() not in shown
        assert repr(KEY)[2:10] not in shown


def test_modes_are_those_of_the_package() -> None:
    assert {GCM, XCHACHA} == {mode.value for mode in Mode}
