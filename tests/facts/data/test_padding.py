from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from perfdoctor.facts.data.padding import padding_facts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.batch import Stage
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support import load_facts
from tests.support.facts import loader
from tests.support.records import rows, source_of, update

LOADER = {"event": "loader", "id": 1}
LENGTHS = [10, 20, 30, 40]
TRAIN = Location("/home/me/train.py", 1)
STEPS = boundaries.find(rows([update() for _ in range(20)]))


def look(lengths=LENGTHS, **fields):
    return {
        "event": "padding",
        "loader": 1,
        "place": 0,
        "width": 80,
        "lengths": lengths,
        "fill": 0,
        "leading": False,
        "inside": 0,
        "kinds": 50,
        "masked": False,
        **fields,
    }


def facts(*events, of_batch=None, **texts):
    records = RankRecords(0, None, None, (LOADER, *events))
    sources = Sources(source_of(**texts))
    return padding_facts(records, MeasuredSpan.of(STEPS), replace(loader(), at=TRAIN), of_batch, sources)


def test_shares_are_of_all_positions():
    found = facts(*[look(), look([40, 60, 80, 20])] * 3)
    assert (found.batches, found.width, found.longest, found.mean) == (6, 80, 60, 37.5)
    assert (found.beyond, found.within) == (0.25, pytest.approx(22.5 / 80))
    assert found.share == pytest.approx(1 - 37.5 / 80)
    assert found.at == TRAIN


def test_rows_are_of_a_fixed_length_where_only_the_longest_sequence_differs():
    longer = [40, 60, 80, 20]
    assert facts(*[look(), look(longer)] * 3).is_fixed
    assert facts(*[look(), look(longer), look([5, 6, 7, 9], place=1, width=20)] * 3).is_fixed
    assert not facts(*[look(width=40), look(longer)] * 3).is_fixed
    assert not facts(*[look(longer)] * 6).is_fixed  # of batches that all hold the longest


@pytest.mark.parametrize(
    ("collate", "lines"),
    [
        ("transformers.data.data_collator.default_data_collator", []),
        ("transformers.data.data_collator.DataCollatorWithPadding", [1]),
        ("transformers.trainer_utils.RemoveColumnsCollator", [1]),  # which may call it
        ("train.Own", [1]),
        (None, [1]),
    ],
)
def test_a_collator_is_named_only_if_it_may_collate(collate, lines):
    made = {"event": "loader", "id": 1, "collate": collate}
    records = RankRecords(0, None, None, (made, *[look()] * 4))
    sources = Sources(source_of(train="collator = DataCollatorWithPadding(tokenizer)\n"))
    found = padding_facts(records, MeasuredSpan.of(STEPS), replace(loader(), at=TRAIN), None, sources)
    assert [at.line for at in found.lines] == lines


def test_a_batch_that_ends_in_something_else_is_not_padded():
    found = facts(*[look()] * 4, *[look([79, 80, 80, 80], fill=7)] * 4)
    assert (found.batches, found.longest) == (8, 60)


def test_all_tensors_that_are_padded_count():
    answers = look([10, 10, 9, 8], place=1, width=20, fill=-100)
    labels = look([10, 20, 30, 40], place=2, fill=-100, inside=50)
    found = facts(*[look(), answers, labels] * 4)
    assert (found.batches, found.width) == (8, 50)


@pytest.mark.parametrize(
    ("count", "given"),
    [
        pytest.param(3, {}, id="few"),
        pytest.param(0, {}, id="none"),
        pytest.param(8, {"lengths": [80] * 4}, id="unpadded"),
        pytest.param(8, {"kinds": 3}, id="labels"),
        pytest.param(8, {"inside": 6}, id="counts"),
        pytest.param(8, {"lengths": [30, 30, 30, 47]}, id="columns-of-a-table"),
        pytest.param(8, {"lengths": [79] * 4}, id="end-marks"),
        pytest.param(8, {"loader": 2}, id="validation"),
        pytest.param(8, {"lengths": []}, id="empty"),
        pytest.param(8, {"lengths": [1, 2, 3, 81]}, id="too-long"),
        pytest.param(8, {"lengths": [1, 2, 3, "4"]}, id="words"),
        pytest.param(8, {"width": None}, id="no-width"),
    ],
)
def test_is_not_padding(count, given):
    assert facts(*[look(**given)] * count) is None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"kinds": 4}, id="letters"),
        pytest.param({"inside": 5}, id="hardly-inside"),
        pytest.param({"lengths": [30, 30, 31, 47]}, id="every-second"),
        pytest.param({"lengths": [30, 30, 30, 30], "kinds": 1, "inside": 90, "masked": True}, id="masked"),
        pytest.param({"leading": True}, id="leading"),
    ],
)
def test_is_padding(given):
    assert facts(*[look(**given)] * 8).share > 0.25


def test_where_the_loader_delivers_none_it_is_what_the_model_is_called_with():
    called = look([1, 2, 3, 4], loader=0)
    assert facts(*[called] * 4).mean == 2.5
    assert facts(*[look(), called] * 4).mean == 25
    assert facts(*[look(kinds=2), called] * 4) is None


@pytest.mark.parametrize(
    "text",
    [
        "x = pad_sequence(texts, batch_first=True)",
        "ids = tokenizer(text, padding='max_length', truncation=True)",
        "batch = tokenizer(texts, padding=True)",
        "ids = ids + [0] * (length - len(ids))",
        "ids = [PAD] * missing + ids",
        "x = torch.full((n, length), PAD)",
        "x[row, : len(text)] = text",
        "x = F.pad(text, (0, missing), value=1)",
    ],
)
def test_lines_that_pad_are_found_by_their_text(text):
    (at,) = facts(*[look()] * 4, train=f"import torch\n{text}").lines
    assert (at.file, at.line, at.text) == ("/home/me/train.py", 2, text)


def test_rows_that_are_made_before_they_are_filled_are_named_first():
    text = """\
    def collate(rows):
        seen = torch.zeros(4)
        ids = torch.zeros(len(rows), 80, dtype=torch.long)
        for i, row in enumerate(rows):
            row = row[:80]
            ids[i, : len(row)] = row
    """
    found = facts(*[look()] * 4, train=f"import torch\n{dedent(text)}").lines
    assert [at.line for at in found] == [4, 7]


@pytest.mark.parametrize(
    "loop",
    [
        "for row, (clip, _), n in zip(x, items, lengths):\n            row[:n] = clip[:n]",
        "for i, row in enumerate(x):\n            row[..., :ends[i]] = items[i]",
        "for row in x:\n            row[:4] = 1",
        "for i, n in enumerate(lengths):\n            x[i, :n] = items[i]",
    ],
)
def test_rows_are_made_and_filled_one_by_one(loop):
    text = f"""\
    def collate(items):
        lengths = list(map(len, items))
        x = torch.zeros(len(items), 224, 54)
        {loop}
    """
    found = facts(*[look()] * 4, train=f"import torch\n{dedent(text)}").lines
    assert [at.line for at in found] == [4, 6]


@pytest.mark.parametrize(
    "text",
    [
        "ring = memory.view(4, 8)\nring[:n] = rows",
        "embedding = nn.Embedding(words, width, padding_idx=PAD)",
        "layer = nn.Conv1d(8, 8, 3, padding=1)",
        "mask = texts != PAD",
        "rows = [None] * len(texts)",
        "total = 2 * (length - len(text))",
        "x[row] = text",
        "first = x[: len(text)]",
        "x = torch.full((n, 4), 1.0)",
        "x = (",
    ],
)
def test_lines_that_do_not_pad_are_not_named(text):
    assert facts(*[look()] * 4, train=text).lines == ()


def test_files_in_which_batches_are_prepared_are_read_too():
    line = replace(load_facts.cost(Stage.TRANSFORMING, 1.0).lines[0], at=Location("/home/me/data.py", 9))
    of_batch = load_facts.batch(load_facts.cost(Stage.TRANSFORMING, 1.0, line))
    (at,) = facts(*[look()] * 4, of_batch=of_batch, data="x = pad_sequence(texts)").lines
    assert at.file == "/home/me/data.py"


def test_what_the_loss_ignores_is_no_padding_of_rows_that_are_full():
    full, ignored = look([80] * 4, fill=7), look(place=1, fill=-100)
    assert facts(*[full, ignored] * 6) is None
    assert facts(*[ignored] * 6) is not None  # beside features that are no numbers of a table
    padded = facts(*[look(), ignored] * 6)
    assert (padded.batches, padded.longest) == (6, 40)


ROUNDS = "DataCollatorWithPadding(tokenizer, pad_to_multiple_of=64)"


def test_lengths_that_are_rounded_up_are_no_fixed_length():
    longer = [40, 60, 50, 20]
    alike = [look(width=64), look(longer, width=64)] * 3
    assert facts(*alike).is_fixed
    rounded = facts(*alike, train=f"x = {ROUNDS}")
    assert (rounded.is_fixed, rounded.multiple) == (False, 64)
    assert facts(*[look(width=256), look(longer, width=256)] * 3, train=f"x = {ROUNDS}").is_fixed


@pytest.mark.parametrize(
    ("longest", "widths", "multiple"),
    [
        ((40, 75), (64, 128), 64),
        ((40, 75), (40, 80), 8),
        ((40, 85), (48, 96), 16),
        ((40, 85), (40, 85), 1),
        ((40, 75), (64, 192), 1),
        ((40, 60), (64, 64), 1),
    ],
)
def test_widths_that_differ_tell_what_they_are_rounded_up_to(longest, widths, multiple):
    events = [look([most, 20, 30, 10], width=width) for most, width in zip(longest, widths, strict=True)]
    assert facts(*events * 3).multiple == multiple


def test_two_tensors_of_two_fixed_widths_are_not_rounded():
    answers = look([20, 30, 25, 9], place=1, width=32)
    events = [look([40, 60, 64, 20], width=64), answers, look([40, 60, 50, 20], width=64), answers]
    assert facts(*events * 2).is_fixed


LABELS = {"place": 1, "fill": -100}


@pytest.mark.parametrize(
    ("labels", "name", "objective"),
    [
        pytest.param([], "DataCollatorWithPadding", "", id="none"),
        pytest.param([look(kinds=9, **LABELS)], "DataCollatorForTokenClassification", "", id="classes"),
        pytest.param(
            [look([9, 8, 7, 6], width=16, **LABELS)], "DataCollatorForSeq2Seq", "", id="other-texts"
        ),
        pytest.param([look(**LABELS)], "DataCollatorForLanguageModeling", "mlm=False", id="the-text"),
        pytest.param([look(place=1)], "DataCollatorForLanguageModeling", "mlm=False", id="the-text-itself"),
        pytest.param(
            [look(kinds=30, inside=85, **LABELS)], "DataCollatorForLanguageModeling", "", id="masked-tokens"
        ),
    ],
)
def test_labels_tell_which_collator_pads_them(labels, name, objective):
    found = facts(*[look(), *labels] * 4).collator
    assert (found.name, found.objective) == (name, objective)


def test_the_collator_that_the_script_names_counts_for_more():
    text = "x = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=True)"
    found = facts(*[look()] * 4, train=text).collator
    assert (found.name, found.objective) == ("DataCollatorForLanguageModeling", "mlm=True")


def test_of_batches_with_time_first_padding_is_not_known():
    layout = {
        "event": "batch_layout", "dimension": 1, "rows": 80, "columns": 4, "integers": True, "told_by": "LSTM",
    }  # fmt: skip
    assert isinstance(facts(*[look()] * 4, layout), Missing)
    assert facts(*[look()] * 4, {**layout, "dimension": None}).share > 0
