"""Facts of what goes on inside loaders."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.data.batch_tensors import BatchTensorFacts
from perfdoctor.facts.data.copy_lines import CopyLines
from perfdoctor.facts.data.handed_on import HandedOnFacts
from perfdoctor.facts.data.helper_threads import HelperThreadFacts
from perfdoctor.facts.data.late_sharding import LateShardingFacts
from perfdoctor.facts.data.nested_datasets import NestedDatasets
from perfdoctor.facts.data.padding import PaddingFacts
from perfdoctor.facts.data.storage import StorageFacts
from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.data.worker_memory import WorkerMemory
from perfdoctor.facts.host.network import NetworkFacts
from perfdoctor.facts.host.resources import DiskFacts
from perfdoctor.model.batch import BatchFacts, Stage
from perfdoctor.model.measured import (
    Location,
    MemoryFacts,
)
from tests.support import facts, load_facts

MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")
HEALTHY = {
    BatchTensorFacts: BatchTensorFacts(128, 64, 0.03, 0.01, 20, (AT,)),
    PaddingFacts: load_facts.padding(beyond=0.0, within=0.15),
    BatchFacts: load_facts.batch(
        load_facts.cost(Stage.DECODING, 0.6, kind="image", library="PIL"),
        load_facts.cost(Stage.READING, 0.2, kind="table"),
        load_facts.cost(Stage.COLLATING, 0.2),
    ),
    MemoryFacts: load_facts.memory(),
    HandedOnFacts: HandedOnFacts(),
    HelperThreadFacts: load_facts.threads(running=0.1, blocked=0.02),
    CopyLines: load_facts.copied(in_loop=0.02, in_batch=0.5),
    LateShardingFacts: LateShardingFacts(AT, AT, 0.05, 20, 4),
    NestedDatasets: load_facts.nested(0.1, deepest=12),
    StorageFacts: load_facts.storage("network", "nfs4"),
    ValidationLoaderFacts: load_facts.held_back(workers=2, wait=0.2),
    DiskFacts: load_facts.disk(),
    NetworkFacts: load_facts.network(),
    WorkerMemory: load_facts.growth(last=205e6, late=1e3),
}


@st.composite
def odd(draw):
    """Facts of what goes on inside loaders."""
    kinds = st.sampled_from(["image", "audio", "table", "lock", "thread", "copy", "file", ""])
    shares = [draw(SHARE) for _ in range(draw(st.integers(0, 4)))]
    total = max(1.0, sum(shares))
    amount = st.none() | st.integers(0, 10**12)
    return {
        LateShardingFacts: LateShardingFacts(
            AT, AT, draw(SHARE), draw(st.integers(0, 999)), draw(st.integers(2, 99))
        ),
        NestedDatasets: load_facts.nested(
            draw(SHARE), draw(st.integers(0, 999)), draw(st.integers(10, 999)), draw(st.booleans())
        ),
        BatchTensorFacts: BatchTensorFacts(
            draw(st.floats(0, 1e4)),
            draw(st.floats(0, 1e4)),
            draw(SHARE),
            draw(SHARE),
            draw(st.integers(0, 99)),
        ),
        BatchFacts: load_facts.batch(
            *(
                load_facts.cost(draw(st.sampled_from(Stage)), each / total, kind=draw(kinds))
                for each in shares
            ),
            ms=draw(MS),
            connecting=draw(SHARE),
            locked=(facts.line(draw(SHARE), 9),),
        ),
        MemoryFacts: load_facts.memory(
            shm_bytes=draw(amount), shm_free_bytes=draw(amount), available_bytes=draw(amount)
        ),
        HandedOnFacts: HandedOnFacts(draw(SHARE), draw(st.none() | st.just(AT))),
        HelperThreadFacts: load_facts.threads(
            draw(st.floats(0, 64)), draw(st.none() | SHARE), draw(st.integers(0, 999)), draw(SHARE)
        ),
        CopyLines: load_facts.copied(draw(SHARE), draw(SHARE)),
        StorageFacts: load_facts.storage(
            draw(st.sampled_from(["network", "rotational", "solid", "unknown"]))
        ),
        DiskFacts: load_facts.disk(draw(MS)),
        ValidationLoaderFacts: load_facts.held_back(
            draw(st.integers(0, 99)),
            draw(MS),
            draw(MS),
            draw(st.floats(0.001, 1e3)),
            iterable=draw(st.booleans()),
        ),
        NetworkFacts: load_facts.network(
            draw(MS),
            draw(st.none() | st.floats(0.01, 400)),
            draw(MS),
            draw(st.booleans()),
            draw(st.none() | MS),
            draw(st.none() | SHARE),
        ),
        WorkerMemory: load_facts.growth(draw(MS) * 1e6, draw(MS) * 1e6, draw(MS), draw(MS) * 1e3),
        PaddingFacts: load_facts.padding(
            draw(SHARE) / 2, draw(SHARE) / 2, at=draw(st.none() | st.just(AT)), is_fixed=draw(st.booleans())
        ),
    }
