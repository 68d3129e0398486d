from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.data.copy_lines import copy_lines
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.batch import Stage
from perfdoctor.model.measured import Phase
from tests.support.facts import line, stacks
from tests.support.load_facts import batch, cost
from tests.support.records import source_of

SOURCE = Sources(
    source_of(train="x = torch.tensor(rows)\ny = torch.tensor(clean(rows))\nloss = step(x, y)\n")
)


def placed(share, number, leaf=None):
    found = line(share, number)
    return replace(found, at=replace(found.at, file="/home/me/train.py"), leaf=leaf)


def test_lines_that_only_copy_are_found_in_the_loop_and_in_the_dataset():
    in_batch = batch(cost(Stage.TRANSFORMING, 0.5, line(0.5, 20), kind="copy"), cost(Stage.READING, 0.5))
    found = copy_lines(stacks(placed(0.1, 1), placed(0.3, 2), placed(0.2, 3)), in_batch, SOURCE)
    assert found is not None
    assert [one.at.line for one in found.in_loop] == [1]
    assert found.phases == (Phase.OTHER,)
    assert [one.at.line for one in found.in_batch] == [20]


def test_a_line_with_a_frame_beyond_it_does_more_than_copy():
    assert copy_lines(stacks(placed(0.1, 1, leaf="__array__")), None, SOURCE) is None
