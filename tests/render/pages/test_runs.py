from __future__ import annotations

import json

from perfdoctor.render.documents import report as public
from perfdoctor.render.pages import runs
from tests.support import reports

RUN = {"command": ["python", "/home/ada/train.py"], "exit_code": 0, "outcome": "ok", "cwd": "/home/ada"}
REPORT = json.loads(public.dumps(reports.STARVED))


def test_a_row_says_verdict_steps_step_time_ending_and_command():
    assert runs.row("r1", RUN, REPORT) == ("r1", "data", "400", "61 ms", "finished", "train.py")


def test_a_run_without_a_readable_report_keeps_its_row():
    assert runs.row("r1", {}, {}) == ("r1", "-", "-", "-", "end not seen", "r1")
    odd = runs.row("r1", {"command": 7, "exit_code": "x", "cwd": None}, {"steps": [], "bottleneck": None})
    assert odd[1:4] == ("-", "-", "-")


def test_a_run_with_tweaks_on_says_which_before_its_command():
    tweaks = {"workers": {"value": 4}, "amp": {"amp_dtype": "bf16"}}
    command = runs.row("r1", RUN | {"tweaks": tweaks}, REPORT)[-1]
    assert command == "with --workers 4 --amp --amp-dtype bf16: train.py"
    assert runs.row("r1", RUN | {"tweaks": {}}, REPORT)[-1] == "train.py"
    assert runs.row("r1", RUN | {"tweaks": 7}, REPORT)[-1] == "train.py"


def test_names_are_harmless():
    assert "\x1b" not in "".join(runs.row("a\x1b[2J", {"command": ["\x1b[2J"]}, {}))


def test_columns_line_up_and_the_command_is_cut_at_the_width():
    rows = [runs.row("r1", RUN | {"command": ["x" * 200]}, REPORT), runs.row("longer-name", {}, {})]
    lines = runs.table(rows, 70).splitlines()
    assert lines[0].split() == ["run", "verdict", "steps", "step", "time", "outcome", "command"]
    assert lines[1].index("data") == lines[0].index("verdict")
    assert len(lines[1]) == 70
    assert lines[1].endswith("…")
