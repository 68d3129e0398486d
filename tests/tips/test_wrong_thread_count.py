from __future__ import annotations

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.tips.wrong_thread_count import wrong_thread_count as tip
from tests.support import facts
from tests.support.facts import cpu, run, step, threads

BUSY = step(forward=40, backward=55, data_wait=5)
LINE = Location("train.py", 5, "main")


def test_one_thread_beside_idle_cores():
    advice = tip(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(cores=8, busy=1.0))
    assert advice is not None
    assert advice.because == (
        "torch computes with 1 thread (OMP_NUM_THREADS=1)",
        "it keeps 1.0 of 8 usable cores busy; compute takes 95% of the step",
    )
    assert advice.tweak == "--threads 8"
    assert facts.gain(advice).low < facts.gain(advice).likely < facts.gain(advice).high <= 20


def test_more_threads_than_usable_cores():
    advice = tip(run(), BUSY, threads(64, None), cpu(cores=4, busy=4.0))
    assert advice is not None
    assert advice.because[1] == "64 threads compete for 4 usable cores; compute takes 95% of the step"
    assert advice.tweak == "--threads 4"


def test_advises_as_many_as_whole_cores():
    few = tip(run(), BUSY, threads(2, "OMP_NUM_THREADS=2"), cpu(cores=16, busy=2.0, whole_cores=8.0))
    many = tip(run(), BUSY, threads(64, None), cpu(cores=16, busy=16.0, whole_cores=8.0))
    assert few is not None
    assert many is not None
    assert few.tweak == many.tweak == "--threads 8"
    assert "busy, which are hyper-threads of 8 whole cores; compute" in few.because[1]


def test_points_at_the_line_that_set_them():
    advice = tip(run(), BUSY, threads(1, "torch.set_num_threads", at=LINE), cpu(cores=4))
    assert advice is not None
    assert advice.at == (LINE,)


def test_leaves_cores_to_the_workers():
    advice = tip(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(cores=8, busy=4.0, worker_cores=3.0))
    assert advice is not None
    assert advice.tweak == "--threads 5"


def test_leaves_cores_to_other_programs():
    one = threads(1, "OMP_NUM_THREADS=1")
    alone, beside = (tip(run(), BUSY, one, cpu(cores=8, busy=1.0, other_cores=busy)) for busy in (0.0, 3.2))
    assert alone is not None
    assert beside is not None
    assert (alone.tweak, beside.tweak) == ("--threads 8", "--threads 5")
    assert "it keeps 1.0 of 8 usable cores busy; other programs keep 3.2 busy; compute" in beside.because[1]
    assert facts.gain(beside).likely < facts.gain(alone).likely
    many = tip(run(), BUSY, threads(64, None), cpu(cores=8, busy=5.0, other_cores=3.2))
    assert many is not None
    assert many.tweak == "--threads 5"
    part = tip(run(), BUSY, threads(64, None), cpu(cores=4.8, busy=4.5, other_cores=0.1))
    assert part is not None
    assert part.tweak == "--threads 4"


def test_what_other_programs_use_now_and_then_leaves_the_core():
    advice = tip(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(cores=2, busy=1.0, other_cores=0.2))
    assert advice is not None
    assert advice.tweak == "--threads 2"
    assert "other programs" not in advice.because[1]


@pytest.mark.parametrize("busy", [0.5, 1.0, 1.3, 1.8])
def test_a_second_thread_without_a_core_of_its_own_is_not_advised(busy):
    crowded = cpu(cores=2, busy=0.9, other_cores=busy)
    assert tip(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), crowded) is None
    workers = cpu(cores=4, busy=2.0, worker_cores=1.0, other_cores=1.8)
    assert tip(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), workers) is None


@pytest.mark.parametrize(
    ("of_run", "of_step", "of_threads", "of_cpu"),
    [
        pytest.param(run(), BUSY, threads(4), cpu(cores=4, busy=3.9), id="as-many-as-cores"),
        pytest.param(run(), BUSY, threads(5), cpu(cores=4, busy=3.9), id="just-under-too-many"),
        pytest.param(run(), BUSY, threads(1, None), cpu(cores=4), id="torchs-own-choice"),
        pytest.param(
            run(), BUSY, threads(8, "OMP_NUM_THREADS=8"), cpu(16, 8.0, whole_cores=8.0), id="one-on-each-core"
        ),
        pytest.param(
            run(), BUSY, threads(1, "OMP_NUM_THREADS=1", module=0.4), cpu(cores=4), id="small-operations"
        ),
        pytest.param(run(), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(cores=2, busy=1.8), id="no-idle-core"),
        pytest.param(run(), BUSY, threads(3, "OMP_NUM_THREADS=3"), cpu(cores=4, busy=2.9), id="nearly-all"),
        pytest.param(
            run(), step(data_wait=61, forward=39), threads(1, "OMP_NUM_THREADS=1"), cpu(), id="not-compute"
        ),
        pytest.param(run(device="cuda"), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(), id="on-a-device"),
        pytest.param(run(ranks=4), BUSY, threads(1, "OMP_NUM_THREADS=1"), cpu(), id="ranks-share-the-cores"),
    ],
)
def test_is_silent(of_run, of_step, of_threads, of_cpu):
    assert tip(of_run, of_step, of_threads, of_cpu) is None
