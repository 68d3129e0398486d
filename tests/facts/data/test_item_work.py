from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from perfdoctor.facts.data.item_work import How, repeated_work
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_work import ItemWorkEvent
from tests.support.facts import loader, step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
FETCHES = (
    "_worker_loop (/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py:350)",
    "fetch (/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:54)",
)
LOAD = "load (/usr/lib/python3.11/json/__init__.py:274)"
SCRIPT = dedent(
    """\
    class Data(Dataset):
        def __getitem__(self, index):
            with open(self.path) as file:
                table = json.load(file)
            sums = {}
            for key in KEYS:
                sums[key] = work(key)
            row = table[index]
            noise = random.random()
            row = [value + noise for value in row]
            first = pickle.load(open("all.pkl", "rb"))[index]
            other = pickle.load(open(self.paths[index], "rb"))
            return convert(self.scale, row)
    class Lines(IterableDataset):
        def __iter__(self):
            table = read_table()
            for line in self.file:
                words = read_table()
                yield line, words, table
    """
)
STEP = step(data_wait=90, forward=10)
LOADER = loader(workers=1, batch=10)
GETITEM = {"file": TRAIN, "line": 2, "function": "__getitem__"}
ITER = {"file": TRAIN, "line": 15, "function": "__iter__"}
SAME = {"file": 1, "table": 2, "sums": 3, "key": 4}
VARIED = ["index", "row", "noise", "first", "other"]


def worker(*frames, count=10):
    return ("worker 42", *FETCHES, *frames), count


def at(line, function="Data.__getitem__"):
    return f"{function} ({TRAIN}:{line})"


def ended(ends=64, where=GETITEM, same=SAME, varied=VARIED, plain=()):
    return {"at": where, "ends": ends, "same": same, "varied": varied, "plain": list(plain)}


def call(line=13, function="convert", **given):
    counts = {"calls": 64, "compared": 64, "repeated": 63, "differed": 0, "arguments": 1, **given}
    where = {"file": TRAIN, "line": line, "function": "__getitem__"}
    return {"at": where, "callee": function, "module": "__main__", "function": function, **counts}


def facts(*stacks, functions=(), calls=(), pid=42, of_step=STEP, of_loader=LOADER):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    look = ItemWorkEvent(items=64, functions=list(functions), calls=list(calls), small=[], pid=pid)
    return repeated_work(records, [look], of_step, of_loader, Sources(source_of(train=SCRIPT)))


def lines(found):
    return {} if found is None else {one.at.line: (pytest.approx(one.share), one.how) for one in found.work}


CONVERTS = worker(at(13), at(99, "convert"), count=40)


def test_statements_that_set_the_same_from_the_same_are_work_that_is_repeated():
    stacks = [worker(at(4), LOAD, count=60), worker(at(7), count=20), worker(at(10), count=20)]
    found = facts(*stacks, functions=[ended()])
    assert lines(found) == {4: (0.6, How.VALUE), 7: (0.2, How.VALUE)}
    assert found.share == pytest.approx(0.8)
    assert (found.work[0].name, found.work[0].seen, found.work[0].at.text) == (
        "table",
        64,
        "table = json.load(file)",
    )


def test_what_was_set_from_something_that_varies_is_not():
    functions = [ended(same={**SAME, "row": 5, "first": 6}, varied=["index", "noise", "other"])]
    assert facts(worker(at(8), count=50), worker(at(10), count=50), functions=functions) is None


def test_a_number_is_no_sign_that_work_was_only_done_for_it():
    stacks = [worker(at(4), LOAD, count=60), worker(at(7), count=20)]
    assert lines(facts(*stacks, functions=[ended(plain=["table", "key"])])) == {7: (0.25, How.VALUE)}


@pytest.mark.parametrize(
    ("text", "same", "work"),
    [
        ("for t in self.ts: image = t(image)", {"t": 1}, {}),
        ("for t in self.ts: total = t(self.x)", {"t": 1, "total": 2}, {3: (1.0, How.VALUE)}),
        ("scale = load(self.x); image = scale * image", {"scale": 1}, {}),
        ("scale, image = load(self.x, image)", {"scale": 1}, {}),
        ("with self.lock as held: image = work(image)", {"held": 1}, {}),
        ("for row in open(self.path): image = image + row", {"row": 1}, {3: (1.0, How.FILE)}),
    ],
)
def test_a_line_does_the_same_only_if_all_of_its_results_are_the_same(text, same, work):
    script = f"class Data:\n    def __getitem__(self, image):\n        {text}\n        return image\n"
    look = ItemWorkEvent(items=64, functions=[ended(same=same, varied=["image"])], calls=[], small=[], pid=42)
    records = RankRecords(0, None, None, (), (worker(at(3), count=60),), "py-spy")
    found = repeated_work(records, [look], STEP, LOADER, Sources(source_of(train=script)))
    assert lines(found) == work


def test_what_could_not_be_read_may_vary():
    assert facts(worker(at(4), LOAD, count=60), functions=[ended(same={"table": 2})]) is None


def test_the_same_file_is_opened_again_inside_an_expression():
    found = facts(worker(at(11), count=50), worker(at(12), count=50), functions=[ended()])
    assert lines(found) == {11: (0.5, How.FILE)}
    assert found.work[0].name == "open"


def test_of_an_iterable_dataset_only_what_its_loop_does_is_paid_again():
    stacks = [worker(at(16, "Lines.__iter__"), count=50), worker(at(18, "Lines.__iter__"), count=50)]
    functions = [ended(where=ITER, same={"table": 1, "words": 2}, varied=["line"])]
    assert lines(facts(*stacks, functions=functions)) == {18: (0.5, How.VALUE)}


def test_calls_with_the_same_arguments_and_result_are_repeated_work():
    found = facts(CONVERTS, worker(at(13), count=60), calls=[call()])
    assert lines(found) == {13: (0.4, How.CALL)}
    assert found.work[0].name == "convert"


def test_calls_with_few_different_arguments_are_credited_with_what_they_repeat():
    found = facts(CONVERTS, worker(at(13), count=60), calls=[call(arguments=16, repeated=48)])
    assert lines(found) == {13: (pytest.approx(0.4 * 0.75), How.CALL)}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"differed": 1}, id="another result"),
        pytest.param({"repeated": 31, "arguments": 33}, id="mostly other arguments"),
        pytest.param({"compared": 5, "repeated": 4}, id="too few"),
        pytest.param({"compared": 0, "repeated": 0}, id="unreadable"),
    ],
)
def test_other_calls_are_not(given):
    assert facts(CONVERTS, calls=[call(**given)]) is None


@pytest.mark.parametrize(
    ("samples", "workers", "epochs", "persistent", "again"),
    [
        pytest.param(32_000, 1, 1, False, 1 - 144 / 32_000, id="each one comes often"),
        pytest.param(32_000, 4, 1, False, 1 - 144 / 8_000, id="in each of four workers"),
        pytest.param(32_000, 4, 4, False, 1 - 144 / 2_000, id="which forget it after an epoch"),
        pytest.param(32_000, 4, 4, True, 1 - 144 / 8_000, id="or live on"),
        pytest.param(32_000, 4, 8, False, None, id="too seldom"),
        pytest.param(640, 1, 1, False, None, id="in a short run"),
    ],
)
def test_arguments_that_come_again_much_later_tell_how_many_there_are(
    samples, workers, epochs, persistent, again
):
    """Of 64 calls 1,152 pairs are a quarter of them apart; 8 of those alike: 144 arguments in all."""
    of_loader = replace(
        LOADER, samples=samples, num_workers=workers, epochs=epochs, persistent_workers=persistent
    )
    found = facts(
        CONVERTS,
        worker(at(13), count=60),
        calls=[call(repeated=12, far=8, arguments=52)],
        of_loader=of_loader,
    )
    assert lines(found) == ({13: (pytest.approx(0.4 * again), How.CALL)} if again else {})
    assert found is None or found.work[0].in_all == 144


@pytest.mark.parametrize(("items", "told"), [(280, False), (300, True), (None, True)])
def test_arguments_of_which_there_are_as_many_as_items_come_again_with_those(items, told):
    calls, of_loader = [call(repeated=12, far=8, arguments=52)], replace(LOADER, samples=32_000, items=items)
    assert (facts(CONVERTS, calls=calls, of_loader=of_loader) is not None) == told


def test_arguments_that_come_again_within_an_item_do_not():
    calls = [call(repeated=25, far=4, arguments=39)]
    assert facts(CONVERTS, calls=calls, of_loader=replace(LOADER, samples=32_000)) is None


def test_workers_that_set_other_values_did_not_repeat_each_other():
    looks = [
        ItemWorkEvent(items=64, functions=[ended(same=same)], calls=[], small=[], pid=pid)
        for pid, same in enumerate([SAME, {**SAME, "table": 9}])
    ]
    stacks = (worker(at(4), LOAD, count=60), worker(at(7), count=20))
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    found = repeated_work(records, looks, STEP, loader(workers=2, batch=10), Sources(source_of(train=SCRIPT)))
    assert [one.at.line for one in found.work] == [7]


def test_of_each_process_the_last_totals_count():
    looks = [
        ItemWorkEvent(items=n, functions=[], calls=[call(compared=n, repeated=n - 1)], small=[], pid=1)
        for n in (4, 8)
    ]
    records = RankRecords(0, None, None, (), (CONVERTS,), "py-spy")
    found = repeated_work(records, looks, STEP, loader(workers=1, batch=10), Sources(source_of(train=SCRIPT)))
    assert found.work[0].seen == 8


def test_says_what_was_not_seen():
    records = RankRecords(0, None, None, (), (CONVERTS,), "py-spy")
    sources = Sources(source_of(train=SCRIPT))
    assert isinstance(repeated_work(records, [], STEP, loader(workers=1), sources), Missing)
    assert isinstance(facts(), Missing)
    assert facts(worker(at(4), count=3)) == Missing("only 3 stack samples of batch preparation were taken")
    assert facts(worker(at(4), count=0)) == Missing("no stack samples of batch preparation were taken")


def test_where_the_step_does_not_wait_few_samples_are_nothing_to_tell():
    assert facts(worker(at(4), count=3), of_step=step(data_wait=5, forward=95)) is None


def test_a_damaged_event_tells_nothing():
    assert (
        facts(CONVERTS, functions=[{}, {"at": GETITEM, "ends": 9, "same": 3}], calls=[{}, {"at": GETITEM}])
        is None
    )
