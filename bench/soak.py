"""What watching a long run takes: memory, files, threads and time, at its beginning and at its end.

    python bench/soak.py [--steps 3000000] [--epochs 50] [--seconds 0] [--write]

The load makes as many tiny steps as days of training have, in epochs that start their loader workers anew; it
tells its own memory, threads and descriptors after each. It runs bare and watched at the same time, so that
what slows the machine slows both; CPU time of the training thread is compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from overhead import HERE, POLL_S, ROOT, WATCH
from rich.console import Console

PAGE = ROOT / "docs" / "long-runs.md"
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
PART = 0.1  # of the epochs, that are called the beginning, or the end
MEMORY_BYTES, OWN_BYTES, RUN_BYTES = 5_000_000, 150_000_000, 50_000_000
MEBI = 1 << 20
State = dict[str, Any]


@dataclass(frozen=True)
class Soaked:
    """What became of both."""

    bare: list[State]
    watched: list[State]
    own_bytes: int  # the most that perfdoctor's own process took
    run_bytes: int  # of the run directory
    seconds: float

    def added(self, name: str, at: int) -> int:
        """What is more in the watched one, after epoch `at`."""
        return int(self.watched[at][name] - self.bare[at][name])

    def cost_us(self, first: int, last: int) -> float:
        """CPU time that watching adds to a step between two epochs: the median epoch's."""
        return statistics.median(
            (_step_ns(self.watched, epoch) - _step_ns(self.bare, epoch)) / 1e3 for epoch in range(first, last)
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """(what, measured, promised)."""
        count = min(len(self.bare), len(self.watched))
        part, last = max(1, int(PART * count)), count - 1
        begin_us, end_us = self.cost_us(1, 1 + part), self.cost_us(count - part, count)
        grown = self.added("resident_bytes", last) - self.added("resident_bytes", part)
        return [
            ("steps", f"{self.watched[last]['step']:,} in {count} epochs, {self.seconds / 60:.0f} min", ""),
            ("watching, a step at the beginning", f"{begin_us:.1f} µs", ""),
            ("watching, a step at the end", f"{end_us:.1f} µs", "as at the beginning"),
            ("memory of the script that watching adds", _mb(self.added("resident_bytes", last)), ""),
            ("... since a tenth of the run", _mb(grown), _mb(MEMORY_BYTES)),
            ("threads that watching adds", str(self.added("tasks", last)), "as at the beginning"),
            ("... at the beginning", str(self.added("tasks", part)), ""),
            (
                "descriptors that watching adds",
                str(self.added("files", last)),
                "as at the beginning",
            ),
            ("... at the beginning", str(self.added("files", part)), ""),
            ("memory of perfdoctor's own process", _mb(self.own_bytes), _mb(OWN_BYTES)),
            ("the run directory", _mb(self.run_bytes), _mb(RUN_BYTES)),
        ]


def _step_ns(states: list[State], epoch: int) -> float:
    before, after = states[epoch - 1], states[epoch]
    return float(after["cpu_ns"] - before["cpu_ns"]) / (after["step"] - before["step"])


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / MEBI:.1f} MiB"


def soak(words: list[str]) -> Soaked:
    """Run the load bare and watched, side by side."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, began_s = Path(temporary), time.monotonic()
        script = str(HERE / "loads" / "long_run.py")
        bare = subprocess.Popen(
            [sys.executable, script, *words, "--figures", str(folder / "bare.json")],
            stdout=subprocess.DEVNULL,
        )
        runs = folder / "runs"
        watched = subprocess.Popen(
            [*WATCH, "--out", str(runs), script, *words, "--figures", str(folder / "watched.json")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        own_bytes = 0
        perfdoctor = psutil.Process(watched.pid)
        while watched.poll() is None:
            with_children = perfdoctor.memory_info().rss if perfdoctor.is_running() else 0
            own_bytes = max(own_bytes, with_children)
            time.sleep(POLL_S)
        if bare.wait() or watched.returncode:
            raise SystemExit(f"the load ended with {bare.returncode}, watched with {watched.returncode}")
        run_bytes = sum(path.stat().st_size for path in runs.rglob("*") if path.is_file())
        return Soaked(
            json.loads((folder / "bare.json").read_text()),
            json.loads((folder / "watched.json").read_text()),
            own_bytes,
            run_bytes,
            time.monotonic() - began_s,
        )


def main() -> None:
    """Measure, print, and write the page's part if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.0, help="go on for at least so long")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    words = [f"--{name}={getattr(args, name)}" for name in ("steps", "epochs", "seconds")]
    rows = soak(words).rows()
    for name, measured, promised in rows:
        Console().print(f"{name:45} {measured:32} {promised}", highlight=False)
    if args.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        table = ["| | measured | promised |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
        said = f"Written by `python bench/soak.py {' '.join(words)} --write`, on {platform.machine()}."
        part = "\n".join([BEGIN, said, "", *table, END])
        PAGE.write_text(f"{head}{part}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
