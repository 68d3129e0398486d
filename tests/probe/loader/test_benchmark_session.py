from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.loader.benchmark_session import _is_at
from perfdoctor.runs import directory, records
from perfdoctor.watch.unwatched import INJECT

pytestmark = pytest.mark.process


def measured(folder, code, **options):
    """The records of `code` run to have its loader measured, and what it printed."""
    run = folder / "run"
    run.mkdir()
    directory.write_json(run / "run.json", {"schema": directory.SCHEMA})
    asked = {"seconds": 0.5, "workers": [0], "cores": 2.0, **options}
    (run / "config.json").write_text(json.dumps({"loader": asked}))
    (folder / "script.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n" + textwrap.dedent(code)
    )
    env = {**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(run)}
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not (run / "probe.log").exists(), (run / "probe.log").read_text()
    return records.read(run).ranks[0], done


def test_the_first_loader_iterated_with_gradients_is_measured_and_finally_runs(tmp_path):
    own, done = measured(
        tmp_path,
        """
        with torch.no_grad():
            for batch in DataLoader(range(8)): pass
        try:
            for batch in DataLoader(range(16), batch_size=2): print("trained")
        finally:
            print("finally")
            torch.save(1, "model.pt")
            print("saved")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "finally\n")
    assert not (tmp_path / "model.pt").exists()
    assert [entry["id"] for entry in own.of("loading")] == [2]
    assert [entry["id"] for entry in own.of("loading_skipped")] == [1]
    assert own.of("loading_end")[0]["outcome"] == "whole"


def test_a_script_that_swallows_its_end_neither_loads_nor_trains_on(tmp_path):
    _, done = measured(
        tmp_path,
        """
        weight = torch.nn.Parameter(torch.ones(1))
        for attempt in range(3):
            try:
                for batch in DataLoader(range(16)): print("trained")
            except BaseException as error:
                print(type(error).__name__)
        weight.grad = torch.ones(1)
        torch.optim.SGD([weight]).step()
        print("updated")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "SystemExit\n" * 3)


def test_a_loader_of_another_thread_ends_the_script_as_well(tmp_path):
    own, done = measured(
        tmp_path,
        """
        import threading, time
        threading.Thread(target=lambda: [print("trained") for batch in DataLoader(range(16))]).start()
        time.sleep(30)
        """,
    )
    assert "KeyboardInterrupt" in done.stderr
    assert "trained" not in done.stdout
    assert own.of("loading_end")


def test_a_second_process_does_not_measure_beside_the_first(tmp_path):
    own, done = measured(
        tmp_path,
        """
        import os, sys
        if os.fork() == 0:
            for batch in DataLoader(range(16)): pass
        os.wait()
        print("first child done", flush=True)
        for batch in DataLoader(range(16)): print("trained")
        """,
    )
    assert len(own.of("loading")) <= 1
    assert done.stdout == "first child done\n"
    assert done.returncode == 0


@pytest.mark.parametrize("asked", [{"number": 3}, {"at": "script.py:99"}])
def test_a_script_that_trains_without_the_loader_asked_for_is_ended(tmp_path, asked):
    own, done = measured(
        tmp_path,
        """
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight])
        for batch in DataLoader(range(40)):
            weight.grad = torch.ones(1)
            optimizer.step()
        print("trained")
        """,
        **asked,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert [(entry["updates"], entry["asked"]) for entry in own.of("loading_none")] == [(20, True)]


TAKEN_OVER = """
    def prepared(loader):
        return DataLoader(loader.dataset, batch_sampler=loader.batch_sampler)
    loader = DataLoader(range(16), batch_size=2)
    loader = prepared(loader)
    for batch in loader: print("trained")
"""


@pytest.mark.parametrize(("asked", "measured_one"), [({}, 2), ({"at": "script.py:6"}, 1), ({"number": 1}, 1)])
def test_a_loader_that_another_one_has_taken_over_is_known(tmp_path, asked, measured_one):
    own, _ = measured(tmp_path, TAKEN_OVER, **asked)
    assert [(entry["id"], entry["same_dataset"]) for entry in own.of("loading")] == [(measured_one, [1, 2])]


@pytest.mark.parametrize(
    ("at", "is_it"),
    [("train.py:4", True), ("pkg/train.py:4", True), ("rain.py:4", False), ("train.py:41", False)],
)
def test_a_place_is_named_by_the_end_of_its_path(at, is_it):
    assert _is_at({"file": "/home/ada/pkg/train.py", "line": 4}, at) is is_it
