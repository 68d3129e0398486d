from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.data.small_calls import Library, small_calls
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_work import ItemWorkEvent
from tests.support.facts import loader, run, step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SITE = "/venv/lib/python3.11/site-packages"
FETCHES = (f"fetch ({SITE}/torch/utils/data/_utils/fetch.py:54)",)
ILOC = f"__getitem__ ({SITE}/pandas/core/indexing.py:1191)"
INNER = f"_getitem_axis ({SITE}/pandas/core/indexing.py:1752)"
SCRIPT = dedent(
    """\
    class Data(Dataset):
        def __getitem__(self, index):
            name = re.sub("x", "", self.df.iloc[index]["name"])
            mine = self.df.loc[self.df.user == name]
            total = 0
            for value in self.wave[index]:
                total += value.item()
                scale(value)
            codes = [table.get(c) for c in name.lower()]
            for part in self.parts:
                part.filter(index)
            return total, codes
    def scale(value):
        return float(value)
    class Lines(IterableDataset):
        def __iter__(self):
            for line in self.file:
                yield line.split()
    def train():
        for x, y in loader:
            loss = loss_of(model(x), y)
            for row in x:
                total += row.item()
            note(df.iloc[step])
            losses.append(loss.item())
    def learn():
        for batch in loader:
            x = torch.tensor(df.iloc[batch])
            loss = loss_of(model(x))
            loss.backward()
    """
)
ITEMS = 64  # a batch of 32 takes 64 ms: 2 ms each
STEP = step(data_wait=60, other=40)


def at(line, function="__getitem__"):
    return f"{function} ({TRAIN}:{line})"


def worker(*frames, count=100):
    return ("worker 42", *FETCHES, *frames), count


def counted(line, callee, per_item, function="__getitem__", **given):
    where = {"file": TRAIN, "line": line, "function": function}
    return {"at": where, "callee": callee, "calls": per_item * ITEMS, **given}


def facts(*stacks, small=(), calls=(), batch_ms=64, device="cpu"):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    look = ItemWorkEvent(items=ITEMS, functions=[], calls=list(calls), small=list(small), pid=42)
    of = loader(workers=1, batch=batch_ms, batches=10, samples=320)
    return small_calls(records, [look], run(device=device), STEP, of, Sources(source_of(train=SCRIPT)))


def test_a_loop_is_named_by_its_costliest_line_and_what_that_calls():
    stacks = [worker(at(7), count=60), worker(at(8), at(14, "scale"), count=20), worker(at(12), count=20)]
    item, own = counted(7, "torch._C.TensorBase.item", 200), counted(8, "scale", 200, module="__main__")
    (place,) = facts(*stacks, small=[item], calls=[own]).places
    assert (place.at.line, place.at.text) == (7, "total += value.item()")
    assert place.share == pytest.approx(0.8)
    assert (place.library, place.callee, place.per_item) == (Library.TORCH, "Tensor.item", 200)


def test_a_comprehension_is_a_loop():
    found = facts(worker(at(9), at(9, "<listcomp>")), small=[counted(9, "builtins.dict.get", 100)])
    assert [(place.at.line, place.library, place.callee) for place in found.places] == [
        (9, Library.OTHER, "dict.get")
    ]


def test_a_row_of_a_data_frame_is_found_by_the_library_whatever_else_the_line_calls():
    (place,) = facts(worker(at(3), ILOC, INNER)).places
    assert (place.at.line, place.library, place.per_item) == (3, Library.PANDAS, None)


@pytest.mark.parametrize(
    ("stack", "calls"),
    [
        pytest.param(worker(at(7)), counted(7, "torch.Tensor.item", 15), id="few calls"),
        pytest.param(worker(at(11)), counted(11, "filter", 9, module="__main__"), id="large calls"),
        pytest.param(worker(at(12)), counted(12, "numpy.array", 500), id="no loop"),
        pytest.param(
            worker(at(18, "__iter__")), counted(18, "builtins.str.split", 500), id="the loop that yields"
        ),
        pytest.param(worker(at(4), ILOC), counted(4, "x", 1), id="rows selected by a condition"),
        pytest.param(
            worker(at(3), f"mean ({SITE}/pandas/core/series.py:9)"), counted(3, "x", 1), id="a whole column"
        ),
    ],
)
def test_is_not_made_of_anything_else(stack, calls):
    assert facts(stack, small=[calls]) is None


@pytest.mark.parametrize(("per_item", "small"), [(20, True), (16, True)])
def test_calls_are_small_below_a_fifth_of_a_millisecond(per_item, small):
    # 2 ms an item, all of it in these calls: 100 us or 125 us each
    assert (facts(worker(at(11)), small=[counted(11, "x", per_item)]) is not None) is small


def test_large_calls_are_work_of_their_own():
    # 10 ms an item: 500 us a call
    assert facts(worker(at(11)), small=[counted(11, "x", 20)], batch_ms=320) is None


def main(*frames, count=50):
    return ("main", *frames), count


TRAINS = main(
    at(21, "train"), "forward (/opt/perfdoctor/probe/patch.py:99)", f"linear ({SITE}/torch/nn/linear.py:9)"
)


def test_rows_and_numbers_taken_one_by_one_in_the_training_loop_are_found():
    stacks = [TRAINS, main(at(23, "train"), count=30), main(at(24, "train"), ILOC, count=20)]
    found = facts(*stacks)
    assert [(place.at.line, place.library, place.in_step) for place in found.places] == [
        (23, Library.TORCH, True),
        (24, Library.PANDAS, True),
    ]
    assert [place.share for place in found.places] == pytest.approx([0.4 * 0.6, 0.4 * 0.4], rel=0.3)


def test_rows_that_the_model_is_given_are_charged_to_data():
    forward = "forward (/opt/perfdoctor/probe/patch.py:99)", f"linear ({SITE}/torch/nn/linear.py:9)"
    trains = main(at(29, "learn"), *forward)
    (place,) = facts(trains, main(at(28, "learn"), ILOC, count=30)).places
    assert (place.at.line, place.kind) == (28, "data")


def test_on_a_device_reading_a_tensor_is_another_matter():
    assert facts(TRAINS, main(at(23, "train"), count=30), device="cuda") is None


def test_what_the_training_loop_does_once_a_step_is_no_loop():
    assert facts(TRAINS, main(at(25, "train"), count=30)) is None


def test_without_stacks_nothing_is_known():
    assert isinstance(facts(), Missing)
    assert facts(worker(at(7), count=3), small=[counted(7, "x", 99)]) is None


BY_HAND = dedent(
    """\
    def count(pred, y, right):
        for p, t in zip(pred, y):
            label = t.item()
            if p == t:
                right[label] += 1
            names.append(decoded(p))
    def train():
        for x, y in loader:
            loss = loss_of(model(x), y)
            correct = 0
            for p, t in zip(out, y):
                correct += (p == t).item()
            count(out, y, right)
    """
)


def by_hand(*stacks):
    forward = "forward (/opt/perfdoctor/probe/patch.py:99)", f"linear ({SITE}/torch/nn/linear.py:9)"
    trains = main(at(9, "train"), *forward)
    records = RankRecords(0, None, None, (), (trains, *stacks), "py-spy")
    found = small_calls(records, [], run(), STEP, None, Sources(source_of(train=BY_HAND)))
    return found.places


def test_a_loop_over_samples_that_reads_tensors_is_one_place_with_what_is_to_be_written():
    (place,) = by_hand(main(at(12, "train"), count=20), main(at(11, "train"), count=10))
    assert (place.at.line, place.loop, place.samples) == (12, 11, 30)
    assert place.whole == "correct += (out == y).sum().item()"
    assert {line.line for line in place.spares} == {11, 12}


def test_a_function_that_does_little_else_is_spared_with_its_loop():
    called = at(13, "train")
    (place,) = by_hand(*(main(called, at(line, "count"), count=10) for line in (2, 3, 4, 5)))
    assert (place.loop, place.samples, place.whole) == (2, 40, None)
    assert {line.line for line in place.spares} == {2, 3, 4, 5, 13}


def test_other_work_of_such_a_loop_is_not_counted():
    (place,) = by_hand(main(at(13, "train"), at(3, "count"), count=10), main(at(13, "train"), at(6, "count")))
    assert place.samples == 10
    assert 13 not in {line.line for line in place.spares}
