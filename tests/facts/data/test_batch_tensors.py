from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfdoctor.facts.data.batch_tensors import batch_tensor_facts
from perfdoctor.facts.data.handing_over import HandOverFacts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import BatchTensorsEvent
from tests.facts.data.test_pinning import begun, made
from tests.support.facts import line, loader, stacks, step
from tests.support.records import fetches, rows, source_of, update

STEPS = rows([update(10)] * 100)
SPAN = MeasuredSpan.of(find(STEPS))
HANDING = HandOverFacts(0.8, 40, False)
STEP = step(data_wait=50, forward=40, other=10)
TRAIN = """\
from loading import as_list, Loading
def own(samples):
    if len(samples) == 1:
        return samples[0]
    return samples
loader = DataLoader(data, {given})
"""
LOADING = """\
def as_list(samples):
    return list(samples)
class Loading:
    def __call__(self, samples):
        return samples
"""


def facts(*looks, given="num_workers=2", of_stacks=None, handing=HANDING):
    events = [made(1), made(2, dataset="v"), begun(1, 1000)]
    records = RankRecords(
        0, STEPS, np.concatenate([fetches(60, 6), fetches(9, 6, loader=2)]), tuple(events), ()
    )
    of_loader = replace(loader(workers=2), at=Location("/home/me/train.py", 6, "<module>"))
    sources = Sources(source_of(train=TRAIN.format(given=given), loading=LOADING))
    of_stacks = of_stacks or Missing("no stacks")
    return batch_tensor_facts(list(looks), records, SPAN, STEP, of_loader, handing, of_stacks, sources)


def look(tensors=550, longest=62, loader=1):
    return BatchTensorsEvent(loader=loader, tensors=tensors, longest=longest)


def test_the_mean_of_what_was_seen_of_the_training_loader():
    found = facts(look(500, 60), look(600, 64), look(3, 3, loader=2))
    assert (found.tensors, found.longest) == (550, 62)
    assert (found.handed, found.freed, found.samples) == (pytest.approx(0.4), 0.0, 40)


def test_what_giving_them_back_takes_is_told_with_its_line():
    lines = line(0.09, 52, "freed", samples=20), line(0.3, 8, "data")
    found = facts(look(), of_stacks=stacks(*lines))
    assert (found.freed, found.samples) == (pytest.approx(0.09), 60)
    assert [at.line for at in found.at] == [6, 52]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("collate_fn=own", ("train.py", 5, "return samples")),
        ("collate_fn=as_list", ("loading.py", 2, "return list(samples)")),
        ("collate_fn=Loading()", ("train.py", 6, "loader = DataLoader(data, collate_fn=Loading())")),
        ("collate_fn=torch.stack", ("train.py", 6, "loader = DataLoader(data, collate_fn=torch.stack)")),
    ],
)
def test_the_users_own_collate_function_is_found(given, shown):
    at = facts(look(), given=given).at
    assert (at[0].file.rpartition("/")[2], at[0].line, at[0].text) == shown
    assert at[-1].line == 6


def test_without_a_look_at_its_batches_there_is_nothing():
    assert facts() is None
    assert facts(look(loader=2)) is None
