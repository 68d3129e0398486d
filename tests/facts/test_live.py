from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.facts.live import LOST_AFTER_S, SILENT_AFTER_S, now
from perfdoctor.model.live import LiveDevice, LiveState
from perfdoctor.model.measured import Marker, Phase
from perfdoctor.runs.live import LiveRecords
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.step_rows import DISTURBED
from tests.support.records import row, rows, update

BEGAN_S, MS = 1_700_000_000.0, 1_000_000
RUN = {
    "id": "20260102-030405-train",
    "command": ["python", "train.py"],
    "cwd": "/home/ada",
    "started_epoch_s": BEGAN_S,
    "begin_ns": 500 * MS,
    "end_ns": None,
    "exit_code": None,
    "outcome": "running",
    "host": {"name": "here"},
}
STEP = update(20, data_wait=15, forward=4, samples=32)  # and 1 ms of other


def live(described=(STEP,) * 50, *, at_s=2.0, steps=None, run=RUN, others=(), rollouts=0.0, **told):
    """A run whose rank 0 made these rows from its first second on, looked at `at_s` after its start."""
    recorded = {0: rows(described) if described else None, **dict(others)}
    ranks = {
        rank: RankRecords(rank, table, None, (), node="here" if rank < 10 else "there")
        for rank, table in recorded.items()
    }
    counts = {rank: len(table) if table is not None else 0 for rank, table in recorded.items()}
    host, gpus = told.pop("host", ()), told.pop("gpus", {})
    records = RunRecords(Path("/runs/r"), run, ranks, host=tuple(host), gpus=gpus)
    return now(LiveRecords(records, steps or counts, now_epoch_s=BEGAN_S + at_s, **told), rollouts)


def test_the_step_is_the_mean_of_the_last_ones_by_phase():
    (rank,) = live(steps={0: 1234}).ranks
    assert (rank.steps, rank.recent) == (1234, 50)
    assert rank.step_s == pytest.approx(0.020)
    assert rank.seconds[Phase.DATA_WAIT] == pytest.approx(0.015)
    assert sum(rank.seconds.values()) == pytest.approx(rank.step_s)
    assert rank.samples_per_s == pytest.approx(1600)


def test_passes_in_eval_mode_that_the_report_counts_as_forward_are_forward_ones():
    (rank,) = live([update(20, validation=12, forward=4)] * 9, rollouts=0.75).ranks
    assert rank.seconds[Phase.VALIDATION] == pytest.approx(0.003)
    assert rank.seconds[Phase.FORWARD] == pytest.approx(0.013)
    assert sum(rank.seconds.values()) == pytest.approx(rank.step_s)


def test_steps_below_a_window_are_left_out_of_the_mean_while_there_are_others():
    slow = update(500, flags=DISTURBED)
    (rank,) = live([*[STEP] * 10, slow, slow]).ranks
    assert (rank.recent, rank.step_s) == (10, pytest.approx(0.020))
    (rank,) = live([slow, slow]).ranks
    assert (rank.recent, rank.step_s) == (2, pytest.approx(0.5))


@pytest.mark.parametrize(
    ("described", "told", "state"),
    [
        ((), {}, LiveState.STARTING),
        ([row(Marker.OPEN, 5)], {"steps": {0: 0}}, LiveState.STARTING),
        ([STEP], {}, LiveState.TRAINING),
        ([STEP], {"silent_s": LOST_AFTER_S - 1}, LiveState.TRAINING),
        ([STEP], {"silent_s": LOST_AFTER_S + 1}, LiveState.LOST),
        ([STEP], {"is_gone": True, "silent_s": 7.0}, LiveState.TRAINING),
        ([STEP], {"is_gone": True, "silent_s": 9.0}, LiveState.LOST),
        ([STEP], {"is_gone": True, "silent_s": 9.0, "host": [{"interval_s": 60.0}]}, LiveState.TRAINING),
        ([STEP], {"is_gone": True, "silent_s": 186.0, "host": [{"interval_s": 60.0}]}, LiveState.LOST),
        ([STEP, row(Marker.END, 1)], {}, LiveState.UNWATCHED),
        (
            [STEP, row(Marker.END, 1)],
            {"silent_s": LOST_AFTER_S + 1, "outlasts_its_watch": True},
            LiveState.UNWATCHED,
        ),
        ([STEP], {"run": RUN | {"outcome": "ok", "exit_code": 0, "end_ns": 9_000 * MS}}, LiveState.ENDED),
        ([STEP], {"run": RUN | {"outcome": "signalled", "exit_code": -9}}, LiveState.ENDED),
        ((), {"run": {}}, LiveState.ENDED),
    ],
)
def test_where_a_run_is(described, told, state):
    assert live(described, **told).state is state


def test_a_job_is_watched_until_its_last_rank_is_no_longer():
    ended = rows([STEP, row(Marker.END, 1)])
    assert live([STEP], others={1: ended}).state is LiveState.TRAINING


def test_how_long_a_run_takes_is_told_by_the_time_of_day_until_it_is_over():
    assert live(at_s=75.0).run.duration_s == pytest.approx(75.0)
    over = RUN | {"outcome": "ok", "end_ns": 9_500 * MS}
    assert live(at_s=75.0, run=over).run.duration_s == pytest.approx(9.0)
    assert live(at_s=-5.0).run.duration_s >= 0  # the clocks of two machines differ


def test_a_rank_is_silent_once_its_next_step_is_long_overdue():
    last_s = 0.5 + 50 * 0.020  # after the start
    assert live(at_s=last_s + SILENT_AFTER_S - 1).ranks[0].silent_s is None
    assert live(at_s=last_s + 30).ranks[0].silent_s == pytest.approx(30, abs=0.1)
    slow = [update(20_000)] * 3
    assert live(slow, at_s=60.5 + 60).ranks[0].silent_s is None
    assert live(slow, at_s=60.5 + 120).ranks[0].silent_s == pytest.approx(120, abs=0.1)


def test_silence_is_not_told_where_no_clock_can_tell_it():
    far = {10: rows([STEP] * 5)}
    seen = live(at_s=100.0, others=far)
    assert [rank.silent_s is not None for rank in seen.ranks] == [True, False]
    assert live(at_s=100.0, run=RUN | {"begin_ns": None}).ranks[0].silent_s is None
    assert live(at_s=100.0, run=RUN | {"host": 7}).ranks[0].silent_s is None


def sample(at_s, main_s, busy=3.0, **told):
    procs = [
        {"pid": 1, "role": "main", "cpu_s": main_s, "rss_bytes": 4_000_000},
        {"pid": 2, "role": "worker", "cpu_s": 10 + 2 * main_s, "rss_bytes": 1_000_000},
    ]
    return {
        "t_ns": round(at_s * 1e9),
        "usable_cores": 4.0,
        "machine_busy_cores": busy,
        "procs": procs,
        "memory": {"total_bytes": 16_000_000, "available_bytes": 9_000_000},
    } | told


def test_cores_are_told_by_role_and_what_others_keep_busy_apart():
    host = live(host=[sample(1, 0.0), sample(3, 1.0)]).host
    assert host.cores == {"main": pytest.approx(0.5), "worker": pytest.approx(1.0)}
    assert (host.usable_cores, host.others_cores) == (4.0, pytest.approx(1.5))
    assert host.memory.peak_rss_bytes == 5_000_000


def test_one_sample_tells_memory_and_no_rate():
    host = live(host=[sample(1, 0.0)]).host
    assert host.cores == {}
    assert host.others_cores is None
    assert host.memory.total_bytes == 16_000_000


def test_a_run_without_samples_has_no_host():
    assert live().host is None
    odd = {"t_ns": "x", "procs": 7, "memory": [], "machine_busy_cores": "many"}
    assert live(host=[odd, odd]).host.cores == {}


def test_devices_are_told_as_their_last_sample_has_them():
    full = {
        "index": 0,
        "utilisation": 0.87,
        "memory_used_bytes": 5,
        "memory_total_bytes": 10,
        "power_w": 300.0,
    }
    devices = live(gpus={0: (full,), 1: ({"index": 1, "utilisation": None},), 2: ()}).devices
    assert devices == (LiveDevice(0, 0.87, 5, 10, 300.0), LiveDevice(1, None, None, None, None))


def test_a_run_that_is_over_uses_nothing_now():
    over = live(run=RUN | {"outcome": "ok"}, host=[sample(1, 0.0), sample(3, 1.0)], gpus={0: ({"index": 0},)})
    assert over.host is None
    assert over.devices == ()
    assert over.ranks[0].silent_s is None
