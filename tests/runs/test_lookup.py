from __future__ import annotations

import pytest

from perfdoctor.errors import NoSuchRun
from perfdoctor.runs import directory, lookup


def test_the_hint_for_a_run_in_another_folder_names_that_folder(tmp_path):
    with pytest.raises(NoSuchRun) as caught:
        lookup.run_directory("no-such-run", str(tmp_path))
    assert caught.value.hint.endswith(f"--out {tmp_path}")


def test_of_several_names_one_that_is_not_there_is_left_to_the_report(tmp_path):
    (tmp_path / "node0").mkdir()
    found = lookup.run_directories(["node0", "node1"], str(tmp_path))
    assert [str(path) for path in found] == [str(tmp_path / "node0"), "node1"]


@pytest.mark.parametrize("below", ["", "runs", ".perfdoctor/runs"])
def test_a_folder_that_holds_runs_stands_for_its_newest(tmp_path, below):
    for second, name in enumerate(["first", "second"]):
        run = tmp_path / below / name
        run.mkdir(parents=True)
        directory.write_json(run / directory.RUN, {"started_epoch_s": 1000.0 * (second + 1)})
    assert lookup.run_directory(str(tmp_path), None) == tmp_path / below / "second"


def test_a_run_directory_is_itself_whatever_lies_in_it(tmp_path):
    (tmp_path / "inner").mkdir()
    for run in (tmp_path, tmp_path / "inner"):
        directory.write_json(run / directory.RUN, {})
    assert lookup.run_directory(str(tmp_path), None) == tmp_path


def test_the_newest_run_is_that_of_any_place_if_it_was_started_here(tmp_path, monkeypatch):
    """Where the folder cannot be written to any more, its runs go to the user's own."""
    monkeypatch.chdir(tmp_path)
    places = [tmp_path / "here", tmp_path / "home"]
    monkeypatch.setattr(directory, "places", lambda out: places)
    for place, cwd, started in ((places[0], tmp_path, 1000.0), (places[1], tmp_path, 2000.0)):
        (place / "a").mkdir(parents=True)
        directory.write_json(place / "a" / directory.RUN, {"cwd": str(cwd), "started_epoch_s": started})
    assert lookup.run_directory(None, None) == places[1] / "a"
    directory.write_json(places[1] / "a" / directory.RUN, {"cwd": "/other", "started_epoch_s": 2000.0})
    assert lookup.run_directory(None, None) == places[0] / "a"
