"""examples/bot.py, unchanged, plays a file to a Discord on loopback."""

import asyncio
import sys
from fractions import Fraction
from pathlib import Path

import opus
import pytest
from packets import GCM, XCHACHA
from peers import installed
from small_discord import CHANNEL_ID, TOKEN, SmallDiscord

import dvcrypto.dropin

if installed()[0] != "discord.py":
    pytest.skip("examples/bot.py is a bot of discord.py's", allow_module_level=True)

import av

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))


def write(path: Path, frames: tuple[bytes, ...]) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libopus", rate=48000)
        for number, frame in enumerate(frames):
            packet = av.Packet(frame)
            packet.stream, packet.time_base = stream, Fraction(960, 48000)
            packet.pts = packet.dts = number
            container.mux(packet)


@pytest.mark.parametrize("mode", [GCM, XCHACHA])
async def test_the_bot_plays_its_file_and_leaves(mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = opus.frames()[:50]
    write(tmp_path / "speech.ogg", frames)
    import bot

    dvcrypto.dropin.install()  # again, after other tests undid it
    try:
        async with SmallDiscord([mode]) as server:
            player = bot.Player(
                CHANNEL_ID, tmp_path / "speech.ogg", connector=server.connector(), guild_ready_timeout=0.1
            )
            await asyncio.wait_for(player.start(TOKEN), 30)
            await server.voice.until(lambda: not server.voice.sockets)
            assert [payload for payload in server.voice.payloads if payload != b"\xf8\xff\xfe"] == list(frames)
            assert server.voice.faults == []
            assert server.voice.selected == [mode]
    finally:
        dvcrypto.dropin.uninstall()
    assert f"played speech.ogg in {mode}" in capsys.readouterr().out
