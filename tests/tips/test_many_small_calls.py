from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.data.small_calls import Library, SmallCallFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.many_small_calls import many_small_calls as tip
from tests.support import facts
from tests.support.facts import cpu, loader, step
from tests.support.load_facts import small

STARVED = step(data_wait=12, forward=3, backward=5)


def said(*places):
    advice = tip(STARVED, SmallCallFacts(places, 0.012))
    assert advice is not None
    return advice


def test_names_the_line_what_it_calls_and_how_often():
    advice = said(small(0.8))
    because = "line 22 calls `list.append`, 1500 times for each item; that is 80% of a batch's 12.0 ms: "
    assert advice.because == (
        "60% of each step waits for the next batch",
        because + "`ids.append(table[c])`",
    )
    assert [at.line for at in advice.at] == [22]


def test_rows_of_a_data_frame_are_called_so():
    advice = said(small(0.8, library=Library.PANDAS, callee="", per_item=None, text="row = df.iloc[i]"))
    assert "line 22 takes single rows out of a data frame; that is 80%" in advice.because[1]
    assert advice.code is not None
    assert "to_numpy" in advice.code


@pytest.mark.parametrize(
    ("library", "word"),
    [
        (Library.TORCH, "tensor"),
        (Library.NUMPY, "NumPy"),
        (Library.TEXT, "text"),
        (Library.OTHER, "array or list"),
    ],
)
def test_the_cure_fits_the_library(library, word):
    code = said(small(0.8, library=library)).code
    assert code is not None
    assert word in code


def test_expects_no_more_than_the_batches_cost():
    of = facts.model(STARVED, loader(batch=12), cpu())
    found = facts.gain(said(small(0.7), small(0.3, 30)), of)
    assert 1 < found.low < found.likely < found.high <= 20 / 8


@pytest.mark.parametrize(
    ("of_step", "share", "fires"),
    [
        pytest.param(STARVED, 0.25, True, id="just enough of a batch"),
        pytest.param(STARVED, 0.24, False, id="too little of a batch"),
        pytest.param(step(data_wait=1.0, forward=9), 0.8, True, id="waits just enough"),
        pytest.param(step(data_wait=0.9, forward=9.1), 0.8, False, id="hardly waits"),
    ],
)
def test_fires_where_the_step_waits_and_the_calls_matter(of_step, share, fires):
    assert (tip(of_step, SmallCallFacts((small(share),), 0.012)) is not None) is fires


def test_in_the_training_loop_the_step_pays_for_it():
    busy = step(forward=4, backward=4, other=12)
    place = small(0.5, library=Library.TORCH, callee="Tensor.item", per_item=None, in_step=True)
    advice = tip(busy, SmallCallFacts((place,), 0.0))
    assert advice is not None
    assert advice.because[0].startswith(
        "line 22 calls `Tensor.item` in a loop; that is 50% of the step's 20.0 ms"
    )
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.5 * 0.9))


@pytest.mark.parametrize(
    ("kind", "charged"),
    [("data", Bottleneck.DATA), ("compute", Bottleneck.COMPUTE), (None, Bottleneck.HOST)],
)
def test_what_goes_in_the_loop_is_of_the_class_that_the_place_is_charged_to(kind, charged):
    advice = said(replace(small(0.5, in_step=True), kind=kind), small(0.4, 30))
    assert (advice.bottleneck, *advice.also) == tuple(dict.fromkeys((charged, Bottleneck.DATA)))


@pytest.mark.parametrize(("share", "fires"), [(0.08, True), (0.07, False)])
def test_fires_where_the_step_loses_enough(share, fires):
    place = small(share, in_step=True)
    assert (tip(step(forward=10), SmallCallFacts((place,), 0.0)) is not None) is fires


@pytest.mark.parametrize(
    ("whole", "code"),
    [
        ("n += (pred == y).sum().item()", "n += (pred == y).sum().item()  # all samples at once"),
        (None, "# all samples at once, and one number at the end"),
    ],
)
def test_a_loop_that_reads_tensors_is_named_first_with_the_operation_on_whole_ones(whole, code):
    read = {"library": Library.TORCH, "callee": "Tensor.item", "per_item": None, "in_step": True}
    advice = said(small(0.5, **read, loop=20, whole=whole, spares=(Location("train.py", 22),)))
    assert [at.line for at in advice.at] == [20, 22]
    assert advice.because[0].startswith(
        "the loop at line 20 reads tensors number by number, most of it at line 22"
    )
    assert str(advice.code).startswith(code)
    assert [at.line for at in advice.spares] == [22]
