from __future__ import annotations

from perfdoctor.analysis import steps
from perfdoctor.analysis.built import OptimizerFacts
from perfdoctor.analysis.making import MADE, made_groups
from tests.records import no_source, records, rows, update


def test_every_group_is_there_or_none_where_the_script_has_nothing_of_the_kind():
    table = rows([update()] * 30)
    own = records(table, events=[{"event": "optimizer", "class": "torch.optim.sgd.SGD"}]).ranks[0]
    found = steps.find(table)
    assert found is not None
    groups = made_groups(own, found, {}, no_source)
    assert set(groups) == set(MADE)
    assert isinstance(groups[OptimizerFacts], OptimizerFacts)
    assert sum(group is not None for group in groups.values()) == 2  # the optimizer, and its parameters
