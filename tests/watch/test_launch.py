"""The launcher beside a running command: signals, limits, what is written down and what is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest

from perfdoctor.cli import output
from perfdoctor.errors import CannotStart, PerfdoctorError
from perfdoctor.watch import launch
from perfdoctor.watch.options import Options
from perfdoctor.watch.samplers import cgroup
from perfdoctor.watch.scheduler_task import SchedulerTask
from tests.support.launching import DRIVER, WATCHED, bare, environment, record, runs, watched

pytestmark = pytest.mark.process

DEADLINE_S = 30.0


class NoSamples:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(
    *words: str,
    sampler: NoSamples | None = None,
    watch: launch.WhileRunning | None = None,
    tell: launch.Tell = output.say,
    **options: Any,
) -> launch.CommandExit:
    """The launcher in this process."""
    samples = sampler or NoSamples()
    return launch.run(words, Options(**options), watch, lambda path, pid, given: samples, tell)


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "it never came true"
        time.sleep(0.01)


# ---------------------------------------------------------------- what is written down


def test_a_run_is_recorded_from_its_start_to_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    during: list[dict[str, Any]] = []

    @contextmanager
    def watch(path: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
        during.append(json.loads((path / "run.json").read_text()))
        yield

    (folder / "train.py").write_text("raise SystemExit(3)")
    outcome = run("train.py", "--lr", "0.1", watch=watch)
    assert (outcome.status, outcome.signal) == (3, None)
    assert outcome.path is not None
    assert outcome.path.name.endswith("-train")
    assert (during[0]["outcome"], during[0]["end_ns"], during[0]["exit_code"]) == ("running", None, None)
    after = record(folder)
    assert after["schema"] == "perfdoctor.run/1"
    assert after["id"] == outcome.path.name
    assert after["command"] == [sys.executable, "train.py", "--lr", "0.1"]
    assert after["cwd"] == str(folder)
    assert (after["outcome"], after["exit_code"]) == ("failed", 3)
    assert after["begin_ns"] < after["end_ns"] <= time.perf_counter_ns()
    assert after["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert after["host"]["usable_cores"] > 0
    assert after["environment"]["OMP_NUM_THREADS"] == "3"


@pytest.mark.shows("exits")
@pytest.mark.parametrize(
    ("code", "outcome", "status", "number"),
    [
        pytest.param("", "ok", 0, None, id="ok"),
        pytest.param("raise KeyError", "failed", 1, None, id="failed"),
        pytest.param("import os; os.kill(os.getpid(), 15)", "signalled", 143, 15, id="signalled"),
    ],
)
def test_the_outcome_says_how_the_command_ended(
    folder: Path, code: str, outcome: str, status: int, number: int | None
) -> None:
    ended = run("-c", code)
    assert (ended.status, ended.signal) == (status, number)
    assert (record(folder)["outcome"], record(folder)["exit_code"]) == (
        outcome,
        -number if number else status,
    )


def test_the_probes_options_are_there_before_the_command_starts(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nopen(os.environ['PERFDOCTOR_RUN'] + '/config.json').close()")
    assert run("train.py", max_steps=5, stacks=False, profiler=False).status == 0
    given = json.loads((runs(folder)[0] / "config.json").read_text())
    expected = {
        "max_steps": 5,
        "max_seconds": None,
        "stacks": False,
        "profiler": False,
    }
    assert {name: given[name] for name in expected} == expected


@pytest.mark.shows("secrets")
def test_no_secret_reaches_the_run_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "WANDB_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "NCCL_TOKEN",
        "TORCH_PASSWORD",
        "MY_VALUE",
    ):
        monkeypatch.setenv(name, "CANARY")
    monkeypatch.setenv("TORCH_HOME", "https://user:CANARY@host/")
    (folder / "train.py").write_text("import sys\nassert sys.argv[1] == '--api-key=CANARY'")
    secrets = ("--api-key=CANARY", "--password", "CANARY", "https://u:CANARY@h/", "wandb.api_key=CANARY")
    assert run("train.py", *secrets).status == 0
    assert (
        run("bash", "-c", f"WANDB_API_KEY=CANARY {sys.executable} -I train.py --api-key=CANARY").status == 0
    )
    for path in runs(folder):
        for file in path.rglob("*"):
            assert b"CANARY" not in file.read_bytes(), file
    assert json.loads((runs(folder)[0] / "run.json").read_text())["environment"]["TORCH_HOME"].endswith(
        "@host/"
    )


TRAINS_A_WHILE = """
import time, torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.1)
"""


@pytest.mark.slow
def test_no_secret_reaches_the_files_of_a_training_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("WANDB_API_KEY", "CANARY")
    monkeypatch.setenv("HF_TOKEN", "CANARY")
    (folder / "train.py").write_text(TRAINS_A_WHILE)
    words = ("train.py", "--api-key=CANARY", "--password", "CANARY", "https://u:CANARY@h/")
    assert launch.run(words, Options()).status == 0
    names = {file.name for file in runs(folder)[0].rglob("*")}
    assert {"steps.rank0.bin", "boot.jsonl", "host.jsonl"} <= names
    for file in runs(folder)[0].rglob("*"):
        assert b"CANARY" not in file.read_bytes(), file


@pytest.mark.shows("private-files")
def test_run_files_are_for_their_owner_only(folder: Path) -> None:
    run("-c", "")
    (path,) = runs(folder)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o077 for file in path.iterdir()} == {0}


@pytest.mark.shows("perfdoctor-killed")
def test_killing_perfdoctor_leaves_the_script_alone_and_a_readable_run(tmp_path: Path) -> None:
    wait = "while not os.path.exists('go'):\n    time.sleep(0.01)\n"
    code = f"import os, time\nopen('ready', 'w')\n{wait}open('done', 'w')"
    (tmp_path / "train.py").write_text(code)
    process = subprocess.Popen([*WATCHED, "train.py"], cwd=tmp_path, env=environment())
    until((tmp_path / "ready").exists)
    until(lambda: (runs(tmp_path)[0] / "run.json").exists())
    process.kill()
    assert process.wait() == -signal.SIGKILL
    (tmp_path / "go").touch()
    until((tmp_path / "done").exists)
    assert (record(tmp_path)["outcome"], record(tmp_path)["end_ns"]) == ("running", None)


@pytest.mark.shows("several-nodes")
def test_a_rank_that_is_left_nothing_but_pythonpath_is_reached(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nprint('PERFDOCTOR_RUN' in os.environ)")
    words = ("env", "-i", f"HOME={folder}", 'PYTHONPATH="$PYTHONPATH"', sys.executable, "train.py")
    seen = watched(
        folder, "bash", "-c", " ".join(words)
    )  # as ssh and pdsh start what deepspeed tells them to
    assert (seen.status, seen.stdout) == (0, "False\n")
    assert len((runs(folder)[0] / "started.jsonl").read_text().splitlines()) == 1
    assert record(folder)["notes"] == ["the command ended before it imported torch"]


@pytest.mark.shows("long-and-many")
def test_two_runs_at_once_do_not_take_each_others_ranks(folder: Path) -> None:
    (folder / "train.py").write_text("print(1)")
    inner = f'env -i HOME={folder} PYTHONPATH="$PYTHONPATH" {sys.executable} train.py'
    (folder / "outer.sh").write_text(f"{sys.executable} -c '{DRIVER}' bash -c '{inner}'\n{inner}\n")
    assert watched(folder, "bash", "outer.sh").stdout == "1\n1\n"
    started = [(path / "started.jsonl").read_text().splitlines() for path in runs(folder)]
    assert [len(lines) for lines in started] == [
        2,
        1,
    ]  # the outer one: the driver of the inner, and the second


def test_what_is_kept_holds_no_link_to_code(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nassert os.path.islink(os.environ['PERFDOCTOR_RUN'] + '/probe')"
    )
    assert run("train.py").status == 0
    assert not any(entry.is_symlink() for entry in runs(folder)[0].iterdir())


@pytest.mark.shows("killed")
@pytest.mark.parametrize(
    ("code", "kills", "notes"),
    [
        ("import os; os.kill(os.getpid(), 9)", (3, 4), ["the kernel killed a process for want of memory"]),
        ("raise SystemExit(1)", (0, 2), ["the kernel killed 2 processes for want of memory"]),
        ("import os; os.kill(os.getpid(), 9)", (3, 3), []),
        ("import os; os.kill(os.getpid(), 9)", (None, None), []),
        ("", (3, 4), []),
    ],
)
def test_a_kill_for_want_of_memory_is_told(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    kills: tuple[int | None, int | None],
    notes: list[str],
) -> None:
    counts = iter(kills)
    monkeypatch.setattr(cgroup, "memory_kills", lambda: next(counts))
    run("-c", code)
    told = [note for note in record(folder)["notes"] if "memory" in note]
    assert told == [f"{note} while the command ran" for note in notes]


def test_where_links_cannot_be_made_the_environment_tells(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    (folder / "train.py").write_text("print(1)")
    assert run("train.py").status == 0
    assert (runs(folder)[0] / "started.jsonl").exists()


# ---------------------------------------------------------------- ranks that fail

BOOT = """
import json, os, sys
run = os.environ["PERFDOCTOR_RUN"]
def boot(rank, pid):
    job = {"rank": rank, "world": 2, "id": "x", "host": os.uname().nodename}
    with open(run + "/boot.jsonl", "a") as file:
        file.write(json.dumps({"event": "boot", "pid": pid, "job": job}) + "\\n")
"""


def test_the_rank_that_failed_first_is_told_with_its_own_status(folder: Path) -> None:
    fail = {"event": "rank_failed", "pid": 11, "exitcode": 7, "t_ns": 5}
    code = f"boot(0, 10)\nboot(1, 11)\nopen(run + '/agent.jsonl', 'w').write(json.dumps({fail}) + '\\n')"
    (folder / "train.py").write_text(f"{BOOT}{code}\nsys.exit(1)")
    outcome = run("train.py")
    assert (outcome.status, outcome.failed) == (1, "rank 1 failed, with exit code 7")


def test_a_task_that_fails_is_told_by_its_rank(folder: Path) -> None:
    (folder / "train.py").write_text("raise SystemExit(7)")
    assert run("train.py", task=SchedulerTask(1, 2, "x")).failed == "rank 1 failed, with exit code 7"
    assert runs(folder)[0].name.endswith("-train-task1")


@pytest.mark.parametrize("code", ["boot(0, 10)\nboot(1, 11)", "sys.exit(1)"])
def test_nothing_is_told_of_ranks_where_none_failed_or_there_are_none(folder: Path, code: str) -> None:
    (folder / "train.py").write_text(BOOT + code)
    assert run("train.py").failed is None


# ---------------------------------------------------------------- what cannot be started or written


@pytest.mark.parametrize(
    ("word", "status"),
    [
        pytest.param("no-such-command-anywhere", 127, id="not found"),
        pytest.param("./missing", 127, id="no such file"),
        pytest.param("./plain", 126, id="not executable"),
        pytest.param("./folder", 126, id="folder"),
        pytest.param("./no-interpreter", 126, id="interpreter missing"),
        pytest.param("./no-format", 126, id="unknown format"),
    ],
)
def test_what_cannot_start_is_one_sentence_and_a_shells_status(folder: Path, word: str, status: int) -> None:
    (folder / "plain").touch()
    (folder / "folder").mkdir()
    for name, text in (("no-interpreter", "#!/no/such/program\n"), ("no-format", "echo\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    with pytest.raises(CannotStart) as caught:
        run(word)
    assert caught.value.exit_code == status
    assert "\n" not in str(caught.value)
    assert runs(folder) == []


@pytest.mark.shows("nowhere-to-write")
def test_a_folder_that_cannot_be_written_to_falls_back_and_says_where(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".perfdoctor").touch()  # in the way, for root as well
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    outcome = run("-c", "raise SystemExit(4)")
    assert outcome.status == 4
    assert outcome.path is not None
    assert outcome.path.is_relative_to(folder / "state")
    assert f"the run is kept in {outcome.path}" in capsys.readouterr().err
    run("-c", "", tell=launch.untold)
    assert capsys.readouterr().err == ""


@pytest.mark.shows("disk-full", "nowhere-to-write")
def test_where_nothing_can_be_written_the_command_still_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(launch.directory, "write_json", full)
    outcome = run("-c", "import os; raise SystemExit('PERFDOCTOR_RUN' in os.environ)")
    assert (outcome.status, outcome.path) == (0, None)
    assert capsys.readouterr().err == (
        "perfdoctor: cannot save a run (No space left on device): the command runs unwatched\n"
    )


@pytest.mark.shows("long-and-many")
@pytest.mark.parametrize("jump_s", [-3600.0, 86_400.0])
def test_a_clock_that_is_set_meanwhile_changes_no_duration(
    folder: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    shift, tell = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: tell() + shift[0])

    @contextmanager
    def watch(path: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
        shift[0] = jump_s
        yield

    words = ("-c", "import time; time.sleep(1.5)")
    assert launch.run(words, Options(stacks=False), watch).status == 0
    after = record(folder)
    assert 1.5e9 <= after["end_ns"] - after["begin_ns"] < DEADLINE_S * 1e9
    samples = [json.loads(line) for line in (runs(folder)[0] / "host.jsonl").read_text().splitlines()]
    assert samples
    assert all(0 < (entry["interval_s"] or 1.0) < DEADLINE_S for entry in samples)
    assert not (runs(folder)[0] / "probe.log").exists()


@pytest.mark.shows("nowhere-to-write", "container")
def test_a_user_without_a_name_and_a_home_runs_scripts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is a mere number."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    outcome = run("-c", "raise SystemExit(4)")
    assert outcome.status == 4
    assert outcome.path is not None
    assert outcome.path.is_relative_to(folder / ".perfdoctor")


@pytest.mark.shows("disk-full")
def test_a_disk_that_fills_up_under_way_is_said_and_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = launch.directory.write_json

    def only_config(path: Path, value: Any) -> None:
        if path.name != "config.json":
            raise OSError(28, "No space left on device")
        write(path, value)

    monkeypatch.setattr(launch.directory, "write_json", only_config)
    assert run("-c", "raise SystemExit(5)").status == 5
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.shows("nowhere-to-write")
def test_a_folder_given_with_out_must_be_writable(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(PerfdoctorError, match="cannot write to"):
        run("-c", "", out=str(folder / "file" / "below"))
    outcome = run("-c", "", out="elsewhere")
    assert outcome.path is not None
    assert outcome.path.parent == folder / "elsewhere"


@pytest.mark.shows("own-failure")
def test_what_fails_on_our_side_does_not_fail_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def watch(path: Path, process: subprocess.Popen[bytes]) -> AbstractContextManager[None]:
        raise TypeError("ours")

    assert run("-c", "import time; time.sleep(0.2); raise SystemExit(6)", watch=watch).status == 6
    assert "watching failed, which does not touch your command: TypeError: ours" in capsys.readouterr().err
    assert record(folder)["exit_code"] == 6


# ---------------------------------------------------------------- the end of the watch

# Stands in for a training script with the probe: seven steps, then it waits to be told that it is enough.
COUNTS = """
import os, sys, time
from perfdoctor.wire.step_rows import (STEPS)
from perfdoctor.wire.rows import (CONTROL_BYTE)
from perfdoctor.wire.files import (MappedRows)

rows = MappedRows(os.environ["PERFDOCTOR_RUN"] + "/steps.rank0.bin", STEPS, 0)
for number in range(1, 8):
    row = dict.fromkeys((name for name, _ in STEPS.columns), 0)
    row.update(end_ns=number, begin_ns=number - 1, marker=4, optimizer=1, marks=1)
    rows.add(*row.values())
end_s = time.monotonic() + 20
while rows.map[CONTROL_BYTE] != 1 and time.monotonic() < end_s:
    time.sleep(0.01)
print("told" if rows.map[CONTROL_BYTE] else "not told", flush=True)
"""


@pytest.mark.parametrize("limit", [{"max_steps": 7}, {"max_seconds": 0.3}])
def test_the_watch_ends_and_the_script_goes_on(
    folder: Path, limit: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    sampler = NoSamples()
    (folder / "train.py").write_text(COUNTS + "time.sleep(0.3)\nsys.exit(9)")
    assert run("train.py", sampler=sampler, **limit).status == 9
    assert capfd.readouterr().out == "told\n"
    assert record(folder)["outcome"] == "failed"
    assert sampler.stops > 1


def test_with_stop_the_script_ends_too_and_the_status_is_0(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "train.py").write_text(COUNTS + "time.sleep(30)")
    outcome = run("train.py", max_steps=7, stop=True)
    said, traceback, shown = capfd.readouterr().err.partition("Traceback")
    assert said.endswith("(a KeyboardInterrupt traceback is expected)\n")  # before it shows where it was
    assert not traceback or shown.endswith("KeyboardInterrupt\n")
    assert (outcome.status, outcome.signal) == (0, None)
    assert record(folder)["outcome"] == "stopped"


def test_a_script_that_swallows_the_interrupt_is_ended_more_firmly(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = [(number, 0.2) for number, _ in launch.limits.ENDINGS]
    monkeypatch.setattr(launch.limits, "ENDINGS", quick)
    swallow = "import signal, time\nfor n in (2, 15):\n    signal.signal(n, signal.SIG_IGN)\n"
    (folder / "train.py").write_text(f"{swallow}time.sleep(30)")
    assert run("train.py", max_seconds=0.2, stop=True).status == 0
    assert record(folder)["exit_code"] == -signal.SIGKILL


def test_stopping_a_shell_script_stops_what_it_started(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(30)"
    )
    (folder / "train.sh").write_text(f"{sys.executable} train.py\n")
    run("bash", "train.sh", max_seconds=1.0, stop=True)
    assert is_gone(int((folder / "pid").read_text()))


def is_gone(pid: int) -> bool:
    """Whether the process ends within seconds; an orphan stays a zombie until init gets round to it."""
    for _ in range(500):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


# ---------------------------------------------------------------- signals

LISTENS = """
import os, signal, sys, time
got = []
def receive(number, frame):
    got.append(number)
    print("got", number, flush=True)
    if got.count(number) == int(sys.argv[2]):
        time.sleep(0.2)  # a signal that came twice would show
        sys.exit(42 + len(got))
for number in map(int, sys.argv[1].split(",")):
    signal.signal(number, receive)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def signalled(
    cwd: Path, launcher: tuple[str, ...], words: tuple[str, ...], numbers: tuple[int, ...], group: bool
) -> Any:
    """Start, wait for `ready`, send the signals one after the other, and tell the end."""
    process = subprocess.Popen(
        [*launcher, *words], cwd=cwd, env=environment(), stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    for count, number in enumerate(numbers, 1):
        os.killpg(process.pid, number) if group else process.send_signal(number)
        if count < len(numbers):
            lines.append(process.stdout.readline())
    rest = process.stdout.read()
    return process.wait(DEADLINE_S), b"".join([*lines, rest])


@pytest.mark.shows("terminate", "other-signals")
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT],
)
def test_a_signal_to_perfdoctor_reaches_the_script_once(tmp_path: Path, number: int) -> None:
    (tmp_path / "train.py").write_text(LISTENS)
    words = ("train.py", str(int(number)), "1")
    plain = signalled(tmp_path, (sys.executable,), words, (number,), group=False)
    assert plain == (43, f"ready\ngot {int(number)}\n".encode())
    assert signalled(tmp_path, WATCHED, words, (number,), group=False) == plain


@pytest.mark.shows("terminate", "terminate-group", "other-signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_script_that_dies_of_a_signal_takes_perfdoctor_with_it(tmp_path: Path, number: int) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, time\nprint('ready', flush=True)\nsys.stderr.close()\ntime.sleep(30)"
    )
    for group in (False, True):
        plain = signalled(tmp_path, (sys.executable,), ("train.py",), (number,), group)
        assert plain[0] == -number
        assert signalled(tmp_path, WATCHED, ("train.py",), (number,), group) == plain
    assert record(tmp_path)["outcome"] == "signalled"


SAVES = """
import signal, sys, time
def save(*heard):
    with open("saved", "w") as file:
        file.write("all of it")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(30)
"""


@pytest.mark.shows("terminate", "terminate-group")
@pytest.mark.parametrize("group", [False, True], ids=["perfdoctor", "group"])
def test_a_script_that_saves_and_exits_when_it_is_terminated_does_so(tmp_path: Path, group: bool) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    for launcher in ((sys.executable,), WATCHED):
        ended = signalled(tmp_path, launcher, ("train.py",), (signal.SIGTERM,), group)
        assert ended == (0, b"ready\n")
        assert (tmp_path / "saved").read_text() == "all of it"
        (tmp_path / "saved").unlink()
    assert record(tmp_path)["outcome"] == "ok"


HEARS = """
import signal, sys, time
signal.signal(int(sys.argv[1]), lambda number, frame: print("heard", number, flush=True))
print("ready", flush=True)
until = time.monotonic() + 1.5
while time.monotonic() < until:
    time.sleep(0.01)
"""


@pytest.mark.shows("terminate-group", "other-signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_group_reaches_the_script_once(tmp_path: Path, number: int) -> None:
    """A scheduler's or a shell's: of a second interrupt, the checkpoint that is saved at the first would be lost."""
    (tmp_path / "train.py").write_text(HEARS)
    ended = signalled(tmp_path, WATCHED, ("train.py", str(int(number))), (number,), group=True)
    assert ended == (0, f"ready\nheard {int(number)}\n".encode())


@pytest.mark.shows("interrupt-twice")
def test_a_second_interrupt_reaches_the_script_as_well(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LISTENS)
    words, twice = ("train.py", "2", "2"), (signal.SIGINT, signal.SIGINT)
    plain = signalled(tmp_path, (sys.executable,), words, twice, group=False)
    assert plain == (44, b"ready\ngot 2\ngot 2\n")
    assert signalled(tmp_path, WATCHED, words, twice, group=False) == plain


@pytest.mark.shows("other-signals")
def test_signals_that_the_caller_ignores_stay_ignored(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import signal\nprint([signal.getsignal(n) == signal.SIG_IGN for n in (1, 2, 3)])"
    )
    shell = ("bash", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "bash")
    plain = bare(tmp_path, *shell, sys.executable, "train.py")
    assert plain.stdout == "[True, True, True]\n"
    assert bare(tmp_path, *shell, *WATCHED, "train.py") == plain


@pytest.mark.shows("interrupt", "job-control")
@pytest.mark.parametrize(("key", "number"), [("c", signal.SIGINT), ("\\", signal.SIGQUIT)])
def test_a_key_on_the_terminal_reaches_the_script_once(tmp_path: Path, key: str, number: int) -> None:
    (tmp_path / "train.py").write_text(LISTENS)
    seen = []
    for launcher in ((sys.executable,), WATCHED):
        words = [*launcher, "train.py", str(int(number)), "1"]
        child = pexpect.spawn(words[0], words[1:], cwd=str(tmp_path), env=environment(), timeout=DEADLINE_S)
        child.expect("ready")
        child.sendcontrol(key)
        child.expect(pexpect.EOF)
        child.close()
        seen.append((child.before.count(b"got"), child.exitstatus, child.signalstatus))
    assert seen == [(1, 43, None)] * 2


@pytest.mark.shows("interrupt", "job-control")
@pytest.mark.parametrize(("key", "number"), [("c", signal.SIGINT), ("\\", signal.SIGQUIT)])
def test_a_script_ended_by_a_key_ends_perfdoctor_by_the_same_signal(
    tmp_path: Path, key: str, number: int
) -> None:
    no_core = "import resource, time\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    (tmp_path / "train.py").write_text(f"{no_core}print('ready', flush=True)\ntime.sleep(30)")
    seen = []
    for launcher in ((sys.executable,), WATCHED):
        words = [*launcher, "train.py"]
        child = pexpect.spawn(words[0], words[1:], cwd=str(tmp_path), env=environment(), timeout=DEADLINE_S)
        child.expect("ready")
        child.sendcontrol(key)
        child.expect(pexpect.EOF)
        child.close()
        last = child.before.splitlines()[-1].removeprefix(b"^\\")  # where it was interrupted is chance
        seen.append((last, child.exitstatus, child.signalstatus))
    assert seen[0] == seen[1]
    assert seen[0][2] == number


def until_stopped(processes: Sequence[psutil.Process]) -> None:
    until(lambda: {process.status() for process in processes} == {psutil.STATUS_STOPPED})


@pytest.mark.shows("suspend", "job-control")
def test_ctrl_z_gives_the_shell_its_prompt_and_fg_goes_on(tmp_path: Path) -> None:
    wait = "while not os.path.exists('go'):\n    time.sleep(0.01)\n"
    code = f"import os, sys, time\nprint('rea' + 'dy', flush=True)\n{wait}print('beh' + 'ind')\nsys.exit(3)"
    (tmp_path / "train.py").write_text(code)
    (tmp_path / "driver.py").write_text(DRIVER)
    for launcher in ("", "driver.py "):
        shell = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "-i"],
            cwd=str(tmp_path),
            env=environment(),
            timeout=DEADLINE_S,
        )
        shell.sendline(f"{sys.executable} {launcher}train.py")
        shell.expect("ready")
        started = psutil.Process(shell.pid).children(recursive=True)
        assert len(started) == (3 if launcher else 1)  # with who listens for the group's signals
        shell.sendcontrol("z")
        shell.expect("Stopped")
        until_stopped(started)
        shell.sendline("touch go; fg")
        shell.expect("behind")
        shell.sendline("echo status $?")
        shell.expect("status 3")
        shell.close(force=True)
        (tmp_path / "go").unlink()
    assert (record(tmp_path)["outcome"], record(tmp_path)["exit_code"]) == ("failed", 3)


@pytest.mark.shows("terminal")
def test_the_terminal_is_the_scripts(tmp_path: Path) -> None:
    code = "import os, sys\nprint(os.get_terminal_size(), [os.isatty(n) for n in (0, 1, 2)], input('name? '))"
    (tmp_path / "train.py").write_text(code)
    seen = []
    for launcher in ((sys.executable,), WATCHED):
        words = [*launcher, "train.py"]
        child = pexpect.spawn(
            words[0], words[1:], cwd=str(tmp_path), env=environment(), timeout=DEADLINE_S, dimensions=(31, 91)
        )
        child.expect("name\\? ")
        child.sendline("me")
        child.expect(pexpect.EOF)
        seen.append(child.before)
    assert seen[0] == seen[1]
    assert b"columns=91" in seen[0]


# ---------------------------------------------------------------- what was not watched


@pytest.mark.shows("spawn", "subprocess")
def test_children_of_every_kind_are_reached(tmp_path: Path) -> None:
    code = """
import concurrent.futures, multiprocessing, os, subprocess, sys

class Item:
    pass

def pid(item):
    return os.getpid()

if __name__ == "__main__":
    pids = [int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))]
    for method in ("spawn", "forkserver"):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            pids.append(pool.submit(pid, Item()).result())
    print(*pids)
"""
    (tmp_path / "train.py").write_text(code)
    pids = [int(word) for word in watched(tmp_path, "train.py").stdout.split()]
    started = (runs(tmp_path)[0] / "started.jsonl").read_text().splitlines()
    reached = {json.loads(line)["pid"] for line in started}
    assert {pids[0], pids[1]} <= reached
    assert len(reached) >= 4  # and the fork server, whose children are forks of it


@pytest.mark.shows("kept-out")
def test_an_interpreter_that_drops_the_probe_is_said_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    assert watched(tmp_path, sys.executable, "-I", "train.py").status == 0
    (note,) = record(tmp_path)["notes"]
    assert "Python's option -I keeps the probe out" in note
    assert "omit -I while measuring" in note


@pytest.mark.shows("exit-status", "killed")
def test_mirroring_ends_this_process_in_the_same_way(tmp_path: Path) -> None:
    code = "from perfdoctor.watch import launch\nlaunch.mirror(launch.CommandExit(None, {}, {}))"
    for status, number in ((0, None), (7, None), (137, 9), (139, 11), (143, 15)):
        seen = bare(tmp_path, sys.executable, "-c", code.format(status, number))
        assert seen.status == (status if number is None else -number)
    assert list(tmp_path.iterdir()) == []  # no core file


def test_exported_windows_are_compressed_once_the_command_has_ended(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import os\nopen(os.environ['PERFDOCTOR_RUN'] + '/trace.rank0.0.json', 'w').write('{}')"
    )
    assert watched(folder, "train.py").status == 0
    assert [entry.name for entry in runs(folder)[0].glob("trace*")] == ["trace.rank0.0.json.gz"]
