"""An observer is one file: dropped into the folder it is found, and writes events of a kind of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

from perfdoctor.probe import observer
from tests.support.paths import ROOT

pytestmark = pytest.mark.process

EVENT = """
from . import Event


class LargestLossEvent(Event, name="largest_loss"):
    loss: float
"""
OBSERVER = """
from ...wire.events.largest_loss import LargestLossEvent
from ..observer import Watch, observer


@observer
def largest_loss(watch: Watch) -> None:
    seen = []
    watch.before_some_backwards("largest loss", lambda recorder, loss: seen.append(loss.item()))
    watch.each_second("largest loss", lambda: watch.write(LargestLossEvent(loss=max(seen, default=0.0))))
"""
BROKEN = """
from ..observer import observer


@observer
def broken(watch):
    raise ValueError("it has nothing to watch")
"""
SCRIPT = """
import torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.0)
for number in range(10):
    optimizer.zero_grad()
    (weight.sum() * number).backward()
    optimizer.step()
"""
READ = """
import json, sys
from pathlib import Path
from perfdoctor.runs import records
from perfdoctor.wire.events.largest_loss import LargestLossEvent
print(json.dumps([event.loss for event in records.read(Path(sys.argv[1])).ranks[0].of(LargestLossEvent)]))
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the package, with its tests' own folder beside it for a run."""
    shutil.copytree(
        ROOT / "perfdoctor", tmp_path / "perfdoctor", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"schema": "perfdoctor.run/1"}')
    return tmp_path


def drop(tree: Path, name: str, text: str) -> None:
    (tree / "perfdoctor" / name).write_text(f"from __future__ import annotations\n{text}")


def train(tree: Path) -> None:
    inject = str(tree / "perfdoctor" / "probe" / "inject")
    env = {**os.environ, "PYTHONPATH": inject, "PERFDOCTOR_RUN": str(tree / "run")}
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tree, env=env, check=True, timeout=120)


@pytest.mark.process
def test_a_dropped_file_is_found_and_its_event_is_read_as_a_typed_one(tree):
    drop(tree, "wire/events/largest_loss.py", EVENT)
    drop(tree, "probe/observers/largest_loss.py", OBSERVER)
    train(tree)
    assert not (tree / "run" / "probe.log").exists()
    env = {**os.environ, "PYTHONPATH": str(tree)}
    words = [sys.executable, "-c", READ, str(tree / "run")]
    read = subprocess.run(words, cwd=tree, env=env, check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(read.stdout)[-1] >= 3 * 7


@pytest.mark.shows("own-failure")
@pytest.mark.process
def test_an_observer_that_fails_ends_alone(tree):
    drop(tree, "probe/observers/broken.py", BROKEN)
    train(tree)
    assert "broken: ValueError: it has nothing to watch" in (tree / "run" / "probe.log").read_text()
    events = [json.loads(line)["event"] for line in (tree / "run" / "events.rank0.jsonl").open()]
    assert {"optimizer", "end"} <= set(events)


def test_every_file_of_the_folder_is_an_observer_and_starts_with_what_it_does():
    names = [module.__name__.rpartition(".")[2] for module in observer.load_all()]
    folder = ROOT / "perfdoctor" / "probe" / "observers"
    assert names == sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert "gc_pauses" in names


def test_two_observers_in_one_file_are_refused():
    module = ModuleType("double")
    for name in ("one", "two"):
        function = type(lambda: None)(compile("", name, "exec"), {"__name__": "double"}, name)
        setattr(module, name, observer.observer(function))
    with pytest.raises(TypeError, match="needs exactly one function marked with @observer, found 2"):
        observer._begin(module, None)
