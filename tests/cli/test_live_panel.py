from __future__ import annotations

import json
import os
import signal
import sys
import termios
import threading
import time
from types import SimpleNamespace

import pexpect
import pytest

from perfdoctor.cli import live_panel
from perfdoctor.cli.run import _view
from perfdoctor.render.progress.keyboard import Keyboard
from tests.support.screen import Screen
from tests.support.terminal import Shown, shown

pytestmark = pytest.mark.process

BORDER = "▁" * 20
SAID = "one line a minute instead"

# Writes all that a training writes: lines, a bar that stays in its line, two of them one below the other.
SCRIPT = """
import sys, time
print("begun", flush=True)
for step in range(60):
    sys.stderr.write(f"\\rone bar {step:3}")
    sys.stderr.flush()
    time.sleep(0.02)
print()
for step in range(150):
    print(f"\\router {step // 50}\\n\\rinner {step % 50:3}\\x1b[A", end="", flush=True)
    if step % 50 == 49:
        print(f"\\r\\x1b[Kline {step}\\n\\x1b[K", end="", flush=True)
    time.sleep(0.02)
for line in range(30):
    print("last", line, flush=True)
    time.sleep(0.02)
sys.exit(3)
"""
TRAIN = """
import time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([torch.ones(8)] * 4000, batch_size=2)
for batch in loader:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(0.02)
    print("trains", flush=True)
"""


def bare(folder, rows=24, columns=80):
    """The screen that the script leaves by itself."""
    child = pexpect.spawn(
        sys.executable,
        ["train.py"],
        cwd=str(folder),
        dimensions=(rows, columns),
        encoding="utf-8",
        timeout=60,
    )
    alone = Shown(child, rows, columns)
    assert alone.end() == 3
    return alone.screen


def script_lines(screen: Screen):
    """What the script left, without perfdoctor's last words."""
    lines = [line for line in screen.all_lines if line]
    return lines[: next((n for n, line in enumerate(lines) if line.startswith("perfdoctor:")), len(lines))]


@pytest.mark.slow
@pytest.mark.shows("streams", "terminal")
@pytest.mark.parametrize("columns", [80, 200])
def test_what_the_script_writes_is_what_it_writes_by_itself(folder, columns):
    (folder / "train.py").write_text(SCRIPT)
    with shown(folder, "run", "-q", "--live", "train.py", columns=columns) as view:
        view.until(lambda: view.lines[-6 if columns == 80 else -4].startswith(BORDER))
        view.until("verdict")
        assert view.end() == 3
    assert script_lines(view.screen) == [line for line in bare(folder, columns=columns).all_lines if line]
    assert BORDER not in "\n".join(view.screen.all_lines)


@pytest.mark.shows("terminal")
def test_the_keyboard_is_the_scripts(folder):
    (folder / "train.py").write_text(
        "import os, time\ntime.sleep(3.5)\nprint([os.isatty(n) for n in (0, 1, 2)])\nprint('got', input('name? '))\n"
    )
    with shown(folder, "run", "-q", "--live", "train.py") as view:
        view.until(BORDER)
        assert "q leaves" not in "\n".join(view.lines)
        view.until("name?")
        view.child.send("q\n")
        view.until("got q")
        assert view.end() == 0
    assert any("[True, True, True]" in line for line in view.screen.all_lines)


def test_q_leaves_the_view_and_not_the_run_where_the_script_reads_something_else(folder):
    (folder / "train.py").write_text(
        "import sys, time\nprint(sys.stdin.read())\ntime.sleep(6)\nsys.exit(3)\n"
    )
    with shown(folder, "run", "-q", "--live", "train.py", shell="< /dev/null; echo status $?") as view:
        view.until("q leaves this view, the run goes on")
        assert not termios.tcgetattr(view.child.child_fd)[3] & termios.ICANON
        view.child.send("q")
        view.until(lambda: BORDER not in "\n".join(view.lines))
        view.until(lambda: bool(termios.tcgetattr(view.child.child_fd)[3] & termios.ICANON))
        assert "status" not in "\n".join(view.lines)  # it goes on
        view.end()
    assert any("status 3" in line for line in view.screen.all_lines)


@pytest.mark.slow
@pytest.mark.shows("plain-terminal")
@pytest.mark.parametrize(("shell", "environ"), [("2> log", {}), ("", {"TERM": "dumb"})])
def test_where_nothing_can_be_drawn_lines_are_written_and_that_is_said(folder, shell, environ):
    pytest.importorskip("torch")
    (folder / "train.py").write_text(TRAIN.replace("4000", "800"))
    with shown(folder, "run", "-q", "--live", "train.py", shell=shell, columns=200, **environ) as view:
        view.until("trains")
        view.end()
    log = (folder / "log").read_text() if shell else view.written
    told = [line for line in log.splitlines() if line.startswith("perfdoctor: ")]
    assert SAID in told[0]
    assert any("steps/s" in line for line in told[1:])
    assert "\x1b" not in log + view.written
    assert set(view.written.splitlines()) - set(told) == {"trains"}


def test_without_colours_the_rows_have_none(folder):
    (folder / "train.py").write_text("import time\ntime.sleep(4)\n")
    with shown(folder, "run", "-q", "--live", "train.py", NO_COLOR="1") as view:
        view.until("verdict")
        assert view.end() == 0
    assert not [part for part in view.written.split("\x1b[")[1:] if part.partition("m")[0].isdigit()]


@pytest.mark.slow
def test_a_resize_moves_the_rows_and_leaves_the_scripts_words(folder):
    (folder / "train.py").write_text(
        "import time\nfor n in range(90):\n    print('line', n, flush=True)\n    time.sleep(0.1)\n"
    )
    with shown(folder, "run", "-q", "--live", "train.py", rows=24, columns=80) as view:
        view.until(BORDER)
        view.resize(36, 200)
        view.until(lambda: view.lines[-4].startswith(BORDER) and len(view.lines[-4]) > 150)
        view.resize(30, 90)
        view.until(lambda: view.lines[-6].startswith(BORDER))
        assert view.end() == 0
    seen = [line for line in script_lines(view.screen) if line.startswith("line")]
    assert len(seen) >= 85  # what is written between a resize and the next drawing may be covered
    assert seen[-1] == "line 89"


def test_a_low_terminal_has_a_single_line(folder):
    (folder / "train.py").write_text("import time\ntime.sleep(5)\n")
    with shown(folder, "run", "-q", "--live", "train.py", rows=14) as view:
        view.until("starting")
        assert BORDER not in "\n".join(view.lines)
        assert view.end() == 0


def test_a_script_that_is_killed_leaves_the_terminal_whole(folder):
    (folder / "train.py").write_text("import os, time\ntime.sleep(4)\nos.kill(os.getpid(), 9)\n")
    with shown(folder, "run", "-q", "--live", "train.py") as view:
        view.until(BORDER)
        view.end()
        assert view.child.signalstatus == signal.SIGKILL
    assert view.written.rindex("\x1b[r") > view.written.rindex("advice")
    assert BORDER not in "\n".join(view.lines)


WAITS = TRAIN.replace("[torch.ones(8)] * 4000", "Slow()").replace(
    "loader =",
    """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.ones(8)
loader =""",
)


@pytest.mark.clock
def test_verdict_and_first_advice_are_there_half_a_minute_after_the_first_steps(folder):
    pytest.importorskip("torch")
    (folder / "train.py").write_text(WAITS)
    with shown(folder, "run", "-q", "--live", "train.py", columns=80) as view:
        view.until("trains")
        began_s = time.monotonic()
        view.until(lambda: any("phases" in line and "data wait" in line for line in view.lines))
        view.until("Training waits for data")
        view.until("Prepare batches in more worker processes")
        assert time.monotonic() - began_s < 30
        view.child.sendintr()
        view.end()
        assert view.child.signalstatus == signal.SIGINT
    assert "\x1b[r" in view.written


def test_the_probe_is_asked_for_the_same_with_and_without_the_view(folder):
    (folder / "train.py").write_text("pass\n")
    asked = []
    for words in (("--live",), ()):
        with shown(folder, "run", "-q", "--out", f"kept{len(asked)}", *words, "train.py") as view:
            assert view.end() == 0
        (run,) = (folder / f"kept{len(asked)}").iterdir()
        asked.append(json.loads((run / "config.json").read_text()) | {"watcher_pid": 0})
    assert asked[0] == asked[1]


def test_only_the_task_that_leads_shows_anything():
    assert _view(live=True, quiet=True) is live_panel.watch
    assert _view(live=False, quiet=True) is None
    assert _view(live=False, quiet=False) is not live_panel.watch


BARS = """
import sys, time, warnings
warnings.filterwarnings("ignore")
import torch
from rich.progress import track
from tqdm import tqdm
for epoch in tqdm(range(2), desc="epochs"):
    for step in tqdm(range(60), desc="inner", leave=False):
        time.sleep(0.02)
        if step == 30:
            tqdm.write(f"written in {epoch}")
for step in track(range(60), description="rich"):
    time.sleep(0.02)
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, number):
        time.sleep(0.02)
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

from lightning.pytorch.callbacks import RichProgressBar
for bars in ([], [RichProgressBar()]):
    loader = torch.utils.data.DataLoader(torch.ones(60, 2))
    trainer = lightning.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu", callbacks=bars,
        enable_model_summary=False,
    )
    trainer.fit(Module(), loader)
print("over")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("columns", [80, 200])
def test_the_bars_of_tqdm_rich_and_lightning_stay_whole(folder, columns):
    for module in ("torch", "tqdm", "rich", "lightning"):
        pytest.importorskip(module)
    (folder / "train.py").write_text(BARS)
    with shown(folder, "run", "-q", "--live", "train.py", rows=60, columns=columns) as view:
        view.until("written in 1", deadline_s=150)
        assert any(line.startswith(BORDER) for line in view.lines)
        view.until("rich", deadline_s=150)
        assert view.end(deadline_s=300) == 0
    lines = [line for line in view.screen.all_lines if line]
    assert [line for line in lines if line.startswith("written")] == ["written in 0", "written in 1"]
    assert len([line for line in lines if line.startswith("epochs: 100%")]) == 1
    assert len([line for line in lines if line.startswith("inner")]) == 0
    assert len([line for line in lines if line.startswith("rich") and "100%" in line]) == 1
    assert len([line for line in lines if line.startswith("Epoch 0") and "60/60" in line]) == 2
    assert lines.count("over") == 1
    assert BORDER not in "\n".join(lines)
    assert not any("machine  cores" in line for line in lines)


def test_a_spare_keyboard_is_none_where_no_terminal_is_ours(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    opened = []

    def refuse(path, flags):
        opened.append(path)
        raise OSError(6, "No such device or address")

    monkeypatch.setattr(os, "open", refuse)
    with live_panel._spare_keyboard() as keyboard:
        assert not keyboard
    assert opened == ["/dev/tty"]


class Terminal:
    encoding = "utf-8"

    def __init__(self, is_terminal=True):
        self.said = ""
        self.isatty = lambda: is_terminal

    def write(self, text):
        self.said += text

    def flush(self):
        pass


def test_a_view_that_fails_says_so_once_and_ends(folder, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    panel = live_panel._Panel(folder, Keyboard(None))  # no run is there
    lines = panel.follow()
    assert not panel.leaves(threading.Event(), 0.0)
    assert lines(1.0, 80, 40) == []
    assert "the live view failed, the run goes on: NotARun" in sys.stderr.said
    assert panel.leaves(threading.Event(), 0.0)
    assert panel.pause_s() == live_panel.EVERY_S


def test_lines_that_fail_are_said_and_the_command_goes_on(folder, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal(is_terminal=False))
    with live_panel.watch(folder, SimpleNamespace()):
        until_s = time.monotonic() + 60
        while "NotARun" not in sys.stderr.said and time.monotonic() < until_s:
            time.sleep(0.01)
    assert "the live view failed, the run goes on: NotARun" in sys.stderr.said
