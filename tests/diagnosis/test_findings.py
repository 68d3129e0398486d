from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor import own_failures
from perfdoctor.diagnosis import calibration
from perfdoctor.diagnosis.calibration import BEYOND, widen, widening
from perfdoctor.diagnosis.findings import Judgement, judge
from perfdoctor.diagnosis.verdict import TimeAttribution
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel, of_loop
from perfdoctor.facts.steps.events import SaveFacts
from perfdoctor.model.change import Change, Effort, Estimate, removes
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Advice, Bottleneck, Gain, NotJudged
from perfdoctor.model.coverage import Covered
from perfdoctor.model.measured import LoaderFacts, Location, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.model.tip import Tip, TipHeading
from perfdoctor.model.widening import MachineRanges, Widening
from perfdoctor.render.notes import all_worded
from tests.support.facts import cpu, loader, model, run, step

pytestmark = pytest.mark.usefixtures("unraised")
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
    before=(),
    general=False,
    published=False,
    checked=Checked.SCRIPTS,
    kernels_only=False,
    also=(),
    at=(),
    spares=(),
    leading=(),
    is_choice=False,
):
    """A tip that takes these shares (low, likely, high) out of the step; without any it is silent.

    `change` is one of another kind, or False for advice on something else than time.
    """
    silent = change is True and not removed
    shares = removed if len(removed) == 3 else removed * 3
    made = replace(removes(*shares), is_published=published) if removed else change or None
    places = {"at": at, "spares": spares, "leading": leading}
    told = {"same_result": same_result, "also": also, "is_choice": is_choice, **places}
    advice = Advice(("because",), made, **told)
    heading = TipHeading(
        name.title(), kind, effort, ("cpu",), ("time",), checked, None, general, rivals, kernels_only, before
    )
    return Tip(name, heading, lambda **facts: None if silent else advice, needs or {"step": StepFacts}, "")


def judged(*tips, missing=None, model=None, blame=BLAME):
    absent = {kind: Missing(why) for kind, why in (missing or {}).items()}
    groups = {RunFacts: run(), StepFacts: STEP} | ({StepModel: model} if model else {})
    return judge(tips, Facts(groups | absent), blame)


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


def test_a_general_finding_comes_behind_specific_ones_that_may_bring_as_much():
    assert names(judged(tip("a", 0.3, general=True), tip("b", 0.1, 0.2, 0.5))) == ["b", "a"]


def test_a_general_finding_comes_before_those_that_bring_less_at_best_than_it_likely_does():
    general, small = tip("a", 0.6, general=True), tip("small", 0.15)
    assert names(judged(general, tip("large", 0.2, 0.5, 0.6), small)) == ["large", "a", "small"]
    assert names(judged(general, small, tip("wrong", change=False))) == ["small", "wrong", "a"]


def test_a_general_tip_is_told_what_the_findings_of_the_others_are_about():
    seen = []
    heading = TipHeading("G", Bottleneck.HOST, Effort.LINES, ("cpu",), ("time",), general=True)
    asked = Tip("g", heading, lambda covered: seen.append(covered), {"covered": Covered}, "")
    judged(asked, tip("a", 0.2), tip("small", 0.001))
    assert [cover.share for cover in seen[0].covers] == [0.2]


def test_no_gain_is_above_the_ceiling_of_its_class():
    findings = judged(tip("a", 0.9), tip("b", 0.1, 0.15, 0.9, kind=Bottleneck.HOST)).findings
    assert findings[0].gain.likely == pytest.approx(3)
    assert findings[0].gain.high <= 3**BEYOND
    assert findings[1].gain.likely <= 1.25
    assert findings[1].gain.high == pytest.approx(1.25**BEYOND)


def test_a_choice_is_a_note_and_no_finding():
    found = judged(tip("a", 0.2, is_choice=True), tip("b", 0.5))
    assert names(found) == ["b"]
    assert found.notes[0] == Note("choice", {"title": "A", "gain": pytest.approx(1.25), "tip": "a"})
    assert all_worded(found.notes)[0] == (
        'a matter of choice, not counted above: "A" (1.25x likely): perfdoctor tips a'
    )


def test_a_choice_of_which_little_would_come_shares_the_note_on_small_gains():
    assert [note.slug for note in judged(tip("a", 0.01, is_choice=True)).notes] == ["small-gains"]


def test_small_gains_are_a_note():
    found = judged(tip("a", 0.0, 0.018, 0.1))
    assert found == Judgement(notes=(Note("small-gains", {"gains": "a (1.02x)"}),))


def test_small_things_share_one_note():
    found = judged(tip("a", 0.0, 0.018, 0.1), tip("b", 0.0, 0.01, 0.1))
    assert all_worded(found.notes) == ["small gains: a (1.02x), b (1.01x)"]


@pytest.mark.parametrize(
    ("low", "likely", "is_finding"),
    [
        pytest.param(0.0, 0.04, False, id="little-and-perhaps-a-loss"),
        pytest.param(0.03, 0.04, True, id="little-and-no-loss"),
        pytest.param(0.0, 0.06, True, id="more-and-perhaps-a-loss"),
    ],
)
def test_a_little_that_may_as_well_be_a_loss_is_a_small_gain(low, likely, is_finding, monkeypatch):
    # measured gains may lie a little below the low end of what was predicted
    monkeypatch.setitem(calibration.BY_KIND, Bottleneck.HOST, Widening(20, below=0.01, above=0.04))
    found = judged(tip("a", low, likely, 0.1, kind=Bottleneck.HOST))
    assert names(found) == (["a"] if is_finding else [])
    assert ("small gains: a (1.04x)" in all_worded(found.notes)) is not is_finding


def test_a_finding_says_what_its_tip_was_held_against_and_its_range_is_wider_where_that_is_no_gain():
    measured, made_up = judged(tip("a", 0.3)), judged(tip("a", 0.3, checked=Checked.FACTS))
    (known,), (guess,) = measured.findings, made_up.findings
    assert (known.checked, guess.checked) == (Checked.SCRIPTS, Checked.FACTS)
    assert guess.gain.low <= known.gain.low < known.gain.likely == guess.gain.likely
    assert guess.gain.high >= known.gain.high
    assert Note("wide-ranges", {"ranks": "1"}) in made_up.notes
    assert Note("wide-ranges", {"ranks": "1"}) not in measured.notes


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


def test_what_spares_work_comes_before_what_makes_it_quicker():
    quicker, other = tip("a", 0.4), tip("c", 0.3)
    assert names(judged(quicker, tip("b", 0.2, before=("a",)), other)) == ["c", "b", "a"]
    assert names(judged(quicker, tip("b", 0.001, before=("a",)))) == ["a"]


def test_what_is_about_lines_that_are_spared_comes_later_and_brings_nothing_beside_that():
    line, other = Location("train.py", 7), Location("train.py", 8)
    sparing = tip("a", 0.4, spares=(line,), at=(line,))
    third = tip("c", 0.1, kind=Bottleneck.HOST, at=(other, line))
    found = judged(tip("b", 0.6, at=(line, other)), sparing, third)
    assert names(found) == ["a", "c", "b"]
    assert found.findings[2].advice.because[-1] == 'once "A" is done, this brings 1.00x'
    assert found.together == judged(sparing, third).together


def test_a_line_that_leads_to_the_first_one_is_spared_with_it():
    line, inner = Location("train.py", 7), Location("metrics.py", 8)
    sparing = tip("a", 0.4, spares=(line,), at=(line,))
    assert names(judged(tip("b", 0.6, at=(inner, line), leading=(line,)), sparing)) == ["a", "b"]
    assert names(judged(tip("b", 0.6, at=(inner, line)), sparing)) == ["b", "a"]


def test_of_rivals_the_one_that_spares_the_work_of_the_other_is_the_finding():
    found = judged(tip("a", 0.4), tip("b", 0.2, before=("a",), rivals=("a",)))
    assert names(found) == ["b"]


def test_what_would_not_help_is_not_mentioned():
    assert judged(tip("a", -0.2, -0.1, 0.0)) == Judgement()


def test_what_is_about_something_else_than_time_comes_after_what_saves_some():
    found = judged(tip("a", change=False), tip("b", 0.1))
    assert names(found) == ["b", "a"]
    assert found.findings[1].gain == Gain()


def test_on_a_device_a_range_that_held_published_gains_is_not_widened_and_others_are():
    shares = (-0.25, 0.2, 0.5)
    on_gpu = {RunFacts: run(device="NVIDIA H100"), StepFacts: STEP}
    held = tip("a", *shares, kind=Bottleneck.COMPUTE, published=True)
    guessed = tip("b", *shares, kind=Bottleneck.COMPUTE)
    found = judge([held, guessed], Facts(on_gpu), open_to(compute=1.0))
    by_id = {finding.id: finding for finding in found.findings}
    assert astuple(by_id["a"].gain) == pytest.approx((0.8, 1.25, 2.0))
    assert by_id["b"].gain.low < 0.8
    assert by_id["b"].gain.high > 2.0
    assert [note.values for note in found.notes] == [{"ranks": str(by_id["b"].rank)}]


@pytest.mark.parametrize(("floor", "ids"), [(1.0, ["b"]), (0.8, ["b", "a"]), (0.0, ["a", "b"])])
def test_where_the_device_waits_for_its_host_shorter_kernels_bring_no_more_than_that_waits(floor, ids):
    device = DeviceFacts("H100", 1.0, 10, 0.5, 0.0, 0.0, {}, host_floor=floor)
    facts = Facts({RunFacts: run(device="NVIDIA H100"), StepFacts: STEP, DeviceFacts: device})
    shorter = tip("a", 0.4, kind=Bottleneck.COMPUTE, kernels_only=True)
    fewer = tip("b", 0.3, kind=Bottleneck.COMPUTE)
    found = judge([shorter, fewer], facts, open_to(compute=1.0)).findings
    assert [finding.id for finding in found] == ids
    changes = [finding.advice.change.step for finding in found if finding.id == "a" and floor]
    assert all(step.likely <= 1.001 - floor and step.high <= 1.101 - floor for step in changes)


def test_two_ways_to_shorten_kernels_bring_together_no_more_than_their_host_waits_for_them():
    device = DeviceFacts("H100", 1.0, 10, 0.5, 0.0, 0.0, {}, host_floor=0.8)
    facts = Facts({RunFacts: run(device="NVIDIA H100"), StepFacts: STEP, DeviceFacts: device})
    tips = [tip(name, 0.4, kind=Bottleneck.COMPUTE, kernels_only=True, published=True) for name in "ab"]
    found = judge(tips, facts, open_to(compute=1.0))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / 0.8)
    assert found.together.high == max(finding.gain.high for finding in found.findings)
    assert found.findings[1].advice.because[-1] == 'once "A" is done, this brings 1.00x'


def test_shorter_kernels_bring_what_their_host_waits_for_them_beside_what_others_bring():
    device = DeviceFacts("H100", 1.0, 10, 0.5, 0.0, 0.0, {}, host_floor=0.8)
    facts = Facts({RunFacts: run(device="NVIDIA H100"), StepFacts: STEP, DeviceFacts: device})
    shorter = [tip(name, 0.4, kind=Bottleneck.COMPUTE, kernels_only=True, published=True) for name in "ab"]
    together = judge([*shorter, tip("c", 0.3)], facts, open_to(compute=0.7, data=0.3)).together
    assert together is not None
    assert together.likely == pytest.approx(1 / 0.5)


def test_what_a_machines_own_trials_know_comes_before_published_gains():
    own = MachineRanges("NVIDIA H100", {Bottleneck.COMPUTE: Widening(10, 0.1, 0.1)})
    facts = Facts({RunFacts: run(device="NVIDIA H100"), StepFacts: STEP, MachineRanges: own})
    held = tip("a", 0.2, kind=Bottleneck.COMPUTE, published=True)
    gain = judge([held], facts, open_to(compute=1.0)).findings[0].gain
    assert gain == widen(Gain(1.25, 1.25, 1.25), own.by_kind[Bottleneck.COMPUTE])


def test_the_model_of_the_step_turns_a_change_into_a_gain():
    found = judged(tip("a", 0.5), model=of_loop(STEP, cpu()))
    assert found.findings[0].gain.likely == pytest.approx(2.0)


def open_to(**shares):
    """Time of these classes, of which all could go."""
    classes = dict.fromkeys(Bottleneck, 0.0) | {Bottleneck(name): share for name, share in shares.items()}
    return TimeAttribution(classes, {kind: 1 / max(0.01, 1 - share) for kind, share in classes.items()})


def test_a_change_that_acts_on_two_classes_may_bring_the_time_of_both():
    both = tip("a", 0.7, also=(Bottleneck.HOST,))
    alone = judged(both, model=of_loop(STEP, cpu()), blame=open_to(data=0.6, host=0.2, compute=0.2))
    assert alone.findings[0].gain.likely == pytest.approx(1 / 0.3)
    beside = tip("b", 0.1, kind=Bottleneck.COMPUTE)
    found = judged(both, beside, model=of_loop(STEP, cpu()), blame=open_to(data=0.6, host=0.2, compute=0.2))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / 0.2)


def test_a_class_that_two_findings_share_gives_its_time_once():
    one, both = tip("one", 0.35, 0.4, 0.45), tip("both", 0.35, 0.4, 0.45, also=(Bottleneck.TRANSFER,))
    found = judged(one, both, blame=open_to(data=0.4, transfer=0.1, compute=0.5))
    assert found.together is not None
    # at worst both take the same seconds
    assert found.together.low <= max(finding.gain.low for finding in found.findings)
    assert found.together.likely <= 2.0


def test_seconds_of_different_classes_add_up():
    host = tip("b", 0.2, kind=Bottleneck.HOST)
    found = judged(tip("a", 0.4), host, model=of_loop(STEP, cpu()), blame=open_to(data=0.6, host=0.4))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / 0.4)


@pytest.mark.parametrize("model", [None, of_loop(STEP, cpu())], ids=["no model", "model"])
def test_within_a_class_each_takes_its_part_of_what_the_other_leaves(model):
    found = judged(tip("a", 0.6), tip("b", 0.6), model=model, blame=open_to(data=0.8, compute=0.2))
    assert found.together is not None
    # at worst both take the same seconds, at best different ones: no more than the class has
    worst = widen(Gain(1 / 0.4, 1 / 0.4, 1 / 0.4), widening([Bottleneck.DATA], Checked.SCRIPTS)).low
    assert astuple(found.together) == pytest.approx((worst, 1 / 0.25, 1 / 0.2))


def test_fusing_an_optimizer_beside_a_larger_batch_is_not_promised_its_seconds_again():
    batch = tip("batch", 0.5, 0.85, 0.94, kind=Bottleneck.COMPUTE, same_result=False)
    fused = tip("fused", 0.1, 0.35, 0.4, kind=Bottleneck.COMPUTE, same_result=False)
    found = judged(batch, fused, model=of_loop(STEP, cpu()), blame=open_to(compute=0.97, data=0.03))
    assert names(found) == ["batch", "fused"]
    assert found.together is not None
    assert found.together.likely < 11  # one after the other: 6.7x and 1.5x; the sum would be all there is


def test_together_they_bring_at_best_what_their_best_gains_multiply_to():
    made = [tip(name, 0.1, 0.3, 0.6, kind=Bottleneck.COMPUTE) for name in "ab"]
    found = judged(*made, blame=open_to(compute=1.0))
    assert found.together is not None
    singles = [finding.gain.high for finding in found.findings]
    assert found.together.high == pytest.approx(singles[0] * singles[1])


def test_time_that_no_finding_takes_is_not_gone_together():
    given = (("a", 0.5, 0.54, 0.55, Bottleneck.DATA), ("b", 0.04, 0.06, 0.1, Bottleneck.HOST))
    made = [tip(name, *shares, kind=kind) for name, *shares, kind in given]
    found = judged(*made, blame=open_to(data=0.55, host=0.3, compute=0.15))
    assert found.together is not None
    parts = [1 - 1 / finding.gain.likely for finding in found.findings]
    assert found.together.likely <= 1 / (1 - sum(parts)) + 1e-9
    assert found.together.low < found.together.likely < found.together.high


def test_only_the_first_three_are_taken_together():
    shares = zip("abcd", (0.2, 0.15, 0.1, 0.05), strict=True)
    found = judged(*(tip(name, share) for name, share in shares), blame=open_to(data=1.0))
    assert found.together is not None
    assert found.together.likely == pytest.approx(1 / (0.8 * 0.85 * 0.9))


WORKERS, CHEAPER = Change(workers=4), Change(batch=Estimate(0.7, 0.9, 0.95))
STARVED = step(data_wait=30, forward=10, cpu=39)
LOADED = {"model": model(STARVED, loader(batch=30), cpu(cores=8)), "blame": open_to(data=0.75, compute=0.25)}


def test_of_two_ways_to_save_the_same_seconds_the_second_says_what_it_still_brings():
    found = judged(tip("workers", change=WORKERS), tip("cheaper", change=CHEAPER), **LOADED)
    assert names(found) == ["workers", "cheaper"]
    assert found.findings[1].gain.likely > 2.5
    assert found.findings[1].advice.because[-1].startswith('once "Workers" is done, this brings 1.')
    assert found.findings[0].advice.because == ("because",)


def test_what_saves_other_seconds_goes_before_what_saves_the_same_again():
    logs = tip("logs", 0.1, kind=Bottleneck.COMPUTE)
    found = judged(tip("workers", change=WORKERS), tip("cheaper", change=CHEAPER), logs, **LOADED)
    assert names(found) == ["workers", "logs", "cheaper"]
    assert found.findings[1].advice.because == ("because",)


def test_a_cost_that_is_paid_once_outranks_workers_that_only_share_it_out():
    of_step = step(data_wait=60, forward=15, cpu=74)
    shared = {
        "model": model(of_step, loader(batch=60), cpu(cores=2)),
        "blame": open_to(data=0.8, compute=0.2),
    }
    once = tip("once", change=Change(batch=Estimate(0.8, 0.97, 1.0)), effort=Effort.LINES)
    found = judged(tip("workers", change=Change(workers=2)), once, **shared)
    assert names(found) == ["once", "workers"]
    assert found.findings[0].gain.likely > 3.5
    assert "brings 1." in found.findings[1].advice.because[-1]


@given(
    st.lists(
        st.tuples(st.sampled_from(list(Bottleneck)), st.tuples(*[st.floats(0, 1)] * 3).map(sorted)),
        min_size=2,
        max_size=5,
    ),
    st.lists(st.floats(0.001, 1), min_size=5, max_size=5),
    st.booleans(),
)
def test_no_combination_promises_more_than_the_time_of_its_classes(tips, amounts, modelled):
    shares = {kind.value: amount / sum(amounts) for kind, amount in zip(Bottleneck, amounts, strict=True)}
    blame = open_to(**shares)
    catalogue = [tip(f"tip{index}", *removed, kind=kind) for index, (kind, removed) in enumerate(tips)]
    found = judged(*catalogue, model=of_loop(STEP, cpu()) if modelled else None, blame=blame)
    if found.together is None:
        return
    kinds = {finding.bottleneck for finding in found.findings[:3]}
    bound = 1 / max(0.01, 1 - sum(shares[kind.value] for kind in kinds))
    assert found.together.low <= found.together.likely <= bound * (1 + 1e-9)
    assert found.together.likely <= found.together.high <= bound**BEYOND * (1 + 1e-9)


def test_one_finding_alone_is_no_combination():
    assert judged(tip("a", 0.4)).together is None


def test_a_combination_stays_below_what_its_classes_take():
    found = judged(tip("a", 0.15, kind=Bottleneck.HOST), tip("b", 0.19, kind=Bottleneck.HOST))
    assert found.together is not None
    assert found.together.likely <= 1.25
    assert found.together.high <= 1.25**BEYOND


def test_a_tip_without_its_facts_is_listed_with_the_reason():
    unlucky = tip("a", needs={"loader": LoaderFacts})
    found = judged(unlucky, missing={LoaderFacts: "no batch was seen"})
    assert found.not_judged == (NotJudged("a", "no batch was seen"),)


def test_a_tip_about_what_the_script_does_not_have_is_silent():
    assert judged(tip("a", 0.5, needs={"saves": SaveFacts})) == Judgement()


def test_a_tip_that_raises_costs_itself_and_is_told(monkeypatch):
    def broken(**facts):
        raise ZeroDivisionError("no step")

    raises = Tip("b", tip("b").heading, broken, {"step": StepFacts}, "")
    monkeypatch.delenv(own_failures.STRICT)
    found = judged(tip("a", 0.5), raises)
    assert [finding.id for finding in found.findings] == ["a"]
    (failure,) = found.failures
    assert failure.feature == "the tip b"
    assert failure.error.startswith("ZeroDivisionError: no step (perfdoctor/diagnosis/findings.py:")
    assert "raise ZeroDivisionError" in failure.trace


@pytest.mark.parametrize(
    ("trainer", "code"), [(None, "call(option=1)"), ("transformers", "TrainingArguments(..., option=1)")]
)
def test_where_a_trainer_makes_the_call_its_arguments_are_named(trainer, code):
    called = tip("called", 0.2)
    told = replace(called.judge(), code="call(option=1)", arguments="option=1")
    groups = {StepFacts: STEP, RunFacts: run(trainer=trainer)}
    judged = judge([replace(called, judge=lambda step: told)], Facts(groups), BLAME)
    assert judged.findings[0].advice.code == code
    plain = replace(called, judge=lambda step: replace(told, arguments=None))
    assert judge([plain], Facts(groups), BLAME).findings[0].advice.code == "call(option=1)"
