from __future__ import annotations

import io
import json

import jsonschema
import pytest

from perfdoctor.cli import app
from perfdoctor.errors import PerfdoctorError
from perfdoctor.watch.machine import history
from tests.support.histories import tried
from tests.support.paths import DOCS

pytestmark = pytest.mark.process

SCHEMA = json.loads((DOCS / "history.schema.json").read_text())


@pytest.fixture
def kept(folder, monkeypatch):
    monkeypatch.setenv(history.VARIABLE, str(folder / "history"))
    return history.file()


@pytest.fixture
def call(kept, capsys):
    """Calls `perfdoctor history` in this process: what it wrote, on both streams."""

    def call(*words: str, status: int = 0):
        with pytest.raises(SystemExit) as end:
            app.start(["history", *words])
        assert (end.value.code or 0) == status
        return capsys.readouterr()

    return call


def test_the_page_shows_the_newest_trials_and_what_all_come_to(kept, call):
    history.add([tried(number, measured=1.5 + 0.5 * (number == 0)) for number in range(12)])
    shown = call("--limit", "2").out
    assert "12 trials of 12 scripts · the newest 2 are shown" in shown
    assert shown.index("train11") < shown.index("train10")
    assert "train9" not in shown
    assert "1.5× (1.10–2.7×)" in shown
    (line,) = (line for line in shown.splitlines() if line.strip().startswith("data"))
    assert line.split() == ["data", "12", "100%", "0%", "this", "machine"]
    assert f"Keptin{kept}" in "".join(shown.split())  # folded where it is long
    assert max(map(len, shown.splitlines())) <= 80


def test_json_has_all_and_obeys_the_schema(kept, call):
    history.add([tried(number) for number in range(12)])
    kept.write_bytes(b"damaged\n" + kept.read_bytes())
    document = json.loads(call("--json", "--limit", "2").out)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [change["script"] for change in document["changes"]] == [f"train{n}" for n in range(11, -1, -1)]
    assert (document["kinds"][0]["cases"], document["kinds"][0]["fitted"]) == (12, True)
    assert document["unread"] == 1


def test_lines_that_cannot_be_read_are_counted_on_the_page(kept, call):
    history.add([tried()])
    kept.write_bytes(b"damaged\n\xff\n" + kept.read_bytes())
    assert "2 lines of the history cannot be read: left out" in call().out
    kept.write_bytes(b"damaged\n")
    assert "1 line of the history cannot be read: left out" in call().out


@pytest.mark.shows("terminal-text")
def test_names_that_could_steer_a_terminal_are_harmless(kept, call):
    history.add([tried(script="a\x1b[2J", device="x\x1b[1m", tweaks=("--\x1b[2J",))])
    assert "\x1b" not in call().out


def test_without_any_trial_it_says_what_to_type_next(kept, call):
    with pytest.raises(PerfdoctorError, match="no predicted change was tried") as told:
        app.start(["history"])
    assert told.value.hint == "try what a run advises: perfdoctor try --auto"
    empty = json.loads(call("--json").out)
    jsonschema.Draft202012Validator(SCHEMA).validate(empty)
    assert empty["changes"] == []


def test_where_it_is_turned_off_or_cannot_be_read_it_says_so(folder, monkeypatch):
    monkeypatch.setenv(history.VARIABLE, history.OFF)
    with pytest.raises(PerfdoctorError, match="no history is kept: PERFDOCTOR_HISTORY is off"):
        app.start(["history"])
    (folder / "file").touch()
    monkeypatch.setenv(history.VARIABLE, str(folder / "file"))
    with pytest.raises(PerfdoctorError, match="cannot be read: Not a directory"):
        app.start(["history"])


def test_clearing_asks_first(kept, call, monkeypatch):
    history.add([tried(1), tried(2)])
    for answer in ("n\n", "\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert "Remove 2 trials in " in call("--clear", status=1).err
        assert kept.exists()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "removed 2 trials in " in call("--clear").err
    assert not kept.exists()


def test_what_only_clearing_needs_is_not_dropped(kept):
    with pytest.raises(PerfdoctorError, match="--yes goes with --clear"):
        app.start(["history", "--yes"])


def test_clearing_does_not_ask_where_told_so(kept, call):
    history.add([tried()])
    assert "removed 1 trial in " in call("--clear", "--yes").err
    assert not kept.exists()
    assert "there is no history" in call("--clear", "--yes").err
