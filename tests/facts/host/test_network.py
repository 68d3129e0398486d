from __future__ import annotations

import pytest

from perfdoctor.facts.host.network import Link, LinkLimit, network_facts
from perfdoctor.model.missing import Missing
from tests.support.facts import run as of_run
from tests.support.records import MS, records

SECOND = 1000 * MS
MB = 10**6
GIGABIT = 125 * MB


def sample(at_s, received=0, **net):
    return {"t_ns": at_s * SECOND, "net": {"received_bytes": received, "sent_bytes": 3, **net}}


def card(received, nominal=None):
    return {"received_bytes": received, "nominal_bytes_per_s": nominal}


def link(mb, best=0.0, nominal=None, loopback=False):
    return Link(mb * MB, max(mb, best) * MB, nominal, loopback)


def facts(samples, run=None, ranks=1):
    found = network_facts(samples, records(host=run or samples), of_run(ranks=ranks))
    assert not isinstance(found, Missing)
    return found


def test_a_recording_from_before_cards_were_told_apart_gives_what_it_has():
    found = facts([sample(t, t * 7) for t in (1, 2, 3)])
    assert found.received_bytes_per_s == pytest.approx(7)
    assert found.sent_bytes_per_s == pytest.approx(0)
    assert found.link == Link(pytest.approx(7), pytest.approx(7))
    assert (found.opened_per_s, found.resent) == (None, None)


@pytest.mark.parametrize("samples", [[], [sample(1)], [{"t_ns": 1}, {"t_ns": 2, "net": None}]])
def test_without_two_samples_there_is_a_reason(samples):
    found = network_facts(samples, records(host=samples), of_run())
    assert found == Missing("network traffic was not sampled while training stepped")


def test_values_of_the_wrong_kind_are_no_trouble():
    odd = [sample(t, t, cards=[1], opened_connections="x", loopback_bytes=None) for t in (1, 2)]
    assert facts(odd).received_bytes_per_s == pytest.approx(1)
    assert facts([sample(t, t, cards={"eth0": t}) for t in (1, 2)]).link.received_bytes_per_s == 1


def test_connections_are_counted_for_each_rank_and_lost_segments_as_a_share():
    samples = [
        sample(t, opened_connections=t * 12, sent_segments=t * 200, resent_segments=t * 5) for t in (1, 2, 5)
    ]
    assert facts(samples).opened_per_s == pytest.approx(12)
    assert facts(samples, ranks=4).opened_per_s == pytest.approx(3)
    assert facts(samples).resent == pytest.approx(0.025)


def test_the_link_is_the_card_that_received_most():
    samples = [sample(t, cards={"eth0": card(t * MB, GIGABIT), "ib0": card(t * 9 * MB)}) for t in (1, 2)]
    assert facts(samples).link == link(9)


def test_a_card_that_is_nearly_full_comes_before_loopback_that_carries_more():
    samples = [
        sample(t, loopback_bytes=t * 200 * MB, cards={"eth0": card(t * 90 * MB, GIGABIT)}) for t in (1, 2)
    ]
    assert facts(samples).link == link(90, nominal=GIGABIT)


def test_loopback_is_the_link_where_it_carried_more_unless_ranks_exchange_over_it():
    samples = [sample(t, loopback_bytes=t * 9 * MB, cards={"eth0": card(t * MB, GIGABIT)}) for t in (1, 2)]
    assert facts(samples).link == link(9, loopback=True)
    assert facts(samples, ranks=2).link == link(1, nominal=GIGABIT)


def run_of(*megabytes):
    """Samples a second apart; so much came in between them."""
    return [sample(at_s, sum(megabytes[:at_s]) * MB) for at_s in range(len(megabytes) + 1)]


def test_the_best_seconds_may_lie_outside_the_steps():
    run = run_of(50, 50, 50, 50, 1, 1, 1, 1, 1)
    found = facts(run[4:], run).link
    assert (found.received_bytes_per_s, found.best_bytes_per_s) == pytest.approx((MB, 50 * MB))


def test_a_burst_is_not_what_a_link_carries():
    run = run_of(1, 1, 1, 1, 61, 1, 1, 1)
    assert facts(run[:4], run).link.best_bytes_per_s == pytest.approx(21 * MB)
    short = run_of(1, 61)
    assert facts(short).link.best_bytes_per_s == facts(short).link.received_bytes_per_s


@pytest.mark.parametrize(
    ("of_link", "limit"),
    [
        pytest.param(link(3.1, nominal=GIGABIT), LinkLimit.LATENCY, id="far-below-the-card"),
        pytest.param(link(90, nominal=GIGABIT), LinkLimit.BANDWIDTH, id="near-the-card"),
        pytest.param(link(60, nominal=GIGABIT), LinkLimit.UNKNOWN, id="between"),
        pytest.param(link(11, nominal=GIGABIT / 10), LinkLimit.BANDWIDTH, id="a-slow-card-is-full"),
        pytest.param(
            link(115, nominal=50 * GIGABIT), LinkLimit.UNKNOWN, id="a-fast-card-behind-a-narrow-way"
        ),
        pytest.param(link(115, 600, 50 * GIGABIT), LinkLimit.LATENCY, id="the-run-saw-the-way-carry-more"),
        pytest.param(link(3.1), LinkLimit.LATENCY, id="a-card-that-says-nothing"),
        pytest.param(link(115), LinkLimit.UNKNOWN, id="much-over-a-card-that-says-nothing"),
        pytest.param(link(115, loopback=True), LinkLimit.LATENCY, id="loopback-carries-more-than-a-card"),
        pytest.param(link(600, loopback=True), LinkLimit.UNKNOWN, id="much-over-loopback"),
        pytest.param(link(0), LinkLimit.LATENCY, id="hardly-anything"),
    ],
)
def test_what_is_waited_for(of_link, limit):
    assert of_link.limit(fetching=1.0) is limit


def test_what_comes_in_while_batches_are_fetched_counts_not_the_mean():
    often, seldom = (link(30, nominal=GIGABIT).limit(share) for share in (1.0, 0.25))
    assert (often, seldom) == (LinkLimit.LATENCY, LinkLimit.BANDWIDTH)
    assert link(30, nominal=GIGABIT).used(0.5) == pytest.approx(0.48)
    assert link(300, nominal=GIGABIT).used(1.0) == 1.0
    assert link(30).used(0.5) is None
    assert link(30, nominal=GIGABIT).rate(0.0) == 30 * MB
