"""Where a rank is, from its stack and from what it says itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.runs.hangs import HungRank
from perfdoctor.watch.samplers import rank_position
from perfdoctor.watch.samplers.pyspy import SampledStack

SITE = "/env/lib/python3.12/site-packages"
C10D = f"{SITE}/torch/distributed/distributed_c10d.py"
STILL = HungRank(0, 7, 62.0)


def seen(*frames: str, thread: int = 7) -> SampledStack:
    return SampledStack(thread, "MainThread", frames, 1)


def test_the_innermost_line_of_the_users_is_where_it_is() -> None:
    stack = seen("<module> (/a/train.py:9)", "step (/a/model.py:4)", f"linear ({SITE}/torch/nn.py:1)")
    found = rank_position.placed(STILL, [seen("idle (/a/x.py:1)", thread=8), stack])
    assert found.at == Location("/a/model.py", 4, "step")
    assert found.functions == ("<module>", "step", "linear")
    assert found.inside is None


def test_a_function_that_ranks_meet_in_is_what_it_is_inside_of() -> None:
    frames = ("<module> (/a/train.py:9)", f"wrapper ({SITE}/torch/distributed/c10d_logger.py:81)")
    found = rank_position.placed(STILL, [seen(*frames, f"barrier ({C10D}:5)", f"_wait ({C10D}:9)")])
    assert found.inside is not None
    assert found.inside.name == "barrier"


def test_frames_of_the_probe_are_not_the_users() -> None:
    ours = f"call ({rank_position.OURS}/probe/patch.py:100)"
    found = rank_position.placed(STILL, [seen("<module> (/a/train.py:9)", ours)])
    assert found.at == Location("/a/train.py", 9, "<module>")
    assert found.functions == ("<module>",)


def test_without_a_stack_nothing_is_known() -> None:
    assert rank_position.placed(STILL, []) == STILL


@pytest.mark.parametrize("data", [b"", b" " * 4000, b" " * 3968 + bytes(60)])
def test_a_rank_outside_of_any_collective_says_nothing(tmp_path: Path, data: bytes) -> None:
    assert rank_position.slot(tmp_path / "missing") is None
    (tmp_path / "file").write_bytes(data)
    assert rank_position.slot(tmp_path / "file") is None
