from __future__ import annotations

from dataclasses import astuple

import pytest

from perfdoctor.diagnosis.findings import Judgement, judge
from perfdoctor.diagnosis.verdict import TimeAttribution
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel, of_loop
from perfdoctor.facts.steps.events import SaveFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck, Gain, NotJudged
from perfdoctor.model.coverage import Covered
from perfdoctor.model.measured import LoaderFacts, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.model.tip import Tip, TipHeading
from perfdoctor.render.notes import all_worded
from tests.support.facts import cpu, run, step

BLAME = TimeAttribution(
    dict.fromkeys(Bottleneck, 0.2), {**dict.fromkeys(Bottleneck, 1.25), Bottleneck.DATA: 3.0}
)
STEP = step(forward=10)


def tip(
    name,
    *removed,
    kind=Bottleneck.DATA,
    needs=None,
    effort=Effort.FLAG,
    same_result=True,
    change=True,
    rivals=(),
    general=False,
):
    """A tip that takes these shares (low, likely, high) out of the step; without any it is silent."""
    silent = change and not removed
    shares = removed if len(removed) == 3 else removed * 3
    advice = Advice(("because",), removes(*shares) if removed else None, same_result=same_result)
    heading = TipHeading(name.title(), kind, effort, ("cpu",), ("time",), general=general, rivals=rivals)
    return Tip(name, heading, lambda **facts: None if silent else advice, needs or {"step": StepFacts}, "")


def judged(*tips, missing=None, model=None):
    absent = {kind: Missing(why) for kind, why in (missing or {}).items()}
    groups = {RunFacts: run(), StepFacts: STEP} | ({StepModel: model} if model else {})
    return judge(tips, Facts(groups | absent), BLAME)


def names(found):
    return [finding.id for finding in found.findings]


def test_findings_are_ranked_by_likely_gain():
    findings = judged(tip("a", 0.2), tip("b", 0.5), tip("c")).findings
    assert [(finding.rank, finding.id) for finding in findings] == [(1, "b"), (2, "a")]


def test_of_two_like_gains_the_easier_change_comes_first():
    assert names(judged(tip("a", 0.2, effort=Effort.REWRITE), tip("b", 0.19))) == ["b", "a"]


def test_of_two_like_gains_the_one_that_keeps_the_result_comes_first():
    assert names(judged(tip("a", 0.2, same_result=False), tip("b", 0.19))) == ["b", "a"]


def test_a_much_larger_gain_is_worth_effort_and_risk():
    hard = tip("a", 0.6, effort=Effort.REWRITE, same_result=False)
    assert names(judged(hard, tip("b", 0.1))) == ["a", "b"]


def test_a_general_finding_comes_behind_specific_ones_however_much_it_brings():
    assert names(judged(tip("a", 0.6, general=True), tip("b", 0.1))) == ["b", "a"]


def test_a_general_tip_is_told_what_the_findings_of_the_others_are_about():
    seen = []
    heading = TipHeading("G", Bottleneck.HOST, Effort.LINES, ("cpu",), ("time",), general=True)
    asked = Tip("g", heading, lambda covered: seen.append(covered), {"covered": Covered}, "")
    judged(asked, tip("a", 0.2), tip("small", 0.001))
    assert [cover.share for cover in seen[0].covers] == [0.2]


def test_no_gain_is_above_the_ceiling_of_its_class():
    findings = judged(tip("a", 0.9), tip("b", 0.1, 0.15, 0.9, kind=Bottleneck.HOST)).findings
    assert astuple(findings[0].gain) == pytest.approx((3, 3, 3))
    assert findings[1].gain.high == 1.25


def test_small_gains_are_a_note():
    found = judged(tip("a", 0.0, 0.018, 0.1))
    assert found == Judgement(notes=(Note("small-gains", {"gains": "a (1.02x)"}),))


def test_small_things_share_one_note():
    found = judged(tip("a", 0.0, 0.018, 0.1), tip("b", 0.0, 0.01, 0.1))
    assert all_worded(found.notes) == ["small gains: a (1.02x), b (1.01x)"]


@pytest.mark.parametrize("told_by", ["a", "b"])
def test_of_rivals_only_the_better_one_is_a_finding(told_by):
    rivals = {"a": ("b",), "b": ("a",)}
    found = judged(
        *(
            tip(name, share, rivals=rivals[name] if name == told_by else ())
            for name, share in (("a", 0.2), ("b", 0.4))
        )
    )
    assert names(found) == ["b"]
    assert all_worded(found.notes) == ['"A" (1.25x likely) is an alternative to "B": choose one']


def test_what_would_not_help_is_not_mentioned():
    assert judged(tip("a", -0.2, -0.1, 0.0)) == Judgement()


def test_what_is_about_something_else_than_time_comes_after_what_saves_some():
    found = judged(tip("a", change=False), tip("b", 0.1))
    assert names(found) == ["b", "a"]
    assert found.findings[1].gain == Gain()


def test_the_model_of_the_step_turns_a_change_into_a_gain():
    found = judged(tip("a", 0.5), model=of_loop(STEP, cpu()))
    assert found.findings[0].gain.likely == pytest.approx(2.0)


def test_gains_in_combination_do_not_add_up_but_multiply_what_is_left():
    found = judged(tip("a", 0.4), tip("b", 0.2), model=of_loop(STEP, cpu()))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / 0.4)


def test_only_the_first_three_are_taken_together():
    found = judged(*(tip(name, share) for name, share in zip("abcd", (0.2, 0.15, 0.1, 0.05), strict=True)))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / 0.55)


def test_one_finding_alone_is_no_combination():
    assert judged(tip("a", 0.4)).together is None


def test_a_combination_stays_below_what_its_classes_take():
    found = judged(tip("a", 0.15, kind=Bottleneck.HOST), tip("b", 0.19, kind=Bottleneck.HOST))
    assert found.together is not None
    assert found.together.high <= 1.25


def test_a_tip_without_its_facts_is_listed_with_the_reason():
    unlucky = tip("a", needs={"loader": LoaderFacts})
    found = judged(unlucky, missing={LoaderFacts: "no batch was seen"})
    assert found.not_judged == (NotJudged("a", "no batch was seen"),)


def test_a_tip_about_what_the_script_does_not_have_is_silent():
    assert judged(tip("a", 0.5, needs={"saves": SaveFacts})) == Judgement()


def test_a_tip_that_raises_is_not_hidden():
    def broken(**facts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judged(Tip("a", tip("a").heading, broken, {"step": StepFacts}, ""))
