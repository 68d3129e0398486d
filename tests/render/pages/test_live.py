from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Verdict
from perfdoctor.model.live import LiveDevice, LiveHost, LiveNow, LiveRank, LiveState
from perfdoctor.model.measured import MemoryFacts, Phase
from perfdoctor.render import page as blocks
from perfdoctor.render.pages import live
from tests.support import reports
from tests.support.drawn import drawn

STEP = {Phase.DATA_WAIT: 0.030, Phase.FORWARD: 0.020, Phase.GRAD_SYNC: 0.0, Phase.OTHER: 0.00001}
RANK = LiveRank(0, 1234, 0.050, STEP, samples_per_s=640.0, recent=200)
MEMORY = MemoryFacts(
    private_bytes=3_000_000_000, shared_bytes=200_000_000, peak_rss_bytes=4_000_000_000, held_bytes=3_200_000_000,
    total_bytes=16_000_000_000, available_bytes=9_000_000_000,
)  # fmt: skip
HOST = LiveHost({"main": 1.1, "worker": 3.9, "other": 0.01}, 8.0, 0.4, MEMORY)
RUN = replace(reports.RUN, outcome="running", exit_code=None, duration_s=247.0)
NOW = LiveNow(RUN, LiveState.TRAINING, (RANK,), HOST, (LiveDevice(0, 0.87, 12, 80, 320.4),), (4.0, 8.0, 6.0))


def of_ranks(*more: LiveRank) -> LiveNow:
    synced = {**STEP, Phase.GRAD_SYNC: 0.010}
    lead = replace(RANK, seconds=synced, step_s=0.060)
    return replace(NOW, ranks=(lead, *(replace(rank, seconds=rank.seconds or synced) for rank in more)))


def page(now=NOW, report=reports.STARVED, full=True, width=100):
    return drawn([live.title(now), *live.figures(now), *live.verdict(now, report, full)], width)


def panel(now=NOW, report=reports.STARVED, hint="", width=100):
    left, right = live.panel(now, report, hint)
    return drawn([[*left, *right]], width).strip("\n").splitlines()


def test_the_page_says_what_runs_for_how_long_how_far_and_how_fast():
    told = page()
    assert "perfdoctor  train.py --epochs 3" in told
    assert "4:07 min" in told
    assert "One step: 50 ms  mean of the last 200" in told
    assert "step 1,234 · 20 steps/s · 640 samples/s" in told
    assert (
        "steps  ▅█▇  4 to 8 a second" in " ".join(told.split()).replace("steps ", "steps  ", 1) or "▅" in told
    )


def test_phases_are_bars_and_what_hardly_shows_is_left_out():
    told = page()
    assert "data wait  30 ms  60%" in told
    assert "forward" in told
    assert "other " not in told.replace("others", "")


def test_the_machine_is_told_with_who_uses_it():
    told = page()
    assert "5.0 of 8, others 0.4 · training 1.1 · loader workers 3.9" in told
    assert "3.2 GB of 16 GB · 9 GB left" in told
    assert "busy 87% · 12 B of 80 B · 320 W" in told


def test_what_was_not_sampled_is_not_told():
    bare = replace(NOW, host=None, devices=(), steps_per_s=())
    told = page(bare)
    assert "cores" not in told.split("What")[0].split("Prepare")[0]
    assert "machine  not sampled yet" in "\n".join(panel(bare))
    empty = replace(NOW, host=LiveHost({}, None, None, None), devices=(LiveDevice(0, None, None, None),))
    assert "device 0" in page(empty)


def test_before_the_first_step_the_page_says_so():
    starting = replace(NOW, ranks=(), state=LiveState.STARTING, steps_per_s=())
    told = page(starting, None)
    assert "No step yet" in told
    assert "verdict" not in told
    assert "starting · 4:07 min" in told
    stepless = replace(starting, ranks=(LiveRank(0, 0),))
    assert "No step yet" in page(stepless, None)
    over = replace(starting, state=LiveState.LOST)
    assert "No step was seen." in page(over, None)
    assert "end not seen" in page(over, None)


def test_the_verdict_so_far_stands_with_its_confidence_and_the_advice():
    told = page()
    assert "Training waits for data: 61% of its time" in told
    assert "confidence: high" in told
    assert "so far, after 400 steps" in told
    assert "train.py:41" in told
    assert "perfdoctor try --workers 3" in told
    assert "Speed up the line" in told
    assert "so far" not in page(replace(NOW, state=LiveState.ENDED))


def test_in_little_room_the_first_advice_has_its_line_and_one_reason():
    told = page(full=False)
    assert "train.py:41  loader = DataLoader" in told
    assert "61 % of each step waits" in told
    assert "perfdoctor try" not in told
    assert "Speed up the line" not in told


def test_until_there_is_a_verdict_the_page_says_when_it_comes():
    assert "within half a minute" in page(report=None)
    assert "within half a minute" in page(report=reports.NO_STEPS)
    assert "No verdict." in page(replace(NOW, state=LiveState.ENDED), None)


def test_a_verdict_without_a_finding_says_where_to_look():
    assert "No known cause fits" in page(report=replace(reports.STARVED, findings=()))
    healthy = replace(reports.DIAGNOSIS, verdict=Verdict.HEALTHY)
    assert "No tip fits" not in page(report=replace(reports.STARVED, findings=(), diagnosis=healthy))


def test_each_rank_has_a_row_slowest_first_and_says_if_it_is_silent():
    late = LiveRank(1, 1234, 0.060, {Phase.DATA_WAIT: 0.055, Phase.GRAD_SYNC: 0.005}, silent_s=42.0)
    told = page(of_ranks(late, LiveRank(2, 0)))
    assert "3 ranks" in told
    assert "One step of rank 0" in told
    assert told.index("1 silent for 42 s") < told.index("\n  0 ")
    assert "no step yet" in told


def test_of_many_ranks_the_spread_is_shown():
    many = of_ranks(*(replace(RANK, rank=rank, step_s=0.060 + rank / 1e4) for rank in range(1, 40)))
    told = page(many)
    assert "p50" in told
    assert len(told.splitlines()) < 70


def test_the_panel_has_a_row_for_each_thing():
    assert panel() == [
        "  perfdoctor  step 1,234 · 20 steps/s · 640 samples/s · 4:07 min",
        "  phases   data wait 60% · forward 40%",
        "  machine  cores 5.0 of 8, others 0.4 · memory 3.2 GB of 16 GB · device 0 busy 87% · 12 B of 80 B…",
        "  verdict  Training waits for data: 61% of its time · confidence high · after 400 steps",
        "  advice   Prepare batches in more worker processes: 2.3× faster · train.py:41",
    ]


def test_the_panel_is_as_high_with_a_verdict_as_without():
    without = panel(replace(NOW, host=None, devices=(), ranks=()), None)
    assert len(without) == len(panel())
    assert without[-2:] == ["  verdict  not yet", "  advice   none so far"]
    assert {len(panel(width=width)) for width in (40, 60, 80, 100)} == {5}
    assert all(len(line) <= 40 for line in panel(width=40))


def test_the_panel_tells_ranks_in_a_row():
    late = LiveRank(1, 1234, 0.060, {Phase.DATA_WAIT: 0.058, Phase.GRAD_SYNC: 0.002})
    left, _ = live.panel(of_ranks(late, LiveRank(2, 0)), None)
    assert blocks.plain(left[-1].words) == (
        "ranks    rank 1 slowest: 58 ms without gradient syncs, fastest 50 ms · 1 without a step · 3 ranks"
    )


def test_the_panel_names_silent_ranks_first():
    silent = [replace(RANK, rank=rank, silent_s=40.0 + rank) for rank in range(1, 6)]
    left, _ = live.panel(of_ranks(*silent), None)
    told = blocks.plain(left[-1].words)
    assert told.startswith("ranks    no step for 45 s: rank 1, 2, 3 and 2 more · ")


def test_the_panel_says_why_there_is_no_verdict():
    thin = replace(reports.DIAGNOSIS, verdict=Verdict.INCONCLUSIVE, because=("only 7 steps seen", "more"))
    assert "  verdict  No verdict after 400 steps · only 7 steps seen" in panel(
        report=replace(reports.STARVED, diagnosis=thin)
    )


def test_the_hint_stands_beside_the_heading():
    assert panel(hint="q leaves this view")[0].endswith("q leaves this view")


@pytest.mark.parametrize(
    ("state", "told"),
    [(LiveState.UNWATCHED, "no longer watched · 4:07 min"), (LiveState.LOST, "end not seen · 4:07 min")],
)
def test_a_run_that_is_not_simply_training_says_what_it_is(state, told):
    assert panel(replace(NOW, state=state))[0].endswith(told)


def test_a_run_that_has_ended_says_how():
    killed = replace(NOW, state=LiveState.ENDED, run=replace(RUN, outcome="signalled", exit_code=-9))
    assert "ended by SIGKILL · 4:07 min" in page(killed)


def test_one_sentence_says_all_of_it():
    assert live.sentence(NOW, reports.STARVED) == (
        "step 1,234 · 20 steps/s · 640 samples/s · 4:07 min · waits for data 60% · "
        "Training waits for data: 61% of its time · confidence high · after 400 steps"
    )
    assert live.sentence(replace(NOW, ranks=(), state=LiveState.STARTING), None) == "starting · 4:07 min"


@pytest.mark.parametrize("name", ["\x1b[2J", "[bold]x[/bold]", "a\nb", "‮"])
def test_no_name_of_the_runs_steers_the_terminal(name):
    odd = replace(
        NOW, run=replace(RUN, command=("python", name)), ranks=(replace(RANK, node=name), LiveRank(1, 0))
    )
    told = page(odd)
    assert "\x1b" not in told
    assert "‮" not in told
    if name.startswith("["):
        assert name in told
