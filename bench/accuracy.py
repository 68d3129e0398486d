"""How right the doctor is on scripts whose cause is known: verdict, first finding, line, predicted gain.

python bench/accuracy.py [--scripts too_few_workers,...] [--folder DIR] [--rounds 3] [--keep DIR]
    [--write [--busy]]

Every script runs watched, one at a time. Then the script and its cured twin run in turns, three times
each, with nothing but step times recorded; the measured gain is the median of the ratios of
training time per sample. Training time runs from the first step's begin to the last step's end: a
predicted gain is a gain of it. What was kept is not run again: the doctor as it is now judges it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ranges
from judging import median, share
from rich.console import Console
from rich.table import Table

from perfdoctor import reporting
from perfdoctor.diagnosis.calibration import Case
from perfdoctor.diagnosis.gains import bound_of, gain_of, within
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.concluded import Gain
from perfdoctor.watch.machine import history

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "sample_scripts"
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- sample scripts: begin -->", "<!-- sample scripts: end -->"
ROUNDS = 3  # of script and twin in turns: the fewest whose median forgives one disturbed run
TIMEOUT_S = 600
TSV = ("script", "kind", "cause", "line", "class", "finding")
VERDICTS = ("data", "transfer", "compute", "network", "host", "balanced", "healthy", "inconclusive")
HEADINGS = (
    "script",
    "verdict",
    "first finding",
    "line",
    "predicted gain",
    "measured gain",
    "step error",
    "model error",
)

PROMISED = {"high": ">= 95 %", "medium": ">= 80 %", "low": None}  # of verdicts, right by their confidence

EXPLANATION = """\
Gains are speedups of the training time, from the first step's begin to the last step's end. The
predicted one is low / likely / high, for the planted cause. The measured one is the twin's: script and
twin run in turns, ROUNDS times, with nothing but step times recorded; it is the median of the ratios
of their time per sample. The step error is that of the predicted step time (step time / likely gain)
against the twin's, the model error the step model's miss of the step as it is. What saves memory or
corrects a wrong result has no gain to compare. Where the amount of a change is a matter of choice (how often
to save, how large a batch), the twin makes the choice that the finding names."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Truth:
    """What is known about a script. No finding = nobody named the tip; "none" = it is healthy."""

    script: Path
    twin: Path | None
    verdict: str
    finding: str | None
    lines: frozenset[int] = frozenset()  # any of them is right; empty: not judged
    saves: str = "time"  # or "memory", "correctness", "startup": then there is no speedup to compare

    @property
    def healthy(self) -> bool:
        """Whether nothing is to be found."""
        return self.finding == "none"


@dataclass(frozen=True)
class Outcome:
    """What the doctor said about a script, and what its twin gained; `failure` says why either is missing."""

    truth: Truth
    report: Json | None = None
    measured: float | None = None
    failure: str | None = None

    @property
    def verdict(self) -> str | None:
        return self.report["bottleneck"]["verdict"] if self.report else None

    @property
    def first(self) -> Json | None:
        return next(iter(self.report["findings"]), None) if self.report else None

    @property
    def verdict_right(self) -> bool:
        return self.verdict == self.truth.verdict

    @property
    def alarm(self) -> bool:
        """A finding, or a bottleneck, where there is none."""
        return self.report is not None and (
            bool(self.report["findings"]) or self.verdict not in ("healthy", "inconclusive")
        )

    @property
    def cause_right(self) -> bool | None:
        """Whether the first finding is the planted one; None where that cannot be said."""
        if self.truth.finding is None or self.truth.healthy:
            return None
        return self.first is not None and self.first["id"] == self.truth.finding

    @property
    def line_right(self) -> bool | None:
        """Whether the first finding's first line is a guilty one; None where none is known."""
        if not self.truth.lines:
            return None
        places = self.first["at"] if self.first else []
        return (
            bool(places)
            and (Path(places[0]["file"]).name == self.truth.script.name)
            and (places[0]["line"] in self.truth.lines)
        )

    @property
    def predicted(self) -> Json | None:
        """The gain predicted for curing the planted cause, wherever it ranks."""
        if self.report is None or self.truth.saves != "time":
            return None
        named = [each for each in self.report["findings"] if each["id"] == self.truth.finding]
        return dict(named[0]["gain"]) if named else None

    @property
    def case(self) -> Case | None:
        """What was predicted and then measured, for fitting ranges."""
        cause = self.truth.finding
        if self.report is None or self.predicted is None or self.measured is None or cause is None:
            return None
        return ranges.case(cause, *self.report["modelled"][cause], self.measured)

    @property
    def step_error(self) -> float | None:
        """|predicted - measured| / measured step time without the cause; predicted is step time / likely."""
        if self.measured is None or self.predicted is None:
            return None
        return abs(self.measured / self.predicted["likely"] - 1)

    @property
    def model_error(self) -> float | None:
        return self.report["bottleneck"].get("model_error") if self.report else None

    def cells(self) -> list[str]:
        """The row of the table."""
        truth, gain = self.truth, self.predicted
        if self.report is None:
            return [truth.script.stem, f"failed: {self.failure}", *["-"] * (len(HEADINGS) - 2)]
        found = self.first["id"] if self.first else "none"
        wanted = truth.finding or found
        return [
            truth.script.stem,
            _got(self.verdict, truth.verdict),
            _got(found, wanted),
            "-" if self.line_right is None else _place(self.first, self.line_right, truth.lines),
            f"{gain['low']:.2f} / {gain['likely']:.2f} / {gain['high']:.2f}" if gain else "-",
            f"{self.measured:.2f}" if self.measured else (self.failure or "-"),
            "-" if self.step_error is None else f"{self.step_error:.0%}",
            "-" if self.model_error is None else f"{self.model_error:+.1%}",
        ]


def _got(got: str | None, wanted: str) -> str:
    return f"{got}" if got == wanted else f"**{got}**, not {wanted}"


def _place(first: Json | None, right: bool, wanted: frozenset[int]) -> str:
    places = first["at"] if first else []
    got = str(places[0]["line"]) if places else "none"
    return got if right else f"**{got}**, not {' or '.join(map(str, sorted(wanted)))}"


# ---------------------------------------------------------------- what is known


def truths(folder: Path) -> list[Truth]:
    """The scripts of a folder, by its TRUTH.tsv or by their own first lines."""
    table = folder / "TRUTH.tsv"
    if not table.exists():
        return [of_header(path) for path in sorted(folder.glob("*.py")) if not path.stem.endswith("_fixed")]
    with table.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, TSV, delimiter="\t")
        return [_of_row(folder, row) for row in rows if row["script"] not in ("script", "")]


def _twin(script: Path) -> Path | None:
    places = (script.with_stem(f"{script.stem}_fixed"), script.parent / "cured" / script.name)
    return next((place for place in places if place.exists()), None)


def of_header(script: Path) -> Truth:
    """What a script says of itself: `# expect: ...`."""
    text = script.read_text(encoding="utf-8")
    found = re.search(r"^# expect: verdict=(\S+) finding=(\S+)(?: saves=(\S+))?$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{script} does not say what it expects; add `# expect: verdict=... finding=...`")
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- finding")]
    return Truth(script, _twin(script), found[1], found[2], frozenset(marked), found[3] or "time")


def _of_row(folder: Path, row: dict[str, str | None]) -> Truth:
    script = folder / f"{(row['script'] or '').removesuffix('.py')}.py"
    if (row["kind"] or "").lower() in ("healthy", "control") or (row["class"] or "") == "healthy":
        return Truth(script, None, "healthy", "none")
    numbers = re.findall(r"(\d+)(?:-(\d+))?", row["line"] or "")
    lines = {line for first, last in numbers for line in range(int(first), int(last or first) + 1)}
    finding = (row["finding"] or "").strip().replace("_", "-") or None
    return Truth(script, _twin(script), row["class"] or "", finding, frozenset(lines))


# ---------------------------------------------------------------- what happens


def watch(script: Path, *options: str, keep: Path | None = None, arguments: Sequence[str] = ()) -> Json:
    """Run a script watched, in its own folder, and return its report; `keep` holds its run, or will."""
    perfdoctor = [sys.executable, "-m", "perfdoctor"]
    with tempfile.TemporaryDirectory() as temporary:
        out = keep / script.stem if keep else Path(temporary)
        if not (keep and out.exists()):
            run = [*perfdoctor, "run", "-q", *options, "--out", str(out), str(script), *arguments]
            call(run, script.parent)
        report = dict(json.loads(call([*perfdoctor, "report", "--json", "--out", str(out)], script.parent)))
        return {**report, "modelled": modelled(Path(report["run"]["path"]))}


def modelled(run: Path) -> dict[str, tuple[Gain, bool, float]]:
    """(The gain as the step model alone gives it, whether it is that of a setting, its bound) by finding."""
    report, facts = reporting.examine(run)
    model, bounds = facts.get(StepModel), report.diagnosis.bounds
    return {
        finding.id: (
            within(gain_of(model, [finding.advice.change]), kinds, bounds),
            finding.advice.change.is_setting,
            bound_of(kinds, bounds),
        )
        for finding in report.findings
        if finding.advice.change is not None
        for kinds in [(finding.bottleneck, *finding.advice.also)]
    }


def call(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, history.VARIABLE: history.OFF},  # what is scored is what any machine gets
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
    )
    return done.stdout


def training_s(report: Json) -> tuple[float, float | None]:
    """(seconds from the first step's begin to the last step's end, samples trained in them or None)."""
    steps = report["steps"]
    rate = steps["samples_per_s"]
    return steps["wall_s"], rate * steps["wall_s"] if rate else None


def gain(script: Path, twin: Path, rounds: int) -> float:
    """How many times faster the twin trains a sample: the median over rounds."""
    return statistics.median(_ratio(script, twin) for _ in range(rounds))


def _ratio(script: Path, twin: Path) -> float:
    """One round. Where samples were not counted, script and twin are taken to train the same number."""
    light = ("--no-profiler", "--no-stacks")
    (slow_s, slow_samples), (quick_s, quick_samples) = (
        training_s(watch(each, *light)) for each in (script, twin)
    )
    if slow_samples and quick_samples:
        return (slow_s / slow_samples) / (quick_s / quick_samples)
    return slow_s / quick_s


def twins_gain(truth: Truth, rounds: int, keep: Path | None) -> float | None:
    """What curing the cause brought, measured or kept; None where there is nothing to compare."""
    if not rounds or truth.twin is None or truth.saves != "time":
        return None
    kept = keep / truth.script.stem / "twins_gain.json" if keep else None
    if kept and kept.exists():
        return float(json.loads(kept.read_text()))
    measured = gain(truth.script, truth.twin, rounds)
    if kept:
        kept.write_text(json.dumps(measured))
    return measured


def judge(truth: Truth, rounds: int, keep: Path | None = None) -> Outcome:
    """Watch a script, and measure its twin; what fails is said in the outcome."""
    report = None
    try:
        report = watch(truth.script, keep=keep)
        return Outcome(truth, report, twins_gain(truth, rounds, keep))
    except subprocess.CalledProcessError as error:
        return Outcome(truth, report, failure=last_words(error))
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        return Outcome(truth, report, failure=f"{type(error).__name__}: {str(error)[:80]}")


def last_words(error: subprocess.CalledProcessError) -> str:
    """How a command ended, and the last line of its own on stderr."""
    own_words = (error.stderr or "").partition("\nperfdoctor: ")[0]
    last = own_words.strip().splitlines()[-1:] or ["it said nothing"]
    return f"exit status {error.returncode}: {last[0][:80]}"


# ---------------------------------------------------------------- what is shown


def summary(outcomes: list[Outcome]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    planted = [each for each in outcomes if not each.truth.healthy]
    controls = [each for each in outcomes if each.truth.healthy]
    alarms = sum(each.alarm for each in controls)
    gains = [
        each.predicted["low"] <= each.measured <= each.predicted["high"]
        for each in outcomes
        if each.predicted and each.measured
    ]
    step, model = (
        median(each.step_error for each in outcomes),
        median(each.model_error for each in outcomes),
    )
    return [
        share("verdict right", [each.verdict_right for each in outcomes], ">= 95 %"),
        *by_confidence([(each.report, each.verdict_right) for each in outcomes if each.report]),
        share("planted cause first", _known(each.cause_right for each in planted), ">= 90 %"),
        share("its line", _known(each.line_right for each in planted), ">= 90 %"),
        f"alarms on healthy controls: {alarms} of {len(controls)} (promised: none)",
        f"predicted step time against the twin's: off by {step} in the median (promised: <= 10 %)",
        share("measured gain within the predicted range", gains),
        f"step model against the step as it is: off by {model} in the median",
    ]


def by_confidence(judged: Sequence[tuple[Json, bool]]) -> list[str]:
    """How many verdicts of each confidence are right, of reports and whether theirs is."""
    rights: dict[str, list[bool]] = {}
    for report, right in judged:
        rights.setdefault(report["bottleneck"]["confidence"], []).append(right)
    return [
        share(f"of {level} confidence", rights[level], promise)
        for level, promise in PROMISED.items()
        if level in rights
    ]


def _known(answers: Iterable[bool | None]) -> list[bool]:
    return [answer for answer in answers if answer is not None]


def confusion(outcomes: list[Outcome]) -> list[list[str]]:
    """A row for each expected verdict, a column for each verdict given; the first row is the heading."""
    pairs = Counter((each.truth.verdict, each.verdict or "failed") for each in outcomes)
    wanted = [verdict for verdict in VERDICTS if any(pair[0] == verdict for pair in pairs)]
    given = [verdict for verdict in (*VERDICTS, "failed") if any(pair[1] == verdict for pair in pairs)]
    rows = [[verdict, *(str(pairs[verdict, got] or "") for got in given)] for verdict in wanted]
    return [["expected \\ given", *given], *rows]


def markdown(rows: list[list[str]]) -> list[str]:
    """A table; the first row is its heading."""
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * len(rows[0]), *rest]


def page(outcomes: list[Outcome], rounds: int) -> str:
    """The part of the page that this program owns."""
    import torch

    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    return "\n".join(
        [
            f"Written by `python bench/accuracy.py --write`; {machine}.",
            "",
            *(f"- {line}" for line in summary(outcomes)),
            "",
            EXPLANATION.replace("ROUNDS times", "once" if rounds == 1 else f"{rounds} times"),
            "",
            *markdown([list(HEADINGS), *(each.cells() for each in outcomes)]),
            "",
            "Verdicts:",
            "",
            *markdown(confusion(outcomes)),
        ]
    )  # fmt: skip


def write(outcomes: list[Outcome], rounds: int) -> None:
    """Replace this program's part of the page; the rest of it is written by hand."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(
        f"{head}{BEGIN}\n{page(outcomes, rounds)}\n{END}{rest.partition(END)[2]}", encoding="utf-8"
    )


def show(console: Console, outcomes: list[Outcome]) -> None:
    """Print the tables and the summary."""
    for rows, title in (
        ([list(HEADINGS), *(each.cells() for each in outcomes)], "Accuracy"),
        (confusion(outcomes), "Verdicts"),
    ):
        table = Table(*rows[0], title=title)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    for line in summary(outcomes):
        console.print(line, highlight=False)


def chosen(folder: Path, names: str | None) -> list[Truth]:
    """The scripts to run: all of a folder's, or those named with commas between."""
    known = truths(folder)
    if names is None:
        return known
    wanted = names.split(",")
    if unknown := set(wanted) - {truth.script.stem for truth in known}:
        raise SystemExit(f"{folder} has no {', '.join(sorted(unknown))}; look at `ls {folder}`")
    return [truth for truth in known if truth.script.stem in wanted]


def main() -> None:
    """Run the scripts one by one, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", metavar="A,B", help="which, with commas between; all of them otherwise")
    parser.add_argument("--folder", type=Path, default=SCRIPTS, help="scripts whose cause is known")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of script and cured twin; 0: no twins")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep runs and gains; use those kept")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--busy", action="store_true", help="others used the cores: cases of their own")
    args = parser.parse_args()
    console = Console()
    outcomes = []
    keep = args.keep.resolve() if args.keep else None
    for truth in chosen(args.folder.resolve(), args.scripts):
        outcomes.append(judge(truth, args.rounds, keep))
        console.print("; ".join(outcomes[-1].cells()), markup=False, highlight=False)
        if args.write:  # after each, so that an interrupted run leaves what it has
            write(outcomes, args.rounds)
    show(console, outcomes)
    cases = {each.truth.script.stem: each.case for each in outcomes if each.case is not None}
    if cases:
        console.print("\nRanges, each cause judged by the others:")
        console.print("\n".join(ranges.rows(list(cases.values()))), highlight=False)
    if args.write and args.folder == SCRIPTS:
        ranges.replace(ranges.CASES, "busy" if args.busy else "twin", cases)


if __name__ == "__main__":
    main()
