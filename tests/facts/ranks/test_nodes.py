from __future__ import annotations

import pytest

from perfdoctor.facts.ranks.nodes import node_of
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from tests.support.records import MS, rows, update

WINDOW = MeasuredSpan.of(find(rows([update(10)] * 300)))  # three seconds from 1 s on


def sample(at_ms, procs=(), **given):
    return {"t_ns": at_ms * MS, "usable_cores": 4, "procs": list(procs), **given}


def proc(pid, role, rank, **given):
    return {"pid": pid, "role": role, "rank": rank, **given}


def grown(*procs_at, **given):
    return [sample(1100 + 1000 * index, procs, **given) for index, procs in enumerate(procs_at)]


def test_each_ranks_workers_and_threads_are_added_up():
    told = [
        [proc(1, "main", 0, cpu_s=s, threads_delay_s=s / 4), proc(2, "worker", 0, cpu_s=s / 2),
         proc(3, "worker", 0, cpu_s=s / 2), proc(4, "main", 1, cpu_s=s, threads_delay_s=0.0)]
        for s in (5.0, 6.0, 7.0)
    ]  # fmt: skip
    found = node_of(grown(*told), WINDOW)
    assert found.data_cores == {0: pytest.approx(1.0)}
    assert found.delay == pytest.approx({0: 0.25, 1: 0.0})


def test_what_the_ranks_do_not_use_others_do():
    told = [[proc(1, "main", 0, cpu_s=s)] for s in (5.0, 6.0, 7.0)]
    assert node_of(grown(*told, machine_busy_cores=3.0), WINDOW).strangers == pytest.approx(0.5)
    assert node_of(grown(*told, machine_busy_cores=1.0), WINDOW).strangers == pytest.approx(0.0)


def test_a_process_that_comes_later_counts_from_then_on():
    told = [[], [proc(9, "worker", 1, cpu_s=100.0)], [proc(9, "worker", 1, cpu_s=100.5)]]
    assert node_of(grown(*told), WINDOW).data_cores == {1: pytest.approx(0.25)}


def test_the_least_memory_that_was_left_counts():
    memory = [{"total_bytes": 100, "available_bytes": left} for left in (50, 3, 40)]
    samples = [sample(1100 + 1000 * at, memory=told) for at, told in enumerate(memory)]
    assert node_of(samples, WINDOW).available == pytest.approx(0.03)


@pytest.mark.parametrize(
    "samples",
    [[], [sample(1100)], [sample(100), sample(200), sample(300), sample(9000)]],
    ids=["none", "one", "outside-of-the-steps"],
)
def test_too_few_samples_tell_nothing(samples):
    assert node_of(samples, WINDOW).delay == {}


def test_broken_samples_are_no_trouble():
    samples = [sample(1100 + 900 * at, procs=["x", {"rank": "y"}], memory=7) for at in range(3)]
    assert node_of(samples, WINDOW).available is None
