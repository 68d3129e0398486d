"""The engine of facts: what a signature says, in which order facts are made, and what absence does to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pytest

from perfdoctor import own_failures
from perfdoctor.facts import registry
from perfdoctor.facts.registry import in_order, read
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events import Event


@dataclass(frozen=True)
class Rows:
    count: int


@dataclass(frozen=True)
class Loader:
    workers: int


@dataclass(frozen=True)
class Batch:
    cost_s: float


WHY = Missing("no batch was seen")
Table = Mapping[str, int]


def strict(rows: Rows, loader: Loader) -> Batch:
    return Batch(float(rows.count * loader.workers))


def without_a_loader(loader: Loader | None) -> Batch | Missing:
    return Batch(0.0 if loader is None else 1.0)


def unmeasured_loader(loader: Loader | Missing) -> Batch | None:
    return None if isinstance(loader, Missing) else Batch(1.0)


def either(loader: Loader | Missing | None, table: Table) -> Batch | Missing | None:
    return Batch(len(table) + 2.0)


def loader_of(rows: Rows) -> Loader | None:
    return Loader(rows.count)


def rows_of(batch: Batch) -> Rows:
    return Rows(1)


def test_the_return_type_names_the_group_and_parameters_its_needs():
    made = read(either)
    assert made.kind is Batch
    assert {name: need.kind for name, need in made.needs.items()} == {"loader": Loader, "table": Table}


def test_a_function_is_called_with_what_it_asks_for():
    assert read(strict).of({Rows: Rows(3), Loader: Loader(2)}) == Batch(6.0)


@pytest.mark.parametrize(
    ("make", "loader", "expected"),
    [
        pytest.param(strict, None, None, id="a-need-that-does-not-apply"),
        pytest.param(strict, WHY, WHY, id="a-need-that-is-missing"),
        pytest.param(without_a_loader, None, Batch(0.0), id="none-is-taken"),
        pytest.param(without_a_loader, WHY, WHY, id="missing-is-not"),
        pytest.param(unmeasured_loader, WHY, None, id="missing-is-taken"),
        pytest.param(unmeasured_loader, None, None, id="none-is-not"),
        pytest.param(either, None, Batch(2.0), id="both-are-taken-none"),
        pytest.param(either, WHY, Batch(2.0), id="both-are-taken-missing"),
    ],
)
def test_absence_is_passed_on_unless_the_type_takes_it(make, loader, expected):
    assert read(make).of({Rows: Rows(3), Loader: loader, Table: {}}) == expected


def test_of_several_absent_needs_the_first_one_tells():
    assert read(strict).of({Rows: WHY, Loader: None}) == WHY
    assert read(strict).of({Rows: None, Loader: WHY}) is None


class SipEvent(Event, name="sip"):
    ml: int


def events(sips: list[SipEvent], loader: Loader | None) -> Batch:
    return Batch(float(sum(sip.ml for sip in sips)))


def test_events_of_the_rank_are_handed_over_typed():
    lines = ({"event": "sip", "ml": 20}, {"event": "sip", "ml": "all"}, {"event": "gulp", "ml": 90})
    rank = RankRecords(0, None, None, lines)
    assert read(events).of({RankRecords: rank, Loader: None}) == Batch(20.0)
    assert read(events).of({RankRecords: RankRecords(0, None, None, ()), Loader: None}) == Batch(0.0)
    assert read(events).of({RankRecords: WHY, Loader: None}) == WHY


def test_facts_come_after_those_that_they_need():
    assert [made.kind for made in in_order([read(strict), read(loader_of)])] == [Loader, Batch]


def test_a_circle_is_named_in_the_order_of_its_needs():
    with pytest.raises(TypeError) as told:
        in_order([read(loader_of), read(rows_of), read(without_a_loader)])
    names = [name.rpartition(".")[2] for name in str(told.value).partition(": ")[2].split(" -> ")]
    needs = {"loader_of": "rows_of", "rows_of": "without_a_loader", "without_a_loader": "loader_of"}
    assert all(needs[name] == needed for name, needed in pairwise(names))
    assert names[0] == names[-1]
    assert len(names) == 4


def test_a_group_has_one_function():
    with pytest.raises(TypeError, match=r"strict and .*either both make Batch"):
        in_order([read(strict), read(either)])


def test_a_need_that_nothing_makes_is_named():
    with pytest.raises(TypeError, match=r"strict needs Loader, which is no record and no fact"):
        read(strict).of({Rows: Rows(1)})


def test_a_function_makes_one_group():
    def unclear(rows: Rows) -> Loader | Batch | None:
        return None

    with pytest.raises(TypeError, match=r"unclear has to return one type"):
        read(unclear)


def test_every_fact_of_the_package_is_found_once_and_after_its_needs():
    facts = registry.facts()
    assert len(facts) > 40
    assert len({made.kind for made in facts}) == len(facts)
    places = {made.kind: place for place, made in enumerate(facts)}
    assert all(
        places.get(need.kind, -1) < place for place, made in enumerate(facts) for need in made.needs.values()
    )


@pytest.mark.shows("own-failure")
def test_a_fact_that_raises_is_missing_and_what_needs_it_is_missing_too(monkeypatch):
    def broken(rows: Rows) -> Loader:
        raise KeyError("columns")

    def later(loader: Loader) -> Batch:
        return Batch(1.0)

    monkeypatch.delenv(own_failures.STRICT)
    monkeypatch.setattr(registry, "facts", lambda: (read(broken), read(later)))
    failures = []
    found = registry.compute({Rows: Rows(1)}, failures)
    assert found == {Loader: registry.FAILED, Batch: registry.FAILED}
    assert [failure.feature for failure in failures] == ["the facts Loader"]
