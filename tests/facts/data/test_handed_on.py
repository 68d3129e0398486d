from __future__ import annotations

import pytest

from perfdoctor.facts.data.handed_on import HandedOnFacts, handed_on_facts
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader

AT = Location("train.py", 19)
LOADER = "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
TAKING = (
    "thread Thread-1",
    "BackgroundGenerator.run (/home/me/prefetch.py:9)",
    f"_BaseDataLoaderIter.__next__ ({LOADER}:700)",
    f"_MultiProcessingDataLoaderIter._get_data ({LOADER}:1200)",
)
OTHER = ("thread Thread-1", "run (/home/me/prefetch.py:9)", "get (/usr/lib/python3.11/queue.py:171)")
QUEUED = StackFacts(
    100, "py-spy", {Phase.OTHER: (LineCost(AT, 0.6, 60, kind="queue"), LineCost(AT, 0.1, 10))}
)


def found(thread=TAKING, stacks=QUEUED, workers=1):
    return handed_on_facts(
        RankRecords(0, None, None, (), ((thread, 30),), "py-spy"), stacks, loader(workers=workers)
    )


def test_the_wait_for_a_thread_that_takes_a_loaders_batches_is_told_with_its_line():
    assert found() == HandedOnFacts(0.6, AT)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"thread": OTHER}, id="a-thread-of-another-kind"),
        pytest.param({"workers": 0}, id="no-workers"),
        pytest.param({"stacks": Missing("no stacks")}, id="no-stacks"),
        pytest.param({"stacks": StackFacts(9, "py-spy", {})}, id="no-wait"),
    ],
)
def test_other_waits_are_not(given):
    assert found(**given) == HandedOnFacts()
