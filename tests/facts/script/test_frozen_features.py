from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.script.frozen_features import frozen_feature_facts
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.frozen import FrozenCallsEvent, FrozenRowsEvent
from perfdoctor.wire.events.training import ModuleCallsEvent
from tests.support.facts import step
from tests.support.load_facts import GB, memory
from tests.support.records import source_of

SPAN = MeasuredSpan(0, 10**9, 100, np.array([10**9]))
STEP = step(count=100, forward=8, backward=2)  # ms
SOURCES = Sources(source_of(train="for batch in loader:\n    features = encoder(batch)"))
LINE = {"file": "/home/me/train.py", "line": 2, "function": "main"}
WHOLE = {
    "number": 0, "updates": 100, "hits": 80, "rows": 1000, "part": 0.5, "counted": 500, "different": 100,
    "pairs": 1000, "compared": 40, "alike": 40, "seconds": 0.4, "row_bytes": 512, "changed": False, "by_chance": False,
}  # fmt: skip


def calls(number=0, share=0.4, looks=(1, 2, 3, 4)):
    return [
        FrozenCallsEvent(
            look=look, number=number, module="Encoder", seconds=share, step_s=1.0, calls=1, at=LINE
        )
        for look in looks
    ]


def facts(called=None, looks=4, memory=None, **changed):
    return frozen_feature_facts(
        RankRecords(0, None, None, ()),
        calls() if called is None else called,
        [FrozenRowsEvent(**{**WHOLE, **changed})],
        [ModuleCallsEvent(look=look) for look in range(1, looks + 1)],
        SPAN,
        STEP,
        SOURCES,
        memory,
    )


def test_where_all_rows_were_looked_at_those_that_came_again_are_counted():
    found = facts()
    assert (found.module, found.modules, found.share, found.whole) == ("Encoder", 1, pytest.approx(0.4), True)
    assert found.again.likely == pytest.approx(0.8)
    assert found.again.low == pytest.approx(0.8 - 2 * 20 / 500)
    assert (found.different, found.passes) == (200, 5)
    assert found.at[0].text == "features = encoder(batch)"


def test_how_many_rows_a_step_has_and_how_much_memory_was_left():
    assert (facts().step_rows, facts().free_bytes) == (10, None)
    assert facts(memory=memory()).free_bytes == 8 * GB
    assert facts(memory=Missing("no samples")).free_bytes is None


def test_else_pairs_tell_how_many_rows_there_are():
    found = facts(updates=10, rows=1000, part=1.0, counted=1000, different=900, pairs=100, hits=9)
    assert found.different == pytest.approx(1000 * 999 / 2 / 100)
    assert found.passes == pytest.approx(10_000 / found.different)
    assert found.again.likely == pytest.approx(1 - 1 / found.passes)
    assert found.again.low == pytest.approx(1 - (1 + 2 / 3) / found.passes)
    assert not found.whole


@pytest.mark.parametrize(
    "changed",
    [{"changed": True}, {"by_chance": True}, {"alike": 37}, {"hits": 2}, {"pairs": 0}, {"updates": 0}],
    ids=str,
)
def test_nothing_where_rows_do_not_come_again_or_results_differ(changed):
    assert facts(**changed) is None


def test_nothing_with_too_few_sampled_steps():
    assert facts(looks=2) is None


def test_sampled_steps_without_calls_tell_how_often_they_are_made():
    assert facts(calls(looks=(1, 3)), looks=4).share == pytest.approx(0.2)
    assert facts(calls(looks=(3, 4)), looks=4).share == pytest.approx(0.4)


def test_on_a_device_it_is_not_known():
    given = (
        RankRecords(0, None, None, ({"event": "device", "backend": "cuda"},)),
        [],
        [],
        [],
        SPAN,
        STEP,
        SOURCES,
    )
    assert isinstance(frozen_feature_facts(*given), Missing)
    assert frozen_feature_facts(RankRecords(0, None, None, ()), *given[1:]) is None
