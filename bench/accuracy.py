"""How right the doctor is on the sample scripts: verdict, first finding, line, and the step model's error.

python bench/accuracy.py [--scripts too_few_workers,...] [--write]
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from perfdoctor import analysis, recorded, rundir
from perfdoctor.model import Phase, Report

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- sample scripts: begin -->", "<!-- sample scripts: end -->"
HEADINGS = [
    "script",
    "expected",
    "verdict",
    "first finding",
    "line",
    "steps",
    "step, ms",
    "phases",
    "model error",
]


@dataclass(frozen=True)
class Row:
    """What one script should raise and what it did."""

    script: Path
    verdict: str
    finding: str
    line: int | None
    report: Report

    @property
    def found(self) -> str:
        """The first finding's id."""
        return self.report.findings[0].id if self.report.findings else "none"

    @property
    def found_line(self) -> int | None:
        """The first finding's line."""
        places = self.report.findings[0].advice.at if self.report.findings else ()
        return places[0].line if places else None

    @property
    def right(self) -> bool:
        """Verdict, finding and line as the script says."""
        verdict = self.report.diagnosis.verdict.value
        return (verdict, self.found, self.found_line) == (self.verdict, self.finding, self.line)

    def cells(self) -> list[str]:
        """The row of the table."""
        steps, error = self.report.steps, self.report.diagnosis.model_error
        return [
            self.script.stem,
            f"{self.verdict}, {self.finding}",
            self.report.diagnosis.verdict.value,
            self.found,
            "-" if self.line is None and self.found_line is None else _tick(self.line == self.found_line),
            str(steps.count) if steps else "0",
            f"{steps.mean_s * 1e3:.2f}" if steps else "-",
            f"{_partition(self.report):.2%}",
            "-" if error is None else f"{error:+.1%}",
        ]


def _tick(right: bool) -> str:
    return "yes" if right else "no"


def _partition(report: Report) -> float:
    """Sum of the phases over the wall time."""
    if report.steps is None or not report.steps.mean_s:
        return 0.0
    return sum(report.steps.seconds.get(phase, 0.0) for phase in Phase) / report.steps.mean_s


def judge(script: Path, folder: Path) -> Row:
    """Run a script watched and read what was concluded."""
    text = script.read_text(encoding="utf-8")
    expected = re.search(r"^# expect: verdict=(\S+) finding=(\S+)$", text, re.MULTILINE)
    if expected is None:
        raise SystemExit(f"{script.name} does not say what it expects")
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- finding")]
    command = [sys.executable, "-m", "perfdoctor", "run", "-q", "--out", str(folder), str(script)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = analysis.report(recorded.read(rundir.latest(folder)), _source)
    return Row(script, expected[1], expected[2], marked[0] if marked else None, report)


def _source(file: str, line: int) -> str | None:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return lines[line - 1] if 0 < line <= len(lines) else None


def summary(rows: list[Row]) -> str:
    """One sentence on all of them."""
    errors = [
        abs(row.report.diagnosis.model_error or 0.0)
        for row in rows
        if row.report.diagnosis.model_error is not None
    ]
    model = (
        f"; the step model misses the measured step by {statistics.median(errors):.1%} (median)"
        if errors
        else ""
    )
    return f"{sum(row.right for row in rows)} of {len(rows)} right in verdict, first finding and line{model}."


def page(rows: list[Row]) -> str:
    """The part of the page that this program owns."""
    import torch

    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        f"Written by `python bench/accuracy.py --write`; {machine}.",
        "",
        summary(rows),
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    return "\n".join(lines)


def write(rows: list[Row]) -> None:
    """Replace this program's part of the page; the rest of it is written by hand."""
    text = (
        PAGE.read_text(encoding="utf-8")
        if PAGE.exists()
        else f"# Accuracy\n\n## Sample scripts\n\n{BEGIN}\n{END}\n"
    )
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{page(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    """Run the scripts one by one, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", help="which, with commas between; all of them otherwise")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    console = Console()
    wanted = args.scripts.split(",") if args.scripts else None
    scripts = sorted((ROOT / "sample_scripts").glob("*.py"))
    rows = []
    for script in scripts:
        if wanted is None or script.stem in wanted:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(judge(script, Path(folder)))
            console.print(f"{script.stem}: {'right' if rows[-1].right else 'wrong'}")
    table = Table(*HEADINGS, title="Accuracy on the sample scripts")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    console.print(summary(rows))
    if args.write:
        write(rows)


if __name__ == "__main__":
    main()
