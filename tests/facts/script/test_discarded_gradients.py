from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.script.discarded_gradients import discarded_gradient_facts
from perfdoctor.facts.user_source import frames
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.support.records import source_of

LOOP = """for real in loader:
    fake = netG(noise)
    on_real = criterion(netD(real), ones)
    on_fake = criterion(netD({given}), zeros)
    log(fake)
    d_loss = on_real + on_fake
    d_loss.backward()
    optD.step()
    {more}
    errG = criterion(netD(fake), ones)
    errG.backward()"""
Frame = partial(frames.Frame, owner=frames.Owner.USER)
AT = {"file": "/home/me/train.py", "line": 7, "function": "<module>"}
NONE = {"backwards": 24, "seconds": 1.0, "of_line": 0, "line_s": 0.0, "needless_s": 0.0, "elements": 0}


def look(**fields):
    whole = {"backwards": 24, "seconds": 1.0, "of_line": 12, "line_s": 0.5, "needless_s": 0.4, "elements": 9}
    return {"event": "discarded", **whole, "name": "fake", "at": AT, "held_at": AT, **fields}


def facts(*events, given="fake", more="optG.zero_grad()"):
    sources = Sources(source_of(train=LOOP.format(given=given, more=more)))
    return discarded_gradient_facts(RankRecords(0, None, None, events), sources)


def test_the_looks_are_averaged_and_both_lines_named():
    found = facts(look(), look(needless_s=0.3))
    assert (found.backwards, found.elements, found.read) == (24, 9, False)
    assert (found.of_backward, found.of_line) == pytest.approx((0.35, 0.7))
    assert found.at.text == "d_loss.backward()"
    assert found.entry.text == "on_fake = criterion(netD(fake), zeros)"


@pytest.mark.parametrize("given", ["fake.view(-1)", "[fake, label]", "fake[:8]", "x=fake", "0.5 * fake"])
def test_a_view_of_the_tensor_enters_as_well(given):
    assert facts(look(), given=given).entry.line == 4


@pytest.mark.parametrize(
    "given", ["fake.detach()", "fake.view(-1).detach()", "fake.data", "other", "torch.ones_like(fake)"]
)
def test_where_it_does_not_enter_no_entry_is_named(given):
    assert facts(look(), given=given).entry is None


FILES = {
    "train": "def critic_step(self):\n    loss = objective(self)\n    loss.backward()",
    "losses": "def objective(self):\n    fake = self.codec(wav)\n    return self.critic(fake)",
    "nets": "class Codec:\n    def forward(self, x):\n        return x\n"
    "class Critic:\n    def forward(self, x):\n        return x",
}
MODELS = [
    {"event": "root", "module": f"nets.{name}", "parameters": size}
    for name, size in (("Codec", 10), ("Critic", 3))
]


def passed(line, inner, step="critic_step", samples=9):
    """Samples of a model that a line of the loss calls, with the line of the model's own."""
    outer, calls = (Frame("fit", "train", 9), Frame(step, "train", 2)), Frame("objective", "losses", line)
    every = (*outer, calls, Frame("forward", "nets", inner))
    found = [replace(one, file=f"/home/me/{one.file}.py") for one in every]
    return StackCost(Phase.FORWARD, tuple(found[2:]), (), samples, callers=tuple(found[:2]))


@pytest.mark.parametrize(
    ("costs", "models", "line"),
    [
        pytest.param([passed(2, 3), passed(3, 6)], MODELS, 2, id="the-call-of-its-model"),
        pytest.param([passed(2, 3, step="codec_step")], MODELS, None, id="of-another-step"),
        pytest.param([passed(2, 3, samples=4)], MODELS, None, id="too-few-samples"),
        pytest.param([passed(2, 3), passed(3, 3)], MODELS, None, id="of-two-lines"),
        pytest.param([passed(2, 3)], [MODELS[0], MODELS[0]], None, id="of-two-models"),
        pytest.param([passed(2, 3)], [], None, id="of-no-model"),
    ],
)
def test_where_no_name_holds_the_tensor_the_call_of_the_model_is_named(costs, models, line):
    at = {"file": "/home/me/train.py", "line": 3, "function": "critic_step"}
    rank = RankRecords(0, None, None, (*models, look(name=None, at=at, held_at=None)))
    found = discarded_gradient_facts(
        rank, Sources(source_of(**FILES)), StackCosts(100, tuple(costs), {}, frozenset())
    )
    assert (found.entry.line if found.entry is not None else None) == line


@pytest.mark.parametrize(
    ("more", "read"),
    [
        pytest.param("kept = [p.grad.clone() for p in netG.parameters()]", True, id="copied"),
        pytest.param("torch.autograd.grad(x, y)", False, id="function"),
        pytest.param("norm = weight.grad.data.norm(2)", False, id="size"),
        pytest.param("weight.grad.data.clamp_(-1, 1)", False, id="in-place"),
        pytest.param("weight.grad = None", False, id="cleared"),
        pytest.param("assert weight.grad is None", False, id="tested"),
    ],
)
def test_gradients_that_the_script_takes_itself_are_noticed(more, read):
    assert facts(look(), more=more).read is read


def test_what_only_few_looks_show_and_broken_records_are_nothing():
    assert facts() is None
    assert facts(look(), {"event": "discarded", **NONE}) is None
    assert facts({"event": "discarded"}) is None
    assert facts(look(at=None, held_at=None)).entry is None


ATTACK = """def train(model, optimizer, images):
    for k in range(10):
        energy = model(images)
        energy.sum().backward()
        images.data.add_(images.grad.data)
        {more}
    finish(model)
    model.zero_grad()
    model(images).mean().backward()
    clip(model)
    optimizer.step()

def clip(model):
    for p in model.parameters():
        p.grad.copy_(p.grad.clamp(-1, 1) * scale(p.grad))

def finish(model):
    {finish}
"""


@pytest.mark.parametrize(
    ("more", "finish", "read"),
    [
        pytest.param("images.grad.zero_()", "pass", False, id="its-own"),
        pytest.param("kept.append(model.weight.grad)", "pass", True, id="in-the-loop"),
        pytest.param("pass", "kept.append(model.weight.grad)", True, id="in-a-function-that-is-called"),
    ],
)
def test_beside_the_gradient_that_is_asked_for_those_count_that_are_read_before_they_are_cleared(
    more, finish, read
):
    at = {**AT, "line": 4, "function": "train"}
    asked = look(name="images", at=at, held_at=at, asked=True)
    sources = Sources(source_of(train=ATTACK.format(more=more, finish=finish)))
    found = discarded_gradient_facts(RankRecords(0, None, None, (asked,)), sources)
    assert (found.asked, found.read, found.entry) == (True, read, None)
