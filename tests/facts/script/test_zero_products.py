from __future__ import annotations

import pytest

from perfdoctor.facts.script.zero_products import zero_product_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="picked = hot @ table\nsums = graph @ values"))
TRAIN = "/home/me/train.py"


def look(number, seconds=0.002, backward_s=0.001, step_s=0.01):
    return {
        "event": "zero_products_look",
        "look": number,
        "seconds": seconds,
        "backward_s": backward_s,
        "step_s": step_s,
    }


def line(look, number=1, seconds=0.002, **fields):
    return {
        "event": "zero_products_line",
        "look": look,
        "seconds": seconds,
        "backward_s": 0.001,
        "calls": 1,
        "names": ["matmul"],
        "rows": 256,
        "columns": 512,
        "nonzero_share": 1 / 512,
        "one_hot": True,
        "at": {"file": TRAIN, "line": number},
        **fields,
    }


STEP = step(forward=6, backward=4)


def facts(*events, of_step=STEP):
    return zero_product_facts(RankRecords(0, None, None, events), of_step, SOURCES)


def test_shares_are_of_the_looked_at_steps_with_their_backward():
    found = facts(look(1, 0.001), look(2, 0.004), look(3, 0.003, step_s=0.02))
    assert (found.samples, found.lines) == (3, ())
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.2, 0.2, 0.5))


def test_the_phases_bound_what_calls_take_that_wait_for_other_threads():
    waiting = look(1, 0.008, 0.008), look(2, 0.008, 0.008)
    assert facts(*waiting).share.likely == pytest.approx(1.0)
    assert facts(*waiting, of_step=step(forward=2, backward=1, data_wait=7)).share.likely == pytest.approx(
        0.3
    )


def test_lines_come_costliest_first_and_count_nothing_where_they_did_not_show():
    found = facts(look(1), look(2), look(3), *map(line, (1, 2, 3)), line(3, 2, 0.009, one_hot=False))
    first, second = found.lines
    assert (first.at.line, first.share, first.one_hot) == (1, pytest.approx(0.3), True)
    assert (first.rows, first.columns, first.nonzero_share) == (256, 512, 1 / 512)
    assert (second.at.line, second.share, second.one_hot) == (2, 0.0, False)
    assert first.at.text == "picked = hot @ table"


def test_a_line_is_one_hot_if_it_always_was_and_as_full_as_it_ever_was():
    (found,) = facts(look(1), look(2), line(1), line(2, one_hot=False, nonzero_share=0.04)).lines
    assert (found.one_hot, found.nonzero_share) == (False, 0.04)


def test_one_look_is_too_few_and_one_that_timed_nothing_does_not_count():
    assert facts(look(1), line(1)) is None
    assert facts(look(1), look(2, step_s=0.0)) is None


def test_on_an_accelerator_it_could_not_be_measured():
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_broken_records_do_not_fail():
    assert facts(look(1), look(2), line(2, at=None), {"event": "zero_products_line"}).lines == ()
