from __future__ import annotations

from perfdoctor.facts.script.unused_gradients import unused_gradient_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.records import source_of

SOURCES = Sources(source_of(train="optimizer = SGD(head.parameters())"))
OPTIMIZER = {"event": "optimizer", "built": {"file": "/home/me/train.py", "line": 1}}


def look(**fields):
    return {"event": "orphans", **fields}


def facts(*events):
    return unused_gradient_facts(RankRecords(0, None, None, events), SOURCES)


def test_the_last_look_counts_and_the_optimizer_is_named():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)
    found = facts(OPTIMIZER, look(tensors=0), last)
    assert (found.tensors, found.elements, found.of_elements, found.needless) == (4, 900, 0.9, 0.75)
    assert found.at.text == "optimizer = SGD(head.parameters())"


def test_the_weights_that_only_needless_nodes_compute_with_are_a_share_of_all_but_tables():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15, weights=500, apart=400)
    assert facts(last).apart == 0.8
    assert facts(look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)).apart is None


def root(parameters, line):
    return {"event": "root", "parameters": parameters, "at": {"file": "/home/me/train.py", "line": line}}


def test_a_model_of_its_own_is_named_where_it_is_called():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)
    assert facts(root(100, 3), root(905, 4), last).called_at.line == 4
    assert facts(root(1000, 3), last).called_at is None
    assert facts(root(900, 3), root(905, 4), last).called_at is None
    assert facts(root(900, 3), last).called_at is None  # it is all that there is


def test_a_model_that_was_trained_before_is_named_where_it_is_called_now():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)
    called = {"event": "orphans_called", "elements": 900, "at": {"file": "/home/me/train.py", "line": 7}}
    assert facts(root(100, 3), root(905, 4), last, called).called_at.line == 7
    assert facts(root(900, 3), root(905, 4), last, called).called_at.line == 7
    assert facts(root(1000, 3), root(100, 4), last, called).called_at is None  # a part of a model
    thawed = called | {"elements": 950}  # an earlier look: more was frozen then
    assert facts(root(100, 3), root(905, 4), last, thawed).called_at.line == 4


def test_a_part_of_a_model_is_named_where_it_is_made():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)
    made, called = ({"file": "/home/me/train.py", "line": line} for line in (1, 2))
    part = {"event": "orphans_called", "elements": 900, "at": called, "built": made}
    assert [at.line for at in facts(root(1000, 3), last, part).part_at] == [1, 2]
    assert facts(root(1000, 3), last, part | {"elements": 950}).part_at == ()
    assert facts(root(1000, 3), last, part | {"built": None}).part_at == ()
    assert facts(root(100, 3), root(905, 4), last, part).part_at == ()  # a model of its own


def test_of_a_part_that_a_factory_makes_the_call_comes_first():
    last = look(tensors=4, elements=900, of_elements=1000, nodes=20, needless=15)
    made, called = ({"file": "/home/me/parts.py", "line": line} for line in (2, 4))
    part = {"event": "orphans_called", "elements": 900, "at": called, "built": made}
    sources = Sources(source_of(parts="def make(name):\n    return PARTS[name]()\n\ny = body(x)"))
    rank = RankRecords(0, None, None, (root(1000, 3), last, part))
    assert [at.line for at in unused_gradient_facts(rank, sources).part_at] == [4, 2]


def test_one_look_tells_nothing_since_nothing_came_before_it():
    assert isinstance(facts(look(tensors=0, elements=0, of_elements=9, nodes=3, needless=0)), Missing)


def test_without_orphans_or_with_broken_records_there_is_nothing():
    assert facts() is None
    nothing = look(tensors=0, elements=0, of_elements=9, nodes=3, needless=0)
    assert facts(nothing, nothing) is None
    assert facts(look(), look()) is None
    assert facts(look(tensors=3)).needless == 0.0
