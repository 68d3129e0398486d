from __future__ import annotations

import pytest

from perfdoctor.facts.data.wait_parts import of_main, of_worker
from perfdoctor.facts.user_source.frames import parse
from perfdoctor.model.lines import WaitPart
from tests.facts.data.test_batch_stages import COLLATES, FEEDS, FETCHES, LOOP, STANDARD, TORCH, WAITS, at

LOADER = f"{TORCH}/utils/data/dataloader.py"
NEXT = f"_MultiProcessingDataLoaderIter._next_data ({LOADER}:1505)"
SINGLE = f"_SingleProcessDataLoaderIter._next_data ({LOADER}:789)"
GET = f"Queue.get ({STANDARD}/multiprocessing/queues.py:113)"
PICKLES = f"_ForkingPickler.dumps ({STANDARD}/multiprocessing/reduction.py:51)"
POLL = f"_ConnectionBase.poll ({STANDARD}/multiprocessing/connection.py:257)"


def frames(*texts):
    return [parse(text) for text in texts]


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        ((SINGLE, FETCHES[-1], at(3)), WaitPart.DATASET),
        ((FETCHES[-1], f"default_collate ({TORCH}/utils/data/_utils/collate.py:9)"), WaitPart.COLLATE),
        ((FETCHES[-1], "collate (/opt/perfdoctor/probe/patch.py:99)", at(11, "pad")), WaitPart.COLLATE),
        ((f"_BaseDataLoaderIter._next_index ({LOADER}:715)", at(40, "Hard.__iter__")), WaitPart.SAMPLER),
        ((NEXT, GET, POLL), WaitPart.WORKERS),
        ((NEXT, GET), WaitPart.TRANSFER),
        ((NEXT,), WaitPart.TRANSFER),
        ((f"_next_data ({LOADER}:1505)", f"_process_data ({LOADER}:1546)"), WaitPart.TRANSFER),
        ((GET,), WaitPart.TRANSFER),
        ((SINGLE,), WaitPart.LOADER),
        ((SINGLE, f"pin_memory ({TORCH}/utils/data/_utils/pin_memory.py:60)"), WaitPart.LOADER),
        ((f"_SingleProcessDataLoaderIter.__init__ ({LOADER}:770)",), WaitPart.LOADER),
        ((at(40, "Batches.__next__"),), WaitPart.LOADER),
        ((f"_MultiProcessingDataLoaderIter.__init__ ({LOADER}:1176)",), WaitPart.WORKER_START),
        ((f"_MultiProcessingDataLoaderIter._shutdown_workers ({LOADER}:1606)",), WaitPart.WORKER_START),
    ],
)
def test_the_training_thread_is_in_a_part_of_its_wait(stack, part):
    assert of_main(frames(*stack)) is part


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        ((*FETCHES, at(3)), WaitPart.DATASET),
        ((*COLLATES, at(11, "pad")), WaitPart.COLLATE),
        ((*FEEDS, PICKLES), WaitPart.TRANSFER),
        ((*FEEDS, WAITS), None),
        ((LOOP, GET), None),
    ],
)
def test_a_worker_is_in_a_part_or_waits_itself(stack, part):
    assert of_worker(frames(*stack)) is part
