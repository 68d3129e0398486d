"""How much memory is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.tweaks import _memory

GIB = 2**30


def group(folder: Path, limit: str, used: int, files: int, old: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if old else ("memory.max", "memory.current")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{'total_' if old else ''}inactive_file {files}\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_memory, "GROUPS", str(tmp_path))
    monkeypatch.setattr(_memory, "OWN", str(tmp_path / "own"))
    monkeypatch.setattr(_memory, "free_memory_bytes", lambda: float("inf"))
    return tmp_path


def test_without_limits_the_machines_free_memory_counts(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _memory.left_share() == 1.0
    monkeypatch.setattr(_memory, "free_memory_bytes", lambda: 0.0)
    assert _memory.left_share() == 0.0


def test_the_groups_limit_counts_and_file_pages_do_not(groups: Path) -> None:
    (groups / "own").write_text("0::/job/step\n")
    group(groups / "job/step", str(10 * GIB), 8 * GIB, 3 * GIB)
    assert _memory.left_share() == pytest.approx(0.5)


def test_a_container_shows_its_own_group_at_the_mount(groups: Path) -> None:
    (groups / "own").write_text("0::/system.slice/docker.scope\n")
    group(groups, str(4 * GIB), 3 * GIB, 0)
    assert _memory.left_share() == pytest.approx(0.25)


def test_a_group_above_may_have_the_limit(groups: Path) -> None:
    (groups / "own").write_text("0::/slurm/job/step/task\n")
    group(groups / "slurm/job", str(4 * GIB), 3 * GIB, 0)
    group(groups / "slurm/job/step/task", "max", 3 * GIB, 0)
    assert _memory.left_share() == pytest.approx(0.25)


def test_version_one_has_other_names(groups: Path) -> None:
    (groups / "own").write_text("5:cpu,cpuacct:/x\n9:memory:/x\n")
    group(groups / "memory/x", str(4 * GIB), 3 * GIB, GIB, old=True)
    assert _memory.left_share() == pytest.approx(0.5)


def test_a_group_without_a_limit_takes_nothing_away(groups: Path) -> None:
    (groups / "own").write_text("0::/\n")
    group(groups, "max", 3 * GIB, 0)
    assert _memory.left_share() == 1.0
