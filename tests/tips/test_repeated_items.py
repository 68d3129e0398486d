from __future__ import annotations

import pytest

from perfdoctor.facts.data.item_repeats import ItemRepeatFacts
from perfdoctor.model.batch import Stage
from perfdoctor.tips.repeated_items import repeated_items as tip
from tests.support import facts
from tests.support.facts import cpu, line, run, step
from tests.support.load_facts import GB, batch, cost, memory

STARVED = step(data_wait=12, forward=3, backward=5)
SAME = ItemRepeatFacts(32, 32)
PREPARED = batch(
    cost(Stage.DECODING, 0.4, line(0.4, 39)),
    cost(Stage.TRANSFORMING, 0.5, line(0.5, 40), line(0.05, 39)),
    cost(Stage.COLLATING, 0.1, line(0.1, 60)),
)


def loader(passes=4.0, items=1000, batch_bytes=32 * 100_000, collate=1.2, **given):
    samples = round(passes * items)
    of = {"items": items, "samples": samples, "batches": samples // 32, "batch_bytes": batch_bytes, **given}
    return facts.loader(batch=12, collate_s=collate / 1e3, **of)


def test_names_the_lines_that_prepare_items_and_how_often_they_did():
    advice = tip(run(), STARVED, loader(), PREPARED, SAME, memory())
    assert advice is not None
    assert advice.because[1:] == (
        "90% of a batch's 12.0 ms is preparing its items",
        "all 32 items that were compared were the same every time",
        "each item was prepared 4.0 times; a longer training gains more",
        "1,000 items take 100 MB; 8 GB are free",
    )
    assert [at.line for at in advice.at] == [40, 39]
    assert advice.tweak == "--cache-dataset"


def test_all_but_collating_a_lookup_and_the_first_time_is_saved():
    advice = tip(run(), STARVED, loader(), PREPARED, SAME, memory())
    item_s = 5e-6 + 100_000 / 4e9
    assert advice.change.batch.likely == pytest.approx(0.75 * (0.9 - 32 * item_s / 0.012), rel=0.01)
    few, many = (tip(run(), STARVED, loader(passes), PREPARED, SAME, memory()) for passes in (2, 20))
    of = facts.model(STARVED, loader(), cpu())
    assert 1 < facts.gain(few, of).likely < facts.gain(many, of).likely < 20 / 8


def test_a_cache_in_each_of_many_workers_is_worth_less_at_worst():
    one, four = (tip(run(), STARVED, loader(workers=count), PREPARED, SAME, memory()) for count in (1, 4))
    assert four.change.batch.low < one.change.batch.low
    assert four.change.batch.high == one.change.batch.high


@pytest.mark.parametrize("passes", [1.4, 1.6])
def test_most_items_have_to_come_again(passes):
    assert (tip(run(), STARVED, loader(passes), PREPARED, SAME, memory()) is not None) == (passes > 1.5)


@pytest.mark.parametrize(
    ("of_step", "of_loader", "repeats", "of_memory"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), loader(), SAME, memory(), id="wait-is-noise"),
        pytest.param(STARVED, loader(), ItemRepeatFacts(32, 31), memory(), id="random-augmentation"),
        pytest.param(STARVED, loader(), ItemRepeatFacts(7, 7), memory(), id="too-few-compared"),
        pytest.param(STARVED, loader(), ItemRepeatFacts(), memory(), id="nothing-compared"),
        pytest.param(STARVED, loader(), SAME, memory(available_bytes=GB // 6), id="too-large-for-memory"),
        pytest.param(STARVED, loader(), SAME, memory(available_bytes=None), id="memory-unknown"),
        pytest.param(STARVED, loader(collate=8), SAME, memory(), id="most-is-collating"),
        pytest.param(STARVED, loader(items=0), SAME, memory(), id="unknown-length"),
        pytest.param(STARVED, loader(batch_bytes=None), SAME, memory(), id="unknown-size"),
        pytest.param(STARVED, loader(batch_bytes=32 * 2_000_000, items=500), SAME, memory(), id="in-memory"),
    ],
)
def test_is_silent(of_step, of_loader, repeats, of_memory):
    assert tip(run(), of_step, of_loader, PREPARED, repeats, of_memory) is None


def test_each_rank_keeps_the_items_for_itself():
    alone, together = (
        tip(
            run(ranks=ranks),
            STARVED,
            loader(items=10_000),
            PREPARED,
            SAME,
            memory(available_bytes=3 * GB),
        )
        for ranks in (1, 4)
    )
    assert alone.because[-1] == "10,000 items take 1 GB; 3 GB are free"
    assert together is None
    shared = tip(run(ranks=4), STARVED, loader(), PREPARED, SAME, memory())
    assert "in each of 4 ranks" in shared.because[-1]


def test_data_sets_that_are_made_anew_are_each_prepared_once():
    clients = loader(passes=60, items=100, items_in_all=1000, built=60)
    advice = tip(run(), STARVED, clients, PREPARED, SAME, memory())
    assert advice is not None
    assert advice.because[3] == "each item was prepared 6.0 times; a longer training gains more"
    assert advice.because[4].startswith("1,000 items take ")
    assert advice.tweak is None
    assert "items[client]" in str(advice.code)
    alike = tip(run(), STARVED, loader(passes=6.0), PREPARED, SAME, memory())
    assert advice.change.batch.likely == pytest.approx(alike.change.batch.likely, rel=0.01)
