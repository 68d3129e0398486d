"""How right the doctor is on scripts by authors who know neither its tips nor its code.

python bench/unseen.py FOLDER [--only 01,02] [--rounds 1] [--keep DIR] [--write]

FOLDER holds a folder a script: train.py, cured.py (of each cause alone as cured_first.py, ...), and
truth.json, which the author wrote: the class of the time, each cause in a sentence with its lines, the
command. A project of several files has those that differ in cured/ (cured_first/, ...) for a twin, and each
cause names its file. The script runs watched once, then script and twin in turns; of two causes, the twin
without the one that the finding names. Whether a finding names the author's cause is for a reader to say:
write `{"named": {"small-batch": 0}, "accepts": ["host"]}` into verdicts.json beside truth.json (finding,
number of the cause; -1 for advice that misleads; other classes that the author's note calls right as well),
and run again with the same --keep, which runs nothing twice. Until then the line decides.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import ranges
from accuracy import Json, by_confidence, call, markdown, modelled, training_s
from judging import median, share

from perfdoctor.diagnosis.calibration import Case

HEADINGS = ("script", "verdict", "findings, in order", "cause first", "line", "predicted", "measured")
TWINS = ("cured_first", "cured_second")  # of two causes
LIGHT = ("--no-profiler", "--no-stacks")


@dataclass(frozen=True)
class Unseen:
    """One script with what its author knows, what a reader said, and what the doctor said."""

    folder: Path
    truth: Json
    read: Json  # verdicts.json
    report: Json
    measured: float | None = None  # the gain of the twin without the cause that is named

    @property
    def healthy(self) -> bool:
        return bool(self.truth["kind"] == "healthy")

    @property
    def findings(self) -> list[Json]:
        return list(self.report["findings"])

    @property
    def verdict_right(self) -> bool:
        return self.report["bottleneck"]["verdict"] in (
            self.truth["bottleneck"],
            *self.read.get("accepts", ()),
        )

    @property
    def alarm(self) -> bool:
        return bool(self.findings) or self.report["bottleneck"]["verdict"] not in ("healthy", "inconclusive")

    @property
    def misleading(self) -> int:
        return sum(number < 0 for number in self.read.get("named", {}).values())

    def cause(self, finding: Json) -> int | None:
        """The number of the cause that a finding names, by a reader's word, or else by its line."""
        if "named" in self.read:
            number = self.read["named"].get(finding["id"], -1)
            return number if number >= 0 else None
        causes = enumerate(self.truth["causes"])
        return next((number for number, cause in causes if _points_at(finding, cause)), None)

    @property
    def first_named(self) -> bool:
        """Whether the first finding names a cause."""
        return bool(self.findings) and self.cause(self.findings[0]) is not None

    @property
    def line_right(self) -> bool:
        """Whether the first place of the first finding is a line that the author names."""
        first = self.findings[:1]
        return any(_points_at(each, cause) for each in first for cause in self.truth["causes"])

    @property
    def naming(self) -> Json | None:
        """The first finding that names a cause, of those about the time of steps."""
        about_time = (each for each in self.findings if each["about"] == "time")
        return next((each for each in about_time if self.cause(each) is not None), None)

    @property
    def predicted(self) -> Json | None:
        """Its gain."""
        return dict(self.naming["gain"]) if self.naming is not None else None

    @property
    def twin(self) -> str | None:
        """The script without the cause that is named; without the only one, where none is."""
        if self.healthy:
            return None
        if len(self.truth["causes"]) == 1:
            return "cured"
        return TWINS[self.cause(self.naming) or 0] if self.naming is not None else None

    @property
    def case(self) -> Case | None:
        """What was predicted and then measured, for fitting ranges."""
        found = self.naming
        if found is None or self.measured is None:
            return None
        predicted = modelled(Path(self.report["run"]["path"]))[found["id"]]
        return ranges.case(found["id"], *predicted, self.measured)

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


def _points_at(finding: Json, cause: Json) -> bool:
    """Whether the first place of a finding is a line that the author names for a cause."""
    if not finding["at"]:
        return False
    at = finding["at"][0]
    lines = (cause["line"], *cause["also_lines"])
    return Path(at["file"]).name == Path(cause.get("file", "train.py")).name and at["line"] in lines


def watch(folder: Path, twin: str | None, launch: str, out: Path, *options: str) -> Json:
    """Run a script of a folder or its twin watched, unless it is kept, and return its report."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    if not out.exists():
        script = f"{twin}.py" if twin is not None and not (folder / twin).is_dir() else "train.py"
        words = [word.replace("train.py", script) for word in shlex.split(launch)]
        with tempfile.TemporaryDirectory() as copy:
            inside = folder if twin is None or script != "train.py" else _whole(folder, twin, Path(copy))
            call([*perfdoctor, "run", "-q", *options, "--out", str(out), "--", *words], inside)
    return dict(json.loads(call([*perfdoctor, "report", "--json", "--out", str(out)], folder)))


def _whole(folder: Path, twin: str, copy: Path) -> Path:
    """A copy of a project with the files of a twin in place of its own."""
    project = copy / folder.name
    shutil.copytree(folder, project, ignore=shutil.ignore_patterns("cured*", ".perfdoctor"))
    shutil.copytree(folder / twin, project, dirs_exist_ok=True)
    return project


def measure(unseen: Unseen, launch: str, keep: Path, rounds: int) -> float | None:
    """How many times faster the twin trains a sample: the median over rounds; None without a twin."""
    if unseen.twin is None or not rounds:
        return None
    ratios = (_ratio(unseen.folder, unseen.twin, launch, keep, number) for number in range(rounds))
    return statistics.median(ratios)


def _ratio(folder: Path, twin: str, launch: str, keep: Path, number: int) -> float:
    (slow_s, slow_samples), (quick_s, quick_samples) = (
        training_s(watch(folder, script, launch, keep / f"{script or 'train'}.{number}", *LIGHT))
        for script in (None, twin)
    )
    if slow_samples and quick_samples:
        return (slow_s / slow_samples) / (quick_s / quick_samples)
    return slow_s / quick_s


def judge(folder: Path, keep: Path, rounds: int) -> Unseen:
    """Watch a script, and measure its twin."""
    truth = json.loads((folder / "truth.json").read_text())
    path = folder / "verdicts.json"
    read = json.loads(path.read_text()) if path.exists() else {}
    out, launch = keep / folder.name, truth["launch"]
    unseen = Unseen(folder, truth, read, watch(folder, None, launch, out / "watched"))
    return replace(unseen, measured=measure(unseen, launch, out, rounds))


def summary(judged: list[Unseen]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    planted = [each for each in judged if not each.healthy]
    pairs = [(each.predicted, each.measured) for each in planted if each.predicted and each.measured]
    misleading = sum(each.misleading for each in judged)
    errors = median(measured / gain["likely"] - 1 for gain, measured in pairs)
    return [
        share("verdict right", [each.verdict_right for each in judged], ">= 95 %"),
        *by_confidence([(each.report, each.verdict_right) for each in judged]),
        share("cause first", [each.first_named for each in planted], ">= 85 %"),
        share("its line", [each.line_right for each in planted], ">= 85 %"),
        f"alarms on healthy ones: {sum(each.alarm for each in judged if each.healthy)} (promised: none)",
        share(
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
    parser.add_argument("--write", action="store_true", help="add the gains to bench/measured_gains.csv")
    args = parser.parse_args()
    judged = []
    for path in sorted(args.folder.resolve().glob("*/truth.json")):
        if not path.parent.name.startswith(tuple(args.only.split(","))):
            continue
        try:
            judged.append(judge(path.parent, args.keep.resolve(), args.rounds))
            print(" | ".join(judged[-1].cells()), flush=True)
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            said = getattr(error, "stderr", None) or str(error)
            print(f"{path.parent.name} failed: {said[-500:]}", flush=True)
    print(
        "\n".join(["", *markdown([list(HEADINGS), *(each.cells() for each in judged)]), "", *summary(judged)])
    )
    if args.write:
        cases = {each.folder.name: each.case for each in judged}
        known = {name: case for name, case in cases.items() if case is not None}
        ranges.replace(ranges.CASES, "unseen", known)


if __name__ == "__main__":
    main()
