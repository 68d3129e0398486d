from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.update_dependence import Dependence, dependence

UPDATE, REPORTED = Dependence.UPDATE, Dependence.REPORTED

BEST = """
import copy
import torch
from torch import nn
{above}
def fit({given}):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lowest, best = 9.0, None
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        latest = copy.deepcopy(model.state_dict())  # asked
        if loss.item() < lowest:
            lowest, best = loss.item(), latest
    {after}
{called}
"""


def of(text):
    """What the line is that is asked for."""
    lines = dedent(text).strip("\n").split("\n")
    (asked,) = (number for number, line in enumerate(lines, 1) if line.endswith("# asked"))
    return dependence(Listing(lines), asked)


def copied(after="model.load_state_dict(best)", called="fit()", above="", given=""):
    """What the copy of the best weights is, in a function that is called so."""
    lines = after.replace("\n", "\n    ")
    return of(BEST.format(after=lines, called=dedent(called), above=dedent(above), given=given))


def test_at_the_end_of_all_training_weights_may_be_restored():
    assert copied() is REPORTED
    assert (
        copied("if best is not None:\n    model.load_state_dict(best)\nmodel.eval()\nprint(model(x))")
        is REPORTED
    )
    assert copied("for x, y in tests:\n    print(model(x).mean())\nmodel.load_state_dict(best)") is REPORTED


def test_a_call_through_another_function_that_runs_once():
    guarded = "def main():\n    fit()\nif __name__ == '__main__':\n    main()"
    assert copied(called=guarded) is REPORTED
    method = "class Job:\n    def run(self):\n        fit()\nJob().run()"
    assert copied(called=method) is REPORTED


@pytest.mark.parametrize(
    "called",
    [
        "for fold in folds:\n    fit()",
        "fit()\nfit()",
        "[fit() for fold in folds]",
        "again = lambda: fit()",
        "Thread(target=fit).start()",
        "def fold():\n    fit()\nfor _ in range(3):\n    fold()",
        "class Job(Base):\n    def run(self):\n        fit()\nJob().run()",
        "async def main():\n    fit()\nasyncio.run(main())",
        "def main():\n    fit()",
        "",
    ],
)
def test_what_may_run_again_begins_with_what_it_left(called):
    assert copied(called=called) is UPDATE


def test_a_function_that_calls_itself_runs_again():
    assert copied("model.load_state_dict(best)\nif lowest > 1:\n    fit()", called="") is UPDATE


@pytest.mark.parametrize(
    "tuned",
    [
        "for x, y in others:\n    model(x).sum().backward()\n    optimizer.step()",
        "nn.functional.mse_loss(model(x), y).backward()\noptimizer.step()",
        "tune(model)",
        "trainer.fit(model)",
        "trainer.train()",
    ],
)
def test_where_more_training_follows_restored_weights_feed_it(tuned):
    above = """
    def tune(net):
        for x, y in others:
            net(x).sum().backward()
            for p in net.parameters():
                p.data -= p.grad
    """
    assert copied("model.load_state_dict(best)\n" + tuned, above=above) is UPDATE
    script = "\n".join(
        line.removeprefix("    ")
        for line in BEST.split("def fit({given}):\n")[1].replace("{called}", "").split("\n")
    )
    module = "import copy\nimport torch\nfrom torch import nn\n" + dedent(above) + script
    assert of(module.format(after="model.load_state_dict(best)")) is REPORTED
    assert of(module.format(after="model.load_state_dict(best)\n" + tuned)) is UPDATE


def test_what_is_returned_matters_where_the_caller_trains_on():
    once = """
    def main():
        best = fit()
        student = nn.Linear(4, 2)
        {}
    main()
    """
    tunes = "for x, y in loader:\n            student.load_state_dict(best)\n            student(x).sum().backward()"
    assert copied("return best", called=once.format("student.load_state_dict(best)")) is REPORTED
    assert copied("return best", called=once.format(tunes)) is not REPORTED
    nested = "def tune(best):\n    model.load_state_dict(best)\n    model(x).sum().backward()\ntune(fit())"
    assert copied("return best", called=nested) is not REPORTED
    assert (
        copied("return best", called="def run():\n    return fit()") is not REPORTED
    )  # somebody may train on


def test_a_closure_that_is_handed_on_is_needed_where_training_goes_on():
    closure = "def kept():\n    return best\nmodel.load_state_dict(kept())\nreturn kept"
    assert copied(closure) is REPORTED
    assert copied(closure, called="for _ in range(3):\n    start = fit()") is not REPORTED


def test_an_attribute_is_kept_for_the_next_call():
    text = """
    class Trainer:
        def __init__(self):
            self.model = nn.Linear(4, 2)
            self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.scale = 1.0
        def epoch(self, loader):
            for x, y in loader:
                self.opt.zero_grad()
                loss = self.scale * self.model(x).sum()
                loss.backward()
                self.opt.step()
                latest = loss.item()  # asked
            self.scale = 1 / latest
    trainer = Trainer()
    {}
    """
    assert of(text.format("trainer.epoch(loader)")) is REPORTED
    assert (
        of(text.replace("class Trainer:", "class Trainer(Base):").format("trainer.epoch(loader)")) is UPDATE
    )
    assert of(text.format("for _ in range(9):\n        trainer.epoch(loader)")) is UPDATE


def test_a_generator_is_left_while_it_trains():
    text = "loss.item(), latest\n        yield best\n"
    once = BEST.replace("loss.item(), latest\n", text)
    generator = once.format(after="model.load_state_dict(best)", called="steps = fit()", above="", given="")
    assert of(generator) is not REPORTED
