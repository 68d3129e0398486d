from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import trace_files
from tests.support.jobs import write_job

pytestmark = pytest.mark.process

HEAVY = (
    "torch",
    "numpy",
    "psutil",
    "rich",
    "orjson",
    "perfdoctor.diagnosis.report",
    "perfdoctor.watch.launch",
    "pydantic",
)

# What a verb that reads a file and draws a page has no use for, of the library and of what stands beside it.
NEEDLESS = (
    "asyncio email http importlib.metadata logging multiprocessing sqlite3 ssl xml zoneinfo "
    "jinja2 numpy.fft numpy.polynomial numpy.random pydantic pygments rich.markdown rich.syntax torch "
    "perfdoctor.probe perfdoctor.tweaks perfdoctor.render.html perfdoctor.trials.trial perfdoctor.watch.launch"
).split()


def test_help_lists_the_verbs_and_what_to_start_with(perfdoctor):
    shown = perfdoctor("--help")
    assert shown.returncode == 0
    assert all(
        f"\n  {verb} " in shown.stdout
        for verb in ("run", "loader", "history", "patch", "report", "runs", "tips", "trace", "try")
    )
    assert "perfdoctor run train.py" in shown.stdout


def loaded(words, names):
    """Those of the modules `names` that perfdoctor loads for a command line."""
    code = (
        "import json, sys\n"
        "from perfdoctor.cli import app\n"
        f"try: app.start({words!r})\n"
        "except SystemExit: pass\n"
        f"print(json.dumps([name for name in {names!r} if name in sys.modules]), file=sys.stderr)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(shown.stderr.splitlines()[-1])


def test_help_loads_nothing_heavy():
    assert loaded(["--help"], HEAVY) == []


def own_modules(words, folder):
    """Modules of perfdoctor's own that a command line loads."""
    code = (
        "import sys\n"
        "from perfdoctor.cli import app\n"
        f"try: app.start({words!r})\n"
        "except SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.startswith('perfdoctor.')), file=sys.stderr)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    return set(shown.stderr.splitlines()[-1].split())


def test_help_loads_the_verbs_and_nothing_that_they_do(folder):
    beside = {name for name in own_modules(["--help"], folder) if not name.startswith("perfdoctor.cli")}
    loose = {"errors", "own_failures", "model", "model.dataclass", "model.own_failure", "model.shown"}
    assert beside == {f"perfdoctor.{name}" for name in loose}


def test_a_report_loads_nothing_of_traces_and_no_view_that_it_does_not_draw(folder):
    write_job(folder, ranks=1, steps=20)
    names = own_modules(["report", str(folder / "node0")], folder)
    assert "perfdoctor.diagnosis.report" in names
    views = {
        f"perfdoctor.facts.{view}"
        for view in "flame_difference flames live timeline tracks waterfall".split()
    }
    assert not names & views
    assert not names & {"perfdoctor.trace.measure.measure", "perfdoctor.trace.parse.read"}


def test_a_report_loads_nothing_that_it_does_not_use(folder):
    write_job(folder, ranks=1, steps=20)
    assert loaded(["report", str(folder / "node0")], NEEDLESS) == []


def test_a_trace_loads_nothing_that_it_does_not_use(folder):
    events = [
        trace_files.op("aten::mm", 10, 20),
        trace_files.call(ts=15, dur=5, correlation=1),
        trace_files.kernel("gemm", 30, 100, 1),
    ]
    path = trace_files.save(folder, trace_files.in_lines(events), "t.json")
    assert loaded(["trace", str(path)], NEEDLESS) == []


@pytest.mark.parametrize("words", [["tips"], ["tips", "--help"], ["tips", "too-few-workers"]])
def test_a_verb_loads_no_other_verb_and_nothing_that_converts_what_is_text(words):
    assert loaded(words, ("perfdoctor.cli.run", "perfdoctor.cli.trace", "pydantic")) == []


def test_the_version_is_that_of_the_package(perfdoctor):
    shown = perfdoctor("--version")
    assert shown.returncode == 0
    assert shown.stdout.startswith("perfdoctor 0.")


@pytest.mark.parametrize(
    "words", [["frobnicate"], ["run"], ["run", "--stpes", "5", "x.py"], ["run", "--steps", "0", "x.py"]]
)
def test_a_mistyped_command_line_is_said_on_stderr_with_status_two(perfdoctor, words):
    shown = perfdoctor(*words)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert "Traceback" not in shown.stderr
    assert "--help" in shown.stderr


def test_what_stands_behind_dashes_is_left_to_the_command_by_try_alone(perfdoctor):
    shown = perfdoctor("try", "--amp", "--", "nothing-of-the-kind", "--workers", "--", "--help")
    assert shown.returncode == 2
    assert shown.stderr.startswith("perfdoctor: nothing-of-the-kind: command not found\n")


@pytest.mark.shows("versions")
def test_where_no_command_can_be_watched_one_sentence_says_so_and_where_it_can():
    absent = ("fcntl", "grp", "pwd", "resource", "syslog", "termios", "tty", "pty")
    code = (
        "import sys, typer, perfdoctor.cli\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        "sys.platform = 'win32'\n"
        "sys.argv = ['perfdoctor', 'run', 'train.py']\n"
        "perfdoctor.cli.main()"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.splitlines() == [
        "perfdoctor: perfdoctor works on Linux and macOS, not on win32",
        "  on Windows, install it in WSL and start the training there",
    ]
