from __future__ import annotations

import pytest

from perfdoctor.facts.host.between_steps import between_steps_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stacks import SCRIPT, STEP, TRAINING, at, stack
from tests.support.records import source_of


def facts(*stacks, script=SCRIPT):
    return between_steps_facts(
        RankRecords(0, None, None, (), tuple(stacks)), STEP, Sources(source_of(train=script))
    )


def test_lines_that_training_does_not_need_are_named_with_what_is_hot_inside():
    found = facts(*TRAINING, stack(at(9), at(15, "log_all"), count=20), stack(at(3), count=10)).lines
    assert [(line.at.line, line.inside.line, line.samples) for line in found] == []
    studied = SCRIPT.replace("ema.update(model)", "study(model.parameters())").replace("log_all", "study")
    found = facts(
        *TRAINING, stack(at(7), at(15, "study"), count=20), stack(at(3), count=10), script=studied
    ).lines
    assert [(line.at.line, line.inside.line, line.samples) for line in found] == [(7, 15, 20)]
    assert found[0].inner == found[0].inside
    assert found[0].share == pytest.approx(0.5 * 20 / 30)


def test_of_several_lines_inside_none_takes_nearly_all():
    studied = SCRIPT.replace("ema.update(model)", "study(model.parameters())").replace("log_all", "study")
    inside = (stack(at(7), at(number, "study"), count=20) for number in (14, 15))
    (found,) = facts(*TRAINING, *inside, script=studied).lines
    assert (found.at.line, found.samples, found.inner) == (7, 40, None)


@pytest.mark.parametrize(
    "line", ["ema.update(model)", "clip_by_hand(model)", "scheduler.step()", "follow(model, slow)"]
)
def test_a_line_that_the_update_may_depend_on_is_left_out(line):
    script = SCRIPT.replace("ema.update(model)", line)
    assert facts(*TRAINING, stack(at(7), count=20), script=script).lines == ()


def test_what_an_environment_does_with_the_models_choice_is_needed():
    script = """\
seen = []
for turn in range(1000):
    action = net(torch.tensor(state)).argmax().item()
    state, reward = env.step(action)
    loss = net(batch).sum()
    loss.backward()
    optimizer.step()
    seen.append(float(reward) ** 2)
"""
    found = facts(
        stack(at(3), *TRAINING[0][0][2:], count=10),
        stack(at(6), *TRAINING[1][0][2:], count=10),
        stack(at(4), count=20),
        stack(at(8), count=20),
        script=script,
    )
    assert [line.at.line for line in found.lines] == [8]


HOOKS = """\
class Scores:
    def __init__(self, every):
        self.every, self.latest = every, None
    def after_step(self, state):
        self.latest = sum(state.losses) / len(state.losses)
        if state.step % self.every == 0:
            print(self.latest)
"""
LOOP = """\
for turn in range(1000):
    loss = net(batch).sum()
    loss.backward()
    optimizer.step()
    for hook in hooks:
        hook.after_step(state)
"""


@pytest.mark.parametrize("needed", [False, True])
def test_of_a_hook_that_the_loop_calls_by_no_name_it_is_the_first_line_that_only_reports(needed):
    hooks = HOOKS.replace("print(self.latest)", "state.stop = self.latest < 0.1") if needed else HOOKS
    inside = at(6), at(5, "after_step", "/home/me/hooks.py"), at(9, "mean", "/home/me/means.py")
    rows = (
        stack(at(2), *TRAINING[0][0][2:], count=10),
        stack(at(3), *TRAINING[1][0][2:], count=10),
        stack(*inside, count=20),
    )
    found = between_steps_facts(
        RankRecords(0, None, None, (), rows), STEP, Sources(source_of(train=LOOP, hooks=hooks))
    ).lines
    told = [(line.at.line, line.inside.line, line.samples, line.test) for line in found]
    assert told == ([] if needed else [(5, 9, 20, "state.step % self.every == 0")])


def test_too_few_samples_are_a_reason():
    assert isinstance(facts(stack(at(9), count=4)), Missing)
