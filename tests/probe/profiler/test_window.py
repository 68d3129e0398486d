import os
import sys
import types

import pytest

from perfdoctor.probe.profiler import budget, window
from perfdoctor.probe.profiler.cupti import TEARDOWN
from perfdoctor.probe.profiler.window import ProfilerWindow

pytestmark = pytest.mark.process


class Profile:
    """A stand-in for torch's, which keeps what it was asked for."""

    made: list["Profile"]

    def __init__(self, **options):
        self.options = options
        Profile.made.append(self)

    def start(self):
        pass

    stop = start

    def export_chrome_trace(self, path):
        with open(path, "w") as file:
            file.write(Profile.text)


class Annotation:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@pytest.fixture
def torch(monkeypatch):
    """A torch of which only the profiler is there; `torch.initialized` says whether CUDA is in use."""
    activity = types.SimpleNamespace(
        CPU=types.SimpleNamespace(name="CPU"), CUDA=types.SimpleNamespace(name="CUDA")
    )
    profiler = types.ModuleType("torch.profiler")
    profiler.ProfilerActivity, profiler._KinetoProfile = activity, Profile
    fake = types.ModuleType("torch")
    fake.profiler, fake.initialized = profiler, False
    fake.cuda = types.SimpleNamespace(is_initialized=lambda: fake.initialized)
    fake.version = types.SimpleNamespace(cuda="13.0")
    fake.autograd = types.SimpleNamespace(profiler=types.SimpleNamespace(record_function=Annotation))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    monkeypatch.setenv(TEARDOWN, "1")  # to have it taken out again
    for name in (TEARDOWN, "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    Profile.made, Profile.text = [], '{"traceEvents": []}\n'
    return fake


def started(torch, kind=budget.PLAIN):
    opened = ProfilerWindow(kind, first_step=8, steps=2)
    opened.start(torch)
    return opened


@pytest.mark.shows("guest")
def test_the_device_is_recorded_only_once_the_script_has_initialised_it(torch):
    assert started(torch).activities == ["cpu"]
    torch.initialized = True
    both = started(torch)
    assert (both.activities, both.because) == (["cpu", "cuda"], None)


def test_only_a_window_that_records_a_device_has_it_let_go_afterwards(torch):
    started(torch)
    assert TEARDOWN not in os.environ
    torch.initialized = True
    started(torch)
    assert os.environ[TEARDOWN] == "1"


def of_kind(torch, kind, **module):
    """The same torch, built for another kind of device, which is in use."""
    torch.accelerator = types.SimpleNamespace(
        current_accelerator=lambda check_available=False: types.SimpleNamespace(type=kind)
    )
    setattr(torch, kind, types.SimpleNamespace(**module))


@pytest.mark.parametrize(
    ("kind", "name"), [("xpu", "XPU"), ("npu", "PrivateUse1")], ids=["xpu", "a-vendors-own"]
)
def test_another_kind_of_device_is_recorded_under_the_profilers_name_for_it(torch, kind, name):
    of_kind(torch, kind, is_initialized=lambda: True)
    setattr(torch.profiler.ProfilerActivity, name, types.SimpleNamespace(name=name))
    both = started(torch)
    assert (both.activities, both.because) == (["cpu", name.lower()], None)


def test_a_kind_that_the_profiler_cannot_record_is_left_out_and_that_is_said(torch):
    of_kind(torch, "mps", is_available=lambda: True)
    alone = started(torch)
    assert (alone.activities, alone.because) == (["cpu"], "torch's profiler does not record mps devices")


@pytest.mark.shows("other-tools")
def test_beside_another_tool_the_device_is_left_out_and_that_is_said(torch, monkeypatch):
    torch.initialized = True
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool.so")
    alone = started(torch)
    assert alone.activities == ["cpu"]
    assert "CUDA_INJECTION64_PATH" in alone.because


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (budget.PLAIN, set()),
        (budget.SHAPES, {"record_shapes", "with_flops"}),
        (budget.STACKS, {"with_stack"}),
    ],
)
def test_each_kind_asks_for_its_own_and_no_more(torch, kind, asked):
    options = started(torch, kind).profile.options
    assert {name for name, value in options.items() if value is True} == asked


def test_the_warm_up_step_has_no_annotation_and_the_others_their_numbers(torch):
    opened = started(torch)
    assert opened.next_step(torch)
    assert opened.next_step(torch)
    assert not opened.next_step(torch)
    assert list(opened.annotation_ns) == ["ProfilerStep#8", "ProfilerStep#9"]
    assert opened.begin_ns == opened.annotation_ns["ProfilerStep#8"] < opened.end_ns


def test_a_window_with_stacks_counts_the_step_that_it_opens_with(torch):
    opened = started(torch, budget.STACKS)
    assert list(opened.annotation_ns) == ["ProfilerStep#8"]
    assert opened.next_step(torch)
    assert not opened.next_step(torch)
    assert list(opened.annotation_ns) == ["ProfilerStep#8", "ProfilerStep#9"]
    assert opened.event("trace.rank0.2.json", "ok", None).warm_up == 0


def test_the_slowdown_is_what_its_steps_took_beyond_a_usual_one(monkeypatch, torch):
    monkeypatch.setattr(window, "clock", iter(range(0, 10**12, 10**9)).__next__)
    opened = started(torch)  # reads the clock twice
    while opened.next_step(torch):
        pass
    counted_s = (opened.end_ns - opened.begin_ns) / 1e9
    assert opened.slowdown_s(0.25 * counted_s) == pytest.approx(3 * 0.25 * counted_s)
    assert opened.slowdown_s(counted_s) == 0


def test_a_trace_gets_its_name_when_it_is_whole(torch, tmp_path):
    opened = started(torch)
    opened.stop()
    path = tmp_path / "trace.rank0.0.json"
    opened.export(str(path))
    assert path.read_text() == Profile.text
    assert path.stat().st_mode & 0o777 == 0o600
    assert opened.bytes == len(Profile.text)
    assert list(tmp_path.iterdir()) == [path]
    fields = opened.event(str(path), "ok", None).fields()
    assert (fields["file"], fields["kind"], fields["outcome"]) == (path.name, "plain", "ok")


@pytest.mark.parametrize("text", ["", '{"traceEvents": [{"name": "cu'])
def test_a_trace_that_was_cut_off_leaves_no_file(torch, tmp_path, text):
    Profile.text = text
    opened = started(torch)
    opened.stop()
    opened.export(str(tmp_path / "trace.rank0.0.json"))
    assert opened.bytes == 0
    assert list(tmp_path.iterdir()) == []
    assert opened.event("trace.rank0.0.json", "failed", "it was cut off").file is None
