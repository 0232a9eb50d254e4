"""Which mode to use, computed from what was measured, and why."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dvcrypto import Mode
from dvcrypto.cli.bench.stream import Load, Usage, in_words
from dvcrypto.cli.bench.throughput import VIDEO, VOICE, Timing

_ALIKE: Final = 1.05  # times as fast, below which two modes do not differ by more than two runs do
_STANDS_OUT: Final = 2  # standard errors, above which a difference between CPU shares is no chance
KEPT: Final = 0.95  # of its pace, above which a stream followed its schedule


@dataclass(frozen=True)
class Recommendation:
    """A mode, and what speaks for it."""

    mode: Mode
    reason: str
    factor: float
    """How many times as fast as the other mode it is, at voice and video packets weighed alike."""
    voice_factor: float
    video_factor: float
    saved_share: float | None
    """Of a core, 0 to 1, that each stream saves; None where nothing stands out, or no stream was sent."""
    choosing: str
    """What ``choose_mode`` does here, and what to set where that is something else."""


def recommend(
    timings: Mapping[Mode, Timing], usages: Mapping[Mode, Usage] | None, load: Load, chosen: Mode
) -> Recommendation:
    """The mode that is faster at typical packets; where they are alike, the one that ``choose_mode`` takes.

    Voice counts as it is sealed, one packet a call, and video in bursts, each by half.
    """
    voice, video = (
        cost(timings[Mode.XCHACHA20_POLY1305]) / cost(timings[Mode.AES256_GCM]) for cost in (_voice, _video)
    )
    alike = 1 / _ALIKE < math.sqrt(voice * video) < _ALIKE
    mode = chosen if alike else Mode.AES256_GCM if voice * video > 1 else Mode.XCHACHA20_POLY1305
    if mode == Mode.XCHACHA20_POLY1305:
        voice, video = 1 / voice, 1 / video
    factor = math.sqrt(voice * video)
    saved = None
    if alike:
        reason = f"both modes are alike here, within {_ALIKE - 1:.0%}, and choose_mode takes this one"
    else:
        reason = f"{factor:.1f}x faster here (voice {voice:.1f}x, video {video:.1f}x)"
        saved = _saved(mode, usages, load.streams) if usages else None
    if saved:
        reason += f", saves {100 * saved:.2g} % of a core per {in_words(load.bitrate)} stream"
    return Recommendation(mode, reason, factor, voice, video, saved, _choosing(mode, chosen))


def _voice(timing: Timing) -> float:
    return statistics.mean(timing.single_ns[size] for size in VOICE)


def _video(timing: Timing) -> float:
    return timing.burst_ns[VIDEO]


def _saved(mode: Mode, usages: Mapping[Mode, Usage], streams: int) -> float | None:
    """The share of a core that one stream saves, where it is more than chance and both kept their pace."""
    usage, (other,) = usages[mode], (usages[other] for other in usages if other != mode)
    if min(usage.pace(), other.pace()) < KEPT or len(usage.shares) < 2:
        return None
    # Windows of the same number were sent at about the same time, and were disturbed alike.
    saved = [theirs - ours for ours, theirs in zip(usage.shares, other.shares, strict=False)]
    mean, error = statistics.mean(saved), statistics.stdev(saved) / math.sqrt(len(saved))
    return mean / streams if mean > _STANDS_OUT * error else None


def _choosing(mode: Mode, chosen: Mode) -> str:
    if mode == chosen:
        return "choose_mode takes it by itself, where the server offers it"
    return f"choose_mode takes {chosen} here; set DVCRYPTO_MODE={mode} to use this one"
