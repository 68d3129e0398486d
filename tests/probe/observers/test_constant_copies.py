"""What each step copies to a device unchanged is told by its line; batches, and what is written, are not.

The device is "meta": a copy to it is a call like any other.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode

from perfdoctor.probe import patch
from perfdoctor.probe.moments import Moments
from perfdoctor.probe.observers.constant_copies import COPIES_MAX, PAIRS, ConstantCopyLooks
from perfdoctor.wire.step_rows import DISTURBED
from tests.support.sessions import Session

SIZE = 4 * 400 * 64
NS = 1_000_000
STEP_NS = 10_000_000


class Run:
    """A run on a device whose steps are told by hand; a pair is asked for before each backward."""

    def __init__(self, kind="meta", optimizers=1):
        self.session, self.moments = Session(), Moments()
        self.busy = False
        self.recorder = SimpleNamespace(since=0, off=False, held=False, flags=0, cpu_due=False)
        numbers = {name: name for name in range(1, optimizers + 1)}
        watch = SimpleNamespace(
            torch=torch,
            write=self.session.write,
            steps=SimpleNamespace(updates=SimpleNamespace(numbers=numbers)),
            moments=self.moments,
            profilers=SimpleNamespace(busy=lambda torch: self.busy),
        )
        self.looks = ConstantCopyLooks(watch)
        self.looks.device_seen(SimpleNamespace(type=kind))
        self.optimizers = optimizers

    def copy(self, tensor, *more):
        """What `tensor.to(device)` comes to."""
        result = tensor.to("meta", *more)
        for call in self.moments.copied:
            call(tensor, result, NS)
        return result

    def step(self, number, work):
        """One step of the script."""
        self.recorder.flags = 0
        work(self, number)
        self.looks.ask(self.recorder, None)
        for optimizer in range(1, self.optimizers + 1):
            self.recorder.since += STEP_NS // self.optimizers
            for call in self.moments.update:
                call(self.recorder, optimizer)
        assert "constant_copies" not in patch.turned_off

    def steps(self, work, count=12):
        """Several steps, and what was told of them."""
        for number in range(count):
            self.step(number, work)
        return self

    def of(self, event):
        return [each for each in self.session.events if each["event"] == f"constant_copies_{event}"]


class Data:
    """What a script may have in memory."""

    def __init__(self):
        self.table = torch.randn(400, 64)
        self.frozen = torch.nn.Parameter(torch.randn(400, 64), requires_grad=False)
        self.array = np.random.default_rng(0).random((400, 64), np.float32)
        self.shared = torch.from_numpy(self.array)
        self.batches = [torch.randn(400, 64) for _ in range(7)]
        self.small = torch.randn(4, 64)

    def changed_by_numpy(self):
        self.array += 1
        return self.shared


@pytest.mark.parametrize(
    ("work", "copies", "size"),
    [
        pytest.param(lambda run, data, step: run.copy(data.table), 1, SIZE, id="a-tensor"),
        pytest.param(lambda run, data, step: run.copy(data.table[:300]), 1, SIZE * 3 // 4, id="a-view"),
        pytest.param(lambda run, data, step: run.copy(data.table.t()), 1, SIZE, id="another-view"),
        pytest.param(
            lambda run, data, step: [run.copy(data.table) for _ in range(3)], 3, 3 * SIZE, id="several-times"
        ),
        pytest.param(
            lambda run, data, step: run.copy(data.table, torch.float64), 1, 2 * SIZE, id="as-it-arrives"
        ),
        pytest.param(lambda run, data, step: run.copy(data.batches[0]), 1, SIZE, id="the-only-batch"),
    ],
)
def test_what_both_steps_of_a_pair_copy_unchanged_is_told_by_its_line(work, copies, size):
    data = Data()
    run = Run().steps(lambda run, step: work(run, data, step))
    looks, lines = run.of("look"), run.of("line")
    assert [look["look"] for look in looks] == [line["look"] for line in lines] == [1, 2, 3, 4]
    assert {(look["copies"], look["constants"]) for look in looks} == {(copies, copies)}
    assert {(line["copies"], line["bytes"], line["pinned"]) for line in lines} == {(copies, size, False)}
    assert {(line["seconds"], look["step_s"]) for line, look in zip(lines, looks, strict=True)} == {
        (copies * NS / 1e9, STEP_NS / 1e9)
    }
    assert {os.path.basename(line["at"]["file"]) for line in lines} == {os.path.basename(__file__)}


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda run, data, step: run.copy(torch.ones(400, 64)), id="a-batch-as-the-last-one"),
        pytest.param(lambda run, data, step: run.copy(data.batches[step % 7]), id="batches-kept-in-memory"),
        pytest.param(lambda run, data, step: run.copy(data.table.add_(1)), id="changed-in-place"),
        pytest.param(lambda run, data, step: run.copy(data.table.data.mul_(2)), id="unknown-to-its-version"),
        pytest.param(lambda run, data, step: run.copy(data.changed_by_numpy()), id="changed-by-numpy"),
        pytest.param(lambda run, data, step: run.copy(data.shared), id="numpy-may-change-it"),
        pytest.param(lambda run, data, step: run.copy(data.table[step:][:300]), id="another-part"),
        pytest.param(lambda run, data, step: run.copy(torch.from_numpy(data.array.copy())), id="of-an-array"),
    ],
)
def test_what_is_new_or_written_in_each_step_is_not(work):
    data = Data()
    run = Run().steps(lambda run, step: work(run, data, step))
    assert {(look["copies"], look["constants"]) for look in run.of("look")} == {(1, 0)}
    assert run.of("line") == []


def copied_once(run, data, step):
    if step == 0:
        run.copy(data.table)


def within_a_mode(run, data, step):
    with FlopCounterMode(display=False):
        run.copy(data.table)


@pytest.mark.parametrize(
    "work",
    [
        copied_once,
        within_a_mode,
        pytest.param(lambda run, data, step: run.copy(data.small), id="small"),
        pytest.param(lambda run, data, step: run.copy(data.frozen), id="a-parameter-kept-on-the-host"),
        pytest.param(lambda run, data, step: run.copy(torch.empty(0, 64)), id="empty"),
    ],
)
def test_other_copies_are_not_looked_at(work):
    data = Data()
    run = Run().steps(lambda run, step: work(run, data, step))
    assert {(look["copies"], look["constants"]) for look in run.of("look")} == {(0, 0)}


def test_tensors_of_inference_mode_and_of_transforms_are_left_alone():
    with torch.inference_mode():
        batch = torch.randn(400, 64)
    assert Run().steps(lambda run, step: run.copy(batch)).of("line") == []
    rows = torch.randn(2, 400, 64)
    assert Run().steps(lambda run, step: torch.func.vmap(run.copy)(rows)).of("line") == []


def test_on_the_cpu_nothing_is_looked_at():
    table = torch.randn(400, 64)
    assert Run("cpu").steps(lambda run, step: run.copy(table)).session.events == []


def test_a_few_pairs_are_looked_at_and_then_a_copy_costs_nothing():
    table = torch.randn(400, 64)
    run = Run().steps(lambda run, step: run.copy(table), 100)
    assert len(run.of("look")) == PAIRS
    assert run.moments.copied == run.moments.update == []


def test_of_one_step_so_many_copies_are_looked_at():
    table = torch.randn(400, 64)
    run = Run().steps(lambda run, step: [run.copy(table) for _ in range(COPIES_MAX + 5)], 3)
    assert [look["copies"] for look in run.of("look")] == [COPIES_MAX]


def test_looked_at_steps_are_not_timed():
    table, flags = torch.randn(400, 64), []
    run = Run()
    for number in range(4):
        run.step(number, lambda run, step: run.copy(table))
        flags.append(run.recorder.flags)
    assert flags[:3] == [DISTURBED] * 3


def test_a_step_of_two_optimizers_ends_with_the_one_that_came_last():
    table = torch.randn(400, 64)
    looks = Run(optimizers=2).steps(lambda run, step: run.copy(table)).of("look")
    assert {(look["copies"], look["step_s"]) for look in looks} == {(1, STEP_NS / 1e9)}


@pytest.mark.parametrize("what", ["held", "busy"])
def test_a_pair_gives_way_to_a_profiler(what):
    table = torch.randn(400, 64)
    run = Run().steps(lambda run, step: run.copy(table), 2)
    setattr(run.recorder if what == "held" else run, what, True)
    run.steps(lambda run, step: run.copy(table), 10)
    assert run.session.events == []
    setattr(run.recorder if what == "held" else run, what, False)
    assert len(run.steps(lambda run, step: run.copy(table), 3).of("look")) == 1
