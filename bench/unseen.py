"""How right the doctor is on scripts by authors who know neither its tips nor its code.

python bench/unseen.py FOLDER [--only 01,02] [--rounds 1] [--keep DIR]

FOLDER holds a folder a script: train.py, cured.py (of each cause alone as cured_first.py, ...), and
truth.json, which the author wrote: the class of the time, each cause in a sentence with its lines, the
command. The script runs watched once, then script and twin in turns. Whether a finding names the author's
cause is for a reader to say: write `"named": {"small-batch": 0}` into verdicts.json beside truth.json
(finding, number of the cause; -1 for advice that misleads), and run again with the same --keep, which runs
nothing twice. Until then the line decides.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from accuracy import Json, _median, _share, call, markdown, training_s

HEADINGS = ("script", "verdict", "findings, in order", "cause first", "line", "predicted", "measured")
LIGHT = ("--no-profiler", "--no-stacks")


@dataclass(frozen=True)
class Unseen:
    """One script with what its author knows, what the doctor said, and what its twin gained."""

    folder: Path
    truth: Json
    report: Json
    measured: float | None

    @property
    def healthy(self) -> bool:
        return bool(self.truth["kind"] == "healthy")

    @property
    def findings(self) -> list[Json]:
        return list(self.report["findings"])

    @property
    def verdict_right(self) -> bool:
        return bool(self.report["bottleneck"]["verdict"] == self.truth["bottleneck"])

    @property
    def alarm(self) -> bool:
        return bool(self.findings) or self.report["bottleneck"]["verdict"] not in ("healthy", "inconclusive")

    @cached_property
    def named(self) -> dict[str, int]:
        """What a reader said: the cause that a finding names, by number, or -1 where it misleads."""
        path = self.folder / "verdicts.json"
        return dict(json.loads(path.read_text())["named"]) if path.exists() else {}

    @property
    def first_named(self) -> bool:
        """Whether the first finding names a cause, by a reader's word or by its line."""
        if not self.findings:
            return False
        first = self.findings[0]["id"]
        return self.named[first] >= 0 if first in self.named else self.line_right

    @property
    def line_right(self) -> bool:
        """Whether the first place of the first finding is a line that the author names."""
        places = self.findings[0]["at"] if self.findings else []
        lines = {line for cause in self.truth["causes"] for line in (cause["line"], *cause["also_lines"])}
        return bool(places) and Path(places[0]["file"]).name == "train.py" and places[0]["line"] in lines

    @property
    def predicted(self) -> Json | None:
        """The gain of the first finding that names a cause."""
        causes = [each for each in self.findings if self.named.get(each["id"], -1) >= 0] or (
            self.findings[:1] if self.line_right else []
        )
        return dict(causes[0]["gain"]) if causes else None

    def cells(self) -> list[str]:
        """The row of the table."""
        got, gain = self.report["bottleneck"]["verdict"], self.predicted
        expected = self.truth["bottleneck"]
        return [
            self.folder.name,
            got if self.verdict_right else f"**{got}**, not {expected}",
            ", ".join(each["id"] for each in self.findings) or "none",
            "-" if self.healthy else str(self.first_named),
            "-" if self.healthy else str(self.line_right),
            f"{gain['low']:.2f} / {gain['likely']:.2f} / {gain['high']:.2f}" if gain else "-",
            f"{self.measured:.2f}" if self.measured else "-",
        ]


def watch(folder: Path, script: str, launch: str, out: Path, *options: str) -> Json:
    """Run a script of a folder watched, unless it is kept, and return its report."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    if not out.exists():
        words = [word.replace("train.py", script) for word in shlex.split(launch)]
        call([*perfdoctor, "run", "-q", *options, "--out", str(out), "--", *words], folder)
    return dict(json.loads(call([*perfdoctor, "report", "--json", "--out", str(out)], folder)))


def measure(folder: Path, launch: str, keep: Path, rounds: int) -> float | None:
    """How many times faster the twin trains a sample: the median over rounds; None without a twin."""
    if not (folder / "cured.py").exists() or not rounds:
        return None
    return statistics.median(_ratio(folder, launch, keep, number) for number in range(rounds))


def _ratio(folder: Path, launch: str, keep: Path, number: int) -> float:
    reports = (
        watch(folder, script, launch, keep / f"{script}.{number}", *LIGHT)
        for script in ("train.py", "cured.py")
    )
    (slow_s, slow_samples), (quick_s, quick_samples) = map(training_s, reports)
    if slow_samples and quick_samples:
        return (slow_s / slow_samples) / (quick_s / quick_samples)
    return slow_s / quick_s


def judge(folder: Path, keep: Path, rounds: int) -> Unseen:
    """Watch a script, and measure its twin."""
    truth = json.loads((folder / "truth.json").read_text())
    out, launch = keep / folder.name, truth["launch"]
    report = watch(folder, "train.py", launch, out / "watched")
    return Unseen(folder, truth, report, measure(folder, launch, out, rounds))


def summary(judged: list[Unseen]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    planted = [each for each in judged if not each.healthy]
    pairs = [(each.predicted, each.measured) for each in planted if each.predicted and each.measured]
    misleading = sum(number < 0 for each in judged for number in each.named.values())
    errors = _median(measured / gain["likely"] - 1 for gain, measured in pairs)
    return [
        _share("verdict right", [each.verdict_right for each in judged], ">= 95 %"),
        _share("cause first", [each.first_named for each in planted], ">= 85 %"),
        _share("its line", [each.line_right for each in planted], ">= 85 %"),
        f"alarms on healthy ones: {sum(each.alarm for each in judged if each.healthy)} (promised: none)",
        _share(
            "measured gain in the range",
            [gain["low"] <= measured <= gain["high"] for gain, measured in pairs],
            ">= 75 %",
        ),
        f"predicted step time: off by {errors} in the median (promised: <= 15 %)",
        f"misleading advice: {misleading} (promised: at most one)",
    ]


def main() -> None:
    """Judge the scripts of a folder one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="scripts with what their author knows")
    parser.add_argument("--only", metavar="A,B", default="", help="those whose names begin so")
    parser.add_argument("--rounds", type=int, default=1, help="of script and twin; 0: no twins")
    parser.add_argument(
        "--keep", type=Path, required=True, metavar="DIR", help="runs; what is there is not run again"
    )
    args = parser.parse_args()
    judged = []
    for path in sorted(args.folder.resolve().glob("*/truth.json")):
        if not path.parent.name.startswith(tuple(args.only.split(","))):
            continue
        try:
            judged.append(judge(path.parent, args.keep.resolve(), args.rounds))
            print(" | ".join(judged[-1].cells()), flush=True)
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            print(f"{path.parent.name} failed: {str(error)[:200]}", flush=True)
    print(
        "\n".join(["", *markdown([list(HEADINGS), *(each.cells() for each in judged)]), "", *summary(judged)])
    )


if __name__ == "__main__":
    main()
