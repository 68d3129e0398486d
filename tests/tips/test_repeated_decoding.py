from __future__ import annotations

import pytest

from perfdoctor.facts.data.item_repeats import ItemRepeatFacts
from perfdoctor.model.batch import Stage
from perfdoctor.tips.repeated_decoding import repeated_decoding
from tests.support import facts
from tests.support.facts import cpu, line, run, step
from tests.support.load_facts import GB, batch, cost, memory

STARVED = step(data_wait=12, forward=3, backward=5)
DECODES = batch(
    cost(Stage.DECODING, 0.6, line(0.6, 39), kind="archive"), cost(Stage.READING, 0.2, line(0.2, 38))
)


def tip(of_step, of_loader, of_batch, of_memory, again=0, alike=0):
    return repeated_decoding(run(), of_step, of_loader, of_batch, ItemRepeatFacts(again, alike), of_memory)


def loader(passes=4.0, items=1000, batch_bytes=32 * 100_000, **given):
    samples = round(passes * items)
    return facts.loader(
        batch=12, items=items, samples=samples, batches=samples // 32, batch_bytes=batch_bytes, **given
    )


def test_names_the_lines_and_how_often_items_were_read():
    advice = tip(STARVED, loader(), DECODES, memory())
    assert advice is not None
    assert advice.because[1:] == (
        "reading and decoding take 80% of a batch's cost",
        "each item was read 4.0 times",
        "1,000 items take 100 MB in batches; 8 GB are free",
    )
    assert [at.line for at in advice.at] == [39, 38]
    assert advice.tweak == "--cache-dataset"


def test_promises_nothing_for_the_first_time_an_item_is_read():
    few, many = (tip(STARVED, loader(passes), DECODES, memory()) for passes in (2, 20))
    assert few is not None
    assert few.change is not None
    assert few.change.batch.high <= 0.8 / 2
    of = facts.model(STARVED, loader(), cpu())
    assert 1 < facts.gain(few, of).likely < facts.gain(many, of).likely < 20 / 8


def test_a_cache_in_each_of_many_workers_is_worth_less_at_worst():
    one, four = (tip(STARVED, loader(workers=workers), DECODES, memory()) for workers in (1, 4))
    assert one.change.batch.low == pytest.approx(0.8 * 0.75 * 0.6)
    # of four passes: all of the first, 3/4 of the second, 9/16 of the third, 27/64 of the last find nothing
    assert four.change.batch.low == pytest.approx(0.8 * (1 - (1 + 3 / 4 + 9 / 16 + 27 / 64) / 4) * 0.6)
    assert four.change.batch.low / 0.6 < four.change.batch.likely / 0.9 < one.change.batch.likely / 0.9
    assert four.change.batch.high == one.change.batch.high


@pytest.mark.parametrize("text", ["x = x + 0.1 * torch.randn(size)", "return self.augment(x)"])
def test_items_that_draw_random_numbers_are_not_kept_as_a_whole(text):
    draws = cost(Stage.TRANSFORMING, 0.1, line(0.1, 44, text=text))
    advice = tip(STARVED, loader(), batch(*DECODES.costs, draws), memory())
    assert advice is not None
    assert advice.tweak is None


@pytest.mark.parametrize(("alike", "tweak"), [(31, None), (32, "--cache-dataset")])
def test_what_items_were_counts_more_than_what_lines_are_called(alike, tweak):
    draws = cost(Stage.TRANSFORMING, 0.1, line(0.1, 44, text="return self.augment(x)"))
    of_batch = DECODES if tweak is None else batch(*DECODES.costs, draws)
    advice = tip(STARVED, loader(), of_batch, memory(), again=32, alike=alike)
    assert advice is not None
    assert advice.tweak == tweak


def test_an_order_without_items_is_not_kept():
    advice = tip(STARVED, loader(iterable=True), DECODES, memory())
    assert advice is not None
    assert advice.tweak is None


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch", "of_memory"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), loader(), DECODES, memory(), id="wait-is-noise"),
        pytest.param(STARVED, loader(1.4), DECODES, memory(), id="most-items-were-read-once"),
        pytest.param(
            STARVED, loader(), batch(cost(Stage.DECODING, 0.29, kind="image")), memory(), id="cheap-to-decode"
        ),
        pytest.param(STARVED, loader(), DECODES, memory(available_bytes=GB // 6), id="too-large-for-memory"),
        pytest.param(STARVED, loader(items=0), DECODES, memory(), id="unknown-length"),
        pytest.param(STARVED, loader(batch_bytes=None), DECODES, memory(), id="unknown-size"),
    ],
)
def test_is_silent(of_step, of_loader, of_batch, of_memory):
    assert tip(of_step, of_loader, of_batch, of_memory) is None
