"""Trainings that are alive at once and take turns: real processes of small scripts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")

from perfdoctor import trials
from perfdoctor.facts.steps import boundaries
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import ORIGINAL, ExecutionEnd, Outcome, Trial, Variant
from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.trials import lockstep
from perfdoctor.trials.execution import Executor
from perfdoctor.trials.plan import LEAST_TURNS, TrialPlan
from perfdoctor.trials.sandbox import leftovers, protect
from perfdoctor.trials.settings import flags, tweak_catalogue
from perfdoctor.watch.signals import Stopped
from tests.support.launching import environment

pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow]

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.0005)
        return super().__getitem__(index)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Slow(torch.ones(160, 8), torch.ones(160, 1)), batch_size=8)
for epoch in range(4000):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
PLAN = TrialPlan(
    rounds=2, warm_up_steps=5, steps=160, execution_s=8.0, limit_s=60.0, turns=4, turn_s=0.2, budget_s=60.0
)


def variant(*words: str) -> Variant:
    return Variant(flags.read(words, tweak_catalogue.tweaks()))


def executor(folder: Path, code: str = SCRIPT) -> Executor:
    (folder / "train.py").write_text(code)
    kept = directory.create(folder / ".perfdoctor" / "trials", "train")
    return Executor(("train.py",), kept, protect.choose(kept, folder))


def untold(number: int) -> None:
    """Nobody is told how far it is."""


def running(folder: Path) -> list[psutil.Process]:
    """What still runs of the trials in a folder."""
    kept = (folder / ".perfdoctor" / "trials").glob("*/*")
    return [process for path in kept for process in leftovers.of(path, psutil.process_iter())]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    assert not running(tmp_path)


def test_one_trains_while_the_other_rests_and_each_has_as_many_whole_steps_a_turn(tmp_path: Path) -> None:
    bench, seen = executor(tmp_path), {}

    class Kept(Executor):
        def told(self, execution: Any, ended: Any) -> Any:
            seen[ended.outcome.path.name] = recorded.read(ended.outcome.path)
            return super().told(execution, ended)

    kept = Kept(bench.command, bench.folder, bench.protection)
    sides = [(ORIGINAL, "one"), (variant("--zero-grad-none"), "other")]
    executions, stop = lockstep.execute(kept, sides, 0, PLAN, untold)
    assert stop is None
    assert [each.ending for each in executions] == [ExecutionEnd.MEASURED] * 2
    assert [each.steps for each in executions] == [160, 160]
    assert [len(each.turns_s) for each in executions] == [4, 4]
    one, other = (boundaries.find(seen[name].ranks[0].steps) for name in ("one", "other"))
    assert one is not None
    assert other is not None
    # One, other, other, one, and so on: two rests of one, in each of which lie two turns of the other.
    rests = sorted(pairwise(one.end_ns.tolist()), key=lambda rest: rest[0] - rest[1])[:2]
    within = sum(any(low < end < high for low, high in rests) for end in other.end_ns.tolist())
    assert within >= 160


GAN = """
import time, torch
made, judge = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
of_judge, of_made = (torch.optim.SGD(net.parameters(), lr=0.01) for net in (judge, made))
while True:
    for optimizer in CRITIC * [of_judge] + [of_made]:
        time.sleep(0.003)
        optimizer.zero_grad()
        judge(made(torch.ones(8, 8))).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("critic", [1, 3])
def test_trainings_with_several_optimizers_have_whole_steps_in_every_turn(
    tmp_path: Path, critic: int
) -> None:
    bench = executor(tmp_path, GAN.replace("CRITIC", str(critic)))
    _, records = bench.calibrate()
    assert records is not None
    assert lockstep.spare_updates(records) == critic
    planned = replace(PLAN, steps=40, updates_per_step=critic, spare_updates=critic)
    executions, _ = lockstep.execute(bench, [(ORIGINAL, "one"), (ORIGINAL, "other")], 0, planned, untold)
    assert [each.ending for each in executions] == [ExecutionEnd.MEASURED] * 2
    assert [each.steps for each in executions] == [40, 40]


AHEAD = """
import time, torch
busy_until = 0.0
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.synchronize = lambda: time.sleep(max(0.0, busy_until - time.perf_counter()))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.ones(8, 8)).mean().backward()
    optimizer.step()
    busy_until = max(busy_until, time.perf_counter()) + 0.01  # what a device does meanwhile
    time.sleep(max(0.0, busy_until - time.perf_counter() - 0.15))  # its queue is full
"""


def test_a_device_that_is_behind_its_host_is_waited_for_at_both_ends_of_a_turn(tmp_path: Path) -> None:
    """Stopped and let go on, the host would find an empty queue, and show how long launching takes."""
    planned = replace(PLAN, steps=80, parks=True)
    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    executions, _ = lockstep.execute(executor(tmp_path, AHEAD), sides, 0, planned, untold)
    for execution in executions:
        assert execution.ending is ExecutionEnd.MEASURED
        assert [execution.steps, len(execution.turns_s)] == [80, 4]
        assert all(step_s == pytest.approx(0.01, rel=0.1) for step_s in execution.turns_s)


@pytest.mark.parametrize("critic", [1, 3])
def test_on_a_device_trainings_with_several_optimizers_have_whole_steps_too(
    tmp_path: Path, critic: int
) -> None:
    bench = executor(tmp_path, GAN.replace("CRITIC", str(critic)))
    planned = replace(PLAN, steps=40, updates_per_step=critic, spare_updates=critic, parks=True)
    executions, _ = lockstep.execute(bench, [(ORIGINAL, "one"), (ORIGINAL, "other")], 0, planned, untold)
    assert [each.ending for each in executions] == [ExecutionEnd.MEASURED] * 2
    assert [each.steps for each in executions] == [40, 40]


SKIPPING = """
import time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=10**9, backoff_factor=0.9999999)
number = 0
while True:
    number += 1
    time.sleep(0.05 if number <= 4 else 0.003)
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(8, 8)).mean()).backward()
    if number % 2:
        for parameter in model.parameters():
            parameter.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_turn_whose_border_a_scaler_skips_does_not_count(tmp_path: Path) -> None:
    """It would be measured from where the turn before it began, or from the start of the script."""
    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    planned = replace(PLAN, steps=84, parks=True)  # turns of 21: of their borders, one is skipped
    executions, _ = lockstep.execute(executor(tmp_path, SKIPPING), sides, 0, planned, untold)
    assert [[turn_s for turn_s in each.turns_s if turn_s == turn_s] for each in executions] == [[], []]


WRAPPED = """
import time, torch

class Outer(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure=None):
        return self.inner.step(closure)

model = torch.nn.Linear(8, 1)
optimizer = Outer(torch.optim.SGD(model.parameters(), lr=0.01))
while True:
    time.sleep(0.003)
    optimizer.zero_grad()
    model(torch.ones(8, 8)).mean().backward()
    optimizer.step()
"""


def test_an_optimizer_inside_another_makes_no_update_of_its_own(tmp_path: Path) -> None:
    planned = replace(PLAN, steps=80, parks=True)
    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    executions, _ = lockstep.execute(executor(tmp_path, WRAPPED), sides, 0, planned, untold)
    assert [(each.ending, each.steps) for each in executions] == [(ExecutionEnd.MEASURED, 80)] * 2


def test_without_updates_no_device_can_be_waited_for(tmp_path: Path) -> None:
    code = "import torch\nmodel = torch.nn.Linear(8, 1)\nwhile True:\n    model(torch.ones(8, 8)).mean().backward()\n"
    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    with pytest.raises(lockstep.Apart, match="no update"):
        lockstep.execute(executor(tmp_path, code), sides, 0, replace(PLAN, parks=True), untold)


def test_loader_workers_rest_with_their_training(tmp_path: Path) -> None:
    bench, states = executor(tmp_path), []

    def look(number: int) -> None:  # all rest when it is told
        until_s = time.monotonic() + 2.0  # a signal reaches a busy process a little later
        for name in ("one", "other"):
            found: list[str] = []
            while not found or (set(found) != {psutil.STATUS_STOPPED} and time.monotonic() < until_s):
                members = leftovers.of(bench.folder / name, psutil.process_iter())
                found = [member.status() for member in members]
            states.append(found)

    sides = [(variant("--workers", "1", "--persistent-workers"), "one"), (ORIGINAL, "other")]
    lockstep.execute(bench, sides, 0, PLAN, look)
    assert len(states) == 8
    assert {status for each in states for status in each} == {psutil.STATUS_STOPPED}
    assert max(map(len, states)) >= 2


def test_an_interrupt_keeps_a_round_that_has_enough_turns(tmp_path: Path) -> None:
    def stop_at(turn: int) -> Any:
        def tell(number: int) -> None:
            if number == turn:
                raise Stopped(signal.SIGTERM)

        return tell

    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    for turn, ending in ((1, ExecutionEnd.INTERRUPTED), (3, ExecutionEnd.MEASURED)):
        executions, stop = lockstep.execute(executor(tmp_path), sides, 0, PLAN, stop_at(turn))
        assert isinstance(stop, Stopped)
        assert [each.ending for each in executions] == [ending] * 2


def test_those_that_cannot_live_beside_each_other_are_told_apart(tmp_path: Path) -> None:
    alone = "import socket\nalone = socket.socket()\nalone.bind(('127.0.0.1', PORT))\n"
    with_port = alone.replace("PORT", str(free_port_number())) + SCRIPT
    sides = [(ORIGINAL, "one"), (ORIGINAL, "other")]
    executions, _ = lockstep.execute(executor(tmp_path, with_port), sides, 0, PLAN, untold)
    assert ExecutionEnd.FAILED in [each.ending for each in executions]


def test_nobody_has_a_turn_where_one_ended_before_all_had_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def side(is_over: bool) -> Any:
        living = SimpleNamespace(is_over=is_over, suspensions=0, go_on=lambda: None, rest=lambda: None)
        return SimpleNamespace(living=living, updates=0, warm_up=5, variant=ORIGINAL)

    monkeypatch.setattr(lockstep, "SLACK_S", 0.0)
    lockstep._take_turns([side(is_over=False), side(is_over=True)], PLAN, untold)


def free_port_number() -> int:
    from tests.support.launching import free_port

    return int(free_port())


# ---------------------------------------------------------------- whole trials


SECONDS = 90.0  # for a trial: a slow machine, too, starts both sides often enough in it


class Heard:
    def __init__(self) -> None:
        self.began: list[str] = []

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        self.began.append(what)

    def say(self, remark: Remark) -> None:
        pass

    def end(self) -> None:
        pass


def trial(folder: Path, code: str, *words: str, **asked: Any) -> Trial:
    (folder / "train.py").write_text(code)
    request = trials.Request(("train.py",), (variant(*words),), str(folder), **{"seconds": SECONDS} | asked)
    return trials.run(request, Heard())


def slugs(found: Trial) -> list[str]:
    return [note.slug for note in found.notes if isinstance(note, Note)]


def test_a_trial_takes_turns_and_finds_what_a_worker_brings(tmp_path: Path) -> None:
    slow = SCRIPT.replace("0.0005", "0.002").replace(
        "Linear(8, 1)", "Sequential(*[torch.nn.Linear(8, 8)] * 60)"
    )
    found = trial(tmp_path, slow, "--workers", "2", "--persistent-workers")
    (verdict,) = found.verdicts
    assert "whole-executions" not in slugs(found)
    assert found.rounds >= 2
    assert found.seconds <= 1.1 * SECONDS
    assert all(len(each.turns_s) >= LEAST_TURNS for each in (*found.originals, *verdict.executions))
    assert verdict.speedup is not None
    assert verdict.speedup.likely > 1.1
    assert verdict.outcome is Outcome.FASTER
    assert verdict.equivalence is not None
    assert verdict.equivalence.same is True


def test_a_script_that_only_one_of_can_run_is_executed_whole(tmp_path: Path) -> None:
    alone = "import socket\nalone = socket.socket()\nalone.bind(('127.0.0.1', PORT))\n"
    found = trial(tmp_path, alone.replace("PORT", str(free_port_number())) + SCRIPT, "--zero-grad-none")
    assert "whole-executions" in slugs(found)
    assert found.verdicts[0].speedup is not None


def test_a_variant_that_fails_by_itself_too_is_one_that_failed(tmp_path: Path) -> None:
    fails = SCRIPT.replace("    for x, y", "    if loader.num_workers: raise KeyError(epoch)\n    for x, y")
    found = trial(tmp_path, fails, "--workers", "1")
    assert (found.verdicts[0].outcome, found.verdicts[0].because) == (Outcome.FAILED, "KeyError: 0")


@pytest.mark.shows("trial-killed")
def test_what_rests_ends_with_a_perfdoctor_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ("try", "--zero-grad-none", "--seconds", str(int(SECONDS)), "--", "train.py")
    process = subprocess.Popen(
        (sys.executable, "-m", "perfdoctor", *words),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: any(each.status() == psutil.STATUS_STOPPED for each in running(tmp_path)))
    process.kill()
    process.wait()
    until(lambda: not running(tmp_path))


def test_what_trains_is_suspended_with_perfdoctor_and_goes_on_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = [
        sys.executable,
        "-m",
        "perfdoctor",
        "try",
        "--seconds",
        str(int(SECONDS)),
        "--zero-grad-none",
        "--",
        "train.py",
    ]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) as process:
        until(lambda: psutil.STATUS_STOPPED in statuses(tmp_path))  # one rests: they take turns
        process.send_signal(signal.SIGTSTP)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        until(lambda: set(statuses(tmp_path)) == {psutil.STATUS_STOPPED})
        process.send_signal(signal.SIGCONT)
        until(lambda: set(statuses(tmp_path)) != {psutil.STATUS_STOPPED})
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def statuses(folder: Path) -> list[str]:
    return [each.status() for each in running(folder) if each.is_running()]


def until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it, or fail."""
    end_s = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_a_turn_in_which_training_was_held_up_does_not_count(tmp_path: Path) -> None:
    bench = executor(tmp_path)
    waits = iter([0.0, 2.5 * lockstep.ASLEEP_S])

    class Asleep(lockstep._Clock):
        def tick(self) -> bool:
            self._last_s -= next(waits, 0.0)  # once, as if nobody had looked for so long
            return super().tick()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lockstep, "_Clock", Asleep)
        executions, _ = lockstep.execute(bench, [(ORIGINAL, "one"), (ORIGINAL, "other")], 0, PLAN, untold)
    lost = [sum(each != each for each in execution.turns_s) for execution in executions]
    assert sorted(lost) == [0, 1]
