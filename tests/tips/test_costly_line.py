from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.suspects import SuspectFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.coverage import Cover, Covered
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Phase
from perfdoctor.tips.costly_line import costly_line as tip
from tests.support.facts import cpu, gain, loader, model, run, step
from tests.support.line_facts import lines, suspect

STEP = step(forward=4, backward=2, other=4)
NO_LINES = lines()


def advice(*suspects, covers=(), room=1.0, of=NO_LINES, device="cpu", together=()):
    first = {(Phase.OTHER, "train.py", line): min(together) for line in together}
    facts = SuspectFacts(suspects, room, together=first)
    return tip(run(device=device), STEP, of, facts, Covered(tuple(covers)))


def test_names_the_line_with_its_cost_its_phase_and_what_it_runs():
    told = advice(
        suspect(0.39, Phase.OTHER, 30, kind="rest"), of=lines((30, Phase.OTHER, 3.9), runs=("numpy sort",))
    )
    assert told is not None
    assert told.because == (
        "39% of each step (3.90 ms) goes into line 30, between the phases: `work(30)`",
        "it runs numpy sort",
        "no other finding is about this time; how much of it can go is not known",
    )
    assert [at.line for at in told.at] == [30]
    assert told.bottleneck is Bottleneck.HOST


def test_the_gain_runs_from_nothing_to_all_of_it():
    found = gain(advice(suspect(0.4, Phase.OTHER, 30)))
    assert (found.low, found.likely, found.high) == pytest.approx((1.0, 1 / 0.8, 1 / 0.6))


def test_no_more_than_all_of_it_is_expected_but_for_what_sampling_may_have_missed():
    assert advice(suspect(0.4, Phase.OTHER, 30, samples=400)).takes == pytest.approx(0.4 * 1.1)
    assert advice(suspect(0.9, Phase.OTHER, 30, samples=10)).takes == 1.0


@pytest.mark.parametrize(
    ("wait", "workers", "likely"),
    [  # of 10 ms: 4 for the batch, 2 for its sampler, 4 to compute
        (WaitPart.SAMPLER, 0, 1 / 0.9),
        (WaitPart.DATASET, 0, 1 / 0.8),
        (WaitPart.SAMPLER, 2, 1 / 0.9),
    ],
)
def test_a_wait_gets_shorter_by_what_the_line_takes_of_it(wait, workers, likely):
    waiting, loading = step(data_wait=6, forward=4), loader(workers=workers, batch=4)
    share = 0.4 if wait is WaitPart.DATASET else 0.2
    of_line = SuspectFacts(
        (suspect(share, Phase.DATA_WAIT, 30, wait=wait),), own_batches=0.0 if workers else 0.4
    )
    told = tip(run(device="cpu"), waiting, NO_LINES, of_line, Covered(()))
    assert gain(told, None if workers else model(waiting, loading, cpu())).likely == pytest.approx(likely)


@pytest.mark.parametrize("phase", [Phase.VALIDATION, Phase.CHECKPOINT, Phase.FORWARD])
def test_a_line_of_a_pause_is_not_hidden_behind_a_slow_loader(phase):
    late = step(data_wait=50, forward=20, validation=15, checkpoint=15, cpu=50)
    told = tip(run(device="cpu"), late, NO_LINES, SuspectFacts((suspect(0.14, phase, 30),)), Covered(()))
    expected = 1.0 if phase is Phase.FORWARD else 100 / 93
    waits = model(late, loader(workers=1, batch=70, cpu=10), cpu(cores=8))
    assert gain(told, waits).likely == pytest.approx(expected, abs=0.01)


def test_fires_at_a_tenth_of_the_step_and_is_silent_just_below():
    assert advice(suspect(0.101, Phase.OTHER, 30)) is not None
    assert advice(suspect(0.099, Phase.OTHER, 30)) is None


def test_too_few_samples_are_no_evidence():
    assert advice(suspect(0.5, Phase.OTHER, 30, samples=10)) is not None
    assert advice(suspect(0.5, Phase.OTHER, 30, samples=9)) is None


def test_the_innermost_line_that_takes_enough_is_named():
    told = advice(suspect(0.3, Phase.FORWARD, 20, 25), suspect(0.05, Phase.FORWARD, 20, 26))
    assert [at.line for at in told.at] == [25]


def test_a_cost_spread_over_a_function_is_named_where_it_is_called():
    spread = [suspect(0.06, Phase.OTHER, 20, line) for line in range(40, 45)]
    told = advice(*spread)
    assert [at.line for at in told.at] == [20, 40, 41]
    assert told.because[0].startswith("30% of each step")


def test_lines_that_are_one_piece_of_work_are_one_finding_of_all_their_time():
    parts = [suspect(share, Phase.OTHER, 20, line) for line, share in ((40, 0.15), (41, 0.02), (42, 0.2))]
    told = advice(*parts, together=(40, 41, 42))
    assert told.because[0] == (
        "37% of each step (3.70 ms) goes into lines 40, 41 and 42, most of it into line 42, "
        "between the phases: `work(42)`"
    )
    assert [at.line for at in told.at] == [42, 40, 41]
    assert gain(told).high == pytest.approx(1 / 0.63)
    assert gain(advice(*parts)).high == pytest.approx(1 / 0.8)


# `main` calls `table` at line 20, which calls `row` at line 41, and `row` calls `mark` at line 52.
CALLED = {40: "table", 41: "table", 42: "table", 50: "row", 51: "row", 52: "row", 60: "mark"}
TEXTS = {20: "log(table(rows))", 41: "parts += [row(one) for one in rows]", 52: "mark(one)"}


def below(share, *path, phase=Phase.OTHER, texts=None):
    found = suspect(share, phase, *path)
    named = TEXTS if texts is None else texts
    places = (
        replace(at, function=CALLED.get(at.line, at.function), text=named.get(at.line, at.text))
        for at in found.path
    )
    return replace(found, path=tuple(places))


SPREAD = [(0.15, 20, 41, 50), (0.08, 20, 41, 52, 60), (0.09, 20, 40), (0.06, 20, 41), (0.04, 20, 42)]


def test_a_cost_spread_over_a_function_and_what_it_calls_is_named_at_the_call_with_its_sum():
    told = advice(*(below(share, *path) for share, *path in SPREAD))
    assert told.because[:2] == (
        "42% of each step (4.20 ms) goes into line 20, between the phases: `log(table(rows))`",
        "it is spread over 5 lines below `table`: line 50 of train.py takes the most, 15% of the step",
    )
    assert [at.line for at in told.at] == [20, 50, 40]
    assert gain(told).high == pytest.approx(1 / 0.58)


def test_of_a_call_that_other_findings_explain_in_part_the_rest_counts():
    explained = [Cover(0.09, None, frozenset({("train.py", 40)}))]
    told = advice(*(below(share, *path) for share, *path in SPREAD), covers=explained)
    assert told.because[0].startswith("33% of each step (3.30 ms) goes into line 20")


def test_a_line_with_more_than_half_of_what_its_function_takes_is_named_itself():
    halves = [(0.22, 20, 41, 50), (0.1, 20, 40), (0.1, 20, 42)]
    assert advice(*(below(share, *path) for share, *path in halves)).at[0].line == 50
    fewer = [(0.21, 20, 41, 50), *halves[1:], (0.01, 20, 41)]
    assert advice(*(below(share, *path) for share, *path in fewer)).at[0].line == 20


@pytest.mark.parametrize(("more", "named"), [(0.08, [41, 40, 42]), (0.1, [20, 40, 41])])
def test_lines_that_are_one_piece_of_work_are_named_where_they_take_nearly_all_of_a_call(more, named):
    of_work = [(0.14, 20, 40), (0.12, 20, 41), (0.1, 20, 42), (more, 20, 41, 50)]
    told = advice(*(below(share, *path) for share, *path in of_work), together=(40, 41, 42))
    assert [at.line for at in told.at] == named


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({**TEXTS, 20: "getattr(hook, name)(rows)"}, id="a-hook"),
        pytest.param({**TEXTS, 20: "for rows in loader:"}, id="items"),
        pytest.param({**TEXTS, 20: "printable(rows)"}, id="another-function"),
    ],
)
def test_a_line_that_calls_the_function_by_no_name_is_not_climbed_to(texts):
    told = advice(*(below(share, *path, texts=texts) for share, *path in SPREAD))
    assert told.at[0].line == 50


def test_a_line_that_calls_several_functions_is_not_climbed_to():
    other = below(0.01, 20, 70)
    other = replace(other, path=(other.path[0], replace(other.path[1], function="Other.table")))
    told = advice(*(below(share, *path) for share, *path in SPREAD), other)
    assert told.at[0].line == 50


def test_a_line_that_whole_steps_run_below_is_not_climbed_to():
    steps = lines(*((20, phase, 2.0) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)))
    assert advice(*(below(share, *path) for share, *path in SPREAD), of=steps).at[0].line == 50


def test_a_line_whose_cure_is_known_is_named_however_the_rest_is_spread():
    drawn = {**TEXTS, 50: "chosen = rng.choice(n, 8, p=p)"}
    told = advice(*(below(share, *path, texts=drawn) for share, *path in SPREAD))
    assert told.at[0].line == 50
    assert told.code is not None


def test_the_lines_of_other_phases_are_no_part_of_a_call():
    told = advice(
        *(below(share, *path) for share, *path in SPREAD), below(0.11, 20, 42, phase=Phase.VALIDATION)
    )
    assert told.because[0].startswith("42% of each step")


@pytest.mark.parametrize(
    ("text", "code", "likely"),
    [("chosen = rng.choice(n, 8, p=p)", "np.cumsum", 0.9), ("chosen = pick(n)", None, 0.5)],
)
def test_of_a_draw_that_adds_up_all_weights_it_is_known_how_much_goes(text, code, likely):
    found = suspect(0.4, Phase.OTHER, 30)
    told = advice(replace(found, path=(replace(found.path[0], text=text),)))
    assert (told.code is not None and code in told.code) if code else told.code is None
    assert told.change.step.likely == pytest.approx(0.4 * likely)
    assert ("how much of it can go is not known" in told.because[-1]) == (code is None)


def test_what_another_finding_is_about_is_left_to_it():
    found = suspect(0.3, Phase.OTHER, 20, 25)
    assert advice(found, covers=[Cover(0.3, None, frozenset({("train.py", 20)}))]) is None
    assert advice(found, covers=[Cover(0.3, None, frozenset({("train.py", 99)}))]) is not None
    assert advice(found, covers=[Cover(1.0, Phase.DATA_WAIT)]) is not None


FRAMEWORK = [(3, phase, 2.0) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)]


@pytest.mark.parametrize(("below", "named"), [(FRAMEWORK, True), (FRAMEWORK[:2], False)])
def test_a_finding_at_the_line_that_all_training_runs_below_is_about_none_of_its_callbacks(below, named):
    callback = suspect(0.3, Phase.OPTIMIZER, 87, callers=(3,))
    covers = [Cover(0.4, None, frozenset({("train.py", 3)}))]
    assert (advice(callback, covers=covers, of=lines(*below)) is not None) == named


def test_of_what_runs_below_a_line_that_is_partly_explained_the_rest_counts():
    explained = [Cover(0.18, None, frozenset({("train.py", 20)}))]
    told = advice(suspect(0.3, Phase.OTHER, 20, 25), covers=explained)
    assert told.because[0].startswith("12% of each step")
    assert advice(suspect(0.3, Phase.OTHER, 20), covers=explained) is None


@pytest.mark.parametrize(
    ("phase", "more", "kind", "where"),
    [
        (Phase.FORWARD, {}, Bottleneck.COMPUTE, "in the forward pass"),
        (Phase.OTHER, {"kind": "compute"}, Bottleneck.COMPUTE, "between the phases"),
        (
            Phase.DATA_WAIT,
            {"wait": WaitPart.SAMPLER},
            Bottleneck.DATA,
            "in the sampler, while training waits for data",
        ),
        (
            Phase.DATA_WAIT,
            {"wait": WaitPart.DATASET, "in_worker": True},
            Bottleneck.DATA,
            "in the dataset of a loader worker, while training waits for data",
        ),
    ],
)
def test_says_where_the_line_runs_and_charges_its_class(phase, more, kind, where):
    told = advice(suspect(0.3, phase, 20, **more))
    assert told.bottleneck is kind
    assert f"line 20, {where}:" in told.because[0]


def test_beside_a_busy_device_only_what_it_idles_can_go():
    assert advice(suspect(0.5, Phase.FORWARD, 20), room=0.05, device="Tesla V100") is None
    told = advice(suspect(0.5, Phase.FORWARD, 20), room=0.2, device="Tesla V100")
    assert told.change.step.high == pytest.approx(0.2)
    assert told.bottleneck is Bottleneck.HOST


def test_nothing_suspect_is_no_finding():
    assert advice() is None
