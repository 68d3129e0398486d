from __future__ import annotations

import sys
from dataclasses import replace
from textwrap import dedent

import pytest

from perfdoctor.facts.data.batch_stages import COPIED, batch_facts
from perfdoctor.facts.data.item_work import RepeatedWorkFacts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.batch import WAITED_FOR, BatchFacts, Stage
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.tips import catalogue
from tests.support.facts import copies, loader, step
from tests.support.rank_traces import site
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SITE = "/venv/lib/python3.11/site-packages"
STANDARD = "/usr/lib/python3.11"
TORCH = f"{SITE}/torch"
SCRIPT = dedent(
    """\
    class Photos(Dataset):
        def __getitem__(self, index):
            image = Image.open(self.paths[index]).convert("RGB")
            for y in range(28):
                for x in range(28):
                    out[y, x] = image[y, x] ** 2
            with self.lock:
                extra = self.archive.read(index)
            return torch.tensor(out)
    def pad(rows):
        return [row + [0] * (9 - len(row)) for row in rows]
    class Lines(IterableDataset):
        def __iter__(self):
            for line in self.file:
                cleaned = line.lower()
                yield cleaned.split()
    """
)
STEP = step(data_wait=90, forward=10)
LOADER = loader(workers=2, batch=100, collate_s=0.02)

LOOP = f"_worker_loop ({TORCH}/utils/data/_utils/worker.py:350)"
FETCHES = (
    LOOP,
    "fetch (/opt/perfdoctor/probe/patch.py:99)",
    f"fetch ({TORCH}/utils/data/_utils/fetch.py:54)",
)
COLLATES = (*FETCHES, "collate (/opt/perfdoctor/probe/patch.py:99)")
FEEDS = (f"Thread.run ({STANDARD}/threading.py:9)", f"Queue._feed ({STANDARD}/multiprocessing/queues.py:244)")
WAITS = f"Condition.wait ({STANDARD}/threading.py:320)"
GETS = (
    "data_wait (/opt/perfdoctor/probe/patch.py:99)",
    f"Queue.get ({STANDARD}/multiprocessing/queues.py:113)",
)


def at(line, function="Photos.__getitem__"):
    return f"{function} ({TRAIN}:{line})"


def worker(*frames, count=10, within=FETCHES):
    return ("worker 42", *within, *frames), count


def facts(*stacks, of_loader=LOADER, of_step=STEP, of_copies=None):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    return batch_facts(records, of_step, of_loader, of_copies, Sources(source_of(train=SCRIPT)))


def shares(found):
    return {(cost.stage, cost.kind): pytest.approx(cost.share) for cost in found.costs}


DECODES = worker(at(3), f"ImageFile.load ({SITE}/PIL/ImageFile.py:300)", count=60)
COMPUTES = worker(at(6), count=20)
PADS = worker(at(11, "pad"), within=COLLATES, count=20)


def test_stages_share_what_their_clocks_measured():
    found = facts(DECODES, COMPUTES, PADS)
    assert shares(found) == {
        (Stage.DECODING, "image"): 0.6,
        (Stage.TRANSFORMING, ""): 0.2,
        (Stage.COLLATING, ""): 0.2,
    }
    assert (found.batch_s, found.samples, found.in_workers) == (pytest.approx(0.1), 100, True)


GENES = "def select(counts):\n    return counts.tocsc()[:, :9]"


@pytest.mark.parametrize(
    ("script", "file", "line"),
    [
        pytest.param(f"import genes\n{SCRIPT}", "_csc.py", 2, id="in-a-file-that-is-imported"),
        pytest.param(SCRIPT, "_csc.py", None, id="nowhere"),
        pytest.param(f"import genes\n{SCRIPT}a = hstack(b, format='csc')\n", "_csc.py", None, id="twice"),
        pytest.param(f"import genes\n{SCRIPT}", "_csr.py", None, id="the-other-layout"),
    ],
)
def test_rows_of_a_matrix_by_columns_tell_the_line_that_makes_it_so(script, file, line):
    name = "_get_intXslice" if file == "_csc.py" else "_get_sliceXint"
    rows = worker(at(3), f"_csc_base.{name} ({SITE}/scipy/sparse/{file}:30)", count=60)
    records = RankRecords(0, None, None, (), (rows,), "py-spy")
    made = batch_facts(records, STEP, LOADER, None, Sources(source_of(train=script, genes=GENES))).laid_out_at
    assert (made.line if made is not None else None) == line


def test_collating_has_a_clock_of_its_own():
    found = facts(DECODES, COMPUTES, PADS, of_loader=loader(workers=2, batch=100, collate_s=0.04))
    assert found.share(Stage.COLLATING) == pytest.approx(0.4)
    assert found.share(Stage.DECODING) == pytest.approx(0.45)


def test_each_stage_names_its_costliest_line_and_the_library():
    found = facts(DECODES, worker(at(7), count=5), COMPUTES)
    decoding = found.of(Stage.DECODING)[0]
    assert (decoding.library, decoding.lines[0].at.line, decoding.lines[0].leaf) == (
        "PIL",
        3,
        "ImageFile.load",
    )


def test_lines_of_a_short_loop_are_one_place():
    found = facts(worker(at(5), count=10), worker(at(6), count=70), worker(at(9), count=20))
    assert [(line.at.line, line.samples) for line in found.lines(Stage.TRANSFORMING, "")] == [(6, 80)]


def test_a_loop_that_yields_is_no_place_of_its_own():
    found = facts(worker(at(15, "Lines.__iter__"), count=30), worker(at(16, "Lines.__iter__"), count=70))
    assert [line.at.line for line in found.lines(Stage.TRANSFORMING)] == [16, 15]


def test_the_innermost_library_that_is_known_counts():
    through = (f"read ({SITE}/fsspec/caching.py:9)", f"readinto ({STANDARD}/socket.py:700)")
    found = facts(worker(at(3), f"ImageFile.load ({SITE}/PIL/ImageFile.py:300)", *through))
    assert shares(found)[Stage.FETCHING, ""] == 1.0


def test_waiting_for_a_lock_is_told_from_what_runs_while_it_is_held():
    waits = worker(at(7), f"SemLock.__enter__ ({STANDARD}/multiprocessing/synchronize.py:95)", count=60)
    holds = worker(at(8), f"read ({SITE}/h5py/_hl/dataset.py:3)", count=40)
    found = facts(waits, holds)
    assert found.share(Stage.WAITING, "lock") == pytest.approx(0.6)
    assert [(line.at.line, pytest.approx(line.share)) for line in found.locked] == [(8, 0.4)]


def test_opening_connections_is_a_share_of_fetching():
    request = f"request ({SITE}/requests/api.py:3)"
    opens = worker(at(3), request, f"create_connection ({STANDARD}/socket.py:800)", count=30)
    found = facts(opens, worker(at(3), request, f"readinto ({STANDARD}/socket.py:700)", count=70))
    assert found.connecting == pytest.approx(0.3)


def test_a_line_that_only_copies_is_told_apart():
    assert shares(facts(worker(at(9))))[Stage.TRANSFORMING, "copy"] == 1.0


def test_without_workers_the_training_thread_is_looked_at():
    stack = ("main", at(3, "main"), *FETCHES[1:], at(6)), 20
    of_loader = loader(batch=100)
    found = facts(stack, COMPUTES, of_loader=of_loader)
    assert (found.samples, found.in_workers) == (20, False)


def test_other_threads_of_workers_prepare_nothing():
    feeder = ("worker 42 thread QueueFeederThread", *FETCHES, at(6)), 500
    assert facts(feeder, COMPUTES).samples == 20


def test_handing_over_is_packing_and_unpacking():
    packs = (
        ("worker 42 thread QueueFeederThread", *FEEDS, f"reduce ({TORCH}/multiprocessing/reductions.py:1)"),
        50,
    )
    idle = ("worker 42 thread QueueFeederThread", *FEEDS, WAITS), 500
    rebuilds = ("main", *GETS, f"rebuild ({TORCH}/multiprocessing/reductions.py:5)"), 10
    polls = ("main", *GETS, f"_poll ({STANDARD}/multiprocessing/connection.py:440)"), 80
    found = facts(DECODES, COMPUTES, PADS, packs, idle, rebuilds, polls)
    # half of a batch's 100 ms, and 10 of 90 samples of 90 ms that the loop waits
    assert found.transfer_s == pytest.approx(0.050 + 0.010)


def test_too_few_samples_are_a_reason():
    assert facts() == Missing("no stack samples were taken")
    assert facts(worker(at(6), count=9)) == Missing("only 9 stack samples of batch preparation were taken")


def test_no_tip_about_batches_speaks_where_so_little_is_lost_to_them():
    about = [tip for tip in catalogue.tips() if {BatchFacts, RepeatedWorkFacts} & set(tip.needs.values())]
    modules = {tip.id: sys.modules[tip.judge.__module__] for tip in about}
    over_the_bus = modules.pop("float-batches-over-the-bus")
    assert (over_the_bus.WAITS, over_the_bus.NOTICEABLE) >= (WAITED_FOR, COPIED)
    assert len(modules) >= 10
    assert min(module.NOTICEABLE for module in modules.values()) >= WAITED_FOR


def test_where_little_is_lost_to_batches_and_copies_few_samples_are_nothing_to_tell():
    trains = step(data_wait=9, forward=91)
    few = worker(at(6), count=9)
    assert facts(few, of_step=trains) is None
    assert facts(few, of_step=trains, of_copies=copies(sites=(site(ms=10),))) is None
    assert facts(worker(at(6), count=10), of_step=trains) is not None
    assert isinstance(facts(few, of_step=step(data_wait=10, forward=90)), Missing)
    assert isinstance(facts(few, of_step=trains, of_copies=copies(sites=(site(ms=20),))), Missing)
    assert isinstance(facts(few, of_step=replace(step(data_wait=5, forward=95), contention_s=0.006)), Missing)
