from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.watch.log_tail import TAIL_BYTES, last_error, tail


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Traceback\n  File x\nValueError: no such image\n", "ValueError: no such image"),
        (
            "[rank1]: torch.OutOfMemoryError: CUDA out of memory\n",
            "torch.OutOfMemoryError: CUDA out of memory",
        ),
        ("KeyError: 1\nall is well\nTypeError: 2\n", "TypeError: 2"),
        ("an Error: in the middle\n", None),
        ("", None),
    ],
    ids=["traceback", "rank", "last", "prose", "nothing"],
)
def test_the_last_error_is_found(text: str, error: str | None) -> None:
    assert last_error(text) == error


def test_what_a_launcher_says_of_a_rank_counts_only_where_no_rank_says_anything() -> None:
    own = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    assert last_error(f"[rank0]: KeyError: 'x'\n{own}\n") == "KeyError: 'x'"
    assert last_error(f"{own}\n") == own


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff" + b"x" * TAIL_BYTES + b"end")
    assert tail(log).endswith("xend")
    assert len(tail(log)) == TAIL_BYTES
    assert tail(tmp_path / "missing") == ""


def test_of_several_ranks_the_error_of_one_is_told_from_those_of_others() -> None:
    text = "[rank1]: ValueError: no data\n[rank0]: RuntimeError: Connection closed by peer\n"
    assert last_error(text) == "RuntimeError: Connection closed by peer"
    assert last_error(text, 1) == "ValueError: no data"
    assert last_error("ValueError: before it joined\n", 1) is None
