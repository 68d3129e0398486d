from __future__ import annotations

import pytest

from perfdoctor.facts.script.renormalised_embeddings import RenormalisedEmbeddingFacts, RenormalisedTable
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.renormalised_embeddings import renormalised_embeddings as tip
from tests.support.facts import step

STEP = step(forward=5, backward=4, optimizer=1)
TEXT = "self.users = nn.Embedding(50_000, 50, max_norm=1)"
CALLED = Location("net.py", 20, "forward", "return self.users(ids)")


def table(number=7, lookups=2_000.0, width=50, calls=2.0, text=TEXT, called=CALLED):
    return RenormalisedTable(Location("net.py", number, "__init__", text), called, 0.3, calls, lookups, width)


TABLES = (table(),)


def facts(likely=0.3, tables=TABLES):
    return RenormalisedEmbeddingFacts(Estimate(likely / 2, likely, min(1.0, likely * 1.5)), tuple(tables), 4)


def test_says_what_look_ups_take_and_names_the_table_and_who_looks_up():
    advice = tip(STEP, facts())
    assert advice.because == (
        "30% of each step (3.0 ms) is look-ups with `max_norm`, in 4 sampled steps",
        "rows are renormalised one after the other; a step looks up 2,000",
        f"the tables of line 7 take the most, 30% of the step: `{TEXT}`",
    )
    assert [at.line for at in advice.at] == [7, 20]
    assert "ids.unique()" in advice.code


def test_scaling_all_rows_at_once_and_looking_them_up_is_left():
    share = tip(STEP, facts()).change.step  # 2,000 rows of 0.2 us, 2 calls of 35 us: 4.7 % of 10 ms
    assert (share.low, share.likely, share.high) == pytest.approx((0.15 - 0.0752, 0.253, 0.4265))


def test_a_table_of_no_module_is_named_once_where_it_is_looked_up():
    assert [at.line for at in tip(STEP, facts(tables=[table(20, text=None, called=None)])).at] == [20]
    same = table(20, text=None, called=Location("net.py", 20, "__init__", None))
    assert [at.line for at in tip(STEP, facts(tables=[same])).at] == [20]


def test_fires_at_the_threshold_and_is_silent_just_under_it_and_where_little_would_go():
    assert tip(STEP, facts(0.0971)) is not None
    assert tip(STEP, facts(0.0969)) is None
    assert tip(STEP, facts(0.3, [table(width=1_000)])) is None
    assert tip(STEP, facts(0.2, [table(lookups=100, calls=40)])) is not None
    assert tip(STEP, facts(0.2, [table(lookups=100, calls=43)])) is None  # few rows in each
    assert tip(STEP, facts(tables=[])) is None
