from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.training_thread import TrainingThreadFacts
from perfdoctor.facts.predict.scaling import ScaleModel, of_job, points
from perfdoctor.facts.predict.step_model import BEST, WORST
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import JobFacts
from perfdoctor.render.notes import worded
from tests.support import facts

# 80 ms of own work, 30 ms of exchange of which 20 are hidden, on a node with room
MODEL = ScaleModel(
    2, 1, own_s=0.080, moving_s=0.030, exposed_s=0.010, waiting_s=0.0, cpu_s=0.08, cores=64, fixed=0.0
)


def test_one_rank_exchanges_nothing():
    assert MODEL.step_s(1) == pytest.approx(0.080)
    assert MODEL.speedup(1).likely == pytest.approx(1.0)


def test_as_many_ranks_as_now_take_as_long_as_now():
    assert MODEL.step_s(2) == pytest.approx(0.090)
    assert MODEL.speedup(2).likely == pytest.approx(2 * 80 / 90)


def test_the_exchange_grows_by_the_rings_law_and_no_more_of_it_is_hidden():
    # each of 4 ranks sends 3/4 of the bytes twice where each of 2 sent half: 45 ms
    assert MODEL.exposed(4) == pytest.approx(0.045 - 0.020)
    assert MODEL.exposed(1_000_000) == pytest.approx(0.060 - 0.020, rel=1e-3)


def test_small_collectives_cost_for_each_step_of_the_ring():
    assert replace(MODEL, fixed=1.0).exposed(4) == pytest.approx(3 * 0.030 - 0.020)
    doubtful = replace(MODEL, fixed=0.3)
    assert doubtful.exposed(4, BEST) < doubtful.exposed(4) < doubtful.exposed(4, WORST)
    gain = doubtful.speedup(8)
    assert gain.low < gain.likely < gain.high


def test_ranks_of_a_node_share_its_cores():
    crowded = replace(MODEL, cores=4)
    assert crowded.step_s(4) == pytest.approx(MODEL.step_s(4))
    assert crowded.step_s(16) == pytest.approx(0.080 * 16 / 4)
    assert crowded.bound(16) == (Bottleneck.COMPUTE, Note("cores-wanted", {"wanted": 16.0, "cores": 4}))
    assert replace(crowded, nodes=2).bound(32)[1] == Note(
        "cores-wanted-on-nodes", {"wanted": 16.0, "cores": 4}
    )
    assert replace(crowded, nodes=4).step_s(16) < 0.2


def test_one_rank_alone_has_the_cores_that_it_lacked_beside_the_others():
    full = replace(MODEL, ranks=4, cores=2, cpu_s=0.04, lacked_s=(0.03, 0.04, 0.045))
    assert full.step_s(4) == pytest.approx(MODEL.step_s(2))  # as it was measured
    gain = full.speedup(4)
    assert (gain.low, gain.likely, gain.high) == pytest.approx([4 * own / 90 for own in (35, 40, 50)])
    assert full.own(2) == pytest.approx(0.080 - 0.040 * 2 / 3)
    assert full.bound(4) == (Bottleneck.COMPUTE, Note("cores-wanted", {"wanted": 4.0, "cores": 2}))
    # alone on its node, it lacked nothing for the sake of others
    assert replace(full, nodes=4).speedup(4).likely == pytest.approx(4 * 80 / 90)


@pytest.mark.parametrize(
    ("model", "ranks", "kind", "told"),
    [
        (MODEL, 4, Bottleneck.NETWORK, "gradient sync takes 24% of the step"),
        (replace(MODEL, waiting_s=0.05, late=Bottleneck.DATA), 2, Bottleneck.DATA,
         "waiting for stragglers takes 36% of the step"),
        (replace(MODEL, moving_s=0.001, exposed_s=0.001), 2, Bottleneck.COMPUTE,
         "each rank's own work takes 99% of the step"),
        (replace(MODEL, moving_s=0.001, exposed_s=0.001, data_s=0.04), 2, Bottleneck.DATA,
         "batches take 49% of the step"),
    ],
)  # fmt: skip
def test_what_bounds_it_next(model, ranks, kind, told):
    found, why = model.bound(ranks)
    assert (found, worded(why)) == (kind, told)


STEP = facts.step(forward=30, backward=50, optimizer=10, grad_sync=10)
JOB = JobFacts(
    2, (facts.among(forward=30, backward=50, optimizer=10),), ("here",), gradient_sync=facts.exchange()
)


def test_a_run_of_several_ranks_says_what_to_expect_of_more():
    found = points(of_job(JOB, STEP, facts.cpu(cores=64, main_cores=1.0)))
    assert [point.ranks for point in found] == [2, 4, 8]
    assert found[0].step_s == pytest.approx(0.1)
    assert found[0].speedup.likely == pytest.approx(2 * 0.09 / 0.1)
    assert found[2].bound is Bottleneck.NETWORK


FOUR = replace(JOB, world=4)  # steps of 90 ms of their own, on two cores
HALF = TrainingThreadFacts(on_core=0.45, without_core=0.45)  # it ran as long as it lacked a core


@pytest.mark.parametrize(
    ("given", "thread", "threads", "lacked_ms"),
    [
        pytest.param({}, HALF, 1, (36, 45, 54), id="the-kernel-counted-it"),
        pytest.param({}, TrainingThreadFacts(0.9, 0.0), 1, (0, 0, 0), id="it-lacked-none"),
        pytest.param({}, TrainingThreadFacts(0.0, 0.0), 1, (0, 0, 0), id="it-did-nothing"),
        pytest.param(
            {"main_cores": 0.2, "other_cores": 1.8}, HALF, 1, (18, 22.5, 27), id="other-programs-too"
        ),
        pytest.param({}, None, 1, (0, 45, 45), id="full-cores-and-one-thread"),
        pytest.param({}, None, 2, (0, 67.5, 67.5), id="full-cores-and-two-threads"),
        pytest.param({}, None, None, (0, 67.5, 67.5), id="full-cores-and-who-knows-how-many-threads"),
        pytest.param({"cores": 64}, None, 1, (0, 0, 0), id="cores-were-left"),
    ],
)
def test_what_a_rank_lacked_is_what_the_kernel_counted_or_a_range(given, thread, threads, lacked_ms):
    cpu = facts.cpu(**{"cores": 2, "busy": 2.0, "main_cores": 0.45} | given)
    model = of_job(FOUR, STEP, cpu, thread, threads)
    assert model is not None
    assert model.lacked_s == pytest.approx([ms / 1e3 for ms in lacked_ms])


def test_batches_that_are_waited_for_come_sooner_where_their_workers_lack_no_cores():
    waiting = replace(FOUR, ranks=(facts.among(data_wait=40, forward=50),))
    cpu = facts.cpu(cores=2, busy=2.0, main_cores=0.1, worker_cores=0.4, worker_delay=0.5)
    model = of_job(waiting, STEP, cpu, TrainingThreadFacts(0.25, 0.25), 1)
    # 25 ms of computing are left, but batches come each 60 ms: 90 less the third that their workers lacked
    assert model.lacked_s[1] == pytest.approx(0.030)


@pytest.mark.parametrize(
    ("job", "cpu"),
    [
        pytest.param(replace(JOB, gradient_sync=None), facts.cpu(), id="the-exchange-was-not-timed"),
        pytest.param(JOB, None, id="cores-are-not-known"),
        pytest.param(replace(JOB, shown=5), facts.cpu(), id="the-shown-rank-is-missing"),
    ],
)
def test_nothing_is_expected_where_something_is_missing(job, cpu):
    assert of_job(job, STEP, cpu) is None
    assert points(None) == ()
