from __future__ import annotations

import pytest

from perfdoctor.facts.data.collators import Collator
from perfdoctor.model.measured import Location
from perfdoctor.tips.padded_batches import padded_batches
from tests.support.facts import LOADER_LINE, gain, run, step, threads
from tests.support.load_facts import padding

STEP = step(data_wait=1, forward=3, backward=5, optimizer=1)
PADS = Location("train.py", 12, "collate", "pad_sequence(texts)")


def tip(of_step, found, device="cpu", module=2.0, trainer=None):
    return padded_batches(run(device=device, trainer=trainer), of_step, threads(module=module), found)


def test_says_how_much_is_padding_and_where_it_comes_from():
    advice = tip(STEP, padding(lines=(PADS,), at=LOADER_LINE))
    assert advice is not None
    assert advice.because == (
        "60% of positions are padding, in 12 sampled batches",
        "rows have 200 positions, sequences 80, a batch's longest 120",
        "forward and backward compute on all of them, and take 80% of the step",
        "40% are padding beyond the batch's longest sequence, 20% within it",
    )
    assert advice.at == (PADS, LOADER_LINE)
    assert not advice.same_result
    assert "pad_sequence" in advice.code
    assert "argsort" in advice.code
    assert "anew each epoch" in advice.code
    assert "order[rank::world]" in advice.code
    assert advice.arguments is None


def test_a_tokenizer_that_pads_is_told_to_leave_it_to_the_collator():
    pads = Location("train.py", 12, "encode", 'tokenizer(texts, truncation=True, padding="max_length")')
    advice = tip(STEP, padding(lines=(pads,), at=LOADER_LINE))
    assert "DataCollatorWithPadding" in advice.code
    assert "pad_sequence" not in advice.code


def test_what_goes_is_computing_on_positions_and_on_pairs_of_them():
    found = gain(tip(STEP, padding(beyond=0.5, within=0.0, width=256.0), module=None))
    assert found.likely == pytest.approx(1 / (1 - 0.8 * (0.8 * 0.5 + 0.2 * 0.75)))
    assert 1 < found.low < found.likely < found.high <= 1 / (1 - 0.8)


def test_what_lies_beyond_the_longest_goes_with_the_same_result():
    advice = tip(STEP, padding(beyond=0.4, within=0.09))
    assert advice.same_result
    assert "argsort" not in advice.code
    assert len(advice.because) == 3


def test_what_random_batches_have_is_a_choice():
    assert tip(STEP, padding(beyond=0.0, within=0.39)).is_choice
    assert not tip(STEP, padding(beyond=0.0, within=0.41)).is_choice
    assert not tip(STEP, padding(beyond=0.2, within=0.2)).is_choice


def test_of_what_lies_within_it_a_part_stays_and_the_loader_comes_first():
    advice = tip(STEP, padding(beyond=0.05, within=0.4, lines=(PADS,), at=LOADER_LINE))
    assert advice.at == (LOADER_LINE, PADS)
    assert "pad_sequence" not in advice.code
    assert advice.arguments == 'train_sampling_strategy="group_by_length"'
    assert gain(advice).likely < gain(tip(STEP, padding(beyond=0.4, within=0.05))).likely


def test_rows_of_one_length_are_left_unpadded_before_similar_lengths_are_grouped():
    found = {"beyond": 0.07, "within": 0.4, "lines": (PADS,), "at": LOADER_LINE}
    fixed, padded_to_longest = tip(STEP, padding(**found, is_fixed=True)), tip(STEP, padding(**found))
    assert "argsort" in fixed.code.split("pad_sequence")[1]
    assert "pad_sequence" not in padded_to_longest.code
    assert fixed.at == (PADS, LOADER_LINE)
    assert gain(fixed).likely > gain(padded_to_longest).likely


def test_a_trainer_collates_unpadded_rows_before_it_groups_them():
    advice = tip(STEP, padding(0.07, 0.4, is_fixed=True), trainer="transformers")
    unpadded, collated, grouped = advice.code.splitlines()
    assert unpadded.startswith("# where rows are padded now: leave them")
    assert collated == "Trainer(..., data_collator=DataCollatorWithPadding(tokenizer))"
    assert 'train_sampling_strategy="group_by_length"' in grouped
    assert advice.arguments is None  # alone they would group rows that are all as long
    on_device = tip(STEP, padding(0.4, 0.05, is_fixed=True), "cuda", trainer="transformers")
    assert on_device.code.endswith("DataCollatorWithPadding(tokenizer, pad_to_multiple_of=64))")


def test_of_short_rows_hardly_any_computing_is_on_pairs():
    found = gain(tip(STEP, padding(beyond=0.5, within=0.0, width=16.0), module=None))
    assert found.likely == pytest.approx(1 / (1 - 0.8 * 0.5), rel=0.02)


def test_of_small_operations_what_calling_them_takes_stays():
    tiny, small, usual, large = (gain(tip(STEP, padding(), module=ms)) for ms in (0.1, 0.4, 0.6, 40))
    assert tiny.low <= small.low < usual.low < large.low
    assert tiny.likely < small.likely < usual.likely < large.likely
    for unknown in (None, 0.0):
        assert gain(tip(STEP, padding(), module=unknown)).low == large.low


def test_rows_that_the_dataset_pads_are_to_be_left_as_they_are_first():
    pads = Location("train.py", 12, "__getitem__", "row[:len(word)] = word")
    assert tip(STEP, padding(lines=(pads,))).code.startswith("# where rows are padded now: leave them")
    assert not tip(STEP, padding(lines=(PADS,))).code.startswith("#")


@pytest.mark.parametrize(
    ("line", "rounded"),
    [
        ("pad_sequence(texts)", "rows.shape[1] % 64"),
        ("row[:len(word)] = word", "rows.shape[1] % 64"),
        ('tokenizer(texts, padding="max_length")', "pad_to_multiple_of=64"),
    ],
)
def test_on_a_device_rows_are_rounded_up_to_lengths_that_it_computes_fast(line, rounded):
    found = padding(lines=(Location("train.py", 12, "collate", line),))
    assert rounded in tip(STEP, found, "cuda").code
    assert rounded not in tip(STEP, found).code


def of_lengths(width: float, longest: float, mean: float):
    return padding(1 - longest / width, (longest - mean) / width, width=width, longest=longest, mean=mean)


@pytest.mark.parametrize(
    ("lengths", "multiple", "rounded"),
    [((128, 100, 60), 8, 104), ((48, 36, 22), 8, 40), ((512, 200, 190), 64, 256)],
)
def test_what_rounding_up_leaves_is_not_promised(lengths, multiple, rounded):
    as_said, cut = of_lengths(*lengths), of_lengths(lengths[0], rounded, rounded - lengths[1] + lengths[2])
    advice = tip(STEP, as_said, "cuda")
    assert f"% {multiple})" in advice.code
    assert gain(advice).likely == pytest.approx(gain(tip(STEP, cut, "cuda")).likely)
    assert gain(advice).likely < gain(tip(STEP, as_said)).likely


def test_where_rounding_up_leaves_rows_as_wide_as_they_are_nothing_goes_by_it():
    assert tip(STEP, of_lengths(190, 130, 120)) is not None
    assert tip(STEP, of_lengths(190, 130, 120), "cuda") is None
    grouped = tip(STEP, of_lengths(190, 140, 50), "cuda")
    assert "argsort" in grouped.code
    assert "pad_sequence" in grouped.code


def test_rows_are_rounded_along_their_length():
    assert "rows are [batch, length]" in tip(STEP, padding(), "cuda").code


def test_a_device_that_waits_for_its_host_gains_nothing():
    found = gain(tip(STEP, padding(), "cuda"))
    assert found.low == 1.0 < found.likely


def test_without_a_loader_or_a_line_that_pads_there_is_no_place():
    assert tip(STEP, padding()).at == ()


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(STEP, padding(beyond=0.14, within=0.1), id="little-padding"),
        pytest.param(STEP, padding(beyond=0.0, within=0.24), id="little-within-the-longest"),
        pytest.param(step(data_wait=81, forward=9, backward=10), padding(), id="hardly-any-computing"),
    ],
)
def test_is_silent(of_step, found):
    assert tip(of_step, found) is None


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(STEP, padding(beyond=0.15, within=0.11), id="a-quarter"),
        pytest.param(step(data_wait=79, forward=10, backward=11), padding(), id="some-computing"),
    ],
)
def test_fires_just_above_the_thresholds(of_step, found):
    assert tip(of_step, found) is not None


TOKENIZES = Location("train.py", 12, "encode", 'tokenizer(texts, truncation=True, padding="max_length")')


@pytest.mark.parametrize(
    ("collator", "made", "told"),
    [
        (Collator("DataCollatorForTokenClassification"), "(tokenizer)", "pads labels, too"),
        (Collator("DataCollatorForSeq2Seq"), "(tokenizer)", "pads labels, too"),
        (
            Collator("DataCollatorForLanguageModeling", "mlm=False"),
            "(tokenizer, mlm=False)",
            "makes the labels itself: rows without them",
        ),
    ],
)
def test_labels_of_tokens_ask_for_a_collator_that_pads_them(collator, made, told):
    found = padding(lines=(TOKENIZES,), collator=collator)
    for code in (tip(STEP, found).code, tip(STEP, found, trainer="transformers").code):
        assert f"{collator.name}{made}" in code
        assert told in code
        assert "DataCollatorWithPadding" not in code
    assert f"{made[:-1]}, pad_to_multiple_of=64)" in tip(STEP, found, "cuda").code


def test_lengths_that_are_rounded_already_are_not_padded_by_a_fixed_length():
    found = padding(0.2, 0.45, multiple=64, lines=(PADS,), at=LOADER_LINE)  # beyond only by rounding
    advice = tip(STEP, found, "cuda")
    assert "argsort" in advice.code
    assert "pad_sequence" not in advice.code
    assert gain(advice).likely < gain(tip(STEP, padding(0.2, 0.45), "cuda")).likely
    on_cpu = tip(STEP, found)
    assert on_cpu.code.startswith("# lengths are rounded up to multiples of 64 now: a CPU gains nothing")


def test_rounding_that_the_script_asks_for_is_kept_on_a_device():
    wide = padding(0.5, 0.0, width=100.0, longest=50.0, mean=50.0, multiple=32)
    assert "% 32)" in tip(STEP, wide, "cuda").code
