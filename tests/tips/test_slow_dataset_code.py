from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.slow_dataset_code import slow_dataset_code as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost

STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)
PIXELS = line(0.7, 12, text="out[y][x] = image[y][x] ** 2", function="__getitem__")
REST = line(0.1, 30, function="augment")
SLOW = batch(cost(Stage.TRANSFORMING, 0.8, PIXELS, REST), cost(Stage.READING, 0.2, line(0.2, 8)))


def test_names_the_function_the_line_and_its_text():
    advice = tip(STARVED, loader(batch=12), SLOW, cpu())
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for the next batch",
        "70% of a batch's 12.0 ms is spent in `__getitem__`, at line 12: `out[y][x] = image[y][x] ** 2`",
    )
    assert [at.line for at in advice.at] == [12]


def test_expects_no_more_than_the_batches_cost():
    advice = tip(STARVED, loader(batch=12), SLOW, cpu())
    of = facts.model(STARVED, loader(batch=12), cpu())
    found = facts.gain(advice, of)
    assert 1 < found.low < found.likely < found.high <= 20 / 8


def test_names_the_cure_that_fits_the_line():
    rows = line(0.9, 8, text="row = self.table.iloc[index]", function="__getitem__")
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, rows)), cpu())
    assert advice is not None
    assert advice.code is not None
    assert "to_numpy" in advice.code


def test_a_pattern_is_only_compiled_once_where_compiling_was_seen():
    text = 'name = re.sub(" ", "", self.store.text[index])'
    for leaf, helps in [("_compile", True), ("sub", False), (None, False)]:
        slow = line(0.9, 8, text=text, function="__getitem__", leaf=leaf)
        advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, slow)), cpu())
        assert advice is not None
        assert (advice.code is not None) is helps


def test_a_name_that_ends_like_a_module_is_not_that_module():
    slow = line(0.9, 8, text="x = self.store.read(image.open(index))", leaf="_compile")
    advice = tip(STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, slow)), cpu())
    assert advice is not None
    assert advice.code is None


def test_on_a_crowded_machine_little_cpu_time_does_not_mean_waiting():
    advice = tip(STARVED, loader(batch=12, cpu=5), SLOW, cpu(cores=2, other_cores=1.5))
    assert advice is not None


def test_a_function_whose_lines_share_the_cost_is_named_by_them():
    spread = batch(cost(Stage.TRANSFORMING, 0.9, line(0.39, 1), line(0.3, 2), line(0.2, 3, function="other")))
    advice = tip(STARVED, loader(batch=12), spread, cpu())
    assert advice is not None
    assert "69% of a batch's 12.0 ms is spent in `main`, most of it at line 1" in advice.because[1]
    assert [at.line for at in advice.at] == [1, 2]


def test_time_without_a_core_is_work_too():
    starved_of_cores = cpu(cores=2, worker_delay=1.5, main_delay=0.5)
    assert tip(STARVED, loader(workers=2, batch=12, cpu=5), SLOW, starved_of_cores) is not None


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), loader(batch=2), SLOW, id="wait-is-noise"),
        pytest.param(STARVED, loader(batch=12, cpu=5), SLOW, id="it-waits-for-something"),
        pytest.param(
            STARVED,
            loader(batch=12),
            batch(cost(Stage.TRANSFORMING, 0.9, line(0.39, 1), line(0.2, 2), line(0.2, 3, function="other"))),
            id="neither-a-line-nor-a-function-takes-most",
        ),
        pytest.param(
            STARVED, loader(batch=12), batch(cost(Stage.DECODING, 0.9, kind="image")), id="it-decodes"
        ),
        pytest.param(
            STARVED, loader(batch=12), batch(cost(Stage.TRANSFORMING, 0.9, kind="copy")), id="it-copies"
        ),
    ],
)
def test_is_silent(of_step, of_loader, of_batch):
    assert tip(of_step, of_loader, of_batch, cpu()) is None
