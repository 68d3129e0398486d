from __future__ import annotations

import pytest

from perfdoctor.facts.data.item_work import How, RepeatedWorkFacts
from perfdoctor.model.change import Change
from perfdoctor.tips.repeated_item_work import repeated_item_work as tip
from tests.support import facts
from tests.support.facts import cpu, loader, step
from tests.support.load_facts import repeated

NAMED = (
    "line 22 takes 80%: all 64 calls of `json.load` looked at had the same arguments and result: "
    "`table = json.load(file)`"
)
STARVED = step(data_wait=12, forward=3, backward=5)


def said(*work):
    advice = tip(STARVED, loader(batch=12), RepeatedWorkFacts(work))
    assert advice is not None
    return advice


def test_names_what_is_called_and_how_often_it_gave_the_same():
    advice = said(repeated(0.8))
    assert advice.because == (
        "60% of each step waits for the next batch",
        "80% of a batch's 12.0 ms goes into work that has the same result every time",
        NAMED,
    )
    assert [at.line for at in advice.at] == [22]
    assert advice.code == "self.result = json.load(...)  # in __init__; items then use self.result"


def test_all_of_its_cost_goes_and_more_than_with_more_workers():
    of = facts.model(STARVED, loader(batch=12), cpu(cores=2))
    once = facts.gain(said(repeated(0.95)), of)
    assert once.likely == pytest.approx(20 / (20 - 12 * 0.95), rel=0.02)
    assert once.likely > of.gain(Change(workers=1)).likely


def test_a_value_is_moved_as_it_stands():
    advice = said(repeated(0.8, text="table = json.load(file)  # slow", name="table", how=How.VALUE))
    assert "it set `table` to the same value all 64 times that were looked at" in advice.because[2]
    assert advice.code == "self.table = json.load(file)  # in __init__; items then use self.table"


def test_what_only_some_items_share_is_cached():
    advice = said(repeated(0.8, name="read_part", arguments=4))
    assert "the 64 calls of `read_part` looked at had 4 different arguments in all" in advice.because[2]
    assert advice.code is not None
    assert "lru_cache" in advice.code


def test_what_an_operator_of_an_object_gives_is_kept_by_a_function_around_it():
    code = said(repeated(0.8, name="numpy.__getitem__", arguments=4)).code or ""
    assert "lru_cache" in code
    assert "__getitem__" not in code


def test_what_came_again_here_and_there_is_told_by_how_many_there_are():
    advice = said(repeated(0.8, name="read_part", arguments=60, in_all=1234))
    came = "by how often the arguments of `read_part` came again in 64 calls, there are about 1,234 different ones"
    assert came in advice.because[2]
    assert "lru_cache" in (advice.code or "")


def test_a_file_is_named_as_the_same():
    assert "`open` opens the same file each time" in said(repeated(0.8, name="open", how=How.FILE)).because[2]


def test_lines_that_hardly_matter_are_not_named():
    assert [at.line for at in said(repeated(0.6), repeated(0.2, 30), repeated(0.01, 40)).at] == [22, 30]


@pytest.mark.parametrize(
    ("of_step", "share", "fires"),
    [
        pytest.param(STARVED, 0.10, True, id="just enough of a batch"),
        pytest.param(STARVED, 0.09, False, id="too little of a batch"),
        pytest.param(step(data_wait=1.0, forward=9), 0.8, True, id="waits just enough"),
        pytest.param(step(data_wait=0.9, forward=9.1), 0.8, False, id="hardly waits"),
    ],
)
def test_fires_where_the_step_waits_and_the_work_matters(of_step, share, fires):
    advice = tip(of_step, loader(batch=12), RepeatedWorkFacts((repeated(share),)))
    assert (advice is not None) is fires
