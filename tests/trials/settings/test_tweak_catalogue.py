"""A tweak is one file: dropped into a copy of the tree it is listed, documented, parsed, predicted, chosen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from perfdoctor.diagnosis.calibration import POWERS
from perfdoctor.model.concluded import Bottleneck
from tests.support.paths import DOCS

ROOT = DOCS.parent
pytestmark = pytest.mark.process
TWEAK = '''
"""Pool N tensors.

## What changes
Tensors come from a pool of N.
"""

from __future__ import annotations

from typing import Any, List

from ..probe.trial.tweak import BITWISE, Count, NoChoice, Tweaking, WatchedRun, tweak


def predict(run: WatchedRun, count: int) -> Any:
    """Half of the step goes, but for what the loader takes."""
    together = 0.1 if run.value("--gc-freeze") else 0.0
    return run.changes(step=(0.4, 0.5 + together, 0.6 + together)) if run.loader else None


def choose(run: WatchedRun) -> List[int]:
    """Twice and four times the batch."""
    if run.loader is None:
        raise NoChoice("--pool auto: no batch was seen", "give a number (--pool 64)")
    return [2 * run.loader.batch_size, 4 * run.loader.batch_size]


@tweak("--pool", BITWISE, Count(1, 4096, auto=choose), predict=predict, acts_on=("compute",))
def pool(here: Tweaking, count: int) -> None:
    """Pool `count` tensors."""
    here.applied("pool", None, count)
'''
PROGRAM = """
import json
from dataclasses import replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.facts.gather import Facts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import LoaderFacts, RunFacts, StepFacts
from perfdoctor.model.trial import Variant
from perfdoctor.trials.settings import auto_values, flags, predicted_gain, tweak_catalogue
from tests.support.facts import loader, run, step
from tests.support.reports import STARVED

REPORT = replace(
    STARVED, findings=(), diagnosis=replace(STARVED.diagnosis, bounds=dict.fromkeys(Bottleneck, 50.0))
)
GROUPS = {RunFacts: run(), StepFacts: step(forward=10), LoaderFacts: loader(batch=1, batch_size=32)}


def read(*words):
    return Variant(flags.read(words, tweak_catalogue.tweaks()))


def error(action):
    try:
        action()
    except PerfdoctorError as problem:
        return [str(problem), problem.hint]


print(json.dumps({
    "probe": read("--pool", "64").tweaks,
    "refused": error(lambda: read("--pool", "5000")),
    "gain": predicted_gain.predict(read("--pool", "64"), Facts(GROUPS), REPORT).likely,
    "unknown": predicted_gain.predict(read("--pool", "64", "--tf32"), Facts(GROUPS), REPORT),
    "auto": [variant.name for variant in auto_values.resolve([read("--pool", "auto")], Facts(GROUPS))],
    "no_run": error(lambda: auto_values.resolve([read("--pool", "auto")], None)),
}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the tree with one file more."""
    copy = tmp_path_factory.mktemp("tree")
    leave = shutil.ignore_patterns("__pycache__", "*.pyc")
    for folder in ("perfdoctor", "docs", "tests/support"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=leave)
    shutil.copy(ROOT / "tests/__init__.py", copy / "tests/__init__.py")
    (copy / "perfdoctor/tweaks/pool.py").write_text(TWEAK.lstrip())
    return copy


def printed(tree, *words):
    """What Python prints in the copied tree."""
    done = subprocess.run(
        [sys.executable, *words], cwd=tree, env={"PYTHONPATH": str(tree)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_tweak_that_is_dropped_in_is_listed_and_explained(tree):
    listed = printed(tree, "-m", "perfdoctor", "try", "--list")
    assert "--pool N|auto" in listed
    assert "Pool N tensors" in listed
    assert "Tensors come from a pool" in printed(tree, "-m", "perfdoctor", "try", "--list", "--pool")


def test_a_tweak_that_is_dropped_in_has_its_page_and_its_line_in_the_index(tree):
    printed(tree, "docs/pages.py")
    assert "- `--pool`: a whole number from 1 to 4096 or auto" in (tree / "docs/tweaks/pool.md").read_text()
    assert "(pool.md)" in (tree / "docs/tweaks/index.md").read_text()


def test_a_tweak_that_is_dropped_in_is_parsed_predicted_and_chosen(tree):
    told = json.loads(printed(tree, "-c", PROGRAM))
    assert told["probe"] == {"pool": {"value": 64}}
    assert told["refused"][0] == "--pool 5000: this value is not allowed"
    assert told["gain"] == pytest.approx(2.0 ** POWERS[Bottleneck.COMPUTE])
    assert told["unknown"] is None
    assert told["auto"] == ["--pool 64", "--pool 128"]
    assert told["no_run"] == ["--pool auto: no batch was seen", "give a number (--pool 64)"]
