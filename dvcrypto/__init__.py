"""Seal and open bursts of Discord voice and video packets at C speed."""

from dvcrypto.bursts import Burst
from dvcrypto.diagnosis import Diagnosis, Field, Mistake, diagnose
from dvcrypto.errors import (
    AuthenticationFailed,
    DvcryptoError,
    EngineUnavailable,
    Malformed,
    NoCommonMode,
    NonceExhausted,
    OpenError,
    Replayed,
    SealerClosed,
    SealerForked,
    SealError,
    Truncated,
)
from dvcrypto.modes import Engine, Mode, aes_accelerated, choose_mode, engines, versions
from dvcrypto.opening import OpenedBurst, OpenedPacket, Opener, OpenerStats, Status
from dvcrypto.packetizers import Packetizer
from dvcrypto.rtp import RtcpHeader, RtpExtension, RtpHeader
from dvcrypto.sealing import RtpStream, Sealer, SentFrame
from dvcrypto.wire import Receiver

__all__ = [
    "AuthenticationFailed",
    "Burst",
    "Diagnosis",
    "DvcryptoError",
    "Engine",
    "EngineUnavailable",
    "Field",
    "Malformed",
    "Mistake",
    "Mode",
    "NoCommonMode",
    "NonceExhausted",
    "OpenError",
    "OpenedBurst",
    "OpenedPacket",
    "Opener",
    "OpenerStats",
    "Packetizer",
    "Receiver",
    "Replayed",
    "RtcpHeader",
    "RtpExtension",
    "RtpHeader",
    "RtpStream",
    "SealError",
    "Sealer",
    "SealerClosed",
    "SealerForked",
    "SentFrame",
    "Status",
    "Truncated",
    "aes_accelerated",
    "choose_mode",
    "diagnose",
    "engines",
    "versions",
]
