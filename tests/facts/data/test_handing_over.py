from __future__ import annotations

import pytest

from perfdoctor.facts.data.handing_over import hand_over_facts
from perfdoctor.runs.types import RankRecords
from tests.facts.data.test_batch_stages import FEEDS, FETCHES, STANDARD, at
from tests.facts.data.test_pinning import COPIES, POLLS
from tests.facts.data.test_wait_parts import GET, NEXT, PICKLES, POLL
from tests.facts.host.test_stacks import wrapper
from tests.support.facts import loader

LOOP = ("main", "<module> (/home/me/train.py:30)")
WAITS = (*LOOP, wrapper("data_wait"), NEXT, GET)
MAPS = (
    "rebuild_storage_fd (/home/me/.venv/lib/python3.11/site-packages/torch/multiprocessing/reductions.py:546)"
)
PACKS = (*FEEDS, PICKLES)
READS = (*FETCHES, at(3))


def worker(frames):
    return ("worker 71", *frames)


def facts(*stacks, of_loader=None):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    return hand_over_facts(records, of_loader or loader(workers=2))


def test_what_is_taken_out_of_the_queue_is_a_part_of_the_waits():
    found = facts((LOOP, 50), ((*WAITS, MAPS), 30), ((*WAITS, POLL), 10))
    assert (found.of_waits, found.samples, found.pinned) == (pytest.approx(0.75), 30, False)


def test_waiting_for_workers_that_pack_is_one_as_well():
    stacks = ((*WAITS, MAPS), 30), ((*WAITS, POLL), 10), (worker(PACKS), 12), (worker(READS), 8)
    assert facts(*stacks).of_waits == pytest.approx((30 + 10 * 12 / 20) / 40)


@pytest.mark.parametrize(("busy", "share"), [(100, 1.0), (80, 0.5), (50, 0.0)])
def test_of_a_thread_that_pins_only_what_is_surely_waited_for_counts(busy, share):
    found = facts((LOOP, 60), ((*WAITS, MAPS), 40), (COPIES, busy), (POLLS, 20))
    assert (found.of_waits, found.pinned) == (pytest.approx(share), True)


def test_waiting_for_a_thread_that_waits_itself_is_none_of_it():
    gets = f"Condition.wait ({STANDARD}/threading.py:331)"
    assert facts((LOOP, 60), ((*WAITS[:-1], gets), 40)).of_waits == 0.0
    assert facts((LOOP, 60), ((*WAITS[:-1], gets), 40), (POLLS, 100)).of_waits == 0.0


def test_without_workers_or_with_few_samples_there_is_nothing():
    assert facts(((*WAITS, MAPS), 30), of_loader=loader(workers=0)) is None
    assert facts((LOOP, 50), ((*WAITS, MAPS), 4)) is None
