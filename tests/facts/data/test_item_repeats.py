from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.data.item_repeats import SURE, ItemRepeatFacts, item_repeats
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_repeats import ItemRepeatsEvent
from tests.support.records import rows, update

SPAN = MeasuredSpan.of(find(rows([update(10)] * 100)))


RANK = RankRecords(0, None, None, ({"event": "loader", "id": 1},))


def facts(*looks, loader=1):
    """Of looks at {index: checksum}, each in a process of its own."""
    events = [
        ItemRepeatsEvent(loader=loader, indices=list(look), checksums=list(look.values())) for look in looks
    ]
    return item_repeats(RANK, events, SPAN)


def test_items_are_compared_whichever_process_prepared_them():
    first, second = {index: index + 7 for index in range(20)}, {index: index + 7 for index in range(10, 30)}
    seen = facts(first, second)
    assert seen == ItemRepeatFacts(again=10, alike=10)
    assert seen.same
    assert not seen.differ


def test_one_item_that_changed_is_enough():
    first = dict.fromkeys(range(20), 1)
    seen = facts(first, first, {**first, 3: 2})
    assert seen == ItemRepeatFacts(again=20, alike=19)
    assert seen.differ
    assert not seen.same


def test_one_epoch_tells_nothing():
    seen = facts(dict.fromkeys(range(20), 1))
    assert seen == ItemRepeatFacts()
    assert not seen.same
    assert not seen.differ


@pytest.mark.parametrize(("items", "same"), [(SURE - 1, False), (SURE, True)])
def test_a_few_items_may_be_alike_by_chance(items, same):
    look = dict.fromkeys(range(items), 1)
    assert facts(look, look).same is same


def test_other_loaders_have_items_of_their_own():
    look = dict.fromkeys(range(20), 1)
    assert facts(look, look, loader=2) == ItemRepeatFacts()


def test_a_line_that_lost_its_checksums_tells_nothing():
    event = ItemRepeatsEvent(loader=1, indices=[5, 6], checksums=[7])
    assert item_repeats(RANK, [event, event], SPAN) == ItemRepeatFacts(1, 1)


def test_without_a_loader_there_are_no_items():
    assert item_repeats(replace(RANK, events=()), [], SPAN) is None


def of_clients(*looks):
    """Of looks at {index: checksum} through loaders of their own that one line makes, each for a client."""
    made = [
        {"event": "loader", "id": number, "contents": client} for number, (client, _) in enumerate(looks, 1)
    ]
    epochs = [
        {"event": "epoch", "loader": number, "index": 1, "begin_ns": (1000 + 100 * number) * 1_000_000}
        for number in range(1, len(looks) + 1)
    ]
    ends = [
        {"event": "epoch_end", "loader": number, "index": 1, "t_ns": (1090 + 100 * number) * 1_000_000}
        | {"end_wait_ns": 1, "batches": 9}
        for number in range(1, len(looks) + 1)
    ]
    events = [
        ItemRepeatsEvent(loader=number, indices=list(look), checksums=list(look.values()))
        for number, (_, look) in enumerate(looks, 1)
    ]
    return item_repeats(replace(RANK, events=(*made, *epochs, *ends)), events, SPAN)


ONE, OTHER, CHANGED = ({index: index + more for index in range(10)} for more in (0, 100, 200))


def test_items_of_a_client_are_compared_with_those_of_the_same_client():
    assert of_clients((7, ONE), (8, OTHER), (7, ONE)) == ItemRepeatFacts(again=10, alike=10)
    assert of_clients((7, ONE), (8, OTHER), (7, CHANGED)).differ


def test_clients_that_never_come_again_tell_of_no_items_that_do():
    assert of_clients((7, ONE), (8, OTHER)).differ
    assert of_clients((None, ONE), (None, OTHER), (None, ONE)).differ


def test_what_else_a_data_set_holds_is_no_matter_where_its_items_are_the_same():
    assert of_clients((7, ONE), (8, ONE), (9, ONE)) == ItemRepeatFacts(again=10, alike=10)
