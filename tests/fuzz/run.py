"""Run fuzz targets that are built: ``python tests/fuzz/run.py SECONDS [TARGET]``. ``make fuzz`` builds them first.

Inputs that reach something new stay in build/fuzz/corpus/TARGET, where the target's next run begins; those that break a
promise are kept in build/fuzz/findings.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import seeds

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "fuzz"
FINDINGS = BUILD / "findings"
TARGETS = {path.stem: path for path in sorted((HERE / "targets").iterdir()) if path.suffix in {".c", ".py"}}
LIMITS = ["-timeout=20", "-rss_limit_mb=2048"]
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=32"}  # of freed memory, instead of 256
LINES_SHOWN = 40


def command(name: str) -> list[str]:
    """What runs a target, without options."""
    if TARGETS[name].suffix == ".py":
        return [sys.executable, str(HERE / "under_atheris.py"), name]
    return [str(BUILD / name)]


def last(pattern: str, log: str) -> int:
    """The last number that follows a pattern; 0 where there is none."""
    found = re.findall(pattern + r"\s*(\d+)", log)
    return int(found[-1]) if found else 0


def run(name: str, seconds: int) -> bool:
    """Run one target, and print its line. Whether it found nothing."""
    corpora = [BUILD / "corpus" / name, HERE / "corpus" / name, BUILD / "seeds" / name]
    corpora[0].mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(exist_ok=True)
    log_path = BUILD / f"{name}.log"
    options = [*LIMITS, f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={FINDINGS}/{name}-"]
    with log_path.open("wb") as file:
        ended = subprocess.run(
            [*command(name), *options, *(str(path) for path in corpora if path.is_dir())],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            check=False,
        )
    log = log_path.read_text(errors="replace")
    executions, rate = last("number_of_executed_units:", log), last("average_exec_per_sec:", log)
    print(f"{name:12} {executions:12,} executions {rate:8,}/s {last('cov:', log):6,} edges", flush=True)
    if ended.returncode == 0:
        return True
    kept = re.findall(r"Test unit written to (\S+)", log)
    print(*log.splitlines()[-LINES_SHOWN:], sep="\n")
    print(f"{name} ended with {ended.returncode}; all it said is in {log_path}")
    for path in kept:
        print(f"{name}: a finding is in {path}; run it again with: {' '.join(command(name))} {path}")
    return False


def main() -> int:
    """0 where no target found anything."""
    seconds = int(sys.argv[1])
    names = sys.argv[2:] or list(TARGETS)
    for name in names:
        if name not in TARGETS:
            print(f"{name} is no fuzz target; they are {', '.join(TARGETS)}")
            return 2
    seeds.write_from_vectors(BUILD / "seeds")
    found = [name for name in names if not run(name, seconds)]
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
