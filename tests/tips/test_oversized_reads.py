from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.data.handed_on import HandedOnFacts
from perfdoctor.model.batch import Stage
from perfdoctor.tips.oversized_reads import oversized_reads as tip
from perfdoctor.tips.too_few_workers import too_few_workers
from tests.support import facts
from tests.support.facts import cpu, line, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5)
TEXT = "cut = np.fromfile(path, np.int16)[start : start + self.samples]"


def loader(read=1_470_000_000, held=3_070_000, workers=2, ms=40, **given):
    return facts.loader(workers=workers, batch=ms, file_bytes=read, batch_bytes=held, **given)


def reads(share=0.96, kind="file", **given):
    return batch(cost(Stage.READING, share, line(share, 52, text=TEXT), kind=kind), ms=40, **given)


def test_says_how_much_is_read_and_how_much_of_it_a_batch_holds():
    advice = tip(STARVED, loader(), reads())
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for the next batch",
        "a batch holds 3.07 MB, and 1.47 GB are read from files for it: 479 times as much",
        f"96% of a batch's 40.0 ms is reading at line 52: `{TEXT}`",
    )
    assert [at.line for at in advice.at] == [52]


def test_expects_more_than_further_workers_bring_to_the_cores_that_are_left():
    cores = cpu(cores=3, busy=2.4, main_cores=0.4, worker_cores=2.0)
    of = facts.model(STARVED, loader(), cores)
    workers = too_few_workers(STARVED, loader(), cores, of, HandedOnFacts())
    assert facts.gain(tip(STARVED, loader(), reads()), of).likely > facts.gain(workers, of).likely > 1


def test_expects_less_where_more_of_what_is_read_is_used():
    of = facts.model(STARVED, loader(workers=1, ms=20), cpu())
    most, some = (
        facts.gain(tip(STARVED, loader(read=read, workers=1, ms=20), reads(0.6)), of)
        for read in (1_000_000_000, 25_000_000)
    )
    assert 1 < some.low < some.likely < most.likely < 20 / 8
    assert some.low == most.low


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), loader(), reads(), id="wait-is-noise"),
        pytest.param(STARVED, loader(), reads(0.29), id="reading-is-a-part"),
        pytest.param(STARVED, loader(read=24_000_000), reads(), id="most-of-it-may-be-used"),
        pytest.param(STARVED, loader(read=1_000_000), reads(), id="compressed-or-mapped"),
        pytest.param(STARVED, loader(read=770_000, held=33_800), reads(), id="a-buffer-a-call"),
        pytest.param(STARVED, loader(read=13_300_000, held=1_020), reads(), id="texts-beside-a-label"),
        pytest.param(
            STARVED,
            loader(),
            batch(
                cost(Stage.READING, 0.96, line(0.96, 52, text="raw = decoder.stdout.read(size)"), kind="file")
            ),
            id="a-pipe",
        ),
        pytest.param(STARVED, loader(read=None), reads(), id="nobody-counts-what-is-read"),
        pytest.param(STARVED, loader(held=None), reads(), id="no-tensors"),
        pytest.param(STARVED, loader(), reads(kind="table"), id="tables"),
        pytest.param(
            STARVED, loader(), batch(cost(Stage.DECODING, 0.9, kind="image")), id="large-images-are-decoded"
        ),
        pytest.param(replace(STARVED, mean_s=0.1), loader(workers=4), reads(), id="workers-keep-far-ahead"),
    ],
)
def test_is_silent(of_step, of_loader, of_batch):
    assert tip(of_step, of_loader, of_batch) is None
