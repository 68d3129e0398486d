from __future__ import annotations

import json
import os
import signal
import termios

import psutil
import pytest

from tests.support.jobs import write_job
from tests.support.terminal import shown

pytestmark = pytest.mark.process

OVER = "The run is over. Its report: perfdoctor report"


@pytest.fixture
def going(folder):
    """The run of a job of two ranks that goes on."""
    home = folder / ".perfdoctor" / "runs"
    write_job(home, ranks=2, steps=300, phases={"data_wait": 30.0, "forward": 10.0}, exit_code=None)
    return home / "node0"


def change(run, **fields):
    told = json.loads((run / "run.json").read_text()) | fields
    (run / "draft").write_text(json.dumps(told))
    os.replace(run / "draft", run / "run.json")


@pytest.mark.parametrize("columns", [80, 200])
def test_a_run_that_goes_on_is_shown_with_its_verdict(folder, going, columns):
    with shown(folder, "live", rows=40, columns=columns) as view:
        view.until("Training waits for data")
        view.until("confidence")
        told = "\n".join(view.lines)
        assert "One step of rank 0" in told
        assert "data wait" in told
        assert "2 ranks" in told
        assert "q leaves this view, the run goes on" in view.lines[-1]
        assert view.screen.all_lines == [""] * 40  # the shell's own screen is untouched
        view.child.send("q")
        assert view.end() == 0
    assert view.screen.all_lines == [""] * 40
    assert not [path.name for path in going.iterdir() if path.name == "report.json"]


def test_the_terminal_is_left_as_it_was(folder, going):
    with shown(folder, "live") as view:
        before = termios.tcgetattr(view.child.child_fd)
        view.until("q leaves")
        assert termios.tcgetattr(view.child.child_fd) != before
        view.child.send("q")
        assert view.end() == 0
        assert termios.tcgetattr(view.child.child_fd) == before
    assert view.written.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was_too(folder, going, number):
    with shown(folder, "live") as view:
        before = termios.tcgetattr(view.child.child_fd)
        view.until("q leaves")
        view.child.kill(number)
        assert view.end() == 128 + number
        assert "Traceback" not in view.written
        assert termios.tcgetattr(view.child.child_fd) == before
        assert view.screen.alternate is None


def test_a_resize_is_drawn_at_once_for_the_new_size(folder, going):
    with shown(folder, "live", rows=40, columns=200) as view:
        view.until("Training waits for data")
        view.resize(24, 80)
        view.until(lambda: "q leaves" in view.lines[-1] and "Training waits" in view.lines[2])
        assert max(map(len, view.lines)) <= 80
        view.resize(50, 160)
        view.until(
            lambda: (
                "q leaves" in view.lines[-1] and any("One step" in x and "Training" in x for x in view.lines)
            )
        )
        view.child.send("q")
        assert view.end() == 0


@pytest.mark.shows("plain-terminal")
def test_without_colours_the_view_has_none(folder, going):
    with shown(folder, "live", NO_COLOR="1") as view:
        view.until("Training waits for data")
        assert not [part for part in view.written.split("\x1b[")[1:] if part.partition("m")[0].isdigit()]
        view.child.send("q")
        assert view.end() == 0


@pytest.mark.slow
@pytest.mark.shows("plain-terminal")
def test_a_dumb_terminal_gets_lines_and_is_told_so(folder, going):
    with shown(folder, "live", columns=200, TERM="dumb") as view:
        view.until("one line every 10 s instead")
        view.until("step 300")
        change(going, outcome="ok", exit_code=0, end_ns=60_000_000_000)
        assert view.end() == 0
    assert "\x1b" not in view.written
    assert "finished" in view.written


@pytest.mark.slow
def test_where_stdout_is_no_terminal_lines_are_written_and_that_is_said(folder, going, perfdoctor):
    change(going, pid=1 << 22, host={"name": os.uname().nodename})
    told = perfdoctor("live")
    assert told.returncode == 0
    assert "one line every 10 s instead" in told.stderr
    first, *_, last = told.stdout.splitlines()
    assert first.startswith("step 300 · ")
    assert "end not seen" in last
    assert "\x1b" not in told.stdout


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_lines(folder, going):
    with shown(folder, "live", shell="| head -n 1; echo over") as view:
        view.until("over")
        assert view.end() == 0
    assert "Traceback" not in view.written


def test_a_run_that_is_over_is_printed_at_once(folder, going, perfdoctor):
    change(going, outcome="ok", exit_code=0, end_ns=60_000_000_000)
    told = perfdoctor("live")
    assert (told.returncode, told.stderr) == (0, "")
    assert "Training waits for data" in told.stdout
    assert OVER in told.stdout
    assert "\x1b" not in told.stdout


def test_a_run_that_ends_while_it_is_viewed_leaves_its_page_behind(folder, going):
    with shown(folder, "live") as view:
        view.until("q leaves")
        change(going, outcome="ok", exit_code=0, end_ns=60_000_000_000)
        assert view.end() == 0
    told = "\n".join(view.screen.all_lines)
    assert "finished" in told
    assert "Training waits for data" in told
    assert f"{OVER} .perfdoctor/runs/node0" in told
    assert view.screen.alternate is None


def test_a_run_that_is_killed_while_it_is_viewed_says_by_what(folder, going):
    with shown(folder, "live") as view:
        view.until("q leaves")
        change(going, outcome="signalled", exit_code=-9, end_ns=60_000_000_000)
        assert view.end() == 0
    assert any("ended by SIGKILL" in line for line in view.screen.all_lines)


@pytest.mark.slow
def test_a_run_whose_watch_was_killed_as_well_is_given_up(folder, going):
    change(going, pid=os.getpid(), host={"name": os.uname().nodename})
    with shown(folder, "live") as view:
        view.until("q leaves")
        change(going, pid=1 << 22)
        assert view.end() == 0
    assert any("end not seen" in line for line in view.screen.all_lines)


def test_a_run_without_a_step_says_so(folder, saved):
    saved(outcome="running", exit_code=None, end_ns=None)
    with shown(folder, "live") as view:
        view.until("No step yet")
        view.child.send("x")  # any other key is nothing
        view.child.send("q")
        assert view.end() == 0


def test_a_run_folder_that_goes_away_is_no_error(folder, going):
    with shown(folder, "live") as view:
        view.until("q leaves")
        going.rename(folder / "moved")
        view.read(2.5)
        view.until("One step of rank 0")
        view.child.send("q")
        assert view.end() == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nosuch",), "no run called nosuch"),
        ((), "no runs in "),
        (("empty",), "empty is not a perfdoctor run"),
        (("train.py",), "no run called train.py"),
    ],
)
def test_what_is_no_run_is_named_with_what_to_type(folder, perfdoctor, words, told):
    (folder / "empty").mkdir()
    (folder / "train.py").write_text("")
    seen = perfdoctor("live", *words)
    assert seen.returncode == 2
    assert told in seen.stderr
    assert "perfdoctor run" in seen.stderr
    assert seen.stdout == ""


def test_a_run_is_found_by_its_name_its_path_and_in_another_folder(folder, going, perfdoctor):
    change(going, outcome="ok", exit_code=0, end_ns=60_000_000_000)
    elsewhere = folder / "kept"
    going.parent.rename(elsewhere)
    for words in (("--out", "kept"), ("node0", "--out", "kept"), ("kept/node0",)):
        assert OVER in perfdoctor("live", *words).stdout


def test_input_that_is_no_terminal_leaves_ctrl_c(folder, going):
    with shown(folder, "live", shell="< /dev/null") as view:
        view.until("Ctrl-C leaves this view, the run goes on")
        view.child.sendintr()
        view.end()
    assert view.screen.alternate is None


def test_ctrl_z_gives_the_screen_back_until_fg(folder, going):
    with shown(folder, "live", shell="; echo status $?") as view:
        view.until("q leaves")
        view.child.sendcontrol("z")
        view.until(lambda: view.screen.alternate is None)
        (ours,) = psutil.Process(view.child.pid).children()
        view.until(lambda: ours.status() == psutil.STATUS_STOPPED)
        os.killpg(os.tcgetpgrp(view.child.child_fd), signal.SIGCONT)
        view.until("q leaves")
        view.child.send("q")
        view.end()
    assert any("status 0" in line for line in view.screen.all_lines)
