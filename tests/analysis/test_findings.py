from __future__ import annotations

import pytest

from perfdoctor.analysis.diagnosis import Blame
from perfdoctor.analysis.facts import Facts
from perfdoctor.analysis.findings import Judgement, judge
from perfdoctor.catalogue import Tip
from perfdoctor.model import Advice, Bottleneck, Gain, LoaderFacts, NotJudged, SaveFacts, StepFacts
from tests.facts import run, step

BLAME = Blame(dict.fromkeys(Bottleneck, 0.2), {**dict.fromkeys(Bottleneck, 1.25), Bottleneck.DATA: 3.0})


def tip(name, gain, kind=Bottleneck.DATA, needs=None):
    advice = Advice(("because",), gain) if gain else None
    return Tip(name, name.title(), kind, lambda **facts: advice, needs or {"step": StepFacts}, "")


def judged(*tips, missing=None):
    of_step = step(forward=10)
    return judge(tips, Facts(run(), {StepFacts: of_step}, missing or {}), BLAME)


def test_findings_are_ranked_by_likely_gain():
    findings = judged(tip("a", Gain(1, 1.2, 1.3)), tip("b", Gain(1, 2, 3)), tip("c", None)).findings
    assert [(finding.rank, finding.id) for finding in findings] == [(1, "b"), (2, "a")]


def test_no_gain_is_above_the_ceiling_of_its_class():
    findings = judged(tip("a", Gain(4, 5, 9)), tip("b", Gain(1.1, 1.2, 9), Bottleneck.HOST)).findings
    assert [finding.advice.gain for finding in findings] == [Gain(3, 3, 3), Gain(1.1, 1.2, 1.25)]


def test_small_gains_are_a_note():
    found = judged(tip("a", Gain(1, 1.019, 1.5)))
    assert found == Judgement(notes=("A: a small gain at most (1.02x likely)",))


def test_what_would_not_help_is_not_mentioned():
    assert judged(tip("a", Gain(0.8, 0.95, 1.0))) == Judgement()


def test_a_tip_without_its_facts_is_listed_with_the_reason():
    unlucky = tip("a", None, needs={"loader": LoaderFacts})
    found = judged(unlucky, missing={LoaderFacts: "no batch was seen"})
    assert found.not_judged == (NotJudged("a", "no batch was seen"),)


def test_a_tip_about_what_the_script_does_not_have_is_silent():
    assert judged(tip("a", Gain(1, 2, 3), needs={"saves": SaveFacts})) == Judgement()


def test_a_tip_that_raises_is_not_hidden():
    def broken(**facts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judged(Tip("a", "A", Bottleneck.DATA, broken, {"step": StepFacts}, ""))
