"""Typed events come out of whatever stands in a line, and each field keeps the kind that it declares."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from perfdoctor.runs.events import decoded, sanitized
from perfdoctor.wire import events
from perfdoctor.wire.events import Event
from perfdoctor.wire.events.loaders import EpochEvent, LoaderEvent, PaddingEvent
from perfdoctor.wire.events.process import CostEvent
from perfdoctor.wire.events.ranks import GroupEvent, WrapperEvent
from perfdoctor.wire.events.script import OptimizerEvent, SaveEvent

for module in pkgutil.iter_modules(events.__path__):
    importlib.import_module(f"{events.__name__}.{module.name}")


def kinds_below(kind):
    """What is declared below this one; what only says what others have in common is none of it."""
    return [each for below in kind.__subclasses__() for each in (kinds_below(below) or [below])]


KINDS = sorted(kinds_below(Event), key=lambda kind: kind.event)


def only(kind, /, **entry):
    (event,) = decoded(kind, [{"event": "another"}, {"event": kind.event, **entry}])
    return event


def test_every_event_has_a_name_of_its_own():
    names = [kind.event for kind in KINDS]
    assert len(names) > 40
    assert all(names)
    assert len(set(names)) == len(names)


def test_what_was_written_is_what_is_read():
    written = SaveEvent(begin_ns=5, seconds=0.5, bytes=None, at={"file": "a.py", "line": 3})
    read = only(SaveEvent, t_ns=9, pid=7, **written.fields())
    assert (read.begin_ns, read.seconds, read.bytes, read.at) == (5, 0.5, None, {"file": "a.py", "line": 3})
    assert (read.t_ns, read.pid) == (9, 7)


def test_a_key_that_python_reserves_is_a_field_with_an_underscore():
    assert only(OptimizerEvent, **{"class": "torch.optim.adam.Adam"}).class_ == "torch.optim.adam.Adam"
    assert OptimizerEvent(class_="Adam").fields() == {"class": "Adam"}


EXAMPLES = (7, 0.5, "word", True, [3], ["word"], [{"a": 1}], {"a": 1})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.event)
def test_values_that_an_event_declares_are_kept_whatever_other_events_call_so(kind):
    usual = vars(only(kind))
    for name in usual:
        key = name.rstrip("_")
        taken = [value for value in EXAMPLES if vars(only(kind, **{key: value}))[name] == value]
        assert taken, name
        for value in taken:
            line = {"event": kind.event, key: value}
            assert sanitized(line) == line


def test_values_of_another_kind_are_left_out_and_unknown_keys_stay():
    line = {"event": "eval", "calls": [1], "seconds": 0.5, "lines": 3, "note": [1]}
    assert sanitized(line) == {"event": "eval", "seconds": 0.5, "note": [1]}
    assert sanitized({"event": "unheard of", "calls": [1]}) == {"event": "unheard of", "calls": [1]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.event)
@pytest.mark.parametrize("junk", [None, "", "x", -1, 1.5, float("nan"), True, [], [None, "x"], {}, {"a": 1}])
def test_nothing_in_a_line_breaks_the_reading(kind, junk):
    usual = vars(only(kind))
    read = vars(only(kind, **{name.rstrip("_"): junk for name in usual}))
    assert read.keys() == usual.keys()
    for name, value in read.items():
        if usual[name] is not None:
            assert type(value) is type(usual[name]), name


def test_a_value_of_the_wrong_kind_is_an_absent_one():
    event = only(LoaderEvent, id=-1, num_workers="2", batch_size=True, prefetch_factor=2.0, dataset=7, at=[3])
    assert (event.id, event.num_workers, event.batch_size, event.prefetch_factor) == (0, 0, None, 2)
    assert (event.dataset, event.at) == ("", None)


def test_a_list_with_one_wrong_item_is_an_absent_one():
    assert only(EpochEvent, workers=[11, 14]).workers == [11, 14]
    assert only(EpochEvent, workers=[11, "12", 14]).workers == []
    assert only(GroupEvent, ranks="all").ranks is None


def test_only_what_may_be_negative_reads_as_negative():
    event = only(PaddingEvent, fill=-100, width=-5)
    assert (event.fill, event.width) == (-100, 0)


def test_a_line_of_an_older_probe_lacks_what_came_later():
    assert only(WrapperEvent, kind="DataParallel", devices=2).world is None


def test_numbers_are_finite():
    assert only(CostEvent, switch_ns=float("inf"), call_ns=3).switch_ns == 0.0
    assert only(CostEvent, switch_ns=float("inf"), call_ns=3).call_ns == 3.0
