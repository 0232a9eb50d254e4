"""Write csrc/tests/real_frames.h: small frames that real encoders made of the generated picture of tests/encoded.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import encoded  # noqa: E402

CODECS = ("h264", "h265", "vp8", "vp9", "vp9-superframes", "av1")


def array(name: str, data: bytes) -> str:
    """A C array."""
    return f"static const uint8_t {name}[] = {{{', '.join(f'0x{byte:02x}' for byte in data)}}};"


def main() -> None:
    """Write the header; ``make format`` lays it out."""
    arrays, table = [], []
    chosen = {codec: [frame.data for frame in encoded.video(codec, 64, 64, 4)[:2]] for codec in CODECS}
    chosen["opus"] = list(encoded.opus()[:1])
    for codec, frames in chosen.items():
        for number, frame in enumerate(frames):
            name = f"{codec.replace('-', '_')}_{number}"
            arrays.append(array(name, frame))
            table.append(f'{{"{codec.split("-")[0]}", {name}, sizeof {name}}}')
    record = "const char *packetizer; const uint8_t *bytes; size_t len;"
    parts = [
        "/* Frames of real encoders, written by scripts/make_real_frames.py. */",
        "#include <stddef.h>\n#include <stdint.h>",
        *arrays,
        f"static const struct {{ {record} }} real_frames[] = {{{', '.join(table)}}};\n",
    ]
    (ROOT / "csrc" / "tests" / "real_frames.h").write_text("\n\n".join(parts))


if __name__ == "__main__":
    main()
