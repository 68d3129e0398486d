from __future__ import annotations

import pytest

from perfdoctor.errors import NoSuchRun
from perfdoctor.runs import lookup


def test_the_hint_for_a_run_in_another_folder_names_that_folder(tmp_path):
    with pytest.raises(NoSuchRun) as caught:
        lookup.run_directory("no-such-run", str(tmp_path))
    assert caught.value.hint.endswith(f"--out {tmp_path}")


def test_of_several_names_one_that_is_not_there_is_left_to_the_report(tmp_path):
    (tmp_path / "node0").mkdir()
    found = lookup.run_directories(["node0", "node1"], str(tmp_path))
    assert [str(path) for path in found] == [str(tmp_path / "node0"), "node1"]
