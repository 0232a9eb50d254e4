"""Other people's vectors give the bytes they say, on every engine, and what must be refused is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import oracle
import pytest
from conftest import ENGINES, RawEngines
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from dvcrypto import (
    AuthenticationFailed,
    Malformed,
    Opener,
    OpenError,
    RtcpHeader,
    RtpExtension,
    RtpHeader,
    Sealer,
    Status,
    Truncated,
)

ALL_ENGINES = [(mode, engine) for mode, engines in ENGINES.items() for engine in engines]


class Case(NamedTuple):
    """One vector of an AEAD."""

    name: str
    key: bytes
    nonce: bytes
    aad: bytes
    plain: bytes | None
    """None where only a refusal is known."""
    sealed: bytes
    """Ciphertext and tag."""
    valid: bool


def of_hex(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.fixture(params=ENGINES[oracle.GCM])
def gcm_engine(request: pytest.FixtureRequest, raw: RawEngines) -> str:
    return runnable(raw, request.param)


@pytest.fixture(params=ENGINES[oracle.XCHACHA])
def xchacha_engine(request: pytest.FixtureRequest, raw: RawEngines) -> str:
    return runnable(raw, request.param)


def runnable(raw: RawEngines, engine: str) -> str:
    if not raw.available(engine):
        pytest.skip(f"{engine} cannot run on this machine")
    return engine


def wrong_when_sealed(raw: RawEngines, engine: str, cases: list[Case]) -> list[str]:
    """The names of the valid cases that this engine seals to other bytes."""
    return [
        case.name
        for case in cases
        if case.valid
        and case.plain is not None
        and raw.seal(engine, case.key, case.nonce, case.aad, case.plain) != case.sealed
    ]


def wrong_when_opened(raw: RawEngines, engine: str, cases: list[Case]) -> list[str]:
    """The names of the cases that this engine opens to other bytes, refuses wrongly or opens wrongly."""
    return [
        case.name
        for case in cases
        if raw.open(engine, case.key, case.nonce, case.aad, case.sealed) != (case.plain if case.valid else None)
    ]


def check_both_directions(raw: RawEngines, engine: str, cases: list[Case]) -> None:
    assert wrong_when_sealed(raw, engine, cases) == []
    assert wrong_when_opened(raw, engine, cases) == []


# Project Wycheproof, testvectors_v1


def wycheproof(path: Path, nonce_bits: int, key_bits: int = 256) -> list[Case]:
    """The tests of a file with such keys and nonces, and 128-bit tags."""
    groups = json.loads(path.read_text(encoding="utf-8"))["testGroups"]
    sizes = (key_bits, nonce_bits, 128)
    wanted = [group for group in groups if (group["keySize"], group["ivSize"], group["tagSize"]) == sizes]
    return [
        Case(
            f"tcId {test['tcId']}: {test['comment']}",
            of_hex(test["key"]),
            of_hex(test["iv"]),
            of_hex(test["aad"]),
            of_hex(test["msg"]),
            of_hex(test["ct"]) + of_hex(test["tag"]),
            {"valid": True, "invalid": False}[test["result"]],
        )
        for group in wanted
        for test in group["tests"]
    ]


def test_wycheproof_aes256gcm_both_directions(vectors: Path, raw: RawEngines, gcm_engine: str) -> None:
    cases = wycheproof(vectors / "wycheproof" / "aes_gcm_test.json", 96)
    assert (len(cases), sum(not case.valid for case in cases)) == (66, 27)
    check_both_directions(raw, gcm_engine, cases)


def test_wycheproof_xchacha20poly1305_both_directions(vectors: Path, raw: RawEngines, xchacha_engine: str) -> None:
    cases = wycheproof(vectors / "wycheproof" / "xchacha20_poly1305_test.json", 192)
    assert (len(cases), sum(not case.valid for case in cases)) == (306, 60)
    check_both_directions(raw, xchacha_engine, cases)


# NIST CAVP, gcmEncryptExtIV256.rsp and gcmDecrypt256.rsp


def nist(path: Path) -> list[Case]:
    return [
        Case(
            f"number {number}, PTlen {test['PTlen']}, AADlen {test['AADlen']}",
            of_hex(test["Key"]),
            of_hex(test["IV"]),
            of_hex(test["AAD"]),
            None if test.get("FAIL") else of_hex(test["PT"]),
            of_hex(test["CT"]) + of_hex(test["Tag"]),
            not test.get("FAIL"),
        )
        for number, test in enumerate(json.loads(path.read_text(encoding="utf-8"))["tests"])
    ]


def test_nist_encrypts_both_directions(vectors: Path, raw: RawEngines, gcm_engine: str) -> None:
    cases = nist(vectors / "nist" / "gcmEncryptExtIV256_iv96_tag128.json")
    assert (len(cases), sum(not case.valid for case in cases)) == (375, 0)
    check_both_directions(raw, gcm_engine, cases)


def test_nist_decrypts_both_directions_and_191_are_refused(vectors: Path, raw: RawEngines, gcm_engine: str) -> None:
    cases = nist(vectors / "nist" / "gcmDecrypt256_iv96_tag128.json")
    assert (len(cases), sum(not case.valid for case in cases)) == (375, 191)
    check_both_directions(raw, gcm_engine, cases)


# RFC 7714, sections 16 and 17


def test_rfc_7714_both_directions(vectors: Path, raw: RawEngines, gcm_engine: str) -> None:
    tests = json.loads((vectors / "rtp" / "rfc7714_aes256gcm.json").read_text(encoding="utf-8"))["tests"]
    cases = [
        Case(
            test["name"],
            of_hex(test["key"]),
            of_hex(test["iv"]),
            of_hex(test["aad"]),
            of_hex(test["msg"]),
            of_hex(test["ct_tag"]),
            valid=True,
        )
        for test in tests
    ]
    assert [len(case.sealed) for case in cases] == [54, 16, 60]
    check_both_directions(raw, gcm_engine, cases)


# draft-irtf-cfrg-xchacha-03 and libsodium's own tests


@pytest.fixture(scope="module")
def xchacha_vectors(vectors: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((vectors / "xchacha" / "xchacha_vectors.json").read_text(encoding="utf-8"))
    return found


def test_xchacha_draft_and_libsodium_aead_both_directions(
    xchacha_vectors: dict[str, Any], raw: RawEngines, xchacha_engine: str
) -> None:
    tests = xchacha_vectors["draft"]["aead"] + xchacha_vectors["libsodium"]["aead"]
    cases = [
        Case(
            f"number {number}",
            of_hex(test["key"]),
            of_hex(test["iv"]),
            of_hex(test["aad"]),
            of_hex(test["msg"]),
            of_hex(test["ct"] + test["tag"]),
            valid=True,
        )
        for number, test in enumerate(tests)
    ]
    assert [len(case.plain or b"") for case in cases] == [114, 114, 114]
    check_both_directions(raw, xchacha_engine, cases)


def test_xchacha_draft_stream_is_the_aead_without_its_tag(
    xchacha_vectors: dict[str, Any], raw: RawEngines, xchacha_engine: str
) -> None:
    """The AEAD takes block 0 for the Poly1305 key (section 2.3), so its ciphertext is the stream from block 1 on."""
    streams = [stream for stream in xchacha_vectors["draft"]["stream"] if stream["counter"] == 1]
    assert len(streams) == 1
    for stream in streams:
        sealed = raw.seal(xchacha_engine, of_hex(stream["key"]), of_hex(stream["iv"]), b"", of_hex(stream["msg"]))
        assert sealed[:-16] == of_hex(stream["ct"])


def test_the_oracle_derives_the_subkey_of_the_draft() -> None:
    """draft-irtf-cfrg-xchacha-03, section 2.2.1."""
    key = bytes(range(32))
    nonce = of_hex("000000090000004a0000000031415927")
    assert oracle.hchacha20(key, nonce) == of_hex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc")


def test_the_oracle_derives_every_known_subkey(xchacha_vectors: dict[str, Any]) -> None:
    tests = xchacha_vectors["draft"]["hchacha20"] + xchacha_vectors["libsodium"]["hchacha20"]
    assert len(tests) == 11
    for test in tests:
        assert oracle.hchacha20(of_hex(test["key"]), of_hex(test["input"])) == of_hex(test["out"])


def test_the_oracle_makes_every_known_stream(xchacha_vectors: dict[str, Any]) -> None:
    streams = xchacha_vectors["draft"]["stream"] + xchacha_vectors["libsodium"]["stream_keystream"]
    assert len(streams) == 12
    for stream in streams:
        iv, keystream = of_hex(stream["iv"]), of_hex(stream["keystream"])
        counter_and_nonce = stream.get("counter", 0).to_bytes(4, "little") + bytes(4) + iv[16:]
        subkey = oracle.hchacha20(of_hex(stream["key"]), iv[:16])
        encryptor = Cipher(algorithms.ChaCha20(subkey, counter_and_nonce), mode=None).encryptor()
        assert encryptor.update(bytes(len(keystream))) == keystream


def test_the_oracle_agrees_with_the_vectors(vectors: Path, xchacha_vectors: dict[str, Any]) -> None:
    """What judges dvcrypto elsewhere is judged by other people first."""
    draft = xchacha_vectors["draft"]["aead"][0]
    key, nonce, aad, plain = (of_hex(draft[field]) for field in ("key", "iv", "aad", "msg"))
    assert oracle.encrypt(oracle.XCHACHA, key, nonce, aad, plain) == of_hex(draft["ct"] + draft["tag"])
    for mode, path, bits in (
        (oracle.GCM, "aes_gcm_test.json", 96),
        (oracle.XCHACHA, "xchacha20_poly1305_test.json", 192),
    ):
        for case in wycheproof(vectors / "wycheproof" / path, bits):
            opened = oracle.decrypt(mode, case.key, case.nonce, case.aad, case.sealed)
            assert opened == (case.plain if case.valid else None), case.name


# Two packets that Discord's own network carried


class RealPacket(NamedTuple):
    """A sealed packet seen on the wire, with its key."""

    mode: str
    key: bytes
    sealed: bytes
    plain: bytes


# Opus with a header extension: discordjs/discord.js, packages/voice/__mocks__/rtp.ts (Apache-2.0), which also gives the
# plaintext.
OPUS = RealPacket(
    oracle.XCHACHA,
    of_hex("69d96d1bf76547314797ac555b0bc9172bf29351603c9d323fc885ae6c90fb6e"),
    of_hex(
        "90785666bff334300000bf19bede0002"
        "d31d674c496625a2412927fc1a555ae4f1a970415fb7ec0457cfd7c3b4273ce0dd5920bbd0e491fc84bd67d0b4b7d932"
        "4656141c8e42fb7ad61107adcb7594e876670888e388f9f387291f6792"
        "0f010000"
    ),
    of_hex(
        "90785666bff334300000bf19bede0002"
        "3264e66210e39002"
        "7807d62f5223209aab2ccc1c888ecbd94de5337a4b2beda7af5f8db259997536f288f5c79f47af925a963bd89f3ab413ce2fae0a37"
    ),
)

# A sender report and a source description in one compound packet, from an official desktop client: key and sealed bytes
# stand in Discord-RE/Discord-video-stream, issue 50; the plaintext is what `cryptography` makes of them.
SENDER_REPORT = RealPacket(
    oracle.GCM,
    of_hex("4405dfc5d83d86c231d3313a59cef41d6b780641acf007c9af841dc616b278a2"),
    of_hex(
        "80c800060005ec18"
        "8af5b6fb63a15a19f519ab9b502e933c6ae101ae685f5e7f42b4fab783bb0eeda73e70e994cbaea0fdb0652f91a52d69"
        "5a000080"
    ),
    of_hex(
        "80c800060005ec18"
        "e957a59b69374bc60a5b61d000005b8e001e661b"  # NTP and RTP timestamps, 23,438 packets, 1,992,219 bytes
        "81ca00020005ec1801000000"  # SDES of the same SSRC: a CNAME of 0 bytes
    ),
)

REAL_PACKETS = pytest.mark.parametrize("packet", [OPUS, SENDER_REPORT], ids=["opus", "sender_report"])
KEY_TYPES = pytest.mark.parametrize("key_type", [bytes, list])


def bit_changes(sealed: bytes) -> Iterator[bytes]:
    """The packet with each of its bits changed in turn."""
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 0x80 >> bit % 8
        yield bytes(changed)


def refusal_of(changed: bytes) -> Status:
    """Why a packet with a wrong bit must be refused."""
    if changed[0] >> 6 != 2:
        return Status.MALFORMED
    if len(changed) < oracle.clear_header_len(changed) + oracle.OVERHEAD_LEN:
        return Status.TRUNCATED
    return Status.BAD_TAG


ERRORS: dict[Status, type[OpenError]] = {
    Status.MALFORMED: Malformed,
    Status.TRUNCATED: Truncated,
    Status.BAD_TAG: AuthenticationFailed,
}


def test_the_real_packets_are_those_of_the_vectors(vectors: Path) -> None:
    found = json.loads((vectors / "discord" / "discord_packets.json").read_text(encoding="utf-8"))
    opus, report = found["xchacha_opus_with_extension"], found["gcm_rtcp_sender_report"]
    assert OPUS[:3] == (opus["mode"], of_hex(opus["key"]), of_hex(opus["encrypted"]))
    assert OPUS.plain[opus["header_size"] :] == of_hex(opus["decrypted"])
    assert SENDER_REPORT[:3] == (report["mode"], of_hex(report["key"]), of_hex(report["encrypted"]))


@REAL_PACKETS
def test_the_oracle_opens_and_makes_the_real_packets(packet: RealPacket) -> None:
    assert oracle.open_sealed(packet.mode, packet.key, packet.sealed) == packet.plain
    assert oracle.seal(packet.mode, packet.key, packet.plain, packet.sealed[-4:]) == packet.sealed


@pytest.mark.parametrize(("mode", "engine"), ALL_ENGINES)
def test_the_real_packets_both_directions_on_every_engine(raw: RawEngines, mode: str, engine: str) -> None:
    runnable(raw, engine)
    packet = {oracle.XCHACHA: OPUS, oracle.GCM: SENDER_REPORT}[mode]
    header_len = oracle.clear_header_len(packet.sealed)
    aad, body, suffix = packet.sealed[:header_len], packet.sealed[header_len:-4], packet.sealed[-4:]
    nonce = oracle.whole_nonce(mode, suffix)
    case = Case(engine, packet.key, nonce, aad, packet.plain[header_len:], body, valid=True)
    check_both_directions(raw, engine, [case])


@KEY_TYPES
def test_the_real_opus_packet_opens_to_what_is_known_of_it(key_type: type[bytes] | type[list[int]]) -> None:
    opener = Opener(OPUS.mode, key_type(OPUS.key))
    burst = opener.open_burst([OPUS.sealed, OPUS.sealed])
    assert burst.statuses == (Status.OK, Status.OK)
    for opened in (opener.open(OPUS.sealed), *burst):
        assert opened is not None
        assert opened.plain == OPUS.plain
        assert not opened.is_rtcp
        assert opened.header == RtpHeader(2, False, False, 120, 0x5666, 0xBFF33430, 0xBF19, ())
        assert opened.extension == RtpExtension(0xBEDE, of_hex("3264e66210e39002"))
        assert opened.extension.elements == {3: of_hex("64e662"), 1: b"\xe3", 9: b"\x02"}
        assert opened.payload == OPUS.plain[24:]
        assert opened.nonce == of_hex("0f010000")


@KEY_TYPES
def test_the_real_sender_report_opens_to_what_is_known_of_it(key_type: type[bytes] | type[list[int]]) -> None:
    opener = Opener(SENDER_REPORT.mode, key_type(SENDER_REPORT.key))
    burst = opener.open_burst([SENDER_REPORT.sealed, SENDER_REPORT.sealed])
    assert burst.statuses == (Status.OK, Status.OK)
    for opened in (opener.open(SENDER_REPORT.sealed), *burst):
        assert opened is not None
        assert opened.plain == SENDER_REPORT.plain
        assert opened.is_rtcp
        assert opened.rtcp_header == RtcpHeader(2, False, 0, 200, 6, 0x0005EC18)
        assert opened.ssrc == 0x0005EC18
        assert opened.extension is None
        assert opened.payload == SENDER_REPORT.plain[8:]
        assert opened.nonce == of_hex("5a000080")


@REAL_PACKETS
def test_every_single_bit_change_of_a_real_packet_is_refused(packet: RealPacket) -> None:
    opener = Opener(packet.mode, packet.key)
    changes = list(bit_changes(packet.sealed))
    assert len(changes) == 8 * len(packet.sealed)
    for changed in changes:
        with pytest.raises(OpenError) as refused:
            opener.open(changed)
        assert type(refused.value) is ERRORS[refusal_of(changed)]
    assert opener.stats.opened == 0
    assert opener.stats.failed == len(changes)


@REAL_PACKETS
def test_no_bit_change_touches_its_neighbours_in_a_burst(packet: RealPacket) -> None:
    changes = list(bit_changes(packet.sealed))
    packets = [each for changed in changes for each in (changed, packet.sealed)]
    burst = Opener(packet.mode, packet.key).open_burst(packets)
    assert list(burst.statuses[::2]) == [refusal_of(changed) for changed in changes]
    assert set(burst[::2]) == {None}
    assert set(burst.statuses[1::2]) == {Status.OK}
    assert {opened.plain for opened in burst[1::2] if opened} == {packet.plain}


@REAL_PACKETS
def test_a_real_packet_does_not_open_under_the_other_mode_or_another_key(packet: RealPacket) -> None:
    other_mode = ({oracle.GCM, oracle.XCHACHA} - {packet.mode}).pop()
    other_key = bytes((packet.key[0] ^ 1,)) + packet.key[1:]
    for mode, key in ((other_mode, packet.key), (packet.mode, other_key)):
        with pytest.raises(AuthenticationFailed):
            Opener(mode, key).open(packet.sealed)


@REAL_PACKETS
@KEY_TYPES
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_a_real_packet_sealed_again_has_the_very_same_bytes(
    packet: RealPacket, key_type: type[bytes] | type[list[int]], byteorder: Literal["little", "big"]
) -> None:
    first_nonce = int.from_bytes(packet.sealed[-4:], byteorder)
    key = key_type(packet.key)
    plain = Opener(packet.mode, key).open(packet.sealed).plain
    header_len = oracle.clear_header_len(plain)
    singly = Sealer(packet.mode, key, first_nonce=first_nonce, byteorder=byteorder)
    assert singly.seal(plain[:header_len], plain[header_len:]) == packet.sealed
    in_burst = Sealer(packet.mode, key, first_nonce=first_nonce, byteorder=byteorder)
    assert in_burst.seal_burst([plain]).tolist() == [packet.sealed]
