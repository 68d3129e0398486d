from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfdoctor import trials
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Gain
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import Execution, ExecutionEnd, Outcome, Scaled, Variant, VariantResult
from perfdoctor.render.notes import all_worded, worded
from perfdoctor.trials import scaling
from perfdoctor.watch import samplers
from tests.support.trial_runs import broken, execution

ALONE = {
    "forward": 0.04,
    "backward": 0.05,
    "optimizer": 0.01,
    "data_wait": 0.0,
    "waiting": 0.0,
    "moving": 0.0,
}


GAIN = Gain(1.6, 1.7, 1.8)


def ran(step_s: float, ranks: int, **phases: float) -> list[Execution]:
    """Three rounds with so many ranks, whose steps have become longer by these phases."""
    own = ALONE | {name: ALONE.get(name, 0.0) + seconds for name, seconds in phases.items()}
    return [
        execution(
            step_s, number, ranks=ranks, phases=own, samples_per_s=ranks * 32 / step_s, cpu_s=ranks * 0.1
        )
        for number in range(3)
    ]


def verdict(ranks: int, executions: Sequence[Execution], gain: Gain | None) -> VariantResult:
    outcome = Outcome.FASTER if gain is not None else Outcome.FAILED
    return VariantResult(Variant(ranks=ranks), outcome, "so it is", tuple(executions), gain, 0.95)


def point(step_s: float, cores: float = 8.0, **phases: float) -> Scaled:
    """Of two ranks against one."""
    two = verdict(2, ran(step_s, 2, **phases), GAIN)
    return scaling.curve(ran(0.1, 1), [two], (1, 2), cores)[1]


def test_a_curve_has_the_whole_jobs_rate_and_what_a_rank_contributes() -> None:
    four = verdict(4, ran(0.2, 4, moving=0.1), Gain(1.9, 2.0, 2.1))
    alone, two, four_ranks = scaling.curve(
        ran(0.1, 1),
        [verdict(2, ran(0.12, 2, moving=0.02), Gain(1.6, 1.667, 1.7)), four],
        (1, 2, 4),
        8.0,
    )
    assert alone == Scaled(1, pytest.approx(0.1), pytest.approx(320.0))
    assert (two.step_s, two.samples_per_s) == (pytest.approx(0.12), pytest.approx(2 * 32 / 0.12))
    assert two.efficiency == Gain(0.8, pytest.approx(0.8335), 0.85)
    assert four_ranks.efficiency == Gain(pytest.approx(0.475), 0.5, pytest.approx(0.525))
    assert four_ranks.lost["moving"] == pytest.approx(0.1)


def test_efficiency_is_against_the_fewest_ranks_measured() -> None:
    eight = verdict(8, ran(0.1, 8), Gain(3.0, 3.2, 3.4))
    _, found = scaling.curve(ran(0.1, 2), [eight], (2, 8), 8.0)
    assert found.efficiency == Gain(0.75, 0.8, 0.85)


@pytest.mark.parametrize(
    ("phases", "slug"),
    [
        ({"waiting": 0.05, "moving": 0.01}, "waits-for-straggler"),
        ({"moving": 0.05, "waiting": 0.01}, "transfers-gradients"),
        ({"data_wait": 0.05, "moving": 0.01}, "waits-for-batches"),
        ({"backward": 0.03, "forward": 0.02, "waiting": 0.04}, "computes-longer"),
        ({"other": 0.05}, "python-takes-longer"),
    ],
    ids=["waiting", "moving", "data", "computing", "python"],
)
def test_what_a_step_became_longer_by_bounds_it(phases: dict[str, float], slug: str) -> None:
    bound = point(0.15, **phases).bound
    assert isinstance(bound, Note)
    assert bound.slug == slug


def test_a_step_that_hardly_became_longer_is_bound_by_nothing() -> None:
    assert point(0.104, moving=0.004).bound == Note("hardly-longer")


def test_ranks_that_keep_all_cores_busy_are_short_of_cores() -> None:
    assert "1.3 of 1 usable cores" in worded(point(0.15, 1.0, backward=0.05).bound or "")
    assert "memory bandwidth" in worded(point(0.15, 8.0, backward=0.05).bound or "")


def test_a_device_hides_its_exchanges_from_the_timers() -> None:
    own = [
        execution(0.15, number, ranks=2, phases=ALONE | {"backward": 0.1}, device_bytes=1 << 30)
        for number in range(3)
    ]
    found = scaling.curve(ran(0.1, 1), [verdict(2, own, Gain(1.3, 1.3, 1.3))], (1, 2), 8.0)[1]
    assert "exposed gradient sync and lower clocks count as computing" in worded(found.bound or "")


def test_ranks_that_could_not_be_measured_keep_their_place() -> None:
    found = scaling.curve(ran(0.1, 1), [verdict(2, [broken(ExecutionEnd.FAILED)], None)], (1, 2), 8.0)
    assert found[1] == Scaled(2, None, None)


def further(cores: float, gain: Gain | None = GAIN, **phases: float) -> Scaled | None:
    """What is expected of four ranks, after two."""
    own = ran(0.1 + sum(phases.values()), 2, **phases)
    points = scaling.curve(ran(0.1, 1), [verdict(2, own, gain)], (1, 2), cores)
    return scaling.expected(points, ran(0.1, 1), own, cores)


def test_an_exchange_grows_by_the_rings_law_with_ranks_beyond_those_measured() -> None:
    found = further(64.0, moving=0.1)
    assert found is not None
    assert (found.ranks, found.expected) == (4, True)
    assert found.speedup is not None
    assert found.efficiency is not None
    # From 2 to 4 ranks, bytes grow 1.5 times and steps of the ring 3 times.
    assert found.speedup.high == pytest.approx(4 * 0.1 / (0.1 + 0.15) * GAIN.high / GAIN.likely)
    assert found.speedup.low == pytest.approx(4 * 0.1 / (0.1 + 0.3) * GAIN.low / GAIN.likely)
    assert found.efficiency.likely == pytest.approx(found.speedup.likely / 4)
    assert "gradient sync" in worded(found.bound or "")


def test_ranks_beyond_the_cores_are_expected_to_lack_them() -> None:
    found = further(2.0, moving=0.01)
    assert found is not None
    assert "want" in worded(found.bound or "")
    assert found.speedup is not None
    assert found.speedup.likely < 2.1


def test_more_ranks_get_no_cores_that_other_programs_have() -> None:
    own = [replace(each, cpu_s=0.1) for each in ran(0.11, 2, moving=0.01)]  # half a core each, computing
    points = scaling.curve(ran(0.1, 1), [verdict(2, own, GAIN)], (1, 2), 8.0)
    found = scaling.expected(points, ran(0.1, 1), own, 8.0)
    assert found is not None
    assert found.step_s == pytest.approx(0.2)
    assert worded(found.bound or "") == "the ranks want 2.0 cores and have 1"


def test_nothing_is_expected_of_ranks_that_could_not_be_measured() -> None:
    assert further(8.0, None, moving=0.01) is None


# ---------------------------------------------------------------- what is said before


@pytest.mark.parametrize(
    ("gpus", "cores", "ranks", "said"),
    [
        (0, 2.0, (1, 4), "4 ranks share 2 usable cores"),
        (2, 16.0, (1, 4), "4 ranks on 2 GPUs"),
        (1, 1.0, (2, 4), "4 ranks on 1 GPU:"),
    ],
)
def test_more_ranks_than_there_is_room_for_are_said(
    monkeypatch: pytest.MonkeyPatch, gpus: int, cores: float, ranks: tuple[int, ...], said: str
) -> None:
    monkeypatch.setattr(scaling, "_gpus", lambda: gpus)
    monkeypatch.setattr(samplers, "usable_cores", lambda: (cores, "machine"))
    assert said in "".join(all_worded(scaling._crowded(ranks[-1])))
    assert not list(scaling._crowded(min(int(cores), gpus or 99)))


def test_threads_that_differ_with_the_number_of_ranks_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "_gpus", lambda: 0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "set OMP_NUM_THREADS" in "".join(all_worded(scaling._threads((1, 2))))
    assert not list(scaling._threads((2, 4)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert not list(scaling._threads((1, 2)))


# ---------------------------------------------------------------- whole curves


JOINED = """
import sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batch = torch.ones(16, 64)
for step in range(400):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""
APART = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(400):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


class Heard:
    """What is told on the way."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.said: list[Remark] = []

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        self.began.append(what)

    def say(self, remark: Remark) -> None:
        self.said.append(remark)

    def end(self) -> None:
        pass


def scaled(folder: Path, code: str, **asked: Any) -> tuple[Any, Heard]:
    (folder / "train.py").write_text(code)
    heard = Heard()
    wanted = trials.Request(
        ("train.py",), (), str(folder), rounds=3, steps=20, yes=True, **{"ranks": (1, 2)} | asked
    )
    return trials.run(wanted, heard), heard


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.usefixtures("_here")
@pytest.mark.clock
@pytest.mark.process
@pytest.mark.slow
def test_a_script_is_run_with_each_number_of_ranks_in_turns(tmp_path: Path) -> None:
    found, heard = scaled(tmp_path, JOINED)
    assert heard.began == [
        "2 ranks, calibration run",
        *["1 rank", "2 ranks", "2 ranks", "1 rank"],
        "1 rank",
        "2 ranks",
    ]
    assert {own.ranks for own in found.originals} == {1}
    (verdict,) = found.verdicts
    assert {own.ranks for own in verdict.executions} == {2}
    assert {own.steps for own in (*found.originals, *verdict.executions)} == {20}
    assert [(point.ranks, point.expected) for point in found.scaling] == [(1, False), (2, False), (4, True)]
    assert found.scaling[1].speedup is not None
    assert found.scaling[1].bound
    assert verdict.per == "sample"
    for own in verdict.executions:  # phases are means over ranks, the step is that of the slowest
        assert 0 < sum(own.phases.values()) <= own.step_s * 1.000001
        assert own.phases["moving"] + own.phases["waiting"] > 0
    assert {own.phases["waiting"] for own in found.originals} == {0.0}
    assert found.cwd == str(tmp_path)


@pytest.mark.usefixtures("_here")
@pytest.mark.clock
@pytest.mark.process
@pytest.mark.slow
def test_processes_that_never_join_cannot_be_scaled(tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="never called init_process_group") as caught:
        scaled(tmp_path, APART)
    assert "perfdoctor tips data-parallel" in (caught.value.hint or "")
