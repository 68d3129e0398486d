"""Several files give the same figures whether one process measures them or more."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.errors import NotATrace
from perfdoctor.trace import several
from tests.trace import files


def ranks(tmp_path: Path) -> list[Path]:
    """Files of four ranks, of different lengths."""
    return [
        files.save(
            tmp_path,
            files.in_lines([files.kernel(ts=100 * n) for n in range(1, rank + 3)]),
            f"rank{rank}.json",
        )
        for rank in range(4)
    ]


def test_more_processes_give_the_same_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ranks(tmp_path)
    alone = several.measured(paths, 10**9, cores=1)
    monkeypatch.setattr(several, "ENOUGH_BYTES", 0)
    assert several.measured(paths, 10**9, cores=2) == alone
    assert [trace.rank for trace in alone] == [0, 1, 2, 3]
    assert [trace.device_events for trace in alone] == [2, 3, 4, 5]


def test_a_file_that_cannot_be_read_is_refused_with_its_hint_from_another_process_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several, "ENOUGH_BYTES", 0)
    with pytest.raises(NotATrace, match="is empty") as caught:
        several.measured([*ranks(tmp_path), files.save(tmp_path, b"", "rank4.json")], 10**9, cores=2)
    assert caught.value.hint
