"""Executions of a trial: seeded alike, and ended from within after so many updates."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.watch.unwatched import INJECT
from tests.support import judging
from tests.support.paths import LOOPS

pytestmark = [pytest.mark.process, pytest.mark.slow]

TIMEOUT_S = 120

TRAIN = """
    import torch
    torch.set_num_threads(1)
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    def train(steps):
        for number in range(steps):
            net(torch.randn(8, 4)).mean().backward()
            print("update", number, flush=True)
            opt.step()
            opt.zero_grad()
"""
TWO_OPTIMIZERS = """
    other = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
    for number in range(9):
        train(1)
        print("other", number, flush=True)
        other.step()
    """


def executed(folder, code, steps=3, seed=7, tweaks=None, script="script.py", options=None):
    """What `code` recorded and printed, run as one execution of a trial."""
    run = folder / "run"
    run.mkdir()
    directory.write_json(run / "run.json", {"schema": directory.SCHEMA})
    config = {"max_steps": steps, "trial": {"seed": seed, **(options or {})}, "tweaks": tweaks or {}}
    (run / "config.json").write_text(json.dumps(config))
    (folder / script).write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(run)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert not (run / "probe.log").exists(), (run / "probe.log").read_text()
    return recorded.read(run), done


def counted(records):
    """The steps that the analysis finds in what was recorded."""
    return judging.report(records, lambda file, line: None).steps.count


def test_the_script_ends_with_the_last_update_as_if_it_had_left_by_itself(tmp_path):
    records, done = executed(
        tmp_path,
        TRAIN
        + """
    import atexit
    atexit.register(print, "exit")
    try:
        with torch.no_grad(): net.weight.zero_()
        train(9)
        print("went on")
    finally:
        print("finally")
    """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["update 0", "update 1", "update 2", "finally", "exit"]
    assert counted(records) == 3
    (end,) = records.ranks[0].of("trial_end")
    assert end["ended_early"]
    assert end["broken"] == {}
    assert end["peak"]["host_bytes"] > 50e6
    assert end["peak"]["device_bytes"] is None


def test_a_script_that_swallows_its_end_is_ended_again_and_neither_trains_nor_saves(tmp_path):
    records, done = executed(
        tmp_path,
        TRAIN
        + """
    for attempt in range(4):
        try:
            train(2)
        except:
            print("swallowed")
    print(opt.state_dict()["param_groups"][0]["lr"])
    weight = net.weight.clone()
    try:
        torch.save(net.state_dict(), "model.pt")
    except BaseException as error:
        print(type(error).__name__)
    train(1)
    """,
    )
    assert done.returncode == 0
    assert done.stdout.split("update 0")[-1] == "\n"
    assert done.stdout.count("swallowed") == 3
    assert "SystemExit" in done.stdout
    assert not (tmp_path / "model.pt").exists()
    assert counted(records) == 3
    assert len(records.ranks[0].of("trial_end")) == 1


def test_a_script_with_fewer_steps_ends_by_itself(tmp_path):
    records, done = executed(tmp_path, TRAIN + "\n    train(2)\n    print('done')\n", steps=3)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "done")
    assert counted(records) == 2
    (end,) = records.ranks[0].of("trial_end")
    assert end["ended_early"] is False


def test_a_script_that_fails_says_how_much_memory_it_took(tmp_path):
    records, done = executed(tmp_path, TRAIN + "\n    train(2)\n    raise MemoryError('too much')\n")
    assert done.returncode == 1
    assert done.stderr.endswith("MemoryError: too much\n")
    assert [end["ended_early"] for end in records.ranks[0].of("trial_end")] == [False]


DRAWS = """
    import random, numpy, torch
    from torch.utils.data import DataLoader
    def draws():
        order = [int(index) for index in DataLoader(range(50), shuffle=True)]
        return [random.random(), numpy.random.rand(), torch.rand(1).item(), order]
    print([draws(), draws()])
"""


def test_whatever_the_script_draws_is_drawn_alike(tmp_path):
    printed = []
    for seed in (7, 7, 8):
        folder = tmp_path / str(len(printed))
        folder.mkdir()
        printed.append(executed(folder, DRAWS, seed=seed)[1].stdout)
    assert printed[0] == printed[1]
    assert all(a != b for a, b in zip(*(json.loads(each) for each in printed[1:]), strict=True))


def test_a_seed_of_the_scripts_own_wins(tmp_path):
    code = """
        import numpy, torch
        torch.manual_seed(3); numpy.random.seed(3)
        mine = torch.rand(1), numpy.random.rand()
        torch.manual_seed(3); numpy.random.seed(3)
        print(mine == (torch.rand(1), numpy.random.rand()))
    """
    _, done = executed(tmp_path, code)
    assert done.stdout == "True\n"


def test_with_two_optimizers_it_ends_where_the_next_step_has_begun(tmp_path):
    """That the first of them comes round again is how the border of a step is known."""
    records, done = executed(tmp_path, TRAIN + TWO_OPTIMIZERS)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["update", "other"] * 3 + ["update"]
    assert counted(records) == 3


def test_training_in_another_thread_ends_the_main_one_as_well(tmp_path):
    code = (
        TRAIN
        + """
    import threading, time
    threading.Thread(target=train, args=(9,)).start()
    try:
        time.sleep(60)
    finally:
        print("finally")
    """
    )
    records, done = executed(tmp_path, code)
    assert done.stdout.splitlines() == ["update 0", "update 1", "update 2", "finally"]
    assert "KeyboardInterrupt" in done.stderr
    assert counted(records) == 3


def test_a_forked_child_that_trains_does_not_end_its_parent(tmp_path):
    code = (
        TRAIN
        + """
    import os
    train(1)
    if os.fork() == 0:
        train(9)
    else:
        print("child", os.wait()[1])
    print("on")
    """
    )
    _, done = executed(tmp_path, code)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["child 0", "on"]


@pytest.mark.parametrize(
    "loop",
    [
        "accelerate_loop",
        "gan",
        "hf_trainer",
        "lbfgs",
        "lightning_automatic",
        "optimizer_in_backward",
        "scaler_skips_a_step",
    ],
)
def test_ends_cleanly_after_five_steps_of(tmp_path, loop):
    code = (LOOPS / f"{loop}.py").read_text()
    for framework in ("accelerate", "transformers", "lightning"):
        if f"framework={framework}" in code:
            pytest.importorskip(framework)
    records, done = executed(tmp_path, code, steps=5)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "loss" not in done.stdout  # what it prints in the end
    assert counted(records) == 5
    assert [end["ended_early"] for end in records.ranks[0].of("trial_end")] == [True]
    assert {path.name for path in tmp_path.iterdir()} == {"run", "script.py"}


RANKS = """
    import os
    import time
    import torch
    if "RANK" not in os.environ:
        from torch.distributed.run import main
        main(["--nproc-per-node", "2", __file__])
        raise SystemExit("the ranks are done")
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for update in range(50):
            for micro in range(2):
                model(torch.randn(8, 4)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        weights = [torch.empty(1, 4) for _ in range(2)]
        distributed.all_gather(weights, model.module.weight.detach())
        print(f"rank {os.environ['RANK']} after {update + 1}: {torch.equal(*weights)}", flush=True)
        distributed.destroy_process_group()
        time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


def test_two_ranks_end_together_after_the_same_update_with_a_tweak_in_both(tmp_path):
    records, done = executed(tmp_path, RANKS, steps=6, tweaks={"no_sync": {}})
    assert done.stderr.endswith("the ranks are done\n")
    said = sorted(re.findall(r"rank \d after 6: True", done.stdout))  # both may print into one line
    assert said == ["rank 0 after 6: True", "rank 1 after 6: True"]
    assert sorted(records.ranks) == [0, 1]
    for rank in records.ranks.values():
        assert [end["ended_early"] for end in rank.of("trial_end")] == [True]
        (told,) = rank.of("tweak")
        assert (told["tweak"], told["outcome"], told["was"]) == ("no_sync", "applied", "2 per update")
        assert Path(told["at"]["file"]).name == "script.py"


DEVICE = """
    import torch
    cuda = torch.cuda
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.synchronize = lambda: print("waited", flush=True)
"""


def waits(done):
    """After which updates the device was waited for."""
    lines = done.stdout.splitlines()
    return [lines[index - 1] for index, line in enumerate(lines) if line == "waited"]


def test_a_device_is_waited_for_where_measuring_begins_and_where_it_ends(tmp_path):
    options = {"warm_up_updates": 2}
    _, done = executed(tmp_path, DEVICE + TRAIN + "\n    train(9)\n", steps=5, options=options)
    assert waits(done) == ["update 1", "update 4"]


def test_with_two_optimizers_it_is_waited_for_within_the_step_that_closes(tmp_path):
    _, done = executed(tmp_path, DEVICE + TRAIN + TWO_OPTIMIZERS, steps=4, options={"warm_up_updates": 2})
    assert waits(done) == ["update 0", "other 1", "update 0", "other 3"]


@pytest.mark.shows("cuda-graphs")
@pytest.mark.parametrize(
    "state", ["cuda.is_initialized = lambda: False", "cuda.is_current_stream_capturing = lambda: True"]
)
def test_without_a_device_or_while_a_graph_is_captured_nothing_is_waited_for(tmp_path, state):
    code = DEVICE + f"    {state}\n" + TRAIN + "\n    train(9)\n"
    assert waits(executed(tmp_path, code, steps=5, options={"warm_up_updates": 2})[1]) == []
