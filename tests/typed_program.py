"""Uses every public name, as a program would. test_types.py checks its types with mypy --strict, and runs it."""

import socket
import sys
from collections.abc import Sequence
from typing import assert_type

import dvcrypto
from dvcrypto import (
    AuthenticationFailed,
    Burst,
    Diagnosis,
    DvcryptoError,
    Engine,
    EngineUnavailable,
    Field,
    Malformed,
    Mistake,
    Mode,
    NoCommonMode,
    NonceExhausted,
    OpenedBurst,
    OpenedPacket,
    Opener,
    OpenError,
    OpenerStats,
    Packetizer,
    Receiver,
    Replayed,
    RtcpHeader,
    RtpExtension,
    RtpHeader,
    RtpStream,
    Sealer,
    SealerClosed,
    SealerForked,
    SealError,
    SentFrame,
    Status,
    Truncated,
    aes_accelerated,
    choose_mode,
    diagnose,
    engines,
    versions,
)

KEY = list(range(32))
HEADER = bytes.fromhex("807800010000000000000d10")


def choose() -> Mode:
    """The mode to speak."""
    assert_type(choose_mode(["aead_xchacha20_poly1305_rtpsize"]), Mode)
    assert_type(choose_mode((Mode.AES256_GCM,), prefer=Mode.AES256_GCM), Mode)
    assert_type(choose_mode(iter([Mode.XCHACHA20_POLY1305.value]), prefer="aead_aes256_gcm_rtpsize"), Mode)
    try:
        choose_mode(["plain"])
    except NoCommonMode as error:
        assert_type(error.offered, tuple[str, ...])
        assert_type(error.supported, tuple[str, ...])
    return choose_mode(list(Mode))


def tell() -> list[str]:
    """What runs here."""
    assert_type(aes_accelerated(), bool)
    assert_type(versions(), dict[str, str])
    assert_type(engines(), dict[Mode, tuple[Engine, ...]])
    lines = []
    for mode, of_mode in engines().items():
        for engine in of_mode:
            assert_type(engine.mode, Mode)
            assert_type(engine.available, bool)
            assert_type(engine.serves, tuple[tuple[int, int | None], ...])
            lines.append(f"{mode} {engine.name} {engine.reason}")
    return lines


def seal(mode: Mode) -> list[bytes]:
    """Packets in every way there is."""
    sealed: list[bytes] = []
    with Sealer(mode, KEY, first_nonce=5, byteorder="big") as sealer:
        assert_type(sealer, Sealer)
        assert_type(sealer.mode, Mode)
        assert_type(sealer.engine, str)
        assert_type(sealer.packets_left, int)
        sealed.append(sealer.seal(bytearray(HEADER), memoryview(b"payload")))
        burst = sealer.seal_burst([HEADER, bytearray(HEADER), memoryview(HEADER)])
        assert_type(burst, Burst)
        assert_type(burst[0], memoryview)
        assert_type(burst[1:], list[memoryview])
        assert_type(burst.tolist(), list[bytes])
        assert_type(burst.offsets, tuple[int, ...])
        assert_type(burst.buffer, memoryview)
        views: Sequence[memoryview] = burst
        sealed += map(bytes, views)
        sealed += sealer.seal_burst_into((HEADER for _ in range(2)), bytearray(100)).tolist()
        extension = RtpExtension.of({1: b"\x7f"}, two_byte=False)
        stream = RtpStream(sealer, 1, 120, sequence=1, timestamp=2, extension=extension, max_packet=100)
        sealed.append(stream.seal(b"opus", marker=True, advance=960))
        assert_type(stream.seal_frame(bytearray(500), advance=3000), Burst)
        assert_type(stream.seal_frame(b"opus", packetizer=Packetizer.OPUS), Burst)
        assert_type(stream.seal_frame(b"opus", packetizer="opus", advance=960), Burst)
        assert_type(stream.picture_id, int)
        assert_type(stream.ssrc + stream.payload_type + stream.sequence + stream.timestamp + stream.max_packet, int)
        assert_type(stream.extension, RtpExtension | None)
    try:
        sealer.seal(HEADER, b"")
    except (NonceExhausted, SealerClosed, SealerForked) as error:
        base: SealError = error
        sealed.append(str(base).encode())
    sealer.close()
    return sealed


def read(packet: OpenedPacket) -> int:
    """A packet's parts."""
    assert_type(packet.nonce, bytes)
    assert_type(packet.plain, bytes)
    assert_type(packet.is_rtcp, bool)
    if packet.is_rtcp:
        rtcp: RtcpHeader = packet.rtcp_header
        assert_type(rtcp.packet_type, int)
        return rtcp.ssrc
    header: RtpHeader = packet.header
    assert_type(header.csrcs, tuple[int, ...])
    assert_type(header.marker, bool)
    if packet.extension is not None:
        assert_type(packet.extension.elements, dict[int, bytes])
        assert_type(packet.extension.profile, int)
        assert_type(packet.extension.data, bytes)
    return header.ssrc + len(packet.payload) + packet.ssrc


def open_all(mode: Mode, sealed: list[bytes]) -> OpenerStats:
    """The packets again."""
    with Opener(mode, bytes(KEY), replay_window=128) as opener:
        assert_type(opener.mode, Mode)
        assert_type(opener.engine, str)
        burst = opener.open_burst(sealed)
        assert_type(burst, OpenedBurst)
        assert_type(burst[0], OpenedPacket | None)
        assert_type(burst[:1], list[OpenedPacket | None])
        assert_type(burst.statuses, tuple[Status, ...])
        assert_type(burst.reason(0), str | None)
        for packet in burst:
            if packet is not None:
                read(packet)
        for packet_bytes in sealed:
            try:
                read(opener.open(packet_bytes))
            except (Truncated, Malformed, AuthenticationFailed, Replayed) as error:
                base: OpenError = error
                root: DvcryptoError = base
                assert str(root)
        assert_type(opener.stats, OpenerStats)
        assert_type(opener.stats.opened + opener.stats.failed + opener.stats.not_media, int)
        stats = opener.stats
    opener.close()
    return stats


def move(mode: Mode) -> int:
    """Packets through a socket."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock, Receiver(sock, Opener(mode, KEY), timestamps=False) as receiver:
        sock.bind(("127.0.0.1", 0))
        assert_type(receiver, Receiver)
        assert_type(receiver.gro, bool)
        assert_type(receiver.opener, Opener)
        stream = RtpStream(Sealer(mode, KEY), 1, 120)
        result = stream.send_frame(sock, bytearray(5000), sock.getsockname(), advance=3000)
        assert_type(result, SentFrame)
        assert_type(result.burst, Burst)
        assert_type(result.sent, int)
        assert_type(result.burst.send(sock, ("127.0.0.1", 9), start=4, rate=1e9), int)
        burst = receiver.receive(max_packets=10, timeout=1)
        assert_type(burst, OpenedBurst)
        assert_type(burst.times, tuple[int | None, ...])
        return len(burst.addresses)


async def move_async(mode: Mode, sock: socket.socket) -> None:
    """The same on a loop."""
    stream = RtpStream(Sealer(mode, KEY), 1, 120)
    assert_type(await stream.send_frame_async(sock, b"frame", ("::1", 9), packetizer="opus", rate=1e9), SentFrame)
    burst = stream.seal_frame(b"frame")
    assert_type(await burst.send_async(sock, ("::1", 9, 0, 0), rate=10**9), int)
    with Receiver(sock, Opener(mode, KEY)) as receiver:
        assert_type(await receiver.receive_async(timeout=1), OpenedBurst)


def find_out(mode: Mode, sealed: list[bytes]) -> None:
    """What a packet is."""
    diagnosis = diagnose(sealed[0], KEY, mode=mode)
    assert_type(diagnosis, Diagnosis)
    assert_type(diagnosis.mode, Mode | None)
    assert_type(diagnosis.mistake, Mistake | None)
    assert_type(diagnosis.opened, OpenedPacket | None)
    assert_type(diagnosis.fields, tuple[Field, ...])
    assert_type(Mistake.WRONG_KEY.explanation, str)
    assert_type(diagnosis.is_right, bool)


def main() -> int:
    """Run all of it."""
    assert issubclass(EngineUnavailable, DvcryptoError)
    mode = choose()
    sealed = seal(mode)
    stats = open_all(mode, sealed)
    assert move(mode)
    find_out(mode, sealed)
    used = set(globals())
    unused = [name for name in dvcrypto.__all__ if name not in used]
    print(len(tell()), stats.opened, unused)
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
