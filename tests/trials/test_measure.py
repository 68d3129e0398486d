from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfdoctor.model.measured import Location, Marker
from perfdoctor.model.trial import ExecutionEnd, Place
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import measure
from perfdoctor.trials.measure import Turn
from tests.support.records import MS, records, row, rows, update

BEGIN_MS = 1000.0  # of the first row


def steps(*milliseconds: float, **columns: Any) -> list[Any]:
    return [update(each, samples=8, batches=1, **columns) for each in milliseconds]


def run(*described: Any, events: Any = ()) -> RunRecords:
    return records(rows(described), events=events)


def ranks(*tables: Any) -> RunRecords:
    """Several ranks, each with its rows."""
    one = records(rows(tables[0]))
    return replace(
        one,
        ranks={
            rank: replace(one.ranks[0], rank=rank, steps=rows(table)) for rank, table in enumerate(tables)
        },
    )


def epoch(at_step: int, step_ms: float = 10.0, loader: int = 1) -> dict[str, Any]:
    """An epoch that begins with a step, where all take as long."""
    return {"event": "epoch", "loader": loader, "begin_ns": round((BEGIN_MS + at_step * step_ms) * MS) + 1}


# ---------------------------------------------------------------- times


def test_the_mean_is_that_of_the_planned_steps_past_the_warm_up() -> None:
    found = measure.execution(run(*steps(500, 100, *[10] * 20, 1000)), 2, 2, 20)
    assert found.ending is ExecutionEnd.MEASURED
    assert (found.round, found.steps, found.warm_up_steps) == (2, 20, 2)
    assert found.step_s == pytest.approx(0.010)
    assert found.samples_per_s == pytest.approx(800.0)
    assert found.warm_up_s == pytest.approx(0.6)
    assert found.start_s == pytest.approx(0.6)  # the command began at 400 ms


def test_in_exchanges_the_rank_that_is_held_up_least_came_last() -> None:
    early = steps(10, 10, 10, grad_sync=6.0)
    late = steps(10, 10, 10, grad_sync=2.0)
    found = measure.execution(ranks(early, late), 0, 0, None)
    assert found.ranks == 2
    assert found.phases["moving"] == pytest.approx(0.002)
    assert found.phases["waiting"] == pytest.approx(0.002)  # the mean of 4 ms and nothing
    assert sum(found.phases.values()) == pytest.approx(0.010)
    assert "grad_sync" not in found.phases


def test_one_rank_waits_for_nobody() -> None:
    found = measure.execution(run(*steps(10, 10, grad_sync=3.0)), 0, 0, None)
    assert (found.phases["waiting"], found.phases["moving"]) == (0.0, pytest.approx(0.003))


def test_what_a_tweak_cannot_promise_here_is_told_once_for_all_ranks() -> None:
    event = {"event": "tweak", "tweak": "workers", "outcome": "may_differ", "because": "it draws"}
    found = measure.execution(run(*steps(10), events=[event, event]), 0, 0, None)
    assert found.may_differ == ("it draws",)


def test_without_a_number_of_steps_all_are_measured() -> None:
    found = measure.execution(run(*steps(10, 20, 30)), 0, 0, None)
    assert (found.ending, found.steps) == (ExecutionEnd.MEASURED, 3)
    assert found.step_s == pytest.approx(0.020)


def test_a_script_that_ended_by_itself_is_too_short_and_measured_over_what_there_is() -> None:
    found = measure.execution(run(*steps(*[10] * 12)), 0, 2, 20)
    assert (found.ending, found.steps) == (ExecutionEnd.TOO_SHORT, 10)
    assert found.step_s == pytest.approx(0.010)


def test_a_script_that_ended_within_its_warm_up_has_no_time() -> None:
    found = measure.execution(run(*steps(10, 10)), 0, 2, 20)
    assert (found.ending, found.steps, found.step_s) == (ExecutionEnd.TOO_SHORT, 0, None)


@pytest.mark.parametrize(
    "found", [records(None), run(row(Marker.OPEN, 10)), replace(records(None), ranks={})]
)
def test_a_script_without_steps_has_none(found: RunRecords) -> None:
    assert measure.execution(found, 0, 0, 10).ending is ExecutionEnd.NO_STEPS
    assert measure.warm_up(found) == measure.LEAST_WARM_UP


def test_of_several_ranks_the_slowest_sets_the_time_and_all_have_samples() -> None:
    found = measure.execution(ranks(steps(*[10] * 10), steps(*[20] * 10)), 0, 0, 10)
    assert found.step_s == pytest.approx(0.020)
    assert found.samples_per_s == pytest.approx(2 * 10 * 8 / 0.2)


def test_where_one_rank_stopped_before_the_others_that_is_too_short() -> None:
    found = measure.execution(ranks(steps(*[10] * 10), steps(*[10] * 4)), 0, 0, 10)
    assert (found.ending, found.steps) == (ExecutionEnd.TOO_SHORT, 4)


def test_samples_that_nobody_counted_are_not_known() -> None:
    assert measure.execution(run(*[update(10)] * 5), 0, 0, 5).samples_per_s is None


# ---------------------------------------------------------------- whole periods


def uneven(period: int, count: int, **columns: Any) -> list[Any]:
    """Every so many steps one is ten times as long."""
    return [
        update(100 if index % period == 0 else 10, **(columns if index % period == 0 else {}))
        for index in range(count)
    ]


def begins(described: list[Any], period: int) -> list[dict[str, Any]]:
    table = rows(described)
    return [{"event": "epoch", "loader": 1, "begin_ns": int(at) + 1} for at in table["begin_ns"][::period]]


@pytest.mark.parametrize("warm_up", [5, 9, 11])
def test_epoch_starts_are_charged_by_whole_epochs(warm_up: int) -> None:
    described = uneven(10, 60)
    found = measure.execution(run(*described, events=begins(described, 10)), 0, warm_up, 27)
    assert (found.ending, found.steps) == (ExecutionEnd.MEASURED, 20)
    assert found.step_s == pytest.approx(0.019)


@pytest.mark.parametrize("phase", ["validation", "checkpoint"])
def test_validation_and_checkpoints_are_charged_by_whole_periods(phase: str) -> None:
    found = measure.execution(run(*uneven(8, 40, **{phase: 90})), 0, 3, 30)
    assert found.steps == 24
    assert found.step_s == pytest.approx((100 + 7 * 10) / 8 / 1e3)


def test_the_longest_of_several_periods_counts() -> None:
    described = uneven(20, 60)
    events = [*begins(described, 20), *[{**event, "loader": 2} for event in begins(described, 5)]]
    assert measure.execution(run(*described, events=events), 0, 5, 52).steps == 40


def test_what_recurs_at_odd_distances_or_takes_longer_than_the_stretch_leaves_it_as_planned() -> None:
    odd = [epoch(0), epoch(10), epoch(23)]
    assert measure.execution(run(*steps(*[10] * 40), events=odd), 0, 5, 33).steps == 33
    far = [epoch(0), epoch(30)]
    assert measure.execution(run(*steps(*[10] * 40), events=far), 0, 5, 25).steps == 25


def test_the_period_that_a_plan_can_go_by_is_the_longest_even_one() -> None:
    described = uneven(20, 60)
    events = [*begins(described, 20), *[{**event, "loader": 2} for event in begins(described, 5)]]
    assert measure.period(run(*described, events=events)) == 20
    odd = [epoch(0), epoch(10), epoch(23)]
    assert measure.period(run(*steps(*[10] * 40), events=odd)) is None
    assert measure.period(records(None)) is None


def test_an_epoch_is_as_long_as_was_seen_or_as_its_dataset_says_and_else_without_end() -> None:
    described = steps(*[10] * 40)
    even, odd = [epoch(0), epoch(10), epoch(20)], [epoch(0), epoch(10), epoch(23)]
    assert measure.epoch(run(*described, events=even)) == 10
    assert measure.epoch(run(*described, events=odd)) == 13
    assert measure.epoch(run(*described, events=[{**epoch(0), "items": 800}])) == 100
    assert measure.epoch(run(*described, events=[epoch(0)])) == math.inf
    assert measure.epoch(run(*described)) is None


@pytest.mark.parametrize(
    ("every", "held", "period"),
    [(20, 4.0, 20), (40, 4.0, 40), (8, 1.0, 20), (8, 4.0, 32), (8, 0.5, 20)],
    ids=["each epoch", "each second epoch", "steps", "of larger batches", "of smaller ones"],
)
def test_what_comes_every_so_many_steps_is_further_apart_in_the_originals_steps(every, held, period) -> None:
    """Of larger batches; what comes with epochs is not."""
    described = [update(10, validation=5 if index and index % every == 0 else 0) for index in range(90)]
    table = rows(described)
    events = begins(described, 20)
    validating = [int(at) + 1 for at in table["begin_ns"][every::every]]
    events += [{"event": "epoch", "loader": 2, "begin_ns": at} for at in validating]
    assert measure.period(run(*described, events=events), held) == period


def test_a_usual_batch_is_told_by_samples_and_batches_not_by_the_last_of_an_epoch() -> None:
    whole = [update(10, samples=64, batches=2)] * 5
    assert measure.batch(run(*whole, update(10, samples=3, batches=1))) == 32.0
    assert measure.batch(run(*[update(10, samples=8)] * 5)) is None
    assert measure.batch(run(*[update(10, batches=1)] * 5)) is None
    assert measure.batch(records(None)) is None


# ---------------------------------------------------------------- warm-up


def scattered(count: int, mean_ms: float = 10.0, spread: float = 0.1, seed: int = 0) -> list[float]:
    return list(mean_ms * np.exp(np.random.default_rng(seed).normal(0.0, spread, count)))


def test_steps_that_do_not_change_need_the_least_warm_up() -> None:
    for seed in range(20):
        assert measure.warm_up(run(*steps(*scattered(100, seed=seed)))) == measure.LEAST_WARM_UP


@pytest.mark.parametrize(
    "slow",
    [
        (20_000.0,),
        (20_000.0, 5_000.0),
        (20_000.0, *[300.0] * 8),  # compiled, then algorithms tried
        (*[40.0] * 12,),
        (5_000.0, *[20.0] * 20),  # far above, then less far
    ],
)
def test_slow_first_steps_are_warm_up_to_the_last_of_them(slow: tuple[float, ...]) -> None:
    found = measure.warm_up(run(*steps(*slow, *scattered(100))))
    assert max(len(slow), measure.LEAST_WARM_UP) <= found <= max(len(slow), measure.LEAST_WARM_UP) + 3


def test_a_machine_that_was_a_little_busier_at_first_is_no_warm_up() -> None:
    found = measure.warm_up(run(*steps(*scattered(30, 13.0), *scattered(60))))
    assert found == measure.LEAST_WARM_UP


def test_one_long_step_in_the_middle_is_no_warm_up() -> None:
    found = measure.warm_up(run(*steps(*scattered(40), 300.0, *scattered(60))))
    assert found == measure.LEAST_WARM_UP


def test_bursts_of_a_starved_loader_and_validation_are_no_warm_up() -> None:
    starved = [update(100, data_wait=90) if index % 4 == 0 else update(10) for index in range(80)]
    validating = [update(400, validation=390), update(400, validation=390), *[update(10)] * 60]
    assert measure.warm_up(run(*starved)) == measure.LEAST_WARM_UP
    assert measure.warm_up(run(*validating)) == measure.LEAST_WARM_UP


def test_a_tweak_that_only_looks_at_first_gets_the_steps_that_it_looks_at() -> None:
    assert measure.warm_up(run(*steps(*scattered(60))), least=11) == 11
    assert measure.warm_up(run(*steps(*[200.0] * 20, *scattered(60))), least=11) >= 20


def test_an_executions_own_slow_beginning_is_told_however_long_its_planned_warm_up_was() -> None:
    compiling = run(*steps(5_000, *[400] * 9, *[10] * 40))
    assert [measure.execution(compiling, 0, warm_up, 30).slow_steps for warm_up in (5, 10, 20)] == [10] * 3
    assert measure.execution(run(*steps(*scattered(60))), 0, 5, 30).slow_steps == 0


def test_a_step_that_compiles_once_more_is_told_and_one_that_was_only_late_is_not() -> None:
    again = steps(5_000, *scattered(30), 2_000, *scattered(30))
    late = steps(5_000, *scattered(30), 300, *scattered(30))
    assert [measure.execution(run(*each), 0, 5, 56).slow_steps for each in (again, late)] == [32, 1]


def test_a_turn_in_which_a_variant_compiles_once_more_does_not_count() -> None:
    described = steps(*[10] * 20, *[10] * 4, 2_000, *[10] * 5, *[10] * 10)
    table = rows(described)
    turns = [Turn(int(table["begin_ns"][first]), int(table["end_ns"][first + 9])) for first in (10, 20, 30)]
    of_each = [
        measure.in_turns(records(table), 0, 5, turns, 10, compiles).turns_s for compiles in (False, True)
    ]
    assert of_each[0] == pytest.approx((0.01, 0.209, 0.01))
    assert of_each[1] == pytest.approx((0.01, math.nan, 0.01), nan_ok=True)


def test_the_rest_before_a_turn_is_no_slow_beginning() -> None:
    """Six steps of warm-up, one that a rest of a minute has cut, two turns with another such rest between."""
    for first_ms, slow in ((10, 0), (400, 14)):
        described = steps(*[10] * 6, 60_000, *[10] * 7, *[10] * 10, 60_000, *[10] * 10)
        described[:14] = steps(*[first_ms] * 6, 60_000, *[first_ms] * 7)
        table = rows(described)
        turns = [
            Turn(int(table["begin_ns"][first]), int(table["end_ns"][first + count - 1]))
            for first, count in ((8, 16), (25, 10))
        ]
        found = measure.in_turns(records(table), 0, 6, turns, 10)
        assert len(found.turns_s) == 2
        assert found.slow_steps == slow


def loader(identity: int, workers: int, prefetch: int | None = 2) -> dict[str, Any]:
    return {"event": "loader", "id": identity, "num_workers": workers, "prefetch_factor": prefetch}


def test_batches_that_workers_prepared_ahead_are_used_up_before_measuring() -> None:
    events = [loader(1, 4, 3), epoch(0)]
    assert measure.warm_up(run(*steps(*[10] * 60), events=events)) == measure.LEAST_WARM_UP + 12
    accumulating = [update(10, batches=4)] * 60
    assert measure.warm_up(run(*accumulating, events=events)) == measure.LEAST_WARM_UP + 3


def test_a_loader_that_nobody_iterates_or_that_has_no_workers_has_nothing_ahead() -> None:
    events = [loader(1, 0, None), loader(2, 8), epoch(0)]
    assert measure.warm_up(run(*steps(*[10] * 60), events=events)) == measure.LEAST_WARM_UP


# ---------------------------------------------------------------- what else was recorded


def test_losses_are_those_of_every_step_of_the_first_rank() -> None:
    losses = [2.0, float("nan"), 1.0]
    found = measure.execution(run(*[update(10, loss=loss) for loss in losses]), 0, 1, 2)
    assert found.losses == pytest.approx(losses, nan_ok=True)


def test_places_are_told_once_for_all_ranks() -> None:
    at = {"file": "train.py", "line": 7, "function": "main"}
    common = {"event": "tweak", "tweak": "cache_dataset", "what": "dataset"}
    events = (
        {**common, "outcome": "applied", "at": at, "was": [1], "now": [2]},
        {**common, "outcome": "left_alone", "at": None, "because": "it is random"},
    )
    one = run(*steps(10, 10), events=events)
    both = replace(one, ranks={0: one.ranks[0], 1: one.ranks[0]})
    found = measure.execution(both, 0, 0, 2)
    assert found.applied == (Place("cache-dataset", "dataset", Location("train.py", 7, "main"), [1], [2]),)
    assert found.left_alone == (Place("cache-dataset", "dataset", None, because="it is random"),)


def test_memory_is_the_sum_of_each_ranks_peak_and_an_early_end_is_told() -> None:
    def ended(host: int, device: int | None, early: bool) -> dict[str, Any]:
        return {
            "event": "trial_end",
            "ended_early": early,
            "peak": {"host_bytes": host, "device_bytes": device},
        }

    one = run(*steps(10, 10), events=[ended(100, 7, early=True), ended(120, 7, early=True)])
    both = replace(one, ranks={0: one.ranks[0], 1: one.ranks[0]})
    found = measure.execution(both, 0, 0, 2)
    assert (found.host_bytes, found.device_bytes, found.ended_early) == (240, 14, True)
    alone = measure.execution(run(*steps(10, 10), events=[ended(100, None, early=False)]), 0, 0, 2)
    assert (alone.host_bytes, alone.device_bytes, alone.ended_early) == (100, None, False)


def test_events_of_the_wrong_kind_are_as_good_as_none() -> None:
    strange = [
        {"event": "trial_end", "peak": "much", "ended_early": "yes"},
        {"event": "tweak", "outcome": "applied", "at": 5},
        {"event": "epoch", "begin_ns": "then", "loader": []},
        {"event": "loader", "id": "one", "num_workers": "many"},
    ]
    found = measure.execution(run(*steps(10, 10), events=strange), 0, 0, 2)
    assert (found.host_bytes, found.ended_early, found.applied[0].at) == (None, False, None)
    assert measure.warm_up(run(*steps(10, 10), events=strange)) == measure.LEAST_WARM_UP


def test_a_critic_has_several_updates_in_a_step_and_the_probe_counts_those() -> None:
    assert measure.updates_per_step(run(*steps(*[10] * 20))) == 1.0
    wgan = [update(10, optimizer=number) for _ in range(8) for number in (1, 1, 1, 1, 1, 2)]
    assert measure.updates_per_step(run(*wgan)) == pytest.approx(5.0)
    assert measure.updates_per_step(records(None)) == 1.0


def test_what_a_variant_prepares_ahead_is_used_up_as_well() -> None:
    events = [loader(1, 2), epoch(0)]
    found = run(*steps(*[10] * 60), events=events)
    own = measure.warm_up(found)
    assert measure.warm_up(found, [{}, {"num_workers": 8}]) == own + (8 - 2) * 2
    assert measure.warm_up(found, [{}, {"prefetch_factor": 5}]) == own + 2 * (5 - 2)


def test_a_tweak_that_turned_itself_off_is_told_even_if_it_never_acted() -> None:
    ended = {"event": "trial_end", "broken": {"amp": "TypeError: no", "losses": "ValueError: no"}}
    found = run(*steps(*[10] * 20), events=[ended])
    tweaked = replace(found, run={**found.run, "tweaks": {"amp": {}}})
    assert measure.execution(tweaked, 0, 2, 10).broken == ("amp: TypeError: no",)
