import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import orjson
import pytest

pytest.importorskip("torch")

from perfdoctor.probe.looks.calls import PAIRS
from perfdoctor.probe.profiler.budget import CREDIT
from perfdoctor.probe.profiler.windows import CAPTURES
from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.watch.unwatched import INJECT

pytestmark = [pytest.mark.process, pytest.mark.slow]

TRAIN = """
import os, signal, sys, threading, time
import torch
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.randn(32, 64)

def step():
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    opt.step()
    return loss

def until_open():
    for _ in range(20_000):
        step()
        if torch.autograd._profiler_enabled():
            return
    raise SystemExit("no window was opened")

def own(**options):
    return profile(activities=[ProfilerActivity.CPU], **options)

def linears(events):
    return sum(event.name == "aten::linear" for event in events)
"""


class Ran:
    """A script and what was recorded of it."""

    def __init__(self, done: subprocess.CompletedProcess[str], run: Path) -> None:
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.path = run
        self.records = recorded.read(run)
        log = run / "probe.log"
        assert not log.exists(), log.read_text()

    def windows(self, outcome: str | None = None) -> list[dict]:
        found = self.records.ranks[0].of("window")
        return [window for window in found if outcome in (None, window["outcome"])]

    @property
    def rows(self) -> recorded.Rows:
        rows = self.records.ranks[0].steps
        assert rows is not None
        return rows


def run(folder: Path, code: str, share: float = 1.0, **environment: str) -> Ran:
    """Run the code with windows that may cost as much as the run itself."""
    path = folder / "run"
    path.mkdir()
    directory.write_json(path / "run.json", {"schema": directory.SCHEMA})
    directory.write_json(path / "config.json", {"profiler": True, "profiler_share": share})
    (folder / "script.py").write_text(TRAIN + textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(path), **environment}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=env, timeout=90, capture_output=True, text=True
    )
    return Ran(done, path)


def well(ran: Ran, stdout: str = "", status: int = 0, stderr: str = "") -> None:
    """Nothing but what the script itself said and did."""
    assert (ran.status, ran.stdout.strip(), ran.stderr) == (status, stdout, stderr)


# ---------------------------------------------------------------- what is recorded


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run long enough for all three windows."""
    return run(tmp_path_factory.mktemp("trained"), "for _ in range(4000): loss = step()\nprint(loss.item())")


@pytest.mark.shows("streams", "randomness")
def test_three_windows_are_recorded_and_nothing_is_said(trained, tmp_path):
    (tmp_path / "bare.py").write_text(TRAIN + "for _ in range(4000): loss = step()\nprint(loss.item())")
    bare = subprocess.run([sys.executable, "bare.py"], cwd=tmp_path, capture_output=True, text=True)
    well(trained, bare.stdout.strip())
    found = trained.windows()
    assert [(window["outcome"], window["index"]) for window in found] == [("ok", 0), ("ok", 1), ("ok", 2)]
    assert [window["kind"] for window in found] == ["plain", "shapes", "stacks"]
    assert [window["file"] for window in found] == [f"trace.rank0.{index}.json" for index in range(3)]
    assert all(window["activities"] == ["cpu"] and window["because"] is None for window in found)
    assert not list(trained.path.glob("*.part"))


def test_each_step_of_a_window_is_annotated_with_its_number(trained):
    for window in trained.windows("ok"):
        trace = orjson.loads((trained.path / window["file"]).read_bytes())
        names = [f"ProfilerStep#{window['first_step'] + step}" for step in range(window["steps"])]
        steps = {
            event["name"]: event
            for event in trace["traceEvents"]
            if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
        }
        assert sorted(steps) == sorted(names) == sorted(window["annotation_ns"])
        offsets = [window["annotation_ns"][name] / 1e3 - steps[name]["ts"] for name in names]
        assert max(offsets) - min(offsets) < 5_000  # one offset ties the two clocks together
        assert window["bytes"] == (trained.path / window["file"]).stat().st_size


def test_the_windows_record_what_their_kind_promises(trained):
    plain, shapes, stacks = (
        orjson.loads((trained.path / window["file"]).read_bytes())["traceEvents"]
        for window in trained.windows("ok")
    )

    def arguments(events):
        return {name for event in events for name in event.get("args", {})}

    assert "Input Dims" not in arguments(plain)
    assert "Input Dims" in arguments(shapes)
    assert any(event.get("cat") == "python_function" for event in stacks)
    assert not any(event.get("cat") == "python_function" for event in plain)


def test_disturbed_rows_are_marked_and_our_own_time_is_in_no_phase(trained):
    rows = trained.rows
    assert np.array_equal(rows["begin_ns"][1:], rows["end_ns"][:-1])
    ours = rows["marker"] == 0
    assert ours.sum() == 6  # before and after each window
    phases = sum(rows[name] for name in rows.dtype.names[13:])
    assert not phases[ours].any()
    for window in trained.windows("ok"):
        inside = (rows["end_ns"] > window["begin_ns"]) & (rows["begin_ns"] <= window["end_ns"])
        assert (rows["flags"][inside] & 2).all()
    disturbed = (rows["flags"] & 2) != 0
    # Warm-up, the steps that count, and the one that follows; what looks at calls disturb may be among them.
    # Before stacks the calls of a step are counted, which takes the place of a warm-up.
    by_windows = 6 + sum(window["steps"] + 2 for window in trained.windows("ok"))
    assert by_windows <= disturbed.sum() <= by_windows + 3 * PAIRS
    assert (rows["marker"] == 4).sum() == 4000


def test_the_time_of_start_stop_and_export_is_that_of_our_own_rows(trained):
    rows = trained.rows
    ours = rows["marker"] == 0
    seconds = (rows["end_ns"] - rows["begin_ns"])[ours] / 1e9
    for window, before, after in zip(trained.windows("ok"), seconds[::2], seconds[1::2], strict=True):
        assert window["start_s"] <= before
        assert window["stop_s"] + window["export_s"] <= after


def test_without_a_share_there_are_no_windows(tmp_path):
    ran = run(tmp_path, "for _ in range(500): step()", share=0.0)
    well(ran)
    assert ran.windows() == []


@pytest.mark.shows("cost")
def test_a_window_waits_until_the_run_can_pay_for_it(tmp_path):
    ran = run(
        tmp_path, "begin = time.perf_counter()\nwhile time.perf_counter() < begin + 4: step()", share=0.02
    )
    well(ran)
    rows, found = ran.rows, ran.windows()
    assert found
    for number, window in enumerate(found):
        spent = sum(entry["start_s"] + entry["stop_s"] + entry["export_s"] for entry in found[: number + 1])
        assert spent <= 0.03 * CREDIT.worth_s((window["begin_ns"] - rows["end_ns"][0]) / 1e9)


def test_a_watch_that_ends_inside_a_window_closes_it_first(tmp_path):
    code = """
    until_open()
    with open(os.environ["PERFDOCTOR_RUN"] + "/steps.rank0.bin", "r+b") as file:
        file.seek(4094)
        file.write(b"\\1")
    written = time.monotonic()
    while time.monotonic() < written + 2: step()  # the probe asks only so often
    print(torch.autograd._profiler_enabled())
    """
    ran = run(tmp_path, code)
    well(ran, "False")
    assert {window["outcome"] for window in ran.windows()} == {"ok"}


def test_a_window_whose_steps_take_far_too_long_is_given_up(tmp_path):
    code = """
    until_open()
    time.sleep(3)  # on a crowded machine steps may take long themselves
    step()
    print(torch.autograd._profiler_enabled())
    """
    ran = run(tmp_path, code)
    well(ran, "False")
    assert [window["outcome"] for window in ran.windows()] == ["abandoned"]


UNTIL_STACKS = """
    def until_stacks(work=lambda: None):
        for _ in range(20_000):
            step()
            if torch.autograd._profiler_enabled() and sys.getprofile() is not None:
                return
            work()
        raise SystemExit("no window with stacks was opened")

    def calls(count):
        for _ in range(count): len("a")
"""


@pytest.mark.shows("cost")
def test_a_window_with_stacks_is_put_off_while_its_calls_cannot_be_paid_for(tmp_path):
    code = (
        UNTIL_STACKS
        + """
    end = time.perf_counter() + 8
    while time.perf_counter() < end:
        step()
        calls(400_000)
    """
    )
    ran = run(tmp_path, code, share=0.1)
    well(ran)
    found = ran.windows()
    assert {(window["kind"], window["outcome"]) for window in found[2:]} == {("stacks", "put_off")}
    for window in found[2:]:
        assert "calls of functions" in window["because"]
        assert window["calls"] < 200_000  # counting went no further than what could be paid
        assert window["file"] is None
    assert len(found) <= 8
    assert not (ran.path / "trace.rank0.2.json").exists()


def test_the_calls_of_the_step_before_stacks_are_told(trained):
    plain, shapes, stacks = trained.windows("ok")
    assert plain["calls"] is shapes["calls"] is None
    assert 20 < stacks["calls"] < 5_000
    assert (plain["warm_up"], shapes["warm_up"], stacks["warm_up"]) == (1, 1, 0)


@pytest.mark.shows("cost")
def test_a_step_that_calls_far_more_than_was_counted_is_recorded_no_further(tmp_path):
    code = (
        UNTIL_STACKS
        + """
    until_stacks()
    end = time.perf_counter() + 40
    while sys.getprofile() is not None and time.perf_counter() < end:
        calls(1000)
    print(sys.getprofile(), torch.autograd._profiler_enabled())
    step()
    print(torch.autograd._profiler_enabled())
    for _ in range(100): step()
    """
    )
    ran = run(tmp_path, code)
    well(ran, "None True\nFalse")
    cut = next(window for window in ran.windows() if window["kind"] == "stacks")
    assert (cut["outcome"], cut["file"]) == ("abandoned", None)
    assert "longer than usual" in cut["because"]


@pytest.mark.shows("fork")
@pytest.mark.parametrize("child", ["os.fork()", "subprocess.run([sys.executable, '-c', '']).returncode or 1"])
def test_a_process_that_starts_while_calls_are_counted_is_not_counted(tmp_path, child):
    code = f"""
    import subprocess
    for _ in range(20_000):
        step()
        if sys.getprofile() is not None and not torch.autograd._profiler_enabled():
            break
    child = {child}
    if not child:
        os._exit(sys.getprofile() is not None)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child > 1 else 0)
    for _ in range(400): step()
    """
    ran = run(tmp_path, code)
    well(ran, "0")
    assert [window["outcome"] for window in ran.windows() if window["kind"] == "stacks"][-1] in (
        "ok",
        "put_off",
    )


def test_a_generator_and_its_critic_are_in_one_step(tmp_path):
    code = """
    critic = torch.optim.SGD(torch.nn.Linear(64, 64).parameters(), lr=1e-3)
    for number in range(3000):
        net(x).sum().backward()
        (opt if number % 3 == 2 else critic).step()
    """
    ran = run(tmp_path, code)
    well(ran)
    plain = ran.windows("ok")[0]
    rows = ran.rows[ran.rows["marker"] == 4]
    inside = rows[(rows["begin_ns"] >= plain["begin_ns"] - 100_000) & (rows["end_ns"] <= plain["end_ns"])]
    assert len(inside) == 3 * plain["steps"]


# ---------------------------------------------------------------- the script's own profilers


@pytest.mark.shows("own-profiler")
def test_a_profiler_that_the_script_opens_inside_a_window_gets_all_its_events(tmp_path):
    code = """
    until_open()
    with own() as mine:
        for _ in range(5): step()
    print(linears(mine.events()))
    until_open()
    """
    ran = run(tmp_path, code)
    well(ran, "10")
    assert ran.windows()[0]["outcome"] == "yielded"
    assert "opened a profiler" in ran.windows()[0]["because"]
    assert len(ran.windows()) >= 2


@pytest.mark.shows("own-profiler")
def test_no_window_opens_inside_the_scripts_profiler(tmp_path):
    code = """
    with own() as mine:
        for _ in range(600): step()
    print(linears(mine.events()))
    for _ in range(600): step()
    """
    ran = run(tmp_path, code, KINETO_LOG_LEVEL="99")
    well(ran, "1200")
    rows = ran.rows
    assert not (rows["flags"][:500] & 2).any()


@pytest.mark.shows("own-profiler")
def test_no_window_opens_while_the_scripts_schedule_warms_up(tmp_path):
    code = """
    seen = []
    plan = schedule(wait=0, warmup=600, active=3, repeat=1)
    with own(schedule=plan, on_trace_ready=lambda mine: seen.append(linears(mine.events()))) as mine:
        for _ in range(700):
            step()
            mine.step()
    print(seen)
    """
    ran = run(tmp_path, code)
    assert (ran.status, ran.stdout.strip()) == (0, "[6]")
    assert not (ran.rows["flags"][:600] & 2).any()


@pytest.mark.shows("own-profiler")
def test_a_schedule_that_comes_round_again_takes_turns_with_windows(tmp_path):
    code = """
    until_open()
    seen = []
    plan = schedule(wait=400, warmup=2, active=3, repeat=4)
    with own(schedule=plan, on_trace_ready=lambda mine: seen.append(linears(mine.events()))) as mine:
        for _ in range(1700):
            step()
            mine.step()
    print(seen)
    """
    ran = run(tmp_path, code)
    assert (ran.status, ran.stdout.strip()) == (0, "[6, 6, 6, 6]")
    assert "USDT" not in ran.stderr
    assert ran.windows("ok")


def test_profilers_that_follow_each_other_are_all_whole(tmp_path):
    code = """
    until_open()
    seen = []
    for _ in range(40):
        for _ in range(20): step()
        with own() as mine: step()
        seen.append(linears(mine.events()))
    print(set(seen))
    """
    ran = run(tmp_path, code)
    well(ran, "{2}")


@pytest.mark.shows("other-tools")
@pytest.mark.parametrize("options", ["", "use_kineto=True", "record_shapes=True, use_kineto=True"])
def test_the_older_profiler_gets_all_its_events(tmp_path, options):
    code = f"""
    until_open()
    with torch.autograd.profiler.profile({options}) as mine:
        for _ in range(5): step()
    print(linears(mine.function_events))
    """
    ran = run(tmp_path, code)
    well(ran, "10")
    assert ran.windows()[0]["outcome"] == "yielded"


@pytest.mark.shows("other-tools")
def test_the_legacy_profiler_gets_all_its_events(tmp_path):
    code = """
    from torch.autograd import profiler_legacy
    until_open()
    with profiler_legacy.profile() as mine:
        for _ in range(5): step()
    print(linears(mine.function_events))
    for _ in range(50): step()
    """
    ran = run(tmp_path, code)
    assert (ran.status, ran.stdout.strip()) == (0, "10")
    assert ran.windows()[0]["outcome"] == "yielded"


@pytest.mark.shows("other-tools")
def test_ranges_for_another_tool_are_left_alone(tmp_path):
    code = """
    until_open()
    try:
        with torch.autograd.profiler.emit_itt():
            for _ in range(5): step()
    except RuntimeError:
        pass  # a build without them
    for _ in range(300): step()
    """
    ran = run(tmp_path, code)
    assert ran.status == 0
    assert ran.windows()[0]["outcome"] == "yielded"


THREAD = """
    begun, over = threading.Event(), threading.Event()
    found = []
    def other():
        with own() as mine:
            begun.set()
            for _ in range(50): net(x)
            over.wait()
        found.append(linears(mine.events()))
    thread = threading.Thread(target=other)
"""


@pytest.mark.shows("own-profiler")
def test_no_window_opens_while_another_thread_profiles(tmp_path):
    code = (
        THREAD
        + """
    thread.start(); begun.wait()
    for _ in range(600): step()
    over.set(); thread.join()
    print(found)
    """
    )
    ran = run(tmp_path, code)
    assert (ran.status, ran.stdout.strip()) == (0, "[100]")
    assert ran.windows("ok") == []


def test_a_profiler_in_another_thread_waits_until_the_window_is_closed(tmp_path):
    code = (
        THREAD
        + """
    until_open()
    thread.start()
    while not begun.is_set(): step()
    for _ in range(100): step()
    over.set(); thread.join()
    print(found)
    until_open()
    """
    )
    ran = run(tmp_path, code)
    well(ran, "[100]")
    assert ran.windows()[0]["outcome"] in ("yielded", "ok")


def test_a_profiler_in_a_thread_that_the_training_thread_waits_for_goes_ahead_after_a_while(tmp_path):
    code = """
    found = []
    def other():
        with own() as mine:
            for _ in range(50): net(x)
        found.append(linears(mine.events()))
    until_open()
    thread = threading.Thread(target=other)
    thread.start(); thread.join()
    for _ in range(50): step()
    with own() as mine:
        for _ in range(5): step()
    print(found, linears(mine.events()))
    """
    ran = run(tmp_path, code)
    assert (ran.status, ran.stdout.strip()) == (0, "[100] 10")
    assert ran.windows()[0]["outcome"] == "yielded"


def test_a_profiler_of_python_stacks_survives_the_probe(tmp_path):
    # The first one imports what it needs: it garbles the names of modules that are imported while it records.
    code = """
    with own(with_stack=True): pass
    with own(with_stack=True) as mine:
        for _ in range(3): step()
    print(linears(mine.events()))
    """
    ran = run(tmp_path, code, share=0.0)
    assert (ran.status, ran.stdout.strip()) == (0, "6")


# ---------------------------------------------------------------- processes and ends


@pytest.mark.shows("fork")
@pytest.mark.parametrize("end", ["sys.exit(5)", "os._exit(5)"])
def test_a_fork_inside_a_window_and_its_child_come_to_their_ends(tmp_path, end):
    code = f"""
    until_open()
    child = os.fork()
    if not child:
        assert not torch.autograd._profiler_enabled()
        torch.ones(3).add(1)
        {end}
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    until_open()
    """
    ran = run(tmp_path, code)
    well(ran, "5")
    assert ran.windows()[0]["outcome"] == "abandoned"
    assert "process" in ran.windows()[0]["because"]


@pytest.mark.shows("fork")
def test_loader_workers_that_start_inside_a_window_are_not_profiled(tmp_path):
    code = """
    class Data(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, index): return torch.tensor(torch.autograd._profiler_enabled())
    until_open()
    print(sum(batch.sum().item() for batch in torch.utils.data.DataLoader(Data(), num_workers=2)))
    """
    well(run(tmp_path, code), "0")


@pytest.mark.shows("fork")
def test_a_forked_child_that_trains_opens_no_window(tmp_path):
    code = """
    child = os.fork()
    if not child:
        for _ in range(600):
            opt.zero_grad(); net.weight = None
            for p in net.parameters(): p.grad = torch.zeros_like(p)
            opt.step()
            assert not torch.autograd._profiler_enabled()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    ran = run(tmp_path, code)
    well(ran, "0")
    assert not any((ran.path).glob("trace.*"))


ENDS = {
    "raise ValueError('mine')": (1, "ValueError: mine"),
    "sys.exit(3)": (3, ""),
    "sys.exit('words')": (1, "words"),
    "os._exit(4)": (4, ""),
    "raise KeyboardInterrupt": (-signal.SIGINT, "KeyboardInterrupt"),
    "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)": (-signal.SIGTERM, ""),
    "pass": (0, ""),
}


@pytest.mark.shows("raises", "exits", "os-exit", "interrupt")
@pytest.mark.parametrize("end", ENDS)
def test_a_script_that_ends_inside_a_window_ends_as_ever(tmp_path, end):
    ran = run(tmp_path, f"until_open()\n{end}")
    status, last_line = ENDS[end]
    assert ran.status == status
    lines = [line for line in ran.stderr.splitlines() if not line.startswith(("Traceback", "  "))]
    assert lines == ([last_line] if last_line else [])
    if status >= 0 and "_exit" not in end:
        assert [window["outcome"] for window in ran.windows()] == ["abandoned"]
    assert not list(ran.path.glob("trace.*"))


@pytest.mark.shows("cuda-graphs")
def test_a_window_ends_before_a_graph_is_captured(tmp_path):
    """A profiler that ends inside a capture waits for the device, which ends the capture."""
    code = """
    until_open()
    try:
        torch.cuda.CUDAGraph.capture_begin(None)  # raises: there is no device
    except BaseException:
        print(torch.autograd._profiler_enabled())
    """
    ran = run(tmp_path, code)
    well(ran, "False")
    (window,) = ran.windows()
    assert (window["outcome"], window["because"]) == ("yielded", CAPTURES)


# ---------------------------------------------------------------- the rest of the world


COMPILED = {
    "model": "net = torch.compile(net, backend='eager')\nrun = step",
    "step": "run = torch.compile(step, backend='eager')",
    "broken": "inner = step\ndef step():\n    torch._dynamo.graph_break()\n    return inner()\n"
    "run = torch.compile(step, backend='eager')",
}
COUNTERS = """
for _ in range(900): run()
from torch._dynamo.utils import counters
print(dict(counters["frames"]), dict(counters["stats"]), sum(counters["graph_break"].values()))
"""


@pytest.mark.shows("compile")
@pytest.mark.parametrize("way", COMPILED)
def test_what_is_compiled_has_as_many_frames_graphs_and_breaks_as_without(tmp_path, way):
    with_windows = run(tmp_path, COMPILED[way] + COUNTERS)
    (tmp_path / "without").mkdir()
    without = run(tmp_path / "without", COMPILED[way] + COUNTERS, share=0.0)
    assert with_windows.stdout == without.stdout
    # Times and process ids aside, the compiler says the same of what it finds.
    assert re.sub(r"\d+", "#", with_windows.stderr) == re.sub(r"\d+", "#", without.stderr)
    assert without.windows() == []
    kinds = {window["kind"] for window in with_windows.windows("ok")}
    assert kinds == ({"plain", "shapes"} if way == "model" else kinds)
    assert "stacks" not in kinds


def test_warnings_as_errors_find_none_of_ours(tmp_path):
    code = """
    import warnings
    warnings.simplefilter("error")
    for _ in range(3000): step()
    """
    ran = run(tmp_path, code)
    well(ran)
    assert len(ran.windows("ok")) == 3


def test_the_environment_of_the_script_stays_as_it_is(tmp_path):
    code = """
    before = dict(os.environ)
    until_open()
    print(sorted(set(dict(os.environ).items()) ^ set(before.items())))
    """
    ran = run(tmp_path, code)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.strip() in ("[]", "[('PERFDOCTOR_TAG', 'rank0')]")


def test_a_chosen_log_level_that_speaks_keeps_windows_away(tmp_path):
    path = tmp_path / "loud"
    path.mkdir()
    code = "import os\nassert os.environ['KINETO_LOG_LEVEL'] == '1'\nfor _ in range(300): step()"
    ran = run(path, "import os; os.environ['KINETO_LOG_LEVEL'] = '1'\n" + code)
    well(ran)
    assert ran.windows() == []


RANKS = """
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
for _ in range(1500):
    step()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


@pytest.mark.shows("windows-of-ranks")
def test_all_ranks_record_the_same_steps(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    directory.write_json(path / "run.json", {"schema": directory.SCHEMA})
    directory.write_json(path / "config.json", {"profiler_share": 1.0})
    (tmp_path / "script.py").write_text(TRAIN + RANKS)
    env = {**os.environ, "PYTHONPATH": INJECT, "PERFDOCTOR_RUN": str(path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "USDT" not in done.stderr
    records = recorded.read(path)
    seen = [
        [
            (window["kind"], window["first_step"], window["steps"])
            for window in records.ranks[rank].of("window")
        ]
        for rank in (0, 1)
    ]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3
    assert all(window["outcome"] == "ok" for rank in (0, 1) for window in records.ranks[rank].of("window"))
    assert json.loads((path / "trace.rank1.0.json").read_bytes())["distributedInfo"]["rank"] == 1


def test_no_window_opens_inside_an_engine_that_is_called_past_torch_autograd(tmp_path):
    ran = run(
        tmp_path,
        """
        opts = {p: torch.optim.SGD([p], lr=1e-3) for p in net.parameters()}
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(lambda p: opts[p].step() or opts[p].zero_grad())
        engine = torch.autograd.Variable._execution_engine
        for _ in range(1_000):
            loss = net(x).square().mean()
            engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), accumulate_grad=True)
        """,
    )
    well(ran)
    assert ran.windows() == []
