import gc
import sys
import weakref
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe.fetch_turns import NEVER, FetchTurns


class Fetcher:
    """Stands for a fetcher of torch's."""

    def __init__(self, collate=list):
        self.collate_fn = collate

    def fetch(self, index):
        return self.collate_fn(index)


@pytest.fixture
def turns(monkeypatch):
    """Turns of `Fetcher`, with one who looks when `looker.due` says so and notes which batches it saw."""
    monkeypatch.setattr(Fetcher, "fetch", Fetcher.fetch)
    monkeypatch.setattr(patch, "turned_off", {})
    turns = FetchTurns()
    turns.looker = SimpleNamespace(due=NEVER, seen=[], collated=[])
    turns.install([Fetcher])
    turns.add(Fetcher, lambda args, kwargs: turns.looker.seen.append(turns.count), None, "fetch")
    turns.due("fetch", lambda: turns.looker.due)
    return turns


def made(turns, collate=list):
    fetcher = Fetcher(collate)
    turns.made(fetcher)
    turns.add_collate(
        fetcher, lambda args, kwargs: turns.looker.collated.append(turns.count), None, "collate"
    )
    return fetcher


def test_the_first_batch_of_each_fetcher_is_looked_at(turns):
    first, second = made(turns), None
    assert [first.fetch([number]) for number in range(3)] == [[0], [1], [2]]
    assert turns.looker.seen == turns.looker.collated == [1]
    second = made(turns)
    second.fetch([0])
    first.fetch([0])
    assert turns.looker.seen == turns.looker.collated == [1, 4]


def test_a_batch_is_looked_at_when_the_first_of_them_is_due(turns):
    fetcher = made(turns)
    turns.due("other", lambda: 5)
    turns.looker.due = 7
    fetcher.fetch([0])
    for _ in range(3):
        fetcher.fetch([0])
    assert turns.looker.seen == [1]
    fetcher.fetch([0])
    assert turns.looker.seen == [1, 5]


def test_an_error_of_who_is_asked_when_leaves_the_others_their_turns(turns):
    turns.due("other", lambda: 1 // 0)
    turns.looker.due = 2
    fetcher = made(turns)
    fetcher.fetch([0])
    turns.looker.due = NEVER
    for _ in range(3):
        fetcher.fetch([0])
    assert turns.looker.seen == [1, 2]


def test_items_that_are_waited_for_are_seen_in_whichever_batch_they_come(turns):
    fetcher, other = made(turns), made(turns)
    waited = {7, 9}
    turns.wait_for(fetcher, waited)
    fetcher.fetch([0])
    for batch in ([1, 2], [7, 8], [3], [9]):
        other.fetch(batch)
        fetcher.fetch(batch)
    assert turns.looker.seen == [1, 5, 9]
    waited.clear()
    fetcher.fetch([7])
    assert turns.looker.seen == [1, 5, 9]


@pytest.mark.parametrize("index", [7, [[7]], None])
def test_what_cannot_be_looked_up_is_shown(turns, index):
    fetcher = made(turns, lambda samples: samples)
    turns.wait_for(fetcher, {7})
    fetcher.fetch([0])
    assert fetcher.fetch(index) == index
    assert turns.looker.seen == [1, 2]


def test_an_iterator_of_indices_is_left_to_the_fetcher(turns):
    fetcher = made(turns)
    turns.wait_for(fetcher, {7})
    fetcher.fetch([0])
    assert fetcher.fetch(iter([1, 2])) == [1, 2]


@pytest.mark.parametrize("first", [True, False])
def test_an_error_of_the_scripts_shows_no_frame_of_ours(turns, first):
    def collate(samples):
        raise ValueError("the user's")

    fetcher = made(turns, collate)
    if not first:
        turns.next = NEVER
    with pytest.raises(ValueError, match="the user's") as caught:
        fetcher.fetch([0])
    assert turns.looker.seen == [1] * first
    if sys.version_info >= (3, 11):
        assert {str(frame.path) for frame in caught.traceback} == {__file__}


def test_no_fetcher_is_kept_alive(turns):
    fetcher = made(turns)
    turns.wait_for(fetcher, {1})
    fetcher.fetch([0])
    there = weakref.ref(fetcher)
    gc.disable()
    try:
        del fetcher
        assert there() is None
    finally:
        gc.enable()


def test_a_collate_method_keeps_no_trainer_alive_that_has_the_fetcher(turns):
    class Trainer:
        def __init__(self):
            self.fetcher = made(turns, self.collate)

        def collate(self, samples):
            return samples

    trainer = Trainer()
    trainer.fetcher.fetch([0])
    there = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert there() is None
