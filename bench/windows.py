"""What profiler windows cost of a run's time, by its own records: sample scripts, and loops full of Python.

    python bench/windows.py [--only characters,tensor_loops] [--seconds 24] [--write]

A window costs its start, stop and export, what its steps took beyond the mean step, and what counting calls
before it took. The share is that of the time from the first step's begin to the last one's end, of the rank
where it is largest.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from perfdoctor.facts.steps import watching_cost
from perfdoctor.runs import directory, records
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import WindowEvent
from perfdoctor.wire.step_rows import UPDATE

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "overhead.md"
BEGIN, END = "<!-- windows: begin -->", "<!-- windows: end -->"
SAMPLES = ROOT / "sample_scripts"
HEAVY = HERE / "loads" / "python_heavy.py"
LOOPS = {
    f"{kind}{', 2 workers' if workers else ''}": [str(HEAVY), "--kind", kind, "--workers", str(workers)]
    for kind in ("rows", "regexes", "characters", "lists")
    for workers in (0, 2)
}
LONG_S, LONG_SHARE = 20.0, 0.01
SHORT_S, SHORT_SHARE = 5.0, 0.02
TIMEOUT_S = 900
KINDS = ("plain", "shapes", "stacks")
HEADINGS = ("run", "steps", "training, s", "step, ms", *(f"{kind}, ms" for kind in KINDS), "share", "aim")


@dataclass(frozen=True)
class Spent:
    """What the windows of one rank cost."""

    steps: int
    seconds: float  # of training
    windows_s: dict[str, float]  # by kind
    outcomes: dict[str, str]  # by kind, of those that are not whole

    @property
    def share(self) -> float:
        return sum(self.windows_s.values()) / self.seconds

    @property
    def aim(self) -> float | None:
        """The largest share that is promised; None for a run that is too short for a promise."""
        if self.seconds >= LONG_S:
            return LONG_SHARE
        return SHORT_SHARE if self.seconds >= SHORT_S else None

    @property
    def kept(self) -> bool:
        return self.aim is None or self.share <= self.aim

    def cells(self, name: str) -> list[str]:
        aim = "" if self.aim is None else f"{self.aim:.0%}" + ("" if self.kept else ": **missed**")
        return [
            name,
            f"{self.steps}",
            f"{self.seconds:.1f}",
            f"{self.seconds / self.steps * 1e3:.1f}",
            *(self._window(kind) for kind in KINDS),
            f"{self.share:.2%}",
            aim,
        ]

    def _window(self, kind: str) -> str:
        if kind not in self.windows_s:
            return "-"
        ended = self.outcomes.get(kind)
        return f"{self.windows_s[kind] * 1e3:.0f}" + (f" ({ended})" if ended else "")


def spent(rank: RankRecords) -> Spent | None:
    """By the records of one rank; None where it made no steps."""
    rows = rank.steps
    if rows is None or not (count := int((rows["marker"] == UPDATE).sum())):
        return None
    seconds = float(rows["end_ns"][-1] - rows["begin_ns"][0]) / 1e9
    costs: dict[str, float] = {}
    outcomes: dict[str, str] = {}
    for window in rank.of(WindowEvent):
        costs[window.kind] = costs.get(window.kind, 0.0) + watching_cost.window_s(window, seconds / count)
        if window.outcome != "ok":
            outcomes[window.kind] = window.outcome
    return Spent(count, seconds, costs, outcomes)


def watched(command: list[str], folder: Path) -> Spent:
    """Run a command under watch; the rank whose windows cost the largest share."""
    line = [sys.executable, "-m", "perfdoctor", "run", "-q", "--out", str(folder / "runs"), "--", *command]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)} ended with status {done.returncode}:\n{done.stderr}")
    found = [spent(rank) for rank in records.read(directory.latest(folder / "runs")).ranks.values()]
    return max((each for each in found if each is not None), key=lambda each: each.share)


def commands(only: str | None, seconds: float) -> dict[str, list[str]]:
    """The runs by name: those that are named with commas between, or all."""
    known = {name: [*words, "--seconds", str(seconds)] for name, words in LOOPS.items()}
    known |= {path.stem: [str(path)] for path in sorted(SAMPLES.glob("*.py"))}
    if only is None:
        return known
    wanted = only.split(",")
    return {name: words for name, words in known.items() if name.split(",")[0] in wanted}


def write(rows: list[list[str]]) -> None:
    """Put the table between the marks of its page."""
    import torch

    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.0f}, Python {platform.python_version()}"
    today = time.strftime("%Y-%m-%d")
    lines = [
        f"Written by `python bench/windows.py --write`; {machine}, torch {torch.__version__}, {today}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "|" + "---|" * len(HEADINGS),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Run them one by one, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="A,B", help="which, with commas between; all of them otherwise")
    parser.add_argument("--seconds", type=float, default=24.0, help="of each loop full of Python")
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    console = Console(width=150)
    rows = []
    missed = []
    for name, command in commands(args.only, args.seconds).items():
        with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
            found = watched(command, Path(folder))
        rows.append(found.cells(name))
        console.print("; ".join(rows[-1]), highlight=False)
        missed += [] if found.kept else [name]
        if args.write:  # after each, so that an interrupted run leaves what it has
            write(rows)
    table = Table(*HEADINGS, title="What windows cost")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"missed: {', '.join(missed)}" if missed else "no run spends more than is promised")


if __name__ == "__main__":
    main()
