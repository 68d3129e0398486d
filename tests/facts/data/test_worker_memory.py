from __future__ import annotations

import pytest

from perfdoctor.facts.data.worker_memory import worker_memory
from perfdoctor.model.missing import Missing


def sample(t, private, role="worker", pid=7):
    return {"t_ns": t * 10**9, "procs": [{"pid": pid, "role": role, "private_bytes": private}]}


def test_growth_is_summed_and_its_second_half_told_apart():
    sizes = [100, 100, 140, 160, 160, 180]
    found = worker_memory([sample(t * 10, size * 10**6) for t, size in enumerate(sizes)])
    assert found is not None
    assert not isinstance(found, Missing)
    assert (found.workers, found.first_bytes, found.last_bytes, found.seconds) == (1, 100e6, 180e6, 50)
    assert found.late_bytes_per_s == pytest.approx(20e6 / 20)


def test_memory_without_a_file_behind_it_tells_where_private_pages_were_counted_too_seldom():
    samples = [sample(t, 10**8) for t in range(10)]
    for t, entry in enumerate(samples):
        entry["procs"][0]["anonymous_bytes"] = 10**8 + t * 10**6
    found = worker_memory(samples)
    assert found is not None
    assert not isinstance(found, Missing)
    assert (found.last_bytes - found.first_bytes, found.late_bytes_per_s) == (9e6, pytest.approx(1e6))


def test_only_workers_that_lived_at_the_same_time_are_summed():
    epochs = [
        sample(100 * epoch + t, (100 + t) * 10**6, pid=10 * epoch + worker)
        for epoch in range(3)
        for t in range(0, 60 + epoch, 10)
        for worker in range(2)
    ]
    found = worker_memory(epochs)
    assert (found.workers, found.last_bytes - found.first_bytes) == (2, 120e6)


def test_repeated_readings_count_once():
    found = worker_memory([sample(t, 10**8 + t // 10) for t in range(30)])
    assert found == Missing("the workers' memory was sampled too rarely to see growth")


def test_other_processes_are_no_workers():
    assert worker_memory([sample(t, t + 1, role="main") for t in range(9)]) is None
