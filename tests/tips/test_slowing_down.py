from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.slowing_down import Cause
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location, Phase
from perfdoctor.tips.slowing_down import slowing_down as tip
from tests.support.facts import gain, run, step
from tests.support.host_facts import slowing

STEP = step(forward=4, backward=4, other=4.5, count=2048)


def test_says_how_much_slower_in_which_phase_and_what_grows():
    advice = tip(run(), STEP, slowing(growth=4096.0))
    assert advice is not None
    assert advice.because == (
        "steps slowed down from 10.0 ms in the beginning to 15.0 ms at the end",
        "95% of the growth lies in `other`",
        "line 31 takes 30% of the step: `limit = median(losses)`",
        "it works on `losses`, which line 30 makes longer",
        "the process's memory grows by 4.0 KiB per step",
    )
    assert [at.line for at in advice.at] == [31, 30]
    assert (
        advice.code == "losses = collections.deque(maxlen=1000)  # or a running figure that each step updates"
    )


def test_a_known_list_can_save_all_of_its_line_and_else_the_steps_stay_as_at_first():
    known = gain(tip(run(), STEP, slowing()))
    assert (known.likely, known.high) == pytest.approx((1 / 0.7, 1 / (1 - 4.5 / 12.5)))
    unknown = replace(slowing(), name=None, adds=None)
    assert gain(tip(run(), STEP, unknown)).likely == pytest.approx(1 / 0.8)
    assert gain(tip(run(), STEP, unknown)).low == pytest.approx(1 / 0.9)


def test_a_hook_that_nothing_removes_is_told_first_with_its_cure():
    hook = Location("train.py", 12, None, "module.register_forward_hook(hook)")
    told = tip(run(), STEP, replace(slowing(), name=None, adds=None, hook=hook))
    assert [at.line for at in told.at] == [12, 31]
    assert "a hook that line 12 registers and nothing removes" in told.because[3]
    assert "handle.remove()" in told.code


WRITES = Location("runlog.py", 26, "write", "json.dump(self.records, f, indent=1)")


def writing(text=WRITES.text, **given):
    """A log that writes all of a history anew."""
    of_log = replace(slowing().line, at=replace(WRITES, text=text), kind="logging")
    called = Location("train.py", 38, "fit", "log.write(loss)")
    return replace(slowing(), **{"line": of_log, "writes": True, "called": called} | given)


def test_a_log_that_writes_more_each_time_is_to_write_only_what_is_new():
    told = tip(run(), STEP, writing(name="self.records"))
    assert told.because[3] == "it writes all of `self.records` anew, which line 30 makes longer"
    assert [(at.file, at.line) for at in told.at] == [
        ("runlog.py", 26),
        ("train.py", 30),
        ("train.py", 38),
    ]
    assert told.code.startswith('file = open(path, "a")')
    assert "only what is new" in told.code
    assert [at.line for at in told.spares] == [38]
    assert told.bottleneck is Bottleneck.HOST


def test_a_log_of_a_figure_over_all_of_them_is_spared_by_a_running_one():
    told = tip(run(), STEP, writing("print(sum(self.records) / 9)", writes=False))
    assert [at.line for at in told.spares] == [38]
    assert "deque" in told.code


def test_closing_the_file_is_a_part_of_writing_it():
    opened = replace(WRITES, line=25)
    assert tip(run(), STEP, writing(opens=opened)).at[-1] == opened
    assert opened not in tip(run(), STEP, writing(opens=opened, writes=False)).at


def test_a_log_that_is_one_line_itself_is_spared():
    assert [at.line for at in tip(run(), STEP, writing(called=None)).spares] == [26]
    assert tip(run(), STEP, slowing()).spares == ()


def test_where_it_is_not_seen_what_grows_a_log_writes_more_and_more():
    told = tip(run(), STEP, writing(name=None, adds=None))
    assert told.because[3] == "it writes more and more"
    assert told.code.startswith("file = open(path")


@pytest.mark.parametrize("text", ['np.save("history.npy", self.records)', "pickle.dump(self.records, f)"])
def test_arrays_go_to_files_of_their_own(text):
    assert "in a file of its own" in tip(run(), STEP, writing(text)).code


def test_pauses_may_have_grown_or_not():
    paused = step(forward=4, backward=4, other=2, validation=2.5)
    change = tip(run(), paused, replace(slowing(), name=None, adds=None)).change.step
    assert (change.low, change.likely, change.high) == pytest.approx((0.08, 0.16, 0.2))


def test_time_goes_to_the_class_of_the_phase():
    assert tip(run(), STEP, slowing()).bottleneck is Bottleneck.HOST
    assert tip(run(), STEP, slowing(phase=Phase.DATA_WAIT)).bottleneck is Bottleneck.DATA
    tensors = replace(slowing(), line=replace(slowing().line, kind="compute"))
    assert tip(run(), STEP, tensors).bottleneck is Bottleneck.COMPUTE
    assert tip(run(), STEP, slowing(phase=Phase.OPTIMIZER)).bottleneck is Bottleneck.COMPUTE


def test_swapping_and_a_falling_clock_are_told_without_a_gain():
    swapping = tip(run(), STEP, slowing(cause=Cause.SWAPPING))
    assert swapping.because[1].startswith("meanwhile the machine reads memory back from swap")
    cooler = tip(run(), STEP, replace(slowing(cause=Cause.CLOCK), clock_hz=(3.5e9, 2.1e9)))
    assert cooler.because[1] == "the processor's clock falls from 3.50 to 2.10 GHz"
    assert (swapping.change, cooler.change) == (None, None)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(slowing(slower=0.049), id="drift"),
        pytest.param(slowing(cause=Cause.CORES), id="other-programs"),
        pytest.param(slowing(cause=Cause.GRAPHS), id="another-finding-tells"),
        pytest.param(slowing(cause=Cause.DATASETS), id="nested-datasets-tells"),
        pytest.param(slowing(cause=Cause.UNKNOWN), id="nobody-knows"),
    ],
)
def test_is_silent(facts):
    assert tip(run(), STEP, facts) is None


def test_on_a_device_a_phase_of_the_host_alone_proves_nothing():
    on_device = run(device="NVIDIA A100")
    assert tip(on_device, STEP, slowing()) is not None
    assert tip(on_device, STEP, replace(slowing(), name=None, adds=None)) is None


def test_fires_at_the_threshold():
    assert tip(run(), STEP, slowing(slower=0.05)) is not None
