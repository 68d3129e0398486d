from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.data_on_slow_storage import data_on_slow_storage as tip
from tests.support import facts
from tests.support.facts import line, loader, step
from tests.support.load_facts import batch, cost, disk, storage

STARVED = step(data_wait=90, forward=3, backward=7)
BLOCKED = loader(workers=2, batch=190, cpu=20)
READS = batch(cost(Stage.READING, 0.8, line(0.8, 22), kind="file"), ms=190)
QUIET = facts.cpu(cores=4)
NFS = storage("network", "nfs4")


def test_names_the_line_and_the_mount():
    advice = tip(STARVED, BLOCKED, READS, NFS, disk(12), QUIET)
    assert advice is not None
    assert advice.because[1:] == (
        "80% of a batch's 190.0 ms is reading files",
        "only 20.0 ms of it is CPU time",
        "the files are on /data (nfs4), a network file system",
        "12 MB/s are read from disk",
    )
    assert [at.line for at in advice.at] == [22]


def test_a_disk_that_rotates_counts_where_it_is_read_at_such_a_rate():
    advice = tip(STARVED, BLOCKED, READS, storage("rotational"), disk(120), QUIET)
    found = facts.gain(advice, facts.model(STARVED, BLOCKED, QUIET))
    assert 1 < found.low < found.likely < found.high < 10


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch", "of_storage", "mb", "of_cpu"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), BLOCKED, READS, NFS, 12, QUIET, id="wait-is-noise"),
        pytest.param(
            STARVED, loader(workers=2, batch=190, cpu=115), READS, NFS, 12, QUIET, id="it-reads-from-memory"
        ),
        pytest.param(STARVED, BLOCKED, batch(cost(Stage.READING, 0.39)), NFS, 12, QUIET, id="a-part-of-it"),
        pytest.param(STARVED, BLOCKED, READS, storage("solid"), 12, QUIET, id="a-fast-disk"),
        pytest.param(STARVED, BLOCKED, READS, storage("unknown"), 12, QUIET, id="an-unknown-disk"),
        pytest.param(
            STARVED, BLOCKED, READS, storage("rotational"), 600, QUIET, id="faster-than-any-disk-that-rotates"
        ),
        pytest.param(STARVED, BLOCKED, READS, storage("rotational"), 0.09, QUIET, id="the-disk-is-not-read"),
        pytest.param(
            STARVED, BLOCKED, READS, NFS, 12, facts.cpu(cores=4, other_cores=1.1), id="it-may-wait-for-cores"
        ),
    ],
)
def test_is_silent(of_step, of_loader, of_batch, of_storage, mb, of_cpu):
    assert tip(of_step, of_loader, of_batch, of_storage, disk(mb), of_cpu) is None
