from __future__ import annotations

from dataclasses import replace

import pytest

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
    found = points(JOB, STEP, facts.cpu(cores=64, main_cores=1.0))
    assert [point.ranks for point in found] == [2, 4, 8]
    assert found[0].step_s == pytest.approx(0.1)
    assert found[0].speedup.likely == pytest.approx(2 * 0.09 / 0.1)
    assert found[2].bound is Bottleneck.NETWORK


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
    assert points(job, STEP, cpu) == ()
