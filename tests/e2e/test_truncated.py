"""What is left of a run whose files were cut off: its report judges less, and says nothing that the whole one denies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfdoctor import reporting
from perfdoctor.model.concluded import Verdict
from perfdoctor.model.report import Report
from perfdoctor.wire.rows import HEADER_BYTES
from tests.support.launching import environment, runs
from tests.support.paths import SAMPLES

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(300)]

SHARES = (0.0, 0.1, 0.3, 0.5, 0.8, 0.95)  # of a file, that are left
BYTES = (1, 7, 100, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 60)
LESS = {Verdict.INCONCLUSIVE}  # what may be said where the whole run says something else
# What was never seen cannot be told from what was cut off: without it, wasted work may look like good work.
UNSEEN = LESS | {Verdict.HEALTHY}


@pytest.fixture(scope="module", params=["slow_collate.py", "logging_every_step.py"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a script with one cause."""
    folder = tmp_path_factory.mktemp("whole")
    command = [sys.executable, "-m", "perfdoctor", "run", "-q", str(SAMPLES / request.param)]
    subprocess.run(command, cwd=folder, env=environment(), check=True, timeout=200)
    return runs(folder)[-1]


def cuts(path: Path) -> Iterator[tuple[str, int | None]]:
    """Each file of the run, and what is left of it in bytes; None: it is missing."""
    for file in sorted(path.iterdir()):
        if file.is_file() and file.name != "report.json":
            size = file.stat().st_size
            lengths = {int(share * size) for share in SHARES} | {size - 1} | set(BYTES)
            yield from ((file.name, length) for length in sorted(lengths) if length < size)
            yield file.name, None


def judged(path: Path) -> Report:
    return reporting.judge(path)


def contradiction(whole: Report, cut: Report, name: str) -> str | None:
    """What a report says without a part of the file `name` that the whole one denies."""
    verdict, less = cut.diagnosis.verdict, UNSEEN if name.startswith("events.") else LESS
    if verdict not in less | {whole.diagnosis.verdict}:
        return f"the verdict {verdict.value}"
    known: set[object] = {finding.title for finding in whole.findings}
    known |= {at for finding in whole.findings for at in finding.advice.at}  # under another heading
    known |= {
        note.values["title"] for note in whole.notes if not isinstance(note, str) and "title" in note.values
    }
    if cut.findings:
        first = cut.findings[0]
        if known.isdisjoint({first.title, *first.advice.at[:1]}):
            return f"the finding {first.id}"
    if cut.steps is not None and whole.steps is not None and cut.steps.count > whole.steps.count:
        return f"{cut.steps.count} steps"
    return None


@pytest.mark.shows("damaged-run")
def test_a_run_whose_files_were_cut_off_contradicts_nothing(whole: Path, tmp_path: Path) -> None:
    complete = judged(whole)
    assert complete.findings
    said = []
    for number, (name, length) in enumerate(cuts(whole)):
        copy = tmp_path / str(number) / whole.name
        shutil.copytree(whole, copy)
        if length is None:
            (copy / name).unlink()
        else:
            with open(copy / name, "r+b") as file:
                file.truncate(length)
        wrong = contradiction(complete, judged(copy), name)
        if wrong is not None:
            said.append(f"{name} cut to {length}: {wrong}")
        shutil.rmtree(copy.parent)
    assert not said, "\n".join(said)
