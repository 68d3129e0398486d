from __future__ import annotations

import pytest

from perfdoctor.facts.script.renormalised_embeddings import renormalised_embedding_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.records import source_of

SOURCES = Sources(source_of(train="users = nn.Embedding(9, 4, max_norm=1)\nx = users(ids)\ny = films(ids)"))
TRAIN = "/home/me/train.py"


def look(number, seconds=0.002, step_s=0.01):
    return {"event": "renormalisation_look", "look": number, "calls": 1, "seconds": seconds, "step_s": step_s}


def table(look, number=1, seconds=0.002, **fields):
    return {
        "event": "renormalised_table",
        "look": look,
        "calls": 1,
        "seconds": seconds,
        "lookups": 1_000,
        "width": 64,
        "at": {"file": TRAIN, "line": number},
        "called": {"file": TRAIN, "line": 2},
        **fields,
    }


def facts(*events):
    return renormalised_embedding_facts(RankRecords(0, None, None, events), SOURCES)


def test_shares_are_of_the_looked_at_steps():
    found = facts(look(1, 0.001), look(2, 0.004), look(3, 0.003, step_s=0.02))
    assert (found.samples, found.tables) == (3, ())
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.1, 0.15, 0.4))


def test_tables_come_costliest_first_and_count_nothing_where_they_were_not_asked():
    found = facts(look(1), look(2), look(3), *map(table, (1, 2, 3)), table(3, 3, 0.009, called=None))
    first, second = found.tables
    assert (first.at.text, first.called.text) == ("users = nn.Embedding(9, 4, max_norm=1)", "x = users(ids)")
    assert (first.share, first.calls, first.lookups, first.width) == (pytest.approx(0.2), 1, 1_000, 64)
    assert (second.at.line, second.called, second.share, second.lookups) == (3, None, 0.0, 0)


def test_one_look_is_too_few_and_one_that_timed_nothing_does_not_count():
    assert facts(look(1), table(1)) is None
    assert facts(look(1), look(2, step_s=0.0)) is None


def test_on_an_accelerator_it_could_not_be_measured():
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_broken_records_do_not_fail():
    assert facts(look(1), look(2), table(2, at=None), {"event": "renormalised_table"}).tables == ()
