"""Two ranks of 123 ms a step, as they were timed: rank 0 waits 67.7 ms for rank 1 and transfers for 6.2 ms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis.verdict import attribute_time, conclude
from perfdoctor.facts.gather import Facts
from perfdoctor.model.change import removes
from perfdoctor.model.concluded import Advice, Bottleneck, Finding, Gain, Verdict
from perfdoctor.model.measured import RunFacts, StepFacts
from perfdoctor.model.ranks import JobFacts
from tests.support import job_facts
from tests.support.facts import run, step

STEP_MS, WAITING_MS, SAVED_MS = 123.0, 67.7, 33.9
PUNCTUAL = step(forward=17.6, backward=28.6, optimizer=2.9, grad_sync=73.9)
LATE = step(forward=45.0, backward=68.9, optimizer=2.9, grad_sync=6.2)


def job(shown=0, **given):
    fields = {
        "cause": Bottleneck.COMPUTE,
        "saved_s": SAVED_MS / 1e3,
        "step_s": STEP_MS / 1e3,
        "more_data": 2.6,
    }
    late = job_facts.culprit(1, ranks=2, **(fields | given))
    waits = {} if shown == late.rank else {Bottleneck.COMPUTE: WAITING_MS / 1e3}
    return job_facts.job(2, slow=None, straggler=late, shown=shown, waits=waits)


def facts(of_step, of_job):
    return Facts({RunFacts: run(device="cpu"), StepFacts: of_step, JobFacts: of_job})


def finding(kind):
    share = SAVED_MS / STEP_MS
    advice = Advice(("because",), removes(share / 2, share, share))
    return Finding("straggler-rank", 1, kind, "Do something", advice, Gain(1.1, 1.38, 1.5))


@pytest.mark.parametrize(("of_step", "shown"), [(PUNCTUAL, 0), (LATE, 1)])
def test_what_evening_out_would_save_is_waiting_for_ranks_whichever_rank_is_shown(of_step, shown):
    found = attribute_time(facts(of_step, job(shown)))
    assert sum(found.classes.values()) == pytest.approx(1.0)
    assert found.classes[Bottleneck.NETWORK] == pytest.approx((SAVED_MS + 6.2) / STEP_MS, abs=0.002)
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx((STEP_MS - SAVED_MS - 6.2) / STEP_MS, abs=0.002)
    assert found.bounds[Bottleneck.NETWORK] == pytest.approx(STEP_MS / (STEP_MS - SAVED_MS - 6.2), rel=0.003)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"more_data": None}, id="a-slow-machine"),
        pytest.param({"crowded": True}, id="others-have-its-cores"),
        pytest.param({"saved_s": None}, id="nobody-knows-what-it-would-save"),
    ],
)
def test_a_rank_that_is_late_for_another_reason_is_counted_as_what_it_does(given):
    told = facts(PUNCTUAL, replace(job(), straggler=replace(job().straggler, **given)))
    found = attribute_time(told)
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx(1 - 6.2 / STEP_MS, abs=0.002)
    concluded = conclude(told, found, [finding(Bottleneck.COMPUTE)])
    assert concluded.verdict is Verdict.COMPUTE
    assert not concluded.waits_for_ranks
    assert concluded.because[1] == "55% is waiting for rank 1, charged to what makes that rank late"


def test_a_rank_with_more_to_compute_makes_waiting_the_verdict_and_says_which_part_of_it_would_go():
    told = facts(PUNCTUAL, job())
    concluded = conclude(told, attribute_time(told), [finding(Bottleneck.NETWORK)])
    assert (concluded.verdict, concluded.waits_for_ranks) == (Verdict.NETWORK, True)
    assert concluded.because[1:3] == (
        "28% is waiting for rank 1, which has more to compute: with equal work that wait would disappear",
        "a further 27% is waiting for rank 1, charged to what makes that rank late",
    )


def test_of_the_late_rank_it_says_that_the_others_wait():
    told = facts(LATE, job(shown=1))
    because = conclude(told, attribute_time(told), [finding(Bottleneck.NETWORK)]).because
    assert because[1] == (
        "in 28% the others wait for rank 1, which has more to compute: with equal work that wait would disappear"
    )
    assert not any("charged to" in each for each in because)


def test_where_most_of_the_network_is_transfers_ranks_do_not_wait_for_each_other():
    of_step = step(forward=15, backward=25, grad_sync=60)
    few = job(saved_s=0.010, step_s=0.1)
    told = facts(of_step, replace(few, waits={Bottleneck.COMPUTE: 0.02}))
    concluded = conclude(told, attribute_time(told), ())
    assert concluded.classes[Bottleneck.NETWORK] == pytest.approx(0.5)
    assert (concluded.verdict, concluded.waits_for_ranks) == (Verdict.NETWORK, False)
