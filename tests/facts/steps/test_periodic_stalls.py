from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.periodic_stalls import periodic_stalls
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, Marker, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.loaders import EpochEvent
from tests.support.host_facts import pauses
from tests.support.records import records, row, rows, source_of, update

TRAIN = "/home/me/train.py"
SCRIPT = """\
for step in range(500):
    train(step)
    if step % 40 == 0:
        refresh(pool)
    if step % args.every == 0:
        search(pool)
    if step % 30 == 0:
        print(step)
"""
SOURCES = Sources(source_of(train=SCRIPT))
NONE = Missing("no stacks were sampled")


def line(number, share=0.05, kind=None):
    return LineCost(Location(TRAIN, number, "main", SOURCES.text(TRAIN, number)), share, 50, None, kind)


def judged(described, stacks=NONE, gc=None, epochs=(), script=SCRIPT, training=()):
    """The stalls of these steps; every line of `stacks` calls a function elsewhere."""
    lines = [] if stacks is NONE else [line for costs in stacks.phases.values() for line in costs]
    sampled = [
        (("main", f"main ({TRAIN}:{line.at.line})", "inner (/home/me/lib.py:3)"), line.samples)
        for line in lines
    ]
    rank = records(stacks=[*sampled, *training]).ranks[0]
    sources = Sources(source_of(train=script))
    return periodic_stalls(rank, find(rows(described)), stacks, gc, list(epochs), sources)


def stalls(
    extra,
    count=500,
    stacks=NONE,
    gc=None,
    noise_ms=0.3,
    epochs=(),
    script=SCRIPT,
    training=(),
    backwards=1,
    **of_extra,
):
    """The stalls of steps of about 10 ms: step n takes `extra(n)` ms longer, in the phases of `of_extra`."""
    draws = np.random.default_rng(0).normal(0, noise_ms, count)
    described = []
    for n in range(count):
        ms = extra(n)
        phases = {name: share * ms for name, share in of_extra.items()}
        base = 10 + draws[n]
        described.append(
            update(
                base + ms,
                forward=base / 3 + phases.pop("forward", 0.0),
                backward=base / 3 + phases.pop("backward", 0.0),
                backwards=backwards,
                **phases,
            )
        )
    return judged(described, stacks, gc, epochs, script, training)


def every(steps, ms=50.0):
    return lambda n: ms if n % steps == 0 else 0.0


@pytest.mark.parametrize(("calls", "backwards", "collects"), [(65, 1, True), (1, 1, False), (65, 64, False)])
def test_stalls_that_call_models_often_and_train_no_more_collect_for_the_steps_that_follow(
    calls, backwards, collects
):
    rest = update(10, forward=3, backward=3, calls=1, backwards=1)
    long = update(60, forward=10, backward=3, calls=calls, backwards=backwards)
    assert judged([long if n % 40 == 0 else rest for n in range(500)]).collects is collects


def test_every_fortieth_step_stalls():
    found = stalls(every(40))
    assert (found.every_steps, found.count, found.phase) == (40, 11, Phase.OTHER)
    assert found.every_s == pytest.approx(0.45, abs=0.01)
    assert found.usual_s == pytest.approx(0.010, abs=0.0005)
    assert found.stall_s == pytest.approx(0.060, abs=0.001)
    assert found.share == pytest.approx(50 / 450, abs=0.01)
    assert found.line is None


def test_the_line_under_a_remainder_is_named_before_one_that_takes_as_much_time():
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(2, 0.12), line(4, 0.02))})
    assert stalls(every(40), stacks=lines).line.at.line == 4
    assert stalls(every(41), stacks=lines).line.at.line == 2


def test_below_the_line_nearly_all_of_it_is_in_one():
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(4, 0.02),)})
    assert stalls(every(40), stacks=lines).line.inner.line == 3  # of another file, see `judged`
    elsewhere = (("main", f"main ({TRAIN}:4)", "refresh (/home/me/pool.py:7)"), 50)
    assert stalls(every(40), stacks=lines, training=(elsewhere,)).line.inner is None


def test_the_line_after_those_steps_that_go_on_is_named_too():
    script = (
        "for step in range(500):\n    train(step)\n    if step % 40:\n        continue\n    refresh(pool)\n"
    )
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(2, 0.12), line(5, 0.02))})
    assert stalls(every(40), stacks=lines, script=script).line.at.line == 5
    other = script.replace("if step % 40:", "if step % 40 == 0:")
    assert stalls(every(40), stacks=lines, script=other).line.at.line == 2


ACCUMULATED = """\
for i, batch in enumerate(loader):
    loss = model(batch)
    loss.backward()
    if (i + 1) % accum:
        continue
    optimizer.step()
    track(i)
    if (i + 1) % 160 == 0:
        refresh(pool)
    if (i + 1) % 40 == 0:
        average(model)
"""


@pytest.mark.parametrize("accum", ["accum", "4"])
@pytest.mark.parametrize("around", [False, True])
def test_what_runs_at_each_update_is_not_run_now_and_then(accum, around):
    script = ACCUMULATED.replace("accum", accum)
    if around:  # `if (i + 1) % accum == 0:` around the update, and again around what follows
        script = script.replace(
            f"% {accum}:\n        continue\n    opt", f"% {accum} == 0:\n        pass; opt"
        )
        script = script.replace("    track(i)\n", f"    if (i + 1) % {accum} == 0:\n        track(i)\n")
    lines = script.splitlines()
    track, refresh, average = (
        next(number for number, text in enumerate(lines, 1) if name in text)
        for name in ("track", "refresh", "average")
    )

    def named(*numbers):
        costs = tuple(line(number, 0.02) for number in numbers)
        stacks = StackFacts(1000, "py-spy", {Phase.OTHER: costs})
        found = stalls(every(40), stacks=stacks, script=script, backwards=4)
        return found.line.at.line if found.line is not None else None

    assert named(track) is None
    assert named(average) is None  # once in ten steps
    assert named(track, refresh, average) == refresh


def test_a_remainder_in_a_test_after_the_training_makes_no_step_stall():
    script = f"{SCRIPT}for step in range(500):\n    if step % 40 == 0:\n        plot(step)\n"
    updates = (("main", f"main ({TRAIN}:2)", "optimizer (/opt/perfdoctor/probe/steps.py:9)"), 400)
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(2, 0.12), line(11, 0.02))})
    assert stalls(every(40), stacks=lines, script=script).line.at.line == 11
    assert stalls(every(40), stacks=lines, script=script, training=(updates,)).line.at.line == 2


def test_a_line_of_a_pass_is_named_only_below_a_remainder():
    lines = StackFacts(1000, "py-spy", {Phase.FORWARD: (line(2, 0.12), line(4, 0.02))})
    assert stalls(every(40), stacks=lines, forward=1.0).line.at.line == 4
    assert stalls(every(41), stacks=lines, forward=1.0).line is None


def test_a_remainder_by_a_name_may_be_any_number():
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(6, 0.02),)})
    assert stalls(every(40), stacks=lines).line.at.line == 6


@pytest.mark.parametrize("steps", [30, 60])
def test_a_line_that_logs_at_that_interval_is_left_to_the_finding_on_logging(steps):
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(8, 0.02),)})
    found = stalls(every(steps), stacks=lines)
    assert found is None if steps == 30 else found.line is None


def epochs(workers, every=40, count=500):
    """Epochs that begin with every so many of those steps, each with these worker processes."""
    begin_ms = 1000 + 10 * np.arange(count) + 50 * np.ceil(np.arange(count) / every)
    times = {"startup_ns": 20_000_000, "first_wait_ns": 5_000_000}
    for index, at_ms in enumerate(begin_ms[::every], 1):
        yield EpochEvent(loader=1, index=index, begin_ns=round(at_ms * 1e6), workers=workers(index), **times)


def test_workers_that_start_with_each_epoch_are_left_to_the_finding_on_them():
    assert stalls(every(40), epochs=epochs(lambda index: [2 * index, 2 * index + 1])) is None
    assert stalls(every(40), epochs=epochs(lambda index: [2, 3])).every_steps == 40
    assert stalls(every(40), epochs=epochs(lambda index: [])).every_steps == 40


def test_a_few_long_steps_besides_do_not_hide_the_interval():
    assert stalls(lambda n: 50.0 if n % 40 == 0 or n in (77, 130, 303) else 0.0).every_steps == 40


def test_even_intervals_of_time_are_found_where_steps_differ():
    # Steps of 10 and 25 ms by turns of a hundred: stalls come once a second, not once in so many steps.
    begin_ms = np.cumsum([10 if n // 100 % 2 else 15 for n in range(1500)])
    stall = np.diff(begin_ms // 1000, prepend=0) > 0
    described = [
        row(Marker.UPDATE, (10 if n // 100 % 2 else 15) + 40 * stall[n], optimizer=1) for n in range(1500)
    ]
    found = judged(described)
    assert found.every_steps is None
    assert found.every_s == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("extra", "given"),
    [
        pytest.param(lambda n: 0.0, {}, id="steady"),
        pytest.param(lambda n: 500.0 if n == 250 else 0.0, {}, id="one-pause"),
        pytest.param(lambda n: 50.0 if n < 100 else 0.0, {"count": 1000}, id="warm-up"),
        pytest.param(every(120), {}, id="too-few"),
        pytest.param(every(2), {}, id="every-second-step"),
        pytest.param(every(40, ms=4.0), {}, id="not-much-longer"),
        pytest.param(every(40, ms=12.0), {"noise_ms": 3.0}, id="no-longer-than-others-vary"),
        pytest.param(every(40), {"validation": 1.0}, id="validation"),
        pytest.param(every(40), {"validation": 0.3}, id="beside-validation"),
        pytest.param(every(40), {"checkpoint": 0.3}, id="beside-checkpoints"),
        pytest.param(every(40), {"data_wait": 1.0}, id="waits-for-batches"),
        pytest.param(every(40), {"forward": 0.3, "backward": 0.7}, id="trains-more"),
        pytest.param(every(40), {"optimizer_ns": 1.0}, id="rare-update"),
        pytest.param(every(40), {"gc": pauses(full=1.0)}, id="garbage-collector"),
    ],
)
def test_there_are_none(extra, given):
    assert stalls(extra, **given) is None


def test_stalls_stand_out_of_the_steps_of_a_busy_machine():
    busy = np.random.default_rng(2).random(1000) < 0.3
    found = stalls(lambda n: 20.0 * busy[n] + (400.0 if n % 20 == 0 else 0.0), count=1000)
    assert (found.every_steps, found.count) == (20, 45)


@pytest.mark.parametrize("seed", range(20))
def test_the_long_steps_of_a_busy_machine_alone_are_none(seed):
    long_ms = np.random.default_rng(seed).lognormal(0, 2, 1000)
    assert stalls(lambda n: long_ms[n], count=1000) is None


def test_long_steps_by_chance_are_none():
    chance = np.random.default_rng(1).random(2000) < 0.03
    assert stalls(lambda n: 50.0 * chance[n], count=2000) is None


@pytest.mark.parametrize("kind", ["logging", "checkpoint"])
def test_lines_that_other_findings_tell_of_are_none(kind):
    lines = StackFacts(1000, "py-spy", {Phase.OTHER: (line(4, 0.1, kind),)})
    assert stalls(every(40), stacks=lines) is None
