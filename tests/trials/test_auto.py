from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.facts.gather import Facts
from perfdoctor.model.change import removes
from perfdoctor.model.concluded import Advice, Bottleneck, Finding, Gain
from perfdoctor.model.measured import Location, RunFacts
from perfdoctor.model.note import Note
from perfdoctor.model.trial import (
    ORIGINAL,
    Execution,
    ExecutionEnd,
    LossEquivalence,
    Outcome,
    Place,
    Setting,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.probe.trial.tweak import BITWISE, PATH, ROUNDING
from perfdoctor.render.notes import worded
from perfdoctor.tips import catalogue
from perfdoctor.trials.auto import Candidate, Walk, candidates
from perfdoctor.trials.baseline_run import BaselineRun
from perfdoctor.trials.request import Request
from perfdoctor.trials.settings import flags, tweak_catalogue
from tests.support.facts import run
from tests.support.reports import STARVED

LOADER_LINE = Location("train.py", 41, "main")
RESULTS = {"batch-size": PATH, "accumulate": PATH, "amp": ROUNDING, "threads": ROUNDING}


def read(words):
    """Settings of words, as the command line reads them; there is no tweak --warp."""
    settings: list[Setting] = []
    for word in words:
        if word == "--warp":
            raise PerfdoctorError("no tweak called --warp")
        if word.startswith("--"):
            settings.append(Setting(word[2:], (word,), {}, RESULTS.get(word[2:], BITWISE)))
        else:
            last = settings.pop()
            settings.append(Setting(last.tweak, (*last.words, word), {"value": int(word)}, last.result))
    return tuple(settings)


def variant(words):
    return Variant(read(words.split()))


def finding(tweak, likely=1.5, code=None, at=()):
    advice = Advice(("because",), None, at, tweak, code=code)
    return Finding(f"for{tweak}", 1, Bottleneck.DATA, "Title", advice, Gain(1.0, likely, likely * 1.1))


class Machine:
    """Speeds of variants over the original, by their words; measures in the walk's order, `each_s` at a time."""

    def __init__(self, speeds=None, each_s=10.0, noise=0.01, broken=None, changed=(), was=None):
        self.speeds, self.each_s, self.noise = speeds or {}, each_s, noise
        self.broken, self.changed, self.was = broken or {}, changed, was or {}
        self.asked: list[tuple[str, str]] = []
        self.budgets_s: list[float | None] = []
        self.said: list[str] = []
        self.now_s = 0.0

    def compare(self, variants, over, budget_s):
        self.budgets_s.append(budget_s)
        return [self.measure(*variants, over)]

    def measure(self, tried, over):
        self.asked.append((tried.name, over.name))
        self.now_s += self.each_s
        if tried.name in self.broken:
            return VariantResult(tried, self.broken[tried.name], "because", self._executions(tried))
        ratio = self._speed(tried) / self._speed(over)
        gain = Gain(ratio / (1 + self.noise), ratio, ratio * (1 + self.noise))
        outcome = (
            Outcome.FASTER if gain.low > 1 else Outcome.SLOWER if gain.high < 1 else Outcome.NO_DIFFERENCE
        )
        same = not any(flag in tried.words for flag in self.changed)
        if not same:
            outcome = Outcome.CHANGED
        return VariantResult(
            tried, outcome, "because", self._executions(tried), gain, 0.95, equivalence=LossEquivalence(same)
        )

    def _speed(self, tried):
        names = (" ".join(setting.words) for setting in tried.settings)
        return self.speeds.get(tried.name) or math.prod(self.speeds.get(name, 1.0) for name in names)

    def _executions(self, tried):
        places = tuple(
            Place(
                setting.tweak,
                f"DataLoader {setting.tweak}",
                LOADER_LINE,
                self.was.get(setting.tweak, 0),
                setting.values["value"],
            )
            if "value" in setting.values
            else Place(setting.tweak, f"turned on {setting.tweak}", LOADER_LINE)
            for setting in tried.settings
        )
        return (Execution(0, ExecutionEnd.MEASURED, 0.1, applied=places),)

    def walk(self, *findings, named=(), predict=lambda tried: None, seconds=None):
        left, notes = candidates(findings, read, named)
        walked = Walk(left, clock=lambda: self.now_s)
        bench = SimpleNamespace(
            compare=self.compare,
            predict=predict,
            progress=SimpleNamespace(say=self.said.append),
            out_of_reach=lambda variant: None,
            interrupted=False,
            trouble=[],
        )
        assert walked.measure(bench, seconds) == ()
        return walked, notes

    @property
    def tried(self):
        return [name for name, _ in self.asked]


def total(walked):
    """What came out for all that is kept, against the original."""
    whole = (step for step in walked.steps if step.kept and step.over == ORIGINAL)
    return next((step.verdict for step in whole if step.verdict.variant == walked.kept), None)


# ---------------------------------------------------------------- the walk


def test_what_saves_a_cost_of_the_beginning_only_is_not_tried():
    once = finding("--a")
    once = replace(once, advice=replace(once.advice, change=replace(removes(0.1, 0.2, 0.3), is_once=True)))
    chosen, notes = candidates([once, finding("--b")], read)
    assert [candidate.name for candidate in chosen] == ["--b"]
    assert notes == ["--a was left out: what it saves is over before steps are measured"]


def test_findings_are_tried_by_what_they_promise_each_on_top_of_what_is_kept():
    machine = Machine({"--workers 4": 2.0, "--amp": 1.3, "--tf32": 1.0})
    walked, _ = machine.walk(finding("--tf32", 1.1), finding("--amp", 1.4), finding("--workers 4", 1.8))
    assert machine.asked == [
        ("--workers 4", "original"),
        ("--workers 4 --amp", "--workers 4"),
        ("--workers 4 --amp --tf32", "--workers 4 --amp"),
        ("--workers 4 --amp", "original"),
    ]
    assert walked.kept == variant("--workers 4 --amp")
    assert [step.kept for step in walked.steps] == [True, True, False, True]
    assert [step.verdict.variant.name for step in walked.steps] == machine.tried


def test_the_total_is_that_of_all_that_is_kept_against_the_original():
    walked, _ = Machine({"--workers 4": 2.0, "--amp": 1.3}).walk(finding("--workers 4"), finding("--amp"))
    assert total(walked) is not None
    assert total(walked).speedup is not None
    assert total(walked).speedup.likely == pytest.approx(2.6)


def test_one_tweak_alone_was_compared_with_the_original_already():
    machine = Machine({"--workers 4": 2.0})
    walked, _ = machine.walk(finding("--workers 4", 1.8), finding("--amp", 1.4))
    assert machine.asked == [("--workers 4", "original"), ("--workers 4 --amp", "--workers 4")]
    assert total(walked) == walked.steps[0].verdict


def test_what_is_faster_and_changes_the_result_is_not_kept():
    walked, _ = Machine({"--amp": 2.0}, changed=("--amp",)).walk(finding("--amp"))
    assert walked.kept == ORIGINAL
    assert total(walked) is None
    assert tuple(walked.notes) == (Note("nothing-faster"),)


@pytest.mark.parametrize(
    ("agreement", "kept"),
    [
        (LossEquivalence(None), "--amp"),
        (None, "--amp"),
        (LossEquivalence(True), "--amp"),
        (LossEquivalence(False), ""),
    ],
    ids=["cannot-be-compared", "was-not", "same", "another"],
)
def test_what_is_faster_is_kept_unless_it_is_known_to_change_the_result(agreement, kept):
    machine = Machine()
    machine.measure = lambda tried, over: VariantResult(
        tried, Outcome.FASTER, "because", speedup=Gain(1.9, 2, 2.1), equivalence=agreement
    )
    walked, _ = machine.walk(finding("--amp"))
    assert walked.kept == variant(kept)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NO_EFFECT, Outcome.OUT_OF_MEMORY])
def test_the_walk_goes_on_after_what_does_not_run(outcome):
    machine = Machine({"--amp": 1.3}, broken={"--compile": outcome})
    walked, _ = machine.walk(finding("--compile", 2.0), finding("--amp", 1.4))
    assert walked.kept == variant("--amp")


def test_without_a_finding_that_names_a_tweak_it_says_so():
    baseline = BaselineRun(Facts({RunFacts: run()}), replace(STARVED, findings=(finding(None),)), None)
    with pytest.raises(PerfdoctorError, match="nothing to try: no tweak can apply a finding of the run"):
        Walk.of(Request(("train.py",), (), auto=True), baseline)


def test_a_finding_whose_tweak_is_kept_already_is_not_tried_again():
    machine = Machine({"--workers 4 --persistent-workers": 2.0})
    machine.walk(finding("--workers 4 --persistent-workers", 1.8), finding("--persistent-workers", 1.2))
    assert machine.tried == ["--workers 4 --persistent-workers"]


def test_a_later_value_of_a_tweak_takes_the_place_of_the_one_that_is_kept():
    machine = Machine({"--workers 4": 1.5, "--workers 8": 2.0})
    walked, _ = machine.walk(finding("--workers 4", 1.8), finding("--workers 8", 1.7))
    assert walked.kept == variant("--workers 8")


# ---------------------------------------------------------------- predictions and noise


def predicting(gains):
    return lambda tried: gains.get(tried.name, Gain()) if tried.settings else Gain()


def test_gains_do_not_add_what_is_kept_decides_what_comes_next():
    gains = {
        "--workers 4": Gain(2, 2, 2),
        "--cache-dataset": Gain(1.8, 1.8, 1.8),
        "--amp": Gain(1.2, 1.2, 1.2),
        "--workers 4 --cache-dataset": Gain(2, 2, 2),  # nothing is left to gain
        "--workers 4 --amp": Gain(2.6, 2.6, 2.6),
    }
    machine = Machine({"--workers 4": 2.0, "--amp": 1.3})
    walked, _ = machine.walk(
        finding("--amp"), finding("--cache-dataset"), finding("--workers 4"), predict=predicting(gains)
    )
    assert machine.tried == ["--workers 4", "--workers 4 --amp", "--workers 4 --amp"]
    (note,) = walked.notes
    assert (note.slug, note.values["names"]) == ("below-the-noise", ["--cache-dataset"])
    assert note.values["noise"] == pytest.approx(0.01)


def test_what_promises_less_than_the_rounds_can_tell_is_not_tried():
    machine = Machine({"--workers 4": 2.0}, noise=0.08)
    walked, _ = machine.walk(finding("--workers 4", 1.8), finding("--amp", 1.07 / 1.1))
    assert machine.tried == ["--workers 4"]
    (note,) = walked.notes
    assert (note.slug, note.values["names"]) == ("below-the-noise", ["--amp"])
    assert note.values["noise"] == pytest.approx(0.08)


def test_what_promises_a_little_more_is_tried():
    machine = Machine({"--workers 4": 2.0}, noise=0.06)
    machine.walk(finding("--workers 4", 1.8), finding("--amp", 1.07 / 1.1))
    assert machine.tried[1] == "--workers 4 --amp"


def test_each_verdict_is_shown_beside_what_was_predicted_over_the_same():
    gains = {"--workers 4": Gain(1.5, 2, 2.5), "--amp": Gain(1.1, 1.2, 1.3)}
    gains["--workers 4 --amp"] = Gain(1.8, 2.5, 3.5)
    machine = Machine({"--workers 4": 2.0, "--amp": 1.3})
    walked, _ = machine.walk(finding("--workers 4"), finding("--amp"), predict=predicting(gains))
    assert [step.verdict.predicted for step in walked.steps] == [
        Gain(1.5, 2, 2.5),
        Gain(1.2, 1.25, 1.4),
        Gain(1.8, 2.5, 3.5),
    ]


def test_what_nothing_is_predicted_of_has_no_prediction_beside_it():
    walked, _ = Machine({"--amp": 1.3}).walk(finding("--amp"))
    assert walked.steps[0].verdict.predicted is None


# ---------------------------------------------------------------- backing off


def test_workers_that_are_too_many_are_halved_until_they_are_not():
    machine = Machine({"--workers 4": 0.8, "--workers 2": 1.4})
    walked, _ = machine.walk(finding("--workers 4"))
    assert machine.tried == ["--workers 4", "--workers 2"]
    assert walked.kept == variant("--workers 2")


def test_backing_off_goes_half_the_way_back_to_what_it_was():
    machine = Machine({"--workers 2": 0.7, "--workers 5": 0.9, "--workers 6": 1.2}, was={"workers": 8})
    machine.walk(finding("--workers 2"))
    assert machine.tried == ["--workers 2", "--workers 5", "--workers 6"]


def test_backing_off_ends_after_two_halvings():
    machine = Machine({f"--workers {count}": 0.5 for count in (32, 16, 8, 4, 2, 1)})
    machine.walk(finding("--workers 32"))
    assert machine.tried == ["--workers 32", "--workers 16", "--workers 8"]


def test_backing_off_ends_where_no_number_is_left_between():
    machine = Machine({"--workers 1": 0.5})
    machine.walk(finding("--workers 1"))
    assert machine.tried == ["--workers 1"]


def test_backing_off_ends_before_a_value_that_the_tweak_does_not_take():
    machine = Machine({"--accumulate 2": 0.8}, was={"accumulate": "each call updates"})
    machine.walk(named=(variant("--accumulate 2"),))
    assert machine.tried == ["--accumulate 2"]


def test_what_takes_too_much_memory_is_tried_with_less():
    machine = Machine({"--prefetch 8": 1.2}, broken={"--prefetch 16": Outcome.OUT_OF_MEMORY})
    walked, _ = machine.walk(finding("--prefetch 16"))
    assert walked.kept == variant("--prefetch 8")


def test_the_other_tweaks_of_a_finding_stay_as_they_are():
    slow, fast = "--workers 4 --persistent-workers", "--workers 2 --persistent-workers"
    walked, _ = Machine({slow: 0.8, fast: 1.2}).walk(finding(slow))
    assert walked.kept == variant(fast)


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_what_makes_no_difference_or_helps_is_not_halved(speed):
    machine = Machine({"--workers 4": speed})
    machine.walk(finding("--workers 4"))
    assert machine.tried == ["--workers 4"]


def test_a_tweak_without_a_number_cannot_be_halved():
    machine = Machine({"--amp": 0.5})
    machine.walk(finding("--amp"))
    assert machine.tried == ["--amp"]


# ---------------------------------------------------------------- the end


def test_what_spoils_the_combination_is_taken_back():
    machine = Machine({"--a": 1.5, "--b": 1.4, "--c": 1.3}, noise=0.01)
    first = machine.measure

    def spoilt(tried, over):
        return (
            VariantResult(tried, Outcome.CHANGED, "the loss differs")
            if (tried.name, over.name) == ("--a --b --c", "original")
            else first(tried, over)
        )

    machine.measure = spoilt
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5), finding("--c", 1.4))
    assert walked.kept == variant("--a --b")
    assert total(walked) is not None
    assert total(walked).variant == variant("--a --b")
    outcome = "changed the result: the loss differs"
    undone = Note("undone", {"tweak": "--c", "variant": "--a --b --c", "outcome": outcome})
    assert tuple(walked.notes) == (undone,)


def test_where_no_combination_holds_the_first_one_is_left():
    machine = Machine({"--a": 1.5, "--b": 1.4})
    first = machine.measure
    machine.measure = lambda tried, over: (
        VariantResult(tried, Outcome.NO_DIFFERENCE, "because")
        if (tried.name, over.name) == ("--a --b", "original")
        else first(tried, over)
    )
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5))
    assert walked.kept == variant("--a")
    assert total(walked) == walked.steps[0].verdict


def test_an_interruption_keeps_what_was_kept_before_and_measures_nothing_more():
    machine = Machine({"--a": 1.5, "--b": 1.4}, broken={"--a --b --c": Outcome.NOT_MEASURED})
    walked, _ = machine.walk(
        finding("--a", 1.6), finding("--b", 1.5), finding("--c", 1.4), finding("--d", 1.3)
    )
    assert walked.kept == variant("--a --b")
    assert total(walked) is None
    assert tuple(walked.notes) == (
        Note("walk-ended", {"variant": "--a --b --c", "because": "because"}),
        Note("not-confirmed"),
    )


def uncounted(machine, tried, over):
    """A comparison of all its rounds, whose samples cannot be counted, has this verdict."""
    first = machine.measure

    def measure(asked, base):
        verdict = first(asked, base)
        if (asked.name, base.name) != (tried, over):
            return verdict
        return VariantResult(asked, Outcome.NOT_MEASURED, "not counted", verdict.executions * 3)

    machine.measure = measure


def test_a_candidate_whose_samples_cannot_be_counted_is_left_out_and_the_walk_goes_on():
    machine = Machine({"--a": 1.5, "--c": 1.4})
    uncounted(machine, "--a --b", "--a")
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5), finding("--c", 1.4))
    assert machine.tried == ["--a", "--a --b", "--a --c", "--a --c"]
    assert total(walked) is not None
    assert walked.notes == []
    assert machine.said[1] == "left out: --b, not measured: not counted"


def test_all_that_is_kept_stays_unconfirmed_where_its_samples_cannot_be_counted():
    machine = Machine({"--a": 1.5, "--b": 1.4})
    uncounted(machine, "--a --b", "original")
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5))
    assert walked.kept == variant("--a --b")
    assert walked.notes == [Note("not-confirmed")]


def test_an_interruption_of_the_last_comparison_leaves_it_open():
    machine = Machine({"--a": 1.5, "--b": 1.4})
    first = machine.measure
    machine.measure = lambda tried, over: (
        VariantResult(tried, Outcome.NOT_MEASURED, "because")
        if (tried.name, over.name) == ("--a --b", "original")
        else first(tried, over)
    )
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5))
    assert walked.kept == variant("--a --b")
    assert total(walked) is None


# ---------------------------------------------------------------- time


def many():
    return [finding(f"--{letter}", 2.0 - index / 10) for index, letter in enumerate("abcdef")]


SPEEDS = {f"--{letter}": 1.3 for letter in "abcdef"}


def test_time_is_left_for_the_last_comparison():
    machine = Machine(SPEEDS, each_s=10)
    walked, _ = machine.walk(*many(), seconds=45)
    assert machine.now_s == 40
    assert machine.asked[-1] == ("--a --b --c", "original")
    assert walked.notes[0] == Note("no-time-left", {"names": ["--d", "--e", "--f"]})


def test_without_a_limit_everything_is_tried():
    machine = Machine(SPEEDS)
    machine.walk(*many())
    assert len(machine.asked) == 7


def test_the_first_comparison_is_made_in_any_case():
    machine = Machine(SPEEDS, each_s=100)
    walked, _ = machine.walk(*many(), seconds=5)
    assert walked.kept == variant("--a")
    assert len(machine.asked) == 1


def test_time_that_comparisons_leave_is_shared_by_those_that_follow():
    machine = Machine({"--workers 4": 1.5, "--amp": 1.3, "--threads 2": 1.2})
    findings = (finding("--workers 4", 1.6), finding("--amp", 1.4), finding("--threads 2", 1.3))
    machine.walk(*findings, seconds=735)
    assert machine.tried[-1] == "--workers 4 --amp --threads 2"
    shares = [735 / 7, 725 / 5, 715 / 3, 705 / 2]  # two for each and one for all, which may come twice
    assert machine.budgets_s == pytest.approx([share / 1.05 for share in shares])


def test_one_candidate_alone_leaves_no_time_for_what_is_never_compared():
    machine = Machine({"--amp": 1.3})
    machine.walk(finding("--amp"), seconds=105)
    assert machine.budgets_s == pytest.approx([50.0])  # it may be tried once more, with less of it


def test_without_a_limit_each_comparison_takes_as_long_as_is_planned():
    machine = Machine({"--amp": 1.3})
    machine.walk(finding("--amp"))
    assert machine.budgets_s == [None]


def test_backing_off_needs_time_as_well():
    machine = Machine({"--workers 4": 0.8, "--workers 2": 1.4}, each_s=10)
    machine.walk(finding("--workers 4"), seconds=15)
    assert machine.tried == ["--workers 4"]


# ---------------------------------------------------------------- what is tried


def test_what_takes_another_path_is_left_out_and_said():
    machine = Machine({"--batch-size 128": 3.0})
    _, notes = machine.walk(finding("--batch-size 128", 3.0))
    assert machine.asked == []
    (note,) = notes
    assert note.startswith("--batch-size 128 was left out: training would take another path.")
    assert note.endswith("perfdoctor try --auto --batch-size 128")


def test_what_the_user_names_may_take_another_path():
    machine = Machine({"--batch-size 64": 1.5})
    walked, notes = machine.walk(finding("--batch-size 128"), named=[variant("--batch-size 64")])
    assert walked.kept == variant("--batch-size 64")
    assert notes == []


def test_what_the_user_names_is_tried_whatever_is_known_of_it():
    machine = Machine({"--tf32": 1.1})
    walked, _ = machine.walk(finding("--amp", 1.3), named=[variant("--tf32"), ORIGINAL])
    assert machine.tried == ["--amp", "--tf32"]
    assert walked.kept == variant("--tf32")


def test_a_tweak_that_does_not_exist_is_left_out_and_said():
    _, notes = Machine().walk(finding("--warp"))
    assert notes == ["--warp was left out: no tweak called --warp"]


def test_a_candidate_adds_to_what_is_kept():
    assert Candidate(read(["--amp"])).on(variant("--workers 2")) == variant("--workers 2 --amp")


# ---------------------------------------------------------------- by hand


def test_a_kept_tweak_is_told_as_the_finding_tells_it():
    at = Location("train.py", 7)
    walked, _ = Machine({"--workers 4": 2.0}).walk(
        finding("--workers 4", code="DataLoader(..., num_workers=4)", at=(at,))
    )
    assert [worded(edit.note) for edit in walked.edits] == [
        "--workers 4 by hand (train.py:7): DataLoader(..., num_workers=4)"
    ]


def test_where_the_finding_has_no_line_the_tweak_knows_where_it_was_applied():
    walked, _ = Machine({"--amp": 2.0}).walk(finding("--amp", code="with torch.autocast(...):"))
    assert [worded(edit.note) for edit in walked.edits] == [
        "--amp by hand (train.py:41): with torch.autocast(...):"
    ]


def test_without_code_the_places_that_were_changed_are_told():
    walked, _ = Machine({"--workers 4 --x": 2.0}).walk(finding("--workers 4 --x"))
    assert walked.edits[0].code == "DataLoader workers: 0 -> 4\nturned on x"
    assert walked.edits[0].at == (LOADER_LINE,)


def test_after_backing_off_the_findings_code_is_not_shown():
    walked, _ = Machine({"--workers 4": 0.5, "--workers 2": 1.5}).walk(
        finding("--workers 4", code="num_workers=4")
    )
    assert [worded(edit.note) for edit in walked.edits] == [
        "--workers 2 by hand (train.py:41): DataLoader workers: 0 -> 2"
    ]


def test_what_is_taken_back_is_not_told():
    machine = Machine({"--a": 1.5, "--b": 1.4})
    first = machine.measure
    machine.measure = lambda tried, over: (
        VariantResult(tried, Outcome.SLOWER, "because")
        if (tried.name, over.name) == ("--a --b", "original")
        else first(tried, over)
    )
    walked, _ = machine.walk(finding("--a", 1.6), finding("--b", 1.5))
    assert [edit.words for edit in walked.edits] == [("--a",)]


def test_the_trial_holds_all_steps_what_is_kept_and_how_to_write_it():
    machine = Machine({"--workers 4": 2.0, "--amp": 1.3})
    walked, _ = machine.walk(finding("--workers 4", 1.8), finding("--amp", 1.4, code="autocast"))
    trial = walked.complete(
        Trial(("train.py",), (), (), 5, 100, 5, 60.0, notes=("your files stay as they are",))
    )
    assert [verdict.variant.name for verdict in trial.verdicts] == machine.tried
    assert [verdict.over for verdict in trial.verdicts] == [(), ("--workers", "4"), ()]
    assert trial.kept == ("--workers", "4", "--amp")
    assert [edit.code for edit in walked.edits] == ["DataLoader workers: 0 -> 4", "autocast"]
    assert trial.notes == (
        "your files stay as they are",
        *(edit.note for edit in walked.edits),
    )


def test_a_trial_that_kept_nothing_says_so():
    walked, _ = Machine().walk(finding("--amp"))
    trial = walked.complete(Trial(("train.py",), (), (), 5, 100, 5, 60.0))
    assert trial.kept == ()
    assert trial.notes == (Note("nothing-faster"),)


def test_every_comparison_is_said_as_it_ends():
    machine = Machine({"--workers 4": 2.0})
    machine.walk(finding("--workers 4", 1.8), finding("--amp", 1.4))
    assert machine.said == [
        "kept: --workers 4, 2.00 times as fast",
        "left out: --amp, no difference seen: because",
    ]


# ---------------------------------------------------------------- what tips name


def named_by_tips():
    """The words of every `tweak=` in a tip, numbers made up: (tip, words)."""
    for path in sorted(Path(catalogue.__file__).parent.glob("[a-z]*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "tweak":
                yield from ((path.stem, words) for words in texts(node.value))


def texts(node):
    """The strings that an expression can be, a 4 for each number in them."""
    if isinstance(node, ast.IfExp):
        return [*texts(node.body), *texts(node.orelse)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else "4" for part in node.values)]
    return [node.value] if isinstance(node, ast.Constant) and node.value is not None else []


@pytest.mark.parametrize(("tip", "words"), list(named_by_tips()))
def test_what_a_tip_names_can_be_typed(tip, words):
    settings = flags.read(words.split(), tweak_catalogue.tweaks())
    assert [word for setting in settings for word in setting.words] == words.split()
