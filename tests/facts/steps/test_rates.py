from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.recomputation import RecomputationFacts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.rates import training_rates
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.change import Estimate
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.results import HostWork
from tests.support.facts import step
from tests.support.rank_traces import A100, host_only, rank, worked
from tests.support.records import rows, update

STEPS = boundaries.find(rows([update() for _ in range(20)]))
LOADER = {"event": "loader", "id": 1}
STEP = replace(step(forward=50, backward=50), samples_per_s=100.0)  # 100 ms


def look(width=128, kinds=50, **given):
    whole = {"loader": 1, "place": 0, "width": width, "lengths": [width] * 4, "kinds": kinds}
    return {"event": "padding", **whole, **given}


def rates(*events, of_step=STEP, recomputation=None, **windows):
    records = RankRecords(0, None, None, (LOADER, *events))
    return training_rates(records, MeasuredSpan.of(STEPS), of_step, windows, recomputation)


def on_a100(*work, **given):
    """Five steps of an A100."""
    return rank(work=work, peak=A100, device="NVIDIA A100", **given)


def test_tokens_are_positions_of_the_rows_that_were_seen():
    found = rates(look(100), look(140), look(7, place=1))
    assert (found.samples_per_s, found.token_width, found.tokens_per_s) == (100, 120, 12_000)
    assert found.how[0] == "tokens: rows of 120 integers in batches that were looked at, with padding"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((), id="no-rows"),
        pytest.param((look(kinds=2),), id="flags"),
        pytest.param((look(loader=2),), id="another-loaders"),
    ],
)
def test_without_texts_tokens_are_not_known(events):
    found = rates(*events)
    assert (found.tokens_per_s, found.token_width) == (None, None)
    assert "tokens: no batch of rows of integers (B x T) was seen" in found.unknown


def test_what_models_are_called_with_tells_where_loaders_do_not():
    assert rates(look(64, loader=0)).tokens_per_s == 6_400


def test_without_a_loader_neither_samples_nor_tokens_are_known():
    found = rates(look(), of_step=replace(STEP, samples_per_s=None))
    assert (found.samples_per_s, found.tokens_per_s) == (None, None)
    assert found.unknown[0] == "samples: no loader told how many a step trains on"


def test_mfu_is_what_shapes_say_against_the_peak_of_the_numbers_computed_with():
    work = worked(flops=62.4e9, count=250, dtype="bfloat16")  # in five steps
    found = rates(shapes=on_a100(work))
    assert found.flops_per_step == pytest.approx(3.12e12)
    assert found.flops_per_s == pytest.approx(31.2e12)
    assert found.flops_utilisation == pytest.approx(0.1)
    assert found.peak_flops_per_s == pytest.approx(312e12)
    assert found.how[-1] == "MFU: of the dense peak for bfloat16 (the maker's data sheet)"


def test_of_several_number_types_each_has_its_own_peak():
    half = worked(flops=312e9, count=5, dtype="bfloat16")  # 1 ms a step
    full = worked(flops=19.5e9, count=5, dtype="float32")  # 1 ms a step
    found = rates(shapes=on_a100(half, full))
    assert found.flops_utilisation == pytest.approx(2 / 100)


def test_tf32_has_a_peak_of_its_own():
    found = rates(shapes=on_a100(worked(flops=156e9, count=5, dtype="tf32")))
    assert found.flops_utilisation == pytest.approx(1 / 100)


@pytest.mark.parametrize(
    ("peak", "dtype"),
    [(None, "bfloat16"), (A100, "float64"), (A100, None)],
    ids=["device", "type", "untyped"],
)
def test_where_a_peak_is_not_known_neither_is_mfu(peak, dtype):
    found = rates(shapes=replace(on_a100(worked(dtype=dtype)), peak=peak))
    assert found.flops_per_s is not None
    assert (found.flops_utilisation, found.peak_flops_per_s) == (None, None)
    assert found.unknown[-1].startswith("MFU: the peak rate of NVIDIA A100 is not known for ")


def test_on_a_cpu_operations_are_counted_and_its_peak_is_not_known():
    work = (HostWork("aten::mm", 50, 1e5, 2e9), HostWork("aten::add", 50, 1e3, None))
    found = rates(shapes=replace(host_only(), host_work=work))
    assert found.flops_per_s == pytest.approx(2e9 * 10 / 0.1)
    assert found.flops_utilisation is None
    assert found.unknown[-1] == "MFU: the peak rate of this CPU is not known for its numbers"


def test_without_shapes_operations_are_not_known():
    assert rates().unknown[-1] == "FLOP: no torch.profiler window with shapes was recorded"
    assert rates(plain=on_a100(worked())).flops_per_s is None
    assert rates(shapes=on_a100()).unknown[-1].startswith("FLOP: the window with shapes holds no product")


def test_what_checkpointing_computes_again_is_said_to_be_counted():
    again = RecomputationFacts(12.0, Estimate(0.2, 0.25, 0.3), None, 10**9, 10**10, on_device=True)
    how = rates(shapes=on_a100(worked()), recomputation=again).how
    assert any(said.endswith("with what checkpointing computes again") for said in how)


def test_of_a_batch_of_one_that_is_given_as_many_rows_it_is_said_why_samples_are_not_counted():
    event = {"event": "batch_layout", "rows": 512, "columns": 13, "of_one": True}
    found = rates(event, of_step=replace(STEP, samples_per_s=None))
    assert found.unknown[0] == (
        "samples: a loader takes for one sample what a model is given as 512 x 13 numbers, a batch perhaps"
    )
