from __future__ import annotations

import pytest

from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.predict.thread_team import ThreadTeam, thread_team
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.tips.wrong_thread_count import wrong_thread_count
from tests.support import facts
from tests.support.facts import cpu, run, step, threads

BUSY = step(forward=40, backward=55, data_wait=5)
LINE = Location("train.py", 5, "main")
UNTOLD = Missing("the kernel did not tell how long the training thread ran")


def tip(of_run, of_step, of_threads, of_cpu, team=None):
    """The advice; where no team is given, the kernel did not tell how it got on."""
    team = team or thread_team(of_run, of_cpu, of_threads, UNTOLD)
    return wrong_thread_count(of_run, of_step, of_threads, of_cpu, team)


def team(count=2, cores=2.0, rivals=1.0, ran=1.4, lacked=0.6, **given):
    """Threads of which each runs and lacks cores as often as the others."""
    each = {"first_ran": ran / count, "first_lacked": lacked / count}
    return ThreadTeam(
        **{"threads": count, "cores": cores, "rivals": rivals, "ran": ran, "lacked": lacked, **each, **given}
    )


LACKED = (
    "its threads were ready but had no core for 0.6 s of each second, and each operation waits for its last one; "
    "compute takes 95% of the step"
)
CROWDED = cpu(cores=2, busy=1.4, main_cores=1.4, other_cores=1.0)


def test_ranks_that_are_bound_to_cores_of_their_own_are_judged_by_these():
    of_cpu, bound = cpu(cores=4, busy=4.0, main_cores=2.0), RankCores(2.0, 1)
    crowd = threads(4, None)
    of_team = thread_team(run(ranks=2), of_cpu, crowd, UNTOLD, bound)
    advice = tip(run(ranks=2), BUSY, crowd, of_cpu, of_team)
    assert advice.because[1].startswith("4 threads compete for 2 usable cores")
    assert advice.tweak == "--threads 2"
    fitting = threads(2, None)
    of_team = thread_team(run(ranks=2), of_cpu, fitting, UNTOLD, bound)
    assert tip(run(ranks=2), BUSY, fitting, of_cpu, of_team) is None


def test_beside_a_busy_program_fewer_threads_are_advised_and_the_load_is_named_as_the_cause():
    advice = tip(run(), BUSY, threads(2, None), CROWDED, team())
    assert advice is not None
    assert advice.because == (
        "torch computes with 2 threads on 2 usable cores; other programs keep 1.0 busy",
        LACKED,
        "that load is the cause: without it 2 threads are right, beside it fewer lose less",
    )
    assert (advice.tweak, advice.code) == (
        "--threads 1",
        "torch.set_num_threads(1)  # while others have the cores",
    )
    assert not advice.same_result
    assert facts.gain(advice).low < 1.2 < facts.gain(advice).likely < 3 < facts.gain(advice).high


def test_the_less_often_its_threads_have_cores_at_once_the_more_one_thread_brings():
    gains = [
        facts.gain(tip(run(), BUSY, threads(2, None), CROWDED, team(rivals=rivals, ran=ran, lacked=lacked)))
        for rivals, ran, lacked in ((1.0, 1.4, 0.6), (1.5, 0.5, 1.5), (1.7, 0.33, 1.67))
    ]
    assert gains[0].likely < gains[1].likely < gains[2].likely
    assert gains[2].low > 2


def test_ranks_with_as_many_threads_as_cores_each_are_advised_their_part():
    ranks = team(4, cores=4.0, rivals=0.0, ran=2.0, lacked=2.0, teams=2)
    advice = tip(run(ranks=2), BUSY, threads(4, None), cpu(cores=4, busy=4.0, main_cores=2.0), ranks)
    assert advice is not None
    assert advice.because[0] == "2 ranks compute with 4 threads each on 4 usable cores"
    assert advice.because[2] == "with 2 threads in each rank fewer wait for each other"
    assert (advice.tweak, advice.code) == ("--threads 2", "torch.set_num_threads(2)")


def test_loader_workers_that_have_the_cores_are_named():
    of_cpu = cpu(cores=4, busy=3.9, main_cores=2.0, worker_cores=1.9, other_cores=0.1)
    crowd = team(4, cores=4.0, rivals=2.0, ran=1.2, lacked=2.4)
    advice = tip(run(), BUSY, threads(4, "OMP_NUM_THREADS=4"), of_cpu, crowd)
    assert advice is not None
    assert advice.because[0] == (
        "torch computes with 4 threads (OMP_NUM_THREADS=4) on 4 usable cores; loader workers keep 1.9 busy"
    )


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(team(rivals=0.0, ran=1.9, lacked=0.02), id="a-quiet-machine"),
        pytest.param(team(rivals=0.2, ran=1.7, lacked=0.2), id="a-fifth-of-a-core"),
        pytest.param(team(rivals=0.4, ran=1.6, lacked=0.15), id="next-to-nothing-to-gain"),
        pytest.param(team(rivals=1.0, ran=1.0, lacked=0.05), id="they-have-their-cores"),
        pytest.param(team(4, cores=16.0, rivals=8.0, ran=3.9, lacked=0.2), id="many-cores"),
        pytest.param(team(1, rivals=1.8, ran=0.6, lacked=0.4), id="one-thread-already"),
        pytest.param(team(first_lacked=None), id="the-kernel-does-not-tell"),
    ],
)
def test_where_the_threads_have_their_cores_fewer_are_not_advised(held):
    of_cpu = cpu(cores=held.cores, busy=held.ran, main_cores=held.ran, other_cores=held.rivals)
    assert tip(run(), BUSY, threads(held.threads, None), of_cpu, held) is None


def test_a_step_that_mostly_waits_is_left_alone_however_crowded_its_cores():
    assert tip(run(), step(data_wait=65, forward=35), threads(2, None), CROWDED, team()) is None


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


def test_of_large_teams_no_more_is_promised_than_was_seen_of_small_ones():
    few = team(16, cores=16.0, rivals=4.0, ran=12.8, lacked=3.2)
    low, likely, high = few.speedups(few.fitting)
    assert 1 < low < likely < high < 4
