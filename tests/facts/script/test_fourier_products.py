from __future__ import annotations

import pytest

from perfdoctor.facts.script.fourier_products import fourier_product_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="spectrum = conv1d(x, kernels)\nloss = spectrum.mean()"))
STEP = step(forward=6, backward=4)


def look(number, seconds=0.002, backward_s=0.001, step_s=0.01):
    return {
        "event": "fourier_products_look",
        "look": number,
        "seconds": seconds,
        "backward_s": backward_s,
        "step_s": step_s,
        "operations_left": 0.05,
    }


def line(look, number=1, seconds=0.002, **fields):
    return {
        "event": "fourier_products_line",
        "look": look,
        "seconds": seconds,
        "backward_s": 0.001,
        "calls": 2,
        "names": ["conv1d"],
        "taps": 256,
        "rows": 258,
        "hop": 64,
        "at": {"file": "/home/me/train.py", "line": number},
        **fields,
    }


def facts(*events):
    return fourier_product_facts(RankRecords(0, None, None, events), STEP, SOURCES)


def test_shares_are_of_the_looked_at_steps_and_lines_come_costliest_first():
    found = facts(look(1, 0.001), look(2, 0.004), look(3, 0.003), *map(line, (1, 2, 3)), line(3, 2))
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.2, 0.4, 0.5))
    first, second = found.lines
    assert (first.at.line, first.share, first.function) == (1, pytest.approx(0.3), "conv1d")
    assert (first.taps, first.rows, first.hop) == (256, 258, 64)
    assert found.operations_left == 0.05
    assert (second.at.line, second.share) == (2, 0.0)
    assert first.at.text == "spectrum = conv1d(x, kernels)"


def test_one_look_is_too_few_and_on_an_accelerator_it_could_not_be_measured():
    assert facts(look(1), line(1)) is None
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_broken_records_do_not_fail():
    assert facts(look(1), look(2), line(2, at=None), {"event": "fourier_products_line"}).lines == ()
