from __future__ import annotations

import pytest

from perfdoctor.cli import saved
from perfdoctor.errors import NoSuchRun


def test_the_hint_for_a_run_in_another_folder_names_that_folder(tmp_path):
    with pytest.raises(NoSuchRun) as caught:
        saved.find("no-such-run", str(tmp_path))
    assert caught.value.hint.endswith(f"--out {tmp_path}")
