"""A new finding is new files and nothing else: an event, a fact and a tip dropped into a copy of the tree.

Its page, its place in the report and in the JSON come by themselves, here for a run that was recorded; a live one, with
the observer that writes the event, is in tests/e2e/test_walk_through.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jobs import BEGIN_NS, write_job
from tests.support.paths import DOCS, PACKAGE
from tests.support.records import MS

pytestmark = pytest.mark.process

STEPS, SIP_MS = 400, 4.0

EVENT = '''"""Events of drinking."""

from __future__ import annotations

from typing import Optional

from . import Event, Line


class SipEvent(Event, name="sip"):
    """A sip of coffee between two steps."""

    seconds: float
    at: Optional[Line]
'''

FACT = '''"""Sips of coffee between the steps: SipFacts."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.measured import Location
from perfdoctor.wire.events.sips import SipEvent


@dataclass(frozen=True)
class SipFacts:
    """What sipping takes from the steps."""

    seconds_per_step: float
    at: Location | None


@fact
def sip_facts(sips: list[SipEvent], span: MeasuredSpan) -> SipFacts | None:
    """The sips between the first step and the last, or None where there were none."""
    inside = [sip for sip in sips if span.holds(sip.t_ns)]
    if not inside:
        return None
    return SipFacts(sum(sip.seconds for sip in inside) / span.steps, location(inside[-1].at))
'''

TIP = '''"""The loop stops for sips of coffee.

## What it sees
Sips between the steps.

## By hand
    drink(coffee)  # before the loop

## When not
Where the training is meant to last until the pot is empty.
"""

from __future__ import annotations

from perfdoctor.facts.host.sips import SipFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import tip


@tip(title="Drink the coffee before training", bottleneck=Bottleneck.HOST, effort=Effort.LINES)
def coffee_breaks(step: StepFacts, sips: SipFacts) -> Advice | None:
    """Drinking up first, where sips take a visible share of the step."""
    share = sips.seconds_per_step / step.mean_s
    because = (f"sips take {share:.0%} of the step",)
    at = (sips.at,) if sips.at is not None else ()
    return Advice(because, change=removes(share, share, share), at=at)
'''

DROPPED = {
    "perfdoctor/wire/events/sips.py": EVENT,
    "perfdoctor/facts/host/sips.py": FACT,
    "perfdoctor/tips/coffee_breaks.py": TIP,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of its documentation, with the new files in it."""
    copy = tmp_path_factory.mktemp("tree")
    shutil.copytree(PACKAGE, copy / "perfdoctor", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(DOCS, copy / "docs")
    for name, text in DROPPED.items():
        assert not (copy / name).exists()
        (copy / name).write_text(text, encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run in which someone sipped after each step."""
    (folder,) = write_job(tmp_path_factory.mktemp("recorded"), ranks=1, steps=STEPS).folders
    sip = {
        "event": "sip",
        "seconds": SIP_MS / 1e3,
        "at": {"file": "train.py", "line": 7, "function": "main"},
    }
    with open(folder / "events.rank0.jsonl", "a", encoding="utf-8") as events:
        for number in range(STEPS):
            events.write(json.dumps(sip | {"t_ns": BEGIN_NS + number * 10 * MS}) + "\n")
    return folder


def output(tree: Path, *words: str) -> str:
    """What Python prints with the copy's package."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=tree, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_the_report_holds_the_finding_in_json_and_in_words(tree: Path, run: Path) -> None:
    report = json.loads(output(tree, "-m", "perfdoctor", "report", "--json", str(run)))
    (finding,) = (entry for entry in report["findings"] if entry["id"] == "coffee-breaks")
    assert finding["class"] == "host"
    assert finding["at"][0]["line"] == 7
    assert 1.0 < finding["gain"]["likely"] < 1.3
    page = output(tree, "-m", "perfdoctor", "report", str(run))
    assert "Drink the coffee before training" in page
    assert finding["because"][0] in page


def test_the_catalogue_lists_and_explains_it(tree: Path) -> None:
    assert "coffee-breaks" in output(tree, "-m", "perfdoctor", "tips")
    assert "until the pot is empty" in output(tree, "-m", "perfdoctor", "tips", "coffee-breaks")


def test_its_page_is_written_and_linked(tree: Path) -> None:
    output(tree, "docs/pages.py")
    page = (tree / "docs" / "tips" / "coffee-breaks.md").read_text(encoding="utf-8")
    assert "The loop stops for sips of coffee." in page
    assert "(coffee-breaks.md)" in (tree / "docs" / "tips" / "index.md").read_text(encoding="utf-8")
    output(tree, "docs/pages.py", "--check")


def test_no_file_that_was_there_is_another(tree: Path) -> None:
    theirs = {path.relative_to(tree).as_posix(): path for path in (tree / "perfdoctor").rglob("*.py")}
    ours = {f"perfdoctor/{path.relative_to(PACKAGE).as_posix()}": path for path in PACKAGE.rglob("*.py")}
    assert theirs.keys() - ours.keys() == set(DROPPED)
    assert [name for name, path in ours.items() if path.read_bytes() != theirs[name].read_bytes()] == []
