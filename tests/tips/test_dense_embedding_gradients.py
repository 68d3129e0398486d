from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.embedding_tables import EmbeddingTable, EmbeddingTableFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.dense_embedding_gradients import dense_embedding_gradients
from tests.support.facts import run, step

STEP = step(forward=1, backward=4, optimizer=5)
LINE = Location("net.py", 7, "__init__", "self.users = nn.Embedding(1_000_000, 16)")


def tip(of_step, found, device="cpu"):
    return dense_embedding_gradients(run(device=device), of_step, found)


def tables(lookups=1_000.0, of_all=0.9, **given):
    values = {
        "path": "users",
        "rows": 1_000_000,
        "bytes": 64 * 2**20,
        "optimizer": "Adam",
        "of_elements": 0.95,
    }
    return EmbeddingTableFacts(
        (EmbeddingTable(**{**values, "lookups": lookups, "of_all": of_all, "at": LINE, **given}),)
    )


def test_says_how_few_rows_a_step_needs_and_names_the_table():
    advice = tip(STEP, tables())
    assert advice.because == (
        "a step looks up at most 1,000 of the 1,000,000 rows of `users` (64 MiB)",
        "50% of each step is the update, and 95% of what Adam updates is this table",
    )
    assert advice.at == (LINE,)
    assert not advice.same_result


def test_the_update_of_the_other_rows_goes_and_at_best_the_gradient_that_is_filled():
    share = tip(STEP, tables(lookups=0.0)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.27, 0.45 + 0.15, 0.45 + 0.4))


def test_no_more_of_backward_goes_than_there_is():
    share = tip(step(forward=4.9, backward=0.1, optimizer=5), tables(lookups=0.0)).change.step
    assert share.high == pytest.approx(0.45 + 0.01)


def test_rows_that_are_looked_up_take_time_of_their_own():
    share = tip(STEP, tables(lookups=4_000.0)).change.step
    rows = 4_000 * (0.3e-6 + 16.777216 * 6e-9) / 10e-3  # of a step of 10 ms: rows of 67 bytes
    assert share.likely == pytest.approx(0.45 - rows + 0.15)
    assert share.low == pytest.approx(0.27 - 1.6 * rows)
    assert share.high == pytest.approx(0.45 - 0.6 * rows + 0.4)


def test_on_a_device_they_cost_three_times_a_dense_one():
    share = tip(STEP, tables(lookups=100_000.0), device="NVIDIA A100").change.step
    assert share.likely == pytest.approx(0.45 * 0.7 + 0.15)


def test_a_table_without_a_line_or_path_is_still_told():
    advice = tip(STEP, tables(at=None, path=""))
    assert advice.at == ()
    assert "rows of an embedding" in advice.because[0]


@pytest.mark.parametrize(
    ("found", "fires"),
    [
        pytest.param(tables(lookups=1_000, rows=4_000, bytes=2**20), True, id="a-quarter-of-the-rows"),
        pytest.param(tables(lookups=1_001, rows=4_000, bytes=2**20), False, id="more-than-a-quarter"),
        pytest.param(tables(lookups=9_900), True, id="sparse-is-a-little-less"),
        pytest.param(tables(lookups=10_100), False, id="sparse-is-as-dear"),
        pytest.param(tables(lookups=0, of_all=0.1001), True, id="a-visible-part-of-the-update"),
        pytest.param(tables(lookups=0, of_all=0.0999), False, id="a-small-part-of-the-update"),
    ],
)
def test_fires_at_its_thresholds_and_is_silent_beside_them(found, fires):
    assert (tip(STEP, found) is not None) == fires


def test_each_further_look_up_fills_a_gradient_and_adds_it():
    one, three = (tip(STEP, tables(lookups=0.0, bytes=2**20, calls=calls)) for calls in (1.0, 3.0))
    more_s = 2 * 2**20 * 0.12e-9  # of a step of 10 ms
    assert three.change.step.likely - one.change.step.likely == pytest.approx(more_s / 10e-3)
    assert "it is looked up 3 times a step" in three.because[2]
    assert len(one.because) == 2
    large = tip(STEP, tables(lookups=0.0, bytes=2**26, of_all=0.3, calls=3.0)).change.step  # 47 ms and more
    assert large.likely == pytest.approx(0.15 + 0.05 + 0.5 * 0.4)  # half of backward at most
    on_device = tip(STEP, tables(lookups=0.0, of_all=0.1, calls=3.0), device="NVIDIA A100")
    assert on_device.change.step.likely == pytest.approx(0.05 + 0.05 / 3 + 0.6 * 2 * 0.05)


def test_an_optimizer_that_takes_sparse_gradients_may_stay():
    assert "SparseAdam" in tip(STEP, tables()).code
    adagrad = tip(STEP, tables(lookups=4_000.0, optimizer="Adagrad"))
    assert adagrad.code.endswith("# Adagrad takes sparse gradients: it may stay")
    assert adagrad.change.step.likely > tip(STEP, tables(lookups=4_000.0)).change.step.likely


def test_where_the_update_is_cheap_it_is_silent():
    assert tip(step(forward=50, backward=47, optimizer=3), tables()) is None


def test_a_script_that_clips_gradients_is_told_what_to_clip():
    found = tables()
    assert "clip" not in tip(STEP, found).code
    assert "clip_grad_norm_(others" in tip(STEP, replace(found, clipped=True)).code
