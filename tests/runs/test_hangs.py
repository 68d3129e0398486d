"""Ranks that stood still, as they are kept and put into words."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from perfdoctor import reporting
from perfdoctor.model.measured import Location
from perfdoctor.runs import hangs
from perfdoctor.runs.hangs import HungRank, Inside
from tests.support.jobs import write_job

HERE = Location("/home/ada/train.py", 20, "evaluate")
WAITS = Inside("all_reduce", 61.2, 120, 360)


def written(folder: Path, *entries: object) -> Path:
    (folder / hangs.FILE).write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    return folder


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    still = HungRank(3, 77, 62.0, HERE, ("<module>", "evaluate"), WAITS, cwd="/home/ada")
    gone = HungRank(1, 78, 62.0, ended=True)
    assert hangs.read(written(tmp_path, hangs.entry(still), hangs.entry(gone))) == {3: still, 1: gone}


def test_steps_that_went_on_leave_nothing(tmp_path: Path) -> None:
    still = hangs.entry(HungRank(0, 77, 62.0))
    assert hangs.read(written(tmp_path, still, {"event": "resumed"})) == {}
    assert set(hangs.read(written(tmp_path, still, {"event": "resumed"}, still | {"rank": 1}))) == {1}


def test_a_later_look_at_a_rank_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    first, second = HungRank(0, 77, 62.0), HungRank(0, 77, 62.0, HERE)
    assert hangs.read(written(tmp_path, hangs.entry(first), hangs.entry(second))) == {0: second}


def test_broken_lines_and_missing_files_are_no_trouble(tmp_path: Path) -> None:
    assert hangs.read(tmp_path) == {}
    good = hangs.entry(HungRank(0, 77, 62.0))
    written(tmp_path, [1], {"event": "stalled"}, good | {"inside": {"odd": 1}}, good | {"at": 3}, good)
    with open(tmp_path / hangs.FILE, "ab") as file:
        file.write(orjson.dumps(good | {"rank": 1, "inside": {"name": "barrier", "step": "x"}}) + b"\n")
    with open(tmp_path / hangs.FILE, "ab") as file:
        file.write(b'{"event": "stal')
    assert set(hangs.read(tmp_path)) == {0}


@pytest.mark.parametrize(
    ("hung", "words"),
    [
        (HungRank(0, 1, 62.0, HERE, inside=WAITS), "all_reduce, step 120, for 61 s"),
        (HungRank(0, 1, 62.0, HERE, inside=Inside("barrier")), "barrier"),
        (HungRank(0, 1, 62.0, HERE, cwd="/home/ada"), "train.py:20 (evaluate)"),
        (HungRank(0, 1, 62.0, HERE, cwd="/home/bob"), "/home/ada/train.py:20 (evaluate)"),
        (HungRank(0, 1, 62.0, functions=("run", "poll")), "poll"),
        (HungRank(0, 1, 62.0, ended=True), "has ended"),
    ],
)
def test_one_rank_is_said_in_a_few_words(hung: HungRank, words: str) -> None:
    assert hung.words == words


def test_ranks_in_the_same_place_are_said_together() -> None:
    waiting = [HungRank(rank, 1, 62.0, inside=WAITS) for rank in (0, 2, 3)]
    late = HungRank(1, 1, 62.0, HERE, cwd="/home/ada")
    said = "no step for 62 s: rank 1 is in train.py:20, ranks 0, 2–3 wait in all_reduce"
    assert hangs.sentence([*waiting, late], 10) == said


def test_ranks_that_wait_in_different_collectives_are_told_apart_by_the_step() -> None:
    waiting = [HungRank(rank, 1, 62.0, inside=Inside("all_reduce", 60.0, 11 + rank)) for rank in (0, 1)]
    said = "no step for 62 s: rank 0 waits in all_reduce of step 11, rank 1 waits in all_reduce of step 12"
    assert hangs.sentence(waiting, 10) == said


def test_a_process_alone_has_no_rank() -> None:
    assert hangs.sentence([HungRank(0, 1, 62.0, HERE)], 10, lone=True) == (
        "no step for 62 s: it is in /home/ada/train.py:20"
    )


def test_a_report_tells_where_ranks_stood_still(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=3, steps=20)
    folder = tmp_path / "node0"
    hung_ranks = (
        HungRank(0, 1, 62.0, inside=WAITS),
        HungRank(1, 2, 62.0, HERE),
        HungRank(2, 3, 62.0, ended=True),
    )
    written(folder, *map(hangs.entry, hung_ranks))
    facts = reporting.judge(folder, others=()).job
    assert facts is not None
    assert [rank.inside for rank in facts.ranks] == [
        "all_reduce, step 120, for 61 s",
        "/home/ada/train.py:20 (evaluate)",
        None,
    ]
