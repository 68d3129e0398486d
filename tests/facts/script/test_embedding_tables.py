from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.script.embedding_tables import embedding_table_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

SOURCES = Sources(source_of(train="self.users = nn.Embedding(10_000, 16)"))


def table(**fields):
    at = {"file": "/home/me/train.py", "line": 1}
    return {
        "event": "embedding_table", "path": "users", "rows": 10_000, "bytes": 640_000, "lookups": 100,
        "optimizer": "Adam", "of_elements": 0.9, "of_all": 0.5, "at": at, **fields,
    }  # fmt: skip


def facts(*events, backwards=1.0):
    steps = replace(step(forward=1), backwards_per_step=backwards)
    return embedding_table_facts(RankRecords(0, None, None, events), steps, SOURCES)


def test_of_one_table_the_most_look_ups_count():
    (found,) = facts(table(), table(lookups=300), table(lookups=200)).tables
    assert (found.lookups, found.needed, found.of_all) == (300, 0.03, 0.5)
    assert found.at.text == "self.users = nn.Embedding(10_000, 16)"


def test_each_backward_of_a_step_looks_up_rows():
    (found,) = facts(table(calls=3), backwards=4.0).tables
    assert (found.lookups, found.calls) == (400, 12)


def test_a_record_of_before_calls_were_counted_has_one():
    (found,) = facts(table()).tables
    assert found.calls == 1


def test_more_look_ups_than_rows_need_them_all():
    (found,) = facts(table(lookups=99_999)).tables
    assert found.needed == 1.0


def test_tables_come_largest_first():
    found = facts(table(), table(path="films", bytes=900_000)).tables
    assert [one.path for one in found] == ["films", "users"]


def test_without_tables_or_with_broken_records_there_is_nothing():
    assert facts() is None
    assert facts(table(rows=0)) is None
    assert facts({"event": "embedding_table"}) is None


def test_a_script_that_clips_gradients_is_known():
    at = {"file": "/home/me/train.py", "line": 2}
    clips = Sources(
        source_of(train="optimizer = Adam(...)\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    )
    root = {"event": "root", "module": "Net", "modules": 1, "parameters": 1, "parameter_bytes": 4, "float64": 0.0,
            "float16": 0.0, "device": "cpu", "built": at, "at": at}  # fmt: skip
    records = RankRecords(0, None, None, (root, table()))
    assert embedding_table_facts(records, step(forward=1), clips).clipped
    assert not embedding_table_facts(records, step(forward=1), SOURCES).clipped
