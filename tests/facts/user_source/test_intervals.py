from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.interval import Interval
from perfdoctor.model.measured import Location
from tests.support.records import source_of

TRAIN = "/home/me/train.py"


def interval(text, steps_between=1.0, **others):
    lines = dedent(text).strip("\n").split("\n")
    line = next(number for number, text in enumerate(lines, 1) if "# here" in text)
    sources = Sources(source_of(train=dedent(text).strip("\n"), **{n: dedent(t) for n, t in others.items()}))
    return Intervals(sources).of(Location(TRAIN, line), steps_between)


EPOCHS = """
for epoch in range(5):
    for step, batch in enumerate(loader):
        loss = model(batch)
        loss.backward()
        opt.step(){step}
    scheduler.step()
    {line}
"""


def test_a_line_of_the_epoch_loop_runs_once_in_many_updates():
    found = interval(EPOCHS.format(step="", line="acc = validate(model)  # here"))
    assert found == Interval("epoch", of_updates=False)
    assert found.rarer(4, 200) == "if epoch % 4 == 0:"


def test_a_line_of_the_loop_of_the_updates():
    found = interval(EPOCHS.format(step="\n        print(loss)  # here", line=""))
    assert found == Interval("step")
    assert found.rarer(10, 50) == "if step % 50 == 0:"


@pytest.mark.parametrize(
    ("test", "header"),
    [
        ("step % 200 == 0", "if step % 2000 == 0:"),
        ("(step + 1) % 200 == 0", "if (step + 1) % 2000 == 0:"),
        ("not step % args.every", "if step % (10 * args.every) == 0:"),
        ("rank == 0 and step % 5 == 4", "if step % 50 == 4:"),
        ("rank == 0", "if step % 7 == 0:"),
        ("step % 2", "if step % 7 == 0:"),
    ],
)
def test_a_condition_that_is_there_is_made_longer(test, header):
    found = interval(EPOCHS.format(step=f"\n        if {test}:\n            print(loss)  # here", line=""))
    assert found.rarer(10, 7) == header


@pytest.mark.parametrize(
    ("before", "header"),
    [
        ("if step % 200 != 0:", "if step % 2000 == 0:"),
        ("if step % args.every:", "if step % (10 * args.every) == 0:"),
        ("if (step + 1) % 200:", "if (step + 1) % 2000 == 0:"),
        ("if step % 200 > 0:", "if step % 2000 == 0:"),
        ("if not step % 200 == 0:", "if step % 2000 == 0:"),
        ("if rank != 0 or step % 200 != 7:", "if step % 2000 == 7:"),
        ("if not (rank == 0 and step % 200 == 0):", "if step % 2000 == 0:"),
        ("if rank != 0:\n            continue\n        elif step % 200:", "if step % 2000 == 0:"),
        ("if step % 200 == 0:\n            pass\n        else:", "if step % 2000 == 0:"),
        ("if step % 200 == 0:", "if step % 7 == 0:"),
        ("if isnan(loss):", "if step % 7 == 0:"),
    ],
)
def test_what_follows_the_turns_that_go_on_runs_in_the_others(before, header):
    text = f"\n        {before}\n            continue\n        with lock:\n            print(loss)  # here"
    assert interval(EPOCHS.format(step=text, line="")).rarer(10, 7) == header


def test_what_goes_on_in_a_loop_within_says_nothing_about_the_loop_around_it():
    text = "\n        for row in batch:\n            if step % 9:\n                continue\n        print(1)  # here"
    assert interval(EPOCHS.format(step=text, line="")).period is None


@pytest.mark.parametrize(
    ("test", "period"),
    [
        ("not (done and step % 9 == 0)", None),
        ("not (done or step % 9)", "9"),
        ("step % 9 != 0", None),
        ("step % 9 < 1", "9"),
        ("0 == step % 9", "9"),
        ("1 > step % 9", "9"),
        ("(rest := step % 9) == 0", "9"),
        ("divmod(step, 9)[1] == 0", "9"),
        ("not math.fmod(step, 9)", "9"),
        ("np.mod(step, 9) == 0", "9"),
        ("divmod(step, 9)[0] == 0", None),
        ("(due := step % 9 == 0)", "9"),
        ("due and rank == 0", "12"),
        ("not due", None),
        ("twice", None),
        ("done", None),
    ],
)
def test_a_condition_is_read_as_it_is_meant(test, period):
    named = "due = twice = step % 12 == 0\n        twice = done = not done"
    text = f"\n        {named}\n        if {test}:\n            print(loss)  # here"
    assert interval(EPOCHS.format(step=text, line="")).period == period


def test_the_other_branch_of_a_remainder_runs_when_nothing_is_left():
    text = "\n        if step % 9:\n            pass\n        else:\n            print(loss)  # here"
    assert interval(EPOCHS.format(step=text, line="")).period == "9"


def test_a_function_that_returns_in_most_steps_has_an_interval():
    script = """
def log(step, loss):
    if step % 20:
        return
    print(loss)  # here
for it in range(9):
    opt.step()
    log(it, loss)
"""
    assert interval(script) == Interval("it", counted="step", period="20", is_in_caller=True)


def test_a_turn_that_is_seldom_left_out_is_still_reached_each_time():
    script = "for i in range(9):\n    fit()\n    if failed:\n        continue\n    print(1)  # here"
    assert not interval(script, 50).of_updates
    assert interval(script.replace("failed", "i % 3"), 50) == Interval("i", counted="i", period="3")


def test_what_the_other_branch_does_is_not_under_the_condition():
    text = "\n        if step % 9 == 0:\n            pass\n        else:\n            print(loss)  # here"
    assert interval(EPOCHS.format(step=text, line="")).period is None


@pytest.mark.parametrize(
    ("head", "counter"),
    [
        ("for it in trange(9):", "it"),
        ("for n, (x, y) in tqdm(enumerate(loader)):", "n"),
        ("for batch in loader:", None),
        ("for _ in range(9):", None),
        ("for batch in loader:\n    seen += 1", "seen"),
        ("for rows in DataLoader(range(100), batch_size=4):", None),
        ("for pair in enumerate(loader):", None),
        ("for batch, (n, x) in zip(loader, enumerate(others)):", None),
        ("for batch in loader:\n    if bad:\n        skipped += 1", None),
        ("while seen < 9:\n    self.seen += 1", "self.seen"),
        ("while True:\n    loss += 0.5\n    for row in rows:\n        rows_seen += 1", None),
    ],
)
def test_the_name_that_counts_the_turns(head, counter):
    found = interval(f"{head}\n    opt.step()\n    print(1)  # here")
    assert found == Interval(counter)
    assert found.rarer(4, 8) == f"if {counter or 'step'} % 8 == 0:"


def test_a_loop_that_only_repeats_what_is_logged_is_none_of_steps():
    text = """
    for it in range(9):
        loss.backward()
        opt.step()
        for i in range(3):
            writer.add_image(i)  # here
    """
    assert interval(text) == Interval("it")


@pytest.mark.parametrize(
    ("text", "of_updates"),
    [
        ("for k in range(4):\n        part(k).backward()\n    opt.step()", True),
        ("for o in opts:\n        o.step()", True),
        ("for _ in range(5):\n        critic.step()\n    opt.step()", True),
        ("for x in loader:\n        loss.backward()\n        engine_of(loss)", False),
        ("while not done:\n        state = env.step(1)\n    opt.step()", True),
        ("while not done:\n        opt.step()\n    env.step(1)", False),
        ("train(model)", False),
        ("once(model)", True),
        ("engine.fit(model)", False),
    ],
)
def test_where_a_turn_makes_its_updates(text, of_updates):
    script = f"""
import engine
def train(model):
    for x in loader:
        once(model)
def once(model):
    model(x).backward()
    opt.step()
for turn in range(9):
    {text}
    print(1)  # here
"""
    fit = "def fit(model):\n    while True:\n        opt.step()\n"
    assert interval(script, engine=fit) == Interval("turn", of_updates)


def test_where_no_source_shows_the_updates_the_name_of_the_counter_tells():
    assert not interval("for epoch in range(9):\n    fit()\n    print(1)  # here").of_updates
    assert interval("for i in range(9):\n    fit()\n    print(1)  # here").of_updates


def test_where_no_source_shows_the_updates_the_steps_between_two_runs_tell():
    assert not interval("for i in range(9):\n    fit()\n    print(1)  # here", 50).of_updates
    assert interval(
        "for i in range(9):\n    fit()\n    if is_due():\n        print(1)  # here", 50
    ).of_updates


def test_a_function_is_followed_to_the_only_line_that_calls_it():
    script = """
def keep(model):
    torch.save(model)  # here
def main():
    for epoch in range(5):
        for x in loader:
            opt.step()
        if epoch % 2 == 0:
            keep(model)
{}
"""
    found = interval(script.format(""))
    assert (found.counter, found.of_updates, found.period) == ("epoch", False, "2")
    assert found.rarer(10, 100) == "if epoch % 20 == 0:"
    assert interval(script.format("        keep(best)")) == Interval(None)


@pytest.mark.parametrize("text", ["print(1)  # here", "this is ( no python  # here"])
def test_without_a_loop_nothing_is_known(text):
    found = interval(text)
    assert found == Interval(None)
    assert found.rarer(4, 200) == "if step % 200 == 0:"


def test_functions_that_call_each_other_end():
    text = "def f():\n    g()\ndef g():\n    f()\n    opt.step()\nfor i in range(9):\n    f()\n    print(1)  # here"
    assert interval(text) == Interval("i")


def test_a_loop_over_what_is_validated_is_not_the_one_that_repeats_it():
    script = """
def validate():
    for i, x in enumerate(held):
        if i % 3 == 0:
            predict(x)  # here
for epoch in range(9):
    for x in loader:
        opt.step()
    validate()
"""
    assert interval(script) == Interval("epoch", of_updates=False, is_in_caller=True)


def test_a_function_is_not_called_by_a_method_of_the_same_name():
    script = """
import torch
def save(model):
    torch.save(model)  # here
for it in range(9):
    opt.step()
    if it % 5 == 0:
        save(model)
"""
    assert interval(script) == Interval("it", counted="it", period="5", is_in_caller=True)


TRAINER = """
class Trainer:
    def train_epoch(self, loader):
        for x in loader:
            self.step(x)
    def step(self, x):
        self.model(x).backward()
        self.optimizer.step()
def make():
    return Trainer()
"""


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("import lib.trainers", "lib.trainers.make().train_epoch(rows)"),
        ("import lib.trainers as trainers\nfitter = trainers.Trainer()", "fitter.train_epoch(rows)"),
        ("from lib.trainers import Trainer", "Trainer().train_epoch(rows)"),
        ("from lib.trainers import make\nfitter = make()", "fitter.train_epoch(rows)"),
        ("from lib import *\nfitter = Trainer()", "fitter.train_epoch(rows)"),
        (
            "from lib.trainers import Trainer\nclass Own(Trainer):\n    pass\nfitter = Own()",
            "fitter.train_epoch(rows)",
        ),
        (
            "import lib.trainers as lib\nclass Own(lib.Trainer):\n    def log(self):\n        pass\nfitter = Own()",
            "fitter.train_epoch(rows)",
        ),
    ],
)
def test_updates_are_found_through_modules_and_objects_and_what_classes_inherit(head, call):
    script = f"{head}\nfor turn in range(9):\n    {call}\n    print(turn)  # here"
    lib = {"lib/__init__": "from .trainers import *", "lib/trainers": TRAINER}
    assert interval(script, **lib) == Interval("turn", of_updates=False)


@pytest.mark.parametrize("call", ["self.train_epoch(rows)", "super().train_epoch(rows)"])
def test_updates_are_found_in_methods_of_the_object_that_another_file_defines(call):
    script = f"""
from trainers import Trainer
class Own(Trainer):
    def run(self):
        for turn in range(9):
            {call}
            print(turn)  # here
"""
    assert interval(script, trainers=TRAINER) == Interval("turn", of_updates=False)


def test_a_remainder_may_be_a_case():
    text = "\n        match step % 9:\n            case 0:\n                print(loss)  # here"
    found = interval(EPOCHS.format(step=text, line=""))
    assert (found.period, found.rest) == ("9", "0")
    assert interval(EPOCHS.format(step=text.replace("case 0", "case _"), line="")).period is None


@pytest.mark.parametrize(
    ("body", "period"),
    [
        ("return self.step % n == 0", "self.cfg.every"),
        ("return n > 0 and self.step % n == 0", "self.cfg.every"),
        ("m = 2 * n\n        return self.step % m == 0", None),
        ("if self.step < 9:\n            return False\n        return self.step % n == 0", None),
    ],
)
def test_a_remainder_is_looked_for_in_what_a_test_calls(body, period):
    script = f"""
class Loop:
    def fit(self):
        for x in loader:
            self.step += 1
            opt.step()
            if self.is_time(self.cfg.every):
                print(1)  # here
    def is_time(self, n):
        {body}
"""
    found = interval(script)
    assert (found.period, found.is_tested) == (period, period is None)
    assert period is None or found.counted == "self.step"


@pytest.mark.parametrize(
    ("test", "is_tested"),
    [
        ("step - last >= 9", True),
        ("tracker.is_due(step)", True),
        ("tracker.is_due()", True),
        ("loss < best and rank == 0", True),
        ("self.seen > self.next", False),  # which nothing here changes
        ("(step + 1) % 9 == 0 or step > 100", False),  # has a remainder
        ("step % 9 != 0", False),  # nearly always
        ("rank == 0", False),
        ("dist.get_rank() == 0", False),
        ("is_main_process()", False),
        ("args.verbose", False),
        ("writer is not None and len(names) > 1", False),
        ("cfg.get('verbose')", False),
    ],
)
def test_a_test_that_is_not_understood_may_have_an_interval(test, is_tested):
    text = f"\n        last = step\n        if {test}:\n            print(loss)  # here"
    found = interval(EPOCHS.format(step=text, line=""))
    assert found.is_tested == is_tested


@pytest.mark.parametrize(
    ("before", "is_tested"), [("step - last < 9", True), ("isnan(loss)", False), ("rank > 0", False)]
)
def test_what_leaves_most_turns_out_may_have_an_interval(before, is_tested):
    text = f"\n        if {before}:\n            continue\n        print(loss)  # here"
    assert interval(EPOCHS.format(step=text, line="")).is_tested == is_tested


def test_what_a_function_compares_may_have_an_interval_and_what_it_is_switched_by_has_none():
    script = """
def log(step, verbose, writer):
    if verbose and writer is not None:
        print(1)  # here
for it in range(9):
    opt.step()
    log(it, True, writer)
"""
    assert not interval(script).is_tested
    assert interval(script.replace("verbose and", "step > due and")).is_tested


def test_what_a_line_calls_may_have_the_interval():
    line, below = Interval("step"), Interval("step", counted="n", period="9", is_in_caller=True)
    assert line.through(below) == below
    assert line.through(Interval("step")) == line
    assert line.through(Interval(None, is_tested=True)) == Interval("step", is_tested=True)
