from __future__ import annotations

import pytest

from perfdoctor.facts.data.nested_datasets import nested_datasets
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader, step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
TORCH = "/venv/lib/python3.11/site-packages/torch/utils/data"
FETCH = f"_MapDatasetFetcher.fetch ({TORCH}/_utils/fetch.py:54)"
CONCAT = f"ConcatDataset.__getitem__ ({TORCH}/dataset.py:345)"
SUBSET = f"Subset.__getitem__ ({TORCH}/dataset.py:435)"
LISTED = (f"Subset.__getitems__ ({TORCH}/dataset.py:441)", f"<listcomp> ({TORCH}/dataset.py:441)")
TENSORS = f"TensorDataset.__getitem__ ({TORCH}/dataset.py:205)"
UNQUALIFIED = f"__getitem__ ({TORCH}/dataset.py:435)"  # before Python 3.11
ITEM = f"Images.__getitem__ ({TRAIN}:3)"
SCRIPT = "for chosen in rounds:\n    pool = Subset(pool, chosen)\n"
STEP = step(data_wait=90, forward=10)
LOADER = loader(workers=0, at=Location(TRAIN, 9, None))


def stack(*inner, count=10, thread="main", outer=(f"main ({TRAIN}:9)", FETCH)):
    return (thread, *outer, *inner), count


def facts(*stacks, of_loader=LOADER, of_step=STEP, script=SCRIPT):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    return nested_datasets(records, of_step, of_loader, Sources(source_of(train=script)))


def test_depth_and_own_time_of_the_wrappers():
    found = facts(
        stack(*[CONCAT] * 20, count=20), stack(*[CONCAT] * 39, SUBSET, ITEM, count=5), stack(count=5)
    )
    assert (found.typical, found.deepest, found.is_cut) == (20, 40, False)
    assert (found.share, found.samples) == (20 / 30, 20)
    assert [at.line for at in found.at] == [2]


@pytest.mark.parametrize(
    ("inner", "own"),
    [
        ((*[SUBSET] * 9,), 10),
        ((*[UNQUALIFIED] * 9,), 10),
        ((*[LISTED[0]] * 9, LISTED[1]), 10),
        ((*[SUBSET] * 9, TENSORS), 0),
        ((*[SUBSET] * 9, ITEM), 0),
    ],
)
def test_what_the_innermost_data_set_does_is_not_the_wrappers(inner, own):
    found = facts(stack(*inner))
    assert (found.deepest, found.samples) == (9, own)


def test_the_few_wrappers_of_ordinary_scripts_are_nothing():
    assert facts(stack(*[SUBSET] * 4, count=50), stack(ITEM)) is None
    assert facts(stack(ITEM)) is None
    assert facts(stack(*[SUBSET] * 5, count=50)).deepest == 5


def test_of_stacks_whose_outermost_frames_are_missing_the_depth_is_at_least_that():
    found = facts(stack(*[CONCAT] * 128, outer=()), stack(*[CONCAT] * 40))
    assert (found.deepest, found.is_cut, found.share) == (128, True, 1.0)
    assert not facts(stack(*[CONCAT] * 12, outer=()), stack(*[CONCAT] * 40)).is_cut


def test_batches_are_prepared_by_workers_where_there_are_some():
    ours, theirs = stack(*[CONCAT] * 40), stack(*[CONCAT] * 20, thread="worker 42")
    assert facts(ours, theirs, of_loader=loader(workers=2)).deepest == 20
    assert facts(ours, theirs).deepest == 40


def test_where_no_line_wraps_the_loader_is_named():
    assert [at.line for at in facts(stack(*[CONCAT] * 9), script="train()\n").at] == [9]


def test_without_samples_of_batches_it_is_not_known():
    assert isinstance(facts(), Missing)
    few = stack(*[CONCAT] * 9, count=9)
    assert isinstance(facts(few), Missing)
    assert facts(few, of_step=step(data_wait=5, forward=95)) is None  # nothing to gain there
