"""What a script does before its training, or after it, in the facts that divide the steps among lines."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent

import pytest

from perfdoctor.facts.data.batch_stages import prepared
from perfdoctor.facts.host.stack_costs import stack_costs
from perfdoctor.facts.host.stacks import sampled_lines
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stacks import TORCH, at, stack, wrapper
from tests.support.facts import loader, step
from tests.support.records import source_of

STEP = step(other=30, data_wait=20, forward=10, backward=20, optimizer=10, validation=10)
SITE = "/home/me/.venv/lib/python3.11/site-packages"
TQDM = f"tqdm.__iter__ ({SITE}/tqdm/std.py:1181)"


def seen(script, *stacks):
    """Samples by phase and innermost line; both facts that divide the steps have to agree."""
    rank = RankRecords(0, None, None, (), tuple(stacks), "py-spy")
    sources = Sources(source_of(train=dedent(script).strip("\n")))
    lines = Counter()
    for phase, costs in sampled_lines(rank, STEP, sources).phases.items():
        for cost in costs:
            lines[phase, cost.at.line] += cost.samples
    divided = stack_costs(rank, STEP, sources)
    assert sum(cost.samples for cost in divided.costs) == lines.total()
    assert {cost.line.line for cost in divided.costs} == {line for _, line in lines}
    return lines


def waits(*frames, through=(), count=10):
    reads = wrapper("data_wait"), f"_next_data ({TORCH}/utils/data/dataloader.py:9)"
    return stack(*frames, *through, *reads, count=count)


def calls(*frames, phase="module_call", count=10):
    return stack(*frames, wrapper(phase), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)", count=count)


def trains(forward, backward, update, around=(), function="<module>", count=10):
    """Samples of a step's phases by the numbers of their lines."""
    runs = f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), f"run ({TORCH}/autograd/graph.py:8)"
    updates = wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)"
    return (
        calls(*around, at(forward, function), count=count),
        stack(*around, at(backward, function), *runs, count=count),
        stack(*around, at(update, function), *updates, count=count),
    )


INLINE = """
    mean = sum(x.mean() for x in loader)
    for epoch in range(3):
        for x, y in loader:
            loss = criterion(model(augment(x)), y)
            loss.backward()
            optimizer.step()
        for x, y in valid_loader:
            history.append(model(x))
    model.eval()
    for x, y in held_out:
        out = model(x)
        plot(out)
"""
TRAINED = {(Phase.FORWARD, 5): 10, (Phase.BACKWARD, 6): 10, (Phase.OPTIMIZER, 7): 10}


@pytest.mark.parametrize("through", [(), (TQDM,)], ids=["a-loader", "a-progress-bar-around-it"])
@pytest.mark.parametrize(
    ("head", "around", "function"),
    [("if True:", (), "<module>"), ("def main():", (at(14),), "main")],
    ids=["the-module", "main()"],
)
def test_what_the_scope_of_the_training_does_before_and_after_it_is_no_part_of_it(
    head, around, function, through
):
    def here(line):
        return (*around, at(line, function))

    script = f"{head}{INLINE}main()"
    trained = trains(5, 6, 7, around, function)
    beside = (
        waits(*here(2), through=through, count=30),
        stack(*here(10), count=20),
        waits(*here(11), through=through, count=300),
        calls(*here(12), phase="validation", count=50),
        stack(*here(13), count=200),
        stack(*here(13), "imshow (/home/me/plots.py:3)", count=200),
    )
    assert seen(script, *trained, *beside) == TRAINED
    within = (
        waits(*here(8), through=through),
        calls(*here(9), phase="validation"),
        stack(*here(9), "note (/home/me/notes.py:3)"),
    )
    assert seen(script, *trained, *beside, *within) == {
        **TRAINED,
        (Phase.DATA_WAIT, 8): 10,
        (Phase.VALIDATION, 9): 10,
        (Phase.OTHER, 3): 10,
    }


def test_a_test_without_eval_mode_is_no_part_of_the_training_either():
    beside = calls(at(12), count=300), stack(at(13), count=200)
    assert seen(f"if True:{INLINE}", *trains(5, 6, 7), *beside) == TRAINED


FITTED = """
def fit(model):
    for x, y in loader:
        x = augment(x)
        model(x)
        loss.backward()
        optimizer.step()
fit(model)
for x, y in held_out:
    out = model(x)
    plot(out)
"""


def test_a_test_beside_a_function_that_trains_leaves_what_that_one_does_in_the_steps():
    prepares = stack(at(7), at(3, "fit"), "flip (/home/me/images.py:3)")
    tests = waits(at(8), count=30), calls(at(9), phase="validation"), stack(at(10), count=90)
    found = seen(FITTED, *trains(4, 5, 6, (at(7),), "fit"), prepares, *tests)
    assert found[Phase.OTHER, 3] == 10
    assert {line for _, line in found} == {3, 4, 5, 6}


PER_EPOCH = """
def run_epoch(model):
    for x in loader:
        model(x)
        loss.backward()
        optimizer.step()
    for x in valid_loader:
        model(x)
        note(x)
for epoch in range(9):
    run_epoch(model)
"""


def test_a_validation_in_a_function_of_an_epoch_is_a_part_of_the_training():
    around = at(10), at(8, "run_epoch")
    within = waits(at(10), at(6, "run_epoch")), stack(*around, "note (/home/me/notes.py:3)")
    found = seen(PER_EPOCH, *trains(3, 4, 5, (at(10),), "run_epoch"), *within)
    assert found[Phase.DATA_WAIT, 6] == found[Phase.OTHER, 3] == 10
    once = PER_EPOCH.replace("for epoch in range(9):", "if True:")
    assert {line for _, line in seen(once, *trains(3, 4, 5, (at(10),), "run_epoch"), *within)} == {3, 4, 5}


def test_a_validation_between_two_trainings_is_a_part_of_them():
    script = """
    def train(model):
        for x in loader:
            model(x).backward()
            optimizer.step()
    def validate(model):
        for x in held_out:
            note(model(x))
    train(model)
    validate(model)
    train(model)
    validate(model)
    """

    def validated(line):
        return waits(at(line), at(6, "validate")), calls(at(line), at(7, "validate"), phase="validation")

    first, last = (trains(3, 3, 4, (at(line),), "train") for line in (8, 10))
    lines = Counter({(Phase.FORWARD, 3): 20, (Phase.BACKWARD, 3): 20, (Phase.OPTIMIZER, 4): 20})
    assert seen(script, *first, *last, *validated(11)) == lines
    between = {(Phase.DATA_WAIT, 6): 10, (Phase.VALIDATION, 7): 10}
    assert seen(script, *first, *last, *validated(9)) == {**lines, **between}


@pytest.mark.parametrize(("count", "is_outside"), [(5, False), (25, True)])
def test_samples_tell_of_a_function_that_trains_or_tests_as_it_is_called(count, is_outside):
    script = """
    def run(model, loader, training):
        for x in loader:
            loss = model(x)
            if training:
                loss.backward()
                optimizer.step()
    for epoch in range(9):
        run(model, loader, True)
    for held_out in sets:
        run(model, held_out, False)
    """
    test = calls(at(10), at(3, "run"), phase="validation", count=count)
    found = seen(script, *trains(3, 5, 6, (at(8),), "run"), test)
    assert ((Phase.VALIDATION, 3) not in found) == is_outside


def test_a_second_training_of_which_few_samples_are_seen_stays_one():
    script = """
    for x in loader:
        model(x).backward()
        optimizer.step()
    for x in loader:
        model(x).backward()
        optimizer.step()
    """
    found = seen(script, *trains(2, 2, 3, count=100), waits(at(4)), calls(at(5), count=5))
    assert found[Phase.DATA_WAIT, 4] == 10
    slow = waits(at(4), count=5000)
    assert (
        seen(script, *trains(2, 2, 3, count=1000), slow, *trains(5, 5, 6, count=40))[Phase.DATA_WAIT, 4]
        == 5000
    )


def test_a_training_that_mostly_validates_stays_one():
    script = """
    train(model)
    for epoch in range(9):
        train(model)
        score(model)
    def train(model):
        for x in loader:
            model(x).backward()
            optimizer.step()
    """

    def at_line(line, count):
        return trains(7, 7, 8, (at(line),), "train", count=count)

    validates = calls(at(4), phase="validation", count=1000)
    found = seen(script, *at_line(1, 500), *at_line(3, 25), validates, waits(at(3), at(6, "train")))
    assert found[Phase.DATA_WAIT, 6] == 10


def test_a_long_test_does_not_make_the_short_training_before_it_the_test():
    tests = calls(at(12), phase="validation", count=9000), stack(at(13), count=9000)
    assert seen(f"if True:{INLINE}", *trains(5, 6, 7), *tests) == TRAINED


def test_a_stack_torn_between_training_and_test_makes_no_training_of_the_test():
    torn = stack(at(12), wrapper("optimizer"), f"step ({TORCH}/optim/sgd.py:7)", count=1)
    found = seen(f"if True:{INLINE}", *trains(5, 6, 7), torn, stack(at(13), count=100))
    assert found == TRAINED


STEPPED = """
def one(x):
    x = augment(x)
    loss = model(x)
    loss.backward()
    optimizer.step()
    note(loss)
deque(map(one, loader))
score(model)
"""


def test_the_lines_of_a_step_that_is_called_from_c_are_not_before_or_after_each_other():
    within = waits(at(7), at(2, "one")), calls(at(7), at(3, "one"), count=100)
    found = seen(STEPPED, *trains(3, 4, 5, (at(7),), "one"), *within)
    assert found == {
        (Phase.FORWARD, 3): 110,
        (Phase.BACKWARD, 4): 10,
        (Phase.OPTIMIZER, 5): 10,
        (Phase.DATA_WAIT, 2): 10,
    }


LAUNCHED = (at(14), f"decorated_main ({SITE}/hydra/main.py:94)", f"run_job ({SITE}/hydra/core/utils.py:186)")


def test_below_a_launcher_of_a_library_as_without_one():
    script = f"def main():{INLINE}main()"
    prepares = stack(*LAUNCHED, at(5, "main"), "augment (/home/me/images.py:3)")
    beside = (
        stack(at(14), f"decorated_main ({SITE}/hydra/main.py:50)", count=50),
        stack(*LAUNCHED, at(2, "main"), count=50),
        stack(*LAUNCHED, at(13, "main"), count=50),
        calls(*LAUNCHED, at(12, "main"), phase="validation"),
    )
    found = seen(script, *trains(5, 6, 7, LAUNCHED, "main"), prepares, *beside)
    assert found == {**TRAINED, (Phase.OTHER, 3): 10}


def test_a_test_by_a_trainer_of_a_library_is_no_part_of_its_training():
    script = """
    def main():
        trainer.fit(model)
        trainer.test(model)
    main()
    """

    def fits(line, *frames):
        return (
            at(4),
            at(2, "main"),
            f"fit ({SITE}/trainers/trainer.py:9)",
            f"run ({SITE}/trainers/loop.py:{line})",
        )

    def tests(line):
        return (
            at(4),
            at(3, "main"),
            f"test ({SITE}/trainers/trainer.py:19)",
            f"run_test ({SITE}/trainers/test.py:{line})",
        )

    trained = (
        waits(*fits(1)),
        calls(*fits(2)),
        stack(*fits(3), wrapper("backward")),
        stack(*fits(4), wrapper("optimizer")),
        stack(*fits(5), at(3, "on_batch_end", "/home/me/callbacks.py")),
    )
    tested = waits(*tests(1)), calls(*tests(2), phase="validation"), stack(*tests(3), count=90)
    found = seen(script, *trained, *tested)
    assert {line for _, line in found} == {2, 3}
    assert found.total() == 50


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_test_are_none_of_the_training_where_the_training_process_prepares_them(workers):
    fetch = f"fetch ({TORCH}/utils/data/_utils/fetch.py:54)"
    thread = "worker 7" if workers else "main"
    prepares = stack(at(4), fetch, "flip (/home/me/images.py:3)", root=thread)
    tests = stack(at(11), fetch, "read (/home/me/images.py:8)", count=100, root=thread)
    sources = Sources(source_of(train=f"if True:{INLINE}"))
    rank = RankRecords(0, None, None, (), (*trains(5, 6, 7), prepares, tests), "py-spy")
    stacks = list(prepared(rank, loader(workers=workers), sources))
    assert sum(count for _, count in stacks) == (110 if workers else 10)
