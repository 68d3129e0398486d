from __future__ import annotations

import numpy as np
import pytest

from perfdoctor.facts.gather import gather
from perfdoctor.facts.ranks.job import RankComparison
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.rollout_share import share_of
from perfdoctor.facts.steps.rollouts import told_apart
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.model.note import Note
from perfdoctor.runs.types import JobRecords, RankRecords
from tests.support.records import records, rows, source_of, update

TRAIN = "/home/me/train.py"
PLAYED = """\
for episode in range(100):
    policy.eval()
    actions = policy(states)
    score = policy(test).mean()
    print(score)
    policy.train()
    loss = (policy(states) - actions).mean()
    loss.backward()
    optimizer.step()
"""
BOTH = """\
def run(loader, train):
    for x, y in loader:
        loss = criterion(model(x), y)
        if train:
            loss.backward()
            optimizer.step()
for epoch in range(9):
    run(loader, True)
    run(validation, False)
"""


def stack(*lines, phase="validation", count=10):
    """Samples of a pass that these lines call, outermost first; the first of them is in no function."""
    names = [f"{'run' if place else '<module>'} ({TRAIN}:{line})" for place, line in enumerate(lines)]
    probe = f"ModuleCallPhases.wrapped.<locals>.{phase} (/opt/perfdoctor/probe/patch.py:9)"
    return ("main", *names, probe, "forward (/x/site-packages/torch/nn/modules/linear.py:1)"), count


def read(*stacks, source=PLAYED, validation=4.0, backward=(8,)):
    """The phases of a step of 10 ms in milliseconds, the stacks, and the notes."""
    given = (*stacks, stack(*backward, phase="backward")) if backward else stacks
    run = records(rows([update(10, forward=2, validation=validation)] * 50), stacks=given)
    rank, steps, notes = told_apart(run.ranks[0], find(run.ranks[0].steps), Sources(source_of(train=source)))
    phases = {phase.value: 1e3 * float(np.mean(values)) for phase, values in steps.phases.items()}
    assert sum(phases.values()) == pytest.approx(10)
    return phases, rank.stacks[: len(stacks)], notes


def test_passes_that_feed_the_update_are_forward_ones():
    phases, stacks, (note,) = read(stack(3), stack(7, phase="module_call"))
    assert (phases["forward"], phases["validation"]) == pytest.approx((6, 0))
    assert "module_call (/opt/perfdoctor/probe/patch.py:9)" in stacks[0][0][2]
    assert note.values == {"share": 1.0}


def test_each_rank_of_a_job_is_told_as_the_first_one_that_was_sampled_is():
    stacks = stack(3), stack(7, phase="module_call"), stack(8, phase="backward")
    table = rows([update(10, forward=2, validation=4)] * 50)
    comparison = RankComparison(2, Sources(source_of(train=PLAYED)))
    for rank, sampled in enumerate([stacks, ()]):
        comparison.add(RankRecords(rank, table, None, (), sampled, "py-spy"))
    job = comparison.facts(JobRecords(2, (), {}, {}, 0, ()))
    for rank in job.ranks:
        assert rank.seconds[Phase.FORWARD] == pytest.approx(0.006)
        assert rank.seconds[Phase.VALIDATION] == 0


def test_what_a_report_says_of_it_is_read_from_its_notes():
    assert share_of(["a sentence", Note("other"), Note("rollouts", {"share": 0.4})]) == 0.4
    assert share_of([]) == 0


def test_passes_whose_results_are_only_printed_stay_validation():
    phases, stacks, notes = read(stack(4), stack(7, phase="module_call"))
    assert (phases["forward"], phases["validation"], notes) == (pytest.approx(2), pytest.approx(4), ())
    assert stacks[0] == stack(4)


def test_of_both_kinds_samples_tell_the_parts():
    phases, stacks, (note,) = read(stack(3, count=30), stack(4, count=10))
    assert (phases["forward"], phases["validation"]) == pytest.approx((5, 1))
    assert ["validation" in one[0][2] for one in stacks] == [False, True]
    assert note.values == {"share": 0.75}


def test_a_function_that_trains_and_validates_feeds_nothing_where_it_validates():
    assert read(stack(9, 3), source=BOTH, backward=(8, 5))[0]["validation"] == pytest.approx(4)


@pytest.mark.parametrize(("training", "validation"), [(2, 4), (1, 0)])
def test_a_line_that_does_both_for_one_caller_feeds_nothing(training, validation):
    turns = BOTH.replace("run(loader, True)", "run(loader, epoch % 2)")
    passes = stack(8, 3), stack(8, 3, phase="module_call", count=training)
    phases = read(*passes, source=turns, backward=(8, 5))[0]
    assert phases["validation"] == pytest.approx(validation)


def test_the_first_passes_of_a_policy_that_was_not_trained_yet_are_no_other_use_of_its_line():
    phases, _, _ = read(stack(3, count=100), stack(3, phase="module_call", count=3))
    assert phases["validation"] == 0


@pytest.mark.parametrize(
    ("stacks", "given"),
    [
        pytest.param((stack(3, count=4),), {}, id="too-few-samples"),
        pytest.param((), {}, id="no-samples"),
        pytest.param((stack(3),), {"backward": ()}, id="no-samples-of-backward"),
        pytest.param((stack(3),), {"source": ""}, id="no-source"),
        pytest.param((stack(3),), {"validation": 0.0}, id="no-validation"),
    ],
)
def test_where_nothing_tells_nothing_changes(stacks, given):
    phases, same, notes = read(*stacks, **given)
    assert (phases["forward"], same, notes) == (pytest.approx(2), stacks, ())


def test_all_facts_are_about_the_step_as_it_is_then():
    run = records(
        rows([update(10, forward=2, validation=4)] * 50), stacks=[stack(3), stack(8, phase="backward")]
    )
    facts = gather(run, source_of(train=PLAYED), {})
    assert facts.get(StepFacts).share(Phase.FORWARD) == pytest.approx(0.6)
    assert [note.slug for note in facts.notes if isinstance(note, Note)] == ["rollouts"]
