"""What `perfdoctor try` proves where a tweak cures the cause, beside the prediction and the cured twin.

python bench/tried.py [--scripts too_few_workers,...] [--rounds 3] [--write]

Each script is watched; the tweak that the finding names is tried; then script and cured twin run in turns.
Tried, predicted and the twin's gain are speedups of a training step.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accuracy
from rich.console import Console
from rich.table import Table

PAGE = accuracy.PAGE
BEGIN, END = "<!-- tried: begin -->", "<!-- tried: end -->"
HEADINGS = ("script", "tweak", "verdict", "predicted", "tried", "twin", "twin within", "prediction off by")
Json = dict[str, Any]


@dataclass(frozen=True)
class Tried:
    """What came out for one script; `failure` says why nothing did."""

    script: str
    tweak: str = "-"
    variant: Json | None = None
    twin: float | None = None
    failure: str | None = None

    @property
    def speedup(self) -> Json | None:
        """The measured interval."""
        return self.variant.get("speedup") if self.variant else None

    @property
    def faster(self) -> bool:
        """Whether the trial says that the tweak helps."""
        return self.variant is not None and self.variant["verdict"] == "faster"

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the twin's gain."""
        if self.speedup is None or self.twin is None:
            return None
        return bool(self.speedup["low"] <= self.twin <= self.speedup["high"])

    @property
    def error(self) -> float | None:
        """|predicted - tried| / tried step time; predicted is step time / likely gain."""
        predicted = self.variant.get("predicted") if self.variant else None
        if not predicted or not self.speedup:
            return None
        return float(abs(self.speedup["likely"] / predicted["likely"] - 1))

    def cells(self) -> list[str]:
        """The row of the table."""
        if self.variant is None:
            return [self.script, self.tweak, f"none: {self.failure}", *["-"] * (len(HEADINGS) - 3)]
        return [
            self.script,
            self.tweak,
            self.variant["verdict"],
            _range(self.variant.get("predicted")),
            _range(self.speedup),
            f"{self.twin:.2f}" if self.twin else "-",
            "-" if self.holds is None else "yes" if self.holds else "no",
            "-" if self.error is None else f"{self.error:.0%}",
        ]


def _range(gain: Json | None) -> str:
    return f"{gain['low']:.2f} / {gain['likely']:.2f} / {gain['high']:.2f}" if gain else "-"


def measure(truth: accuracy.Truth, rounds: int, seconds: int | None) -> Tried | None:
    """Watch a script, try what the planted finding says, measure the twin; None where no tweak is named."""
    name = truth.script.stem
    with tempfile.TemporaryDirectory() as out:
        perfdoctor = [sys.executable, "-m", "perfdoctor"]
        try:
            accuracy.call([*perfdoctor, "run", "-q", "--out", out, str(truth.script)], truth.script.parent)
            report = json.loads(
                accuracy.call([*perfdoctor, "report", "--json", "--out", out], truth.script.parent)
            )
            tweak = next((each["tweak"] for each in report["findings"] if each["id"] == truth.finding), None)
            if tweak is None:
                return None
            limit = ["--seconds", str(seconds)] if seconds else []
            run = next(path for path in Path(out).iterdir() if (path / "run.json").exists())
            words = [
                *perfdoctor,
                "try",
                *shlex.split(tweak),
                *limit,
                "--json",
                "--run",
                str(run),
                "--out",
                out,
            ]
            trial = json.loads(accuracy.call(words, truth.script.parent))
            twin = accuracy.gain(truth.script, truth.twin, rounds) if truth.twin and rounds else None
            return Tried(name, tweak, trial["variants"][0], twin)
        except subprocess.CalledProcessError as error:
            last = (error.stderr or "").strip().splitlines()[-2:] or ["it said nothing"]
            return Tried(name, failure=f"exit status {error.returncode}: {' '.join(last)[:120]}")
        except subprocess.TimeoutExpired:
            return Tried(name, failure="took too long")


def summary(found: list[Tried]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    holds = [each.holds for each in found if each.holds is not None]
    errors = [each.error for each in found if each.error is not None]
    median = f"{statistics.median(errors):.1%}" if errors else "unknown"
    return [
        f"faster by trial: {sum(each.faster for each in found)} of {len(found)} (promised: all)",
        f"the trial's interval holds the twin's gain: {sum(holds)} of {len(holds)} (promised: all)",
        f"predicted step time against the tried one: off by {median} in the median (promised: <= 10 %)",
    ]


def write(found: list[Tried]) -> None:
    """Replace this program's part of the page; the rest of it is not ours."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    rows = accuracy.markdown([list(HEADINGS), *(each.cells() for each in found)])
    part = "\n".join(
        [
            "Written by `python bench/tried.py --write`.",
            "",
            *(f"- {line}" for line in summary(found)),
            "",
            *rows,
        ]
    )
    PAGE.write_text(f"{head}{BEGIN}\n{part}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    """Try script by script, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", metavar="A,B", help="which, with commas between; all of them otherwise")
    parser.add_argument("--rounds", type=int, default=1, help="of script and cured twin; 0: no twins")
    parser.add_argument("--seconds", type=int, help="for each trial")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(accuracy.ROOT)}")
    args = parser.parse_args()
    console = Console()
    found = []
    for truth in accuracy.chosen(accuracy.SCRIPTS, args.scripts):
        if truth.healthy or (tried := measure(truth, args.rounds, args.seconds)) is None:
            continue
        found.append(tried)
        console.print("; ".join(tried.cells()), markup=False, highlight=False)
        if args.write:
            write(found)
    table = Table(*HEADINGS, title="Tried")
    for each in found:
        table.add_row(*each.cells())
    console.print(table)
    for line in summary(found):
        console.print(line, highlight=False)


if __name__ == "__main__":
    main()
