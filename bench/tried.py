"""What `perfdoctor try` proves where a tweak cures the cause, beside the prediction and the cured twin.

python bench/tried.py [--scripts too_few_workers,...] [--rounds 3] [--write]

Each script is watched; the tweak that the finding names is tried; then script and cured twin take turns as
the two sides of a trial do, or run whole, one after the other, where the tweak pays only after an epoch.
Tried, predicted and the twin's gain are speedups of a training step.
"""

from __future__ import annotations

import argparse
import json
import math
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
from trials import Quiet

from perfdoctor import trials
from perfdoctor.model.concluded import Gain
from perfdoctor.model.trial import ORIGINAL, Outcome, Variant, is_narrow
from perfdoctor.trials import settling
from perfdoctor.trials.settings import flags, tweak_catalogue
from perfdoctor.tweaks import SECOND_EPOCH
from perfdoctor.wire.names import RUN_VARIABLE

PAGE = accuracy.PAGE
BEGIN, END = "<!-- tried: begin -->", "<!-- tried: end -->"
HEADINGS = (
    "script", "tweak", "verdict", "took", "predicted", "tried", "twin", "twin within", "prediction off by"
)  # fmt: skip
IN_TIME_S = 180.0  # in which a trial is to be decided
TWIN_S = 60.0  # for each round that is asked for
# One command for both sides: which one it is, the folder of its execution tells. It gives way to the script,
# whose stacks are as deep as they are without it: what anomaly detection takes grows with them.
BOTH = """
import os, sys
script = {twin!r} if os.environ[{run!r}].endswith("-unchanged") else {script!r}
os.execv(sys.executable, [sys.executable, script])
"""
Json = dict[str, Any]


@dataclass(frozen=True)
class Tried:
    """What came out for one script; `failure` says why nothing did."""

    script: str
    tweak: str = "-"
    variant: Json | None = None
    twins: tuple[float, ...] = ()  # of a trial low, likely and high; of whole runs one value a round
    seconds: float = math.nan
    failure: str | None = None

    @property
    def twin(self) -> float | None:
        """The twin's gain: the likely one, or the median over rounds."""
        return statistics.median(self.twins) if self.twins else None

    @property
    def speedup(self) -> Json | None:
        """The measured interval."""
        return self.variant.get("speedup") if self.variant else None

    @property
    def faster(self) -> bool:
        """Whether the trial says that the tweak helps."""
        return self.variant is not None and self.variant["verdict"] == Outcome.FASTER

    @property
    def same(self) -> bool:
        """Whether the trial rules out any difference that is worth a change."""
        said = self.variant is not None and self.variant["verdict"] == Outcome.NO_DIFFERENCE
        return said and self.speedup is not None and is_narrow(Gain(**self.speedup))

    @property
    def decided(self) -> bool:
        """Whether the trial says faster, slower or no difference worth a change, in time."""
        said = self.variant is not None and self.variant["verdict"] in {Outcome.FASTER, Outcome.SLOWER}
        return (said or self.same) and self.seconds <= IN_TIME_S

    @property
    def right(self) -> bool:
        """Whether what was said agrees with the twin: all of these causes cost time."""
        if self.same:
            return self.agrees is not False
        return self.faster == (self.twin is None or self.twin > 1.0)

    @property
    def width(self) -> float | None:
        """The interval's half, as a share of its middle."""
        speedup = self.speedup
        return math.sqrt(speedup["high"] / speedup["low"]) - 1.0 if speedup else None

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the twin's gain."""
        if self.speedup is None or self.twin is None:
            return None
        return bool(self.speedup["low"] <= self.twin <= self.speedup["high"])

    @property
    def agrees(self) -> bool | None:
        """Whether its interval and that of the twin's gain have values in common."""
        if self.holds is None or self.speedup is None:
            return None
        low, high = min(self.twins), max(self.twins)
        return bool(self.speedup["low"] <= high and low <= self.speedup["high"])

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
            f"{self.seconds:.0f} s",
            _range(self.variant.get("predicted")),
            _range(self.speedup),
            " / ".join(f"{twin:.2f}" for twin in self.twins) or "-",
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
            twins = twin_gains(truth, tweak, rounds) if rounds and truth.twin is not None else ()
            return Tried(name, tweak, trial["variants"][0], twins, trial["seconds"])
        except subprocess.CalledProcessError as error:
            last = (error.stderr or "").strip().splitlines()[-2:] or ["it said nothing"]
            return Tried(name, failure=f"exit status {error.returncode}: {' '.join(last)[:120]}")
        except subprocess.TimeoutExpired:
            return Tried(name, failure="took too long")


def twin_gains(truth: accuracy.Truth, tweak: str, rounds: int) -> tuple[float, ...]:
    """What the cured twin brings: see Tried.twins."""
    assert truth.twin is not None
    variant = Variant(flags.read(shlex.split(tweak), tweak_catalogue.tweaks()))
    if SECOND_EPOCH in settling.pays(variant):
        return tuple(accuracy.gain(truth.script, truth.twin, 1) for _ in range(rounds))
    with tempfile.TemporaryDirectory() as out:
        both = Path(out, "both.py")
        both.write_text(BOTH.format(run=RUN_VARIABLE, script=str(truth.script), twin=str(truth.twin)))
        command, cwd = (sys.executable, str(both)), str(truth.script.parent)
        given = trials.Request(command, (ORIGINAL,), cwd, seconds=TWIN_S * rounds, yes=True, out=out)
        speedup = trials.run(given, Quiet()).verdicts[0].speedup
        return (speedup.low, speedup.likely, speedup.high) if speedup else ()


def summary(found: list[Tried]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    holds = [each.holds for each in found if each.holds is not None]
    agrees = [each.agrees for each in found if each.agrees is not None]
    errors = [each.error for each in found if each.error is not None]
    widths = [each.width for each in found if each.width is not None]
    decided = [each for each in found if each.decided]
    return [
        f"decided within {IN_TIME_S / 60:.0f} minutes: {len(decided)} of {len(found)} (promised: 90 %)",
        f"of these, rightly: {sum(each.right for each in decided)} (promised: all)",
        f"the trial's interval holds the twin's gain: {sum(holds)} of {len(holds)} (promised: 85 %)",
        f"it has values in common with the interval of the twin's gain: {sum(agrees)} of {len(agrees)}",
        f"the interval is ±{_median(widths)} in the median (promised: ±10 %)",
        f"predicted step time is off by {_median(errors)} in the median of the tried one (promised: 10 %)",
    ]


def _median(shares: list[float]) -> str:
    return f"{statistics.median(shares):.1%}" if shares else " unknown"


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
