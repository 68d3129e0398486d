from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.script.ignored_targets import ignored_target_facts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import source_of

ROOT = {"event": "root", "at": {"file": "/home/me/train.py", "line": 1}}
SCRIPT = """
class Model(nn.Module):
    def forward(self, tokens, labels):
        scores = self.head(self.encode(tokens))
        return F.cross_entropy(scores.view(-1, 50), labels.view(-1), ignore_index=-100)
"""
CRITERION = """
criterion = nn.CrossEntropyLoss(ignore_index=0)
for tokens, labels in loader:
    loss = criterion(model(tokens).flatten(0, 1), labels.flatten())
"""
HEAD = Frame("forward", "/lib/site-packages/transformers/heads.py", 8, Owner.LIBRARY)


def totals(**fields):
    return {
        "event": "ignored_targets",
        "looks": 4,
        "targets": 100,
        "ignored": 85,
        "classes": 50,
        "seconds": 0.4,
    } | fields


def facts(*events, script=SCRIPT, of_step=None, stacks=None):
    records = RankRecords(0, None, None, (ROOT, *events))
    return ignored_target_facts(records, of_step or step(), Sources(source_of(train=script)), stacks)


def test_the_last_totals_count_and_the_lines_of_scores_and_loss_are_named():
    found = facts(totals(ignored=1), totals())
    assert (found.ignored, found.classes) == (0.85, 50)
    assert found.backward_s == pytest.approx(0.1)
    assert [at.text.split(" ")[0] for at in found.at] == ["scores", "return"]


def test_of_a_steps_backwards_those_to_the_head_count():
    found = facts(totals(at_head=4, counted=12), of_step=replace(step(), backwards_per_step=3.0))
    assert found.backward_s == pytest.approx(0.1)
    assert facts(totals(), of_step=replace(step(), backwards_per_step=3.0)).backward_s == pytest.approx(0.3)


def test_sizes_are_those_of_a_step():
    found = facts(
        totals(rows=2_000, width=64, ignore_index=-1, at_head=4, counted=12),
        of_step=replace(step(), backwards_per_step=6.0),
    )
    assert (found.ignore_index, found.width) == (-1, 64)
    assert (found.losses, found.rows) == (pytest.approx(2.0), pytest.approx(1_000.0))


def test_sizes_of_an_older_run_are_not_known():
    found = facts(totals())
    assert (found.ignore_index, found.width, found.rows) == (None, 0, 0)


def test_of_two_heads_the_one_with_more_to_save_is_told_of():
    one, other = totals(at_head=5, counted=10), totals(head=1, ignored=20, classes=9, at_head=5, counted=10)
    found = facts(one, other, totals(head=1, ignored=99, looks=2), one)
    assert (found.ignored, found.classes) == (0.85, 50)
    assert facts(totals(ignored=0), other).classes == 9


def test_a_criterion_is_a_loss_as_well():
    assert [at.line for at in facts(totals(), script=CRITERION).at] == [4]


FIT = "def fit(model, loss_of):\n    scores = model(x)\n    return loss_of(scores, y)\n"
HELD = "class T:\n    def __init__(self, given):\n        self.loss_of = given\n"


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("scores = model(x)\nloss = F.cross_entropy(target=y, input=scores)", [1, 2]),
        ("loss_of: nn.Module = nn.CrossEntropyLoss()\nloss = loss_of(model(x), y)", [2]),
        ("scores = model(x)\nloss = nn.CrossEntropyLoss()(scores, y)", [1, 2]),
        ("losses = {'a': nn.NLLLoss()}\nloss = losses['a'](model(x), y)", [2]),
        ("losses = {'a': nn.NLLLoss(), 'b': net}\nloss = losses['b'](model(x), y)", []),
        ("loss_of = partial(F.cross_entropy, ignore_index=0)\nloss = loss_of(model(x), y)", [2]),
        ("class Mine(nn.CrossEntropyLoss): pass\nloss_of = Mine().to(device)\nloss_of(model(x), y)", [3]),
        (f"{HELD}T(nn.NLLLoss())\nt.loss_of(model(x), y)", [5]),
        (FIT, []),
        (f"{FIT}fit(model, nn.CrossEntropyLoss())", [2, 3]),
        (f"{FIT}fit(model, loss_of=F.nll_loss)", [2, 3]),
        ("loss = nn.MSELoss()(model(x), y)", []),
    ],
)
def test_a_loss_is_known_by_whatever_name_it_goes(script, lines):
    assert [at.line for at in facts(totals(), script=script).at] == lines


def test_a_loss_is_followed_through_files():
    records = RankRecords(0, None, None, (ROOT, totals()))
    script = "from engine import fit\nfit(model, nn.CrossEntropyLoss())\n"
    sources = Sources(source_of(train=script, engine=FIT))
    found = ignored_target_facts(records, step(), sources, None)
    assert [(at.file, at.line) for at in found.at] == [("/home/me/engine.py", 2), ("/home/me/engine.py", 3)]


@pytest.mark.parametrize(("between", "lines"), [((), [3]), ((HEAD,), [])])
def test_a_loss_that_no_source_shows_is_where_torchs_own_is_called(between, lines):
    line, own = Frame("fit", "/home/me/train.py", 3, Owner.USER), Frame("loss", "loss.py", 9, Owner.TORCH)
    called = Frame("cross_entropy", "functional.py", 9, Owner.TORCH)
    cost = StackCost(Phase.FORWARD, (line,), (*between, own, called), 15, 0.1)
    found = facts(totals(), script=FIT, stacks=StackCosts(100, (cost,), {}, frozenset()))
    assert [at.line for at in found.at] == lines


def test_a_loss_in_a_library_has_no_line():
    assert facts(totals(), script="trainer.train()").at == ()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((), id="no-looks"),
        pytest.param((totals(looks=2),), id="few-looks"),
        pytest.param((totals(ignored=0),), id="all-count"),
        pytest.param((totals(ignored=200),), id="broken"),
    ],
)
def test_where_all_targets_count_or_nothing_is_known_there_is_nothing(events):
    assert facts(*events) is None
