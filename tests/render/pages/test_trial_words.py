from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Gain
from perfdoctor.model.measured import Location
from perfdoctor.model.trial import OWN_ERROR, LossEquivalence, Outcome, Place, Variant
from perfdoctor.render.pages import trial_words
from tests.support import trial_results as made

HERE = "/home/ada/digits"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (made.FASTER, "faster: 1.9× (1.8–2.0×)"),
        (made.UNCLEAR, "no difference seen: between 0.98× and 1.03×"),
        (made.SLOWER, "slower: 0.80× (0.78–0.82×)"),
        (made.CHANGED, "changed the result: 1.9× (1.8–2.0×) per sample"),
        (made.UNTOUCHED, "no effect"),
        (made.WITHDRAWN, "withdrawn"),
        (made.FAILED, "failed"),
        (made.NO_MEMORY, "out of memory"),
        (made.NOT_MEASURED, "not measured"),
    ],
    ids=lambda value: getattr(value, "outcome", None),
)
def test_a_verdict_is_its_word_and_its_range(verdict, words):
    assert trial_words.told(verdict) == words


@pytest.mark.parametrize(
    ("trial", "sentence"),
    [
        (made.trial(), "Nothing was measured"),
        (made.trial(made.UNCLEAR), "No difference seen: between 0.98× and 1.03×"),
        (made.trial(made.UNCLEAR, made.SLOWER), "None of 2 changes was seen to be faster"),
        (
            made.trial(made.FASTER, made.UNCLEAR),
            "1 of 2 changes is faster; the fastest: --workers 4, 1.9× (1.8–2.0×)",
        ),
        (
            made.trial(made.FASTER, replace(made.UNCLEAR, outcome=Outcome.FASTER, speedup=Gain(2, 2.1, 2.2))),
            "2 of 2 changes are faster; the fastest: --amp --amp-dtype bf16, 2.1× (2.0–2.2×)",
        ),
        (
            made.trial(made.FASTER, made.UNCLEAR, kept=("--workers", "4")),
            "Worth keeping: --workers 4, 1.9× (1.8–2.0×)",
        ),
    ],
)
def test_the_headline_says_what_came_out(trial, sentence):
    assert trial_words.headline(trial) == sentence


def walked(*verdicts, **fields):
    """A trial of --auto: --workers 4, and then --amp on top of it, in rounds without originals."""
    words = ("--workers", "4", "--amp", "--amp-dtype", "bf16")
    later = tuple(made.execution(number, applied=(made.APPLIED,)) for number in (3, 4, 5))
    on_top = replace(
        made.FASTER,
        variant=Variant((made.WORKERS, made.AMP)),
        speedup=Gain(1.1, 1.2, 1.3),
        executions=later,
        over=made.FASTER.variant.words,
    )
    return made.trial(made.FASTER, on_top, *verdicts, kept=words, **fields)


def test_what_was_kept_wins_over_what_is_faster_alone():
    both = replace(made.FASTER, variant=Variant((made.WORKERS, made.AMP)), speedup=Gain(1.4, 1.5, 1.6))
    assert walked(both).winner is both
    assert made.trial(made.FASTER, both).winner is made.FASTER


def test_what_was_compared_with_another_variant_claims_nothing_over_the_original():
    trial = walked()
    assert trial.winner is None
    assert trial_words.headline(trial) == "Worth keeping: --workers 4 --amp --amp-dtype bf16"
    keep, diff, run = trial_words.next_steps(trial, HERE)
    assert keep == ("to keep it, change train.py:41  DataLoader num_workers: 0 -> 4", None)
    assert diff[1] == f"perfdoctor patch .perfdoctor/trials/{trial.path.rpartition('/')[2]}"
    assert run[1] == 'perfdoctor run --with "--workers 4 --amp --amp-dtype bf16" train.py --epochs 3'


@pytest.mark.parametrize(
    ("predicted", "words"),
    [
        (Gain(1.7, 1.85, 2.1), "1.9× (1.7–2.1×), as measured"),
        (Gain(1.0, 1.2, 1.4), "1.20× (1.00–1.4×), less than measured"),
        (Gain(2.5, 3.0, 4.0), "3.0× (2.5–4.0×), more than measured"),
        (None, None),
    ],
)
def test_a_prediction_is_held_against_the_measurement(predicted, words):
    assert trial_words.prediction(replace(made.FASTER, predicted=predicted)) == words


def test_a_prediction_stands_alone_where_nothing_was_measured():
    verdict = replace(made.FASTER, speedup=None)
    assert trial_words.prediction(verdict) == "1.9× (1.7–2.1×)"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (made.SAME, "the same: 80 losses are equal to the last bit"),
        (made.OTHER, "changed: losses differ by 31%, two originals by 0.2%"),
        (LossEquivalence(None, because="the script seeds itself"), "not judged: the script seeds itself"),
        (LossEquivalence(False, because=made.FASTER.because), "changed"),  # the verdict says the rest
        (
            LossEquivalence(None, 0.31, 0.002, 80, "another path"),
            "not judged: another path: they differ by 31%, the original's own by 0.2%",
        ),
        (
            LossEquivalence(None, 0.31, None, 80, "one original"),
            "not judged: one original: they differ by 31%",
        ),
        (None, None),
    ],
)
def test_the_result_is_the_same_or_changed_or_not_compared(found, words):
    assert trial_words.agreement(replace(made.FASTER, equivalence=found)) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (made.APPLIED, "train.py:41  DataLoader num_workers: 0 -> 4"),
        (made.LEFT, "train.py:52  DataLoader: its IterableDataset would be read once by each worker"),
        (
            made.GAVE_UP,
            "train.py:60  optimizer.step: gradients are cleared without an update, after 12 steps",
        ),
        (Place("amp", "Net", None, "float32", "bfloat16"), "Net: float32 -> bfloat16"),
        (
            Place("prefetch", "prefetch_factor", Location("/lib/x.py", 7), None, 4),
            "/lib/x.py:7  prefetch_factor: 4",
        ),
        (Place("pin", "DataLoader pin_memory", None, False, True), "DataLoader pin_memory: False -> True"),
        (Place("gc", "the collector", None), "the collector"),
        (Place("gc", "objects", None, 288837, 0), "objects: 288,837 -> 0"),
    ],
)
def test_a_place_says_what_it_was_and_what_it_is(place, words):
    assert trial_words.change(place, HERE) == words


def test_places_that_every_execution_tells_are_named_once():
    assert trial_words.applied(made.FASTER) == [made.APPLIED]
    assert trial_words.left_alone(made.FASTER) == [made.LEFT]
    counts = [Place("gc-freeze", "objects", None, was, 0) for was in (288_837, 289_289)]
    assert trial_words.distinct(counts) == counts[:1]


@pytest.mark.parametrize(
    ("warm_up_s", "pays_off", "words"),
    [
        (14.0, 1300, "16 s from the start instead of 3.2 s: earned back after 1,300 steps"),
        (1.4, 9, "3.4 s from the start instead of 3.2 s: earned back after 9 steps"),
        (14.0, None, "16 s from the start instead of 3.2 s"),
        (1.4, None, None),
        (None, None, None),
    ],
)
def test_a_later_beginning_is_told_and_when_it_is_earned_back(warm_up_s, pays_off, words):
    verdict = replace(
        made.FASTER, executions=made.executions(0.03, warm_up_s=warm_up_s), pays_off_steps=pays_off
    )
    assert trial_words.warm_up(made.trial(verdict), verdict) == words


def test_an_earlier_beginning_is_told_as_well():
    verdict = replace(made.FASTER, executions=made.executions(0.03, warm_up_s=0.2, start_s=0.9))
    assert trial_words.warm_up(made.trial(verdict), verdict) == "1.1 s from the start instead of 3.2 s"


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (("/usr/bin/python3", "train.py", "--name", "a b"), "train.py --name 'a b'"),
        (("python3.11", "-m", "pkg.train"), "-m pkg.train"),
        (("python", "-u", "train.py"), "python -u train.py"),
        (("torchrun", "train.py"), "torchrun train.py"),
        (("python",), "python"),
    ],
)
def test_the_command_is_shown_as_one_types_it(command, typed):
    assert trial_words.command(made.trial(command=command)) == typed


def steps(*verdicts, **fields):
    return list(trial_words.next_steps(made.trial(*verdicts, **fields), HERE))


def test_what_is_faster_can_be_kept_by_hand_or_by_a_flag():
    assert steps(made.FASTER, made.SLOWER) == [
        ("to keep it, change train.py:41  DataLoader num_workers: 0 -> 4", None),
        (
            "the same as a diff, to look at and to apply",
            "perfdoctor patch .perfdoctor/trials/20260102-030405-train",
        ),
        ("to run with it as it is", 'perfdoctor run --with "--workers 4" train.py --epochs 3'),
    ]


def test_where_no_line_is_known_the_script_is_named():
    verdict = replace(made.FASTER, executions=made.executions(0.03))
    assert steps(verdict)[0] == ("to keep it, change the script", None)


def test_what_is_typed_in_another_folder_begins_with_the_way_there():
    elsewhere = steps(made.FASTER, cwd="/home/ada/my digits")
    assert elsewhere[0][1] is None
    assert elsewhere[1][1].startswith(
        "cd '/home/ada/my digits' && perfdoctor patch /home/ada/digits/.perfdoctor"
    )
    assert elsewhere[2][1] == (
        "cd '/home/ada/my digits' && perfdoctor run --with \"--workers 4\" train.py --epochs 3"
    )
    assert steps(made.FASTER, cwd=HERE)[2][1].startswith("perfdoctor run")


def test_what_withdrew_is_left_out_or_made_by_hand():
    explained = "remove what made it withdraw and try again, or change the script by hand, as explained by"
    assert steps(made.WITHDRAWN) == [(explained, "perfdoctor try --list accumulate")]
    both = replace(made.WITHDRAWN, variant=Variant((made.WORKERS, made.ACCUMULATE)))
    assert steps(both)[0] == (
        "the rest can be tried without it",
        "perfdoctor try --workers 4 -- train.py --epochs 3",
    )


def test_an_error_of_a_tweak_is_ours():
    broke = Place("accumulate", OWN_ERROR, because="TypeError: no", step=3)
    verdict = replace(made.WITHDRAWN, executions=(made.execution(withdrawn=(broke,)),))
    assert [typed for _, typed in steps(verdict)] == ["perfdoctor bug"]


def test_a_difference_that_could_not_be_told_takes_a_longer_trial():
    ((sentence, typed),) = steps(made.UNCLEAR)
    assert sentence == "a longer trial may tell"
    assert typed == "perfdoctor try --amp --amp-dtype bf16 --rounds 6 --seconds 741 -- train.py --epochs 3"


def test_too_few_rounds_take_a_longer_trial_unless_somebody_ended_it():
    few = replace(made.NOT_MEASURED, executions=(made.execution(), made.execution()))
    ((sentence, typed),) = steps(few)
    assert sentence == "a longer trial may tell"
    assert typed.startswith("perfdoctor try --amp --amp-dtype bf16 --rounds 6 --seconds ")
    assert [what for what, _ in steps(few, interrupted=True)] == [
        "the trial was interrupted: the same again measures to the end"
    ]
    assert steps(replace(few, executions=(made.execution(),) * 3)) == []


def test_a_narrow_interval_around_none_needs_no_longer_trial():
    assert steps(replace(made.UNCLEAR, speedup=Gain(0.995, 1.0, 1.005))) == []


def test_what_is_faster_on_another_path_is_held_against_a_figure_that_is_printed_too():
    path = replace(made.FASTER, equivalence=LossEquivalence(None, 0.1, 0.0, 80, "another path"))
    assert ["still learns as well" in sentence for sentence, _ in steps(path)] == [False, False, False, True]


def test_a_changed_result_is_held_against_a_figure_that_is_printed():
    ((sentence, typed),) = steps(made.CHANGED)
    assert "still learns as well" in sentence
    assert typed == f"perfdoctor try --batch-size 256 {trial_words.FIGURE} -- train.py --epochs 3"
    assert steps(replace(made.CHANGED, metric=(0.9, 0.91))) == []


def test_an_interrupted_trial_can_be_repeated():
    assert steps(made.NOT_MEASURED, interrupted=True) == [
        ("the trial was interrupted: the same again measures to the end", None)
    ]
