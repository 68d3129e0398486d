"""Which rank failed first, and how, in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfdoctor import reporting
from perfdoctor.render.notes import all_worded
from perfdoctor.runs import exits, job, records
from tests.support.jobs import write_job

S = 1_000_000_000


def failure(rank: int, code: int | None, at_ns: int | None, **more: Any) -> dict[str, Any]:
    told = {"event": "rank_failed", "rank": rank, "pid": 100 + rank, "exitcode": code, "t_ns": at_ns}
    return told | more


def said(*failures: dict[str, Any], restarted: bool = False) -> list[str]:
    return list(exits.sentences(failures, "torchrun", restarted))


@pytest.mark.shows("rank-dies")
def test_the_first_one_is_named_and_the_launcher_ended_the_others() -> None:
    told = said(failure(1, 7, 10), failure(0, -15, 30), failure(2, -15, 31))
    assert told == ["rank 1 failed first, with exit code 7; the others were ended by torchrun"]


@pytest.mark.parametrize(
    ("failures", "sentence"),
    [
        ([failure(1, 7, 10)], "rank 1 failed, with exit code 7"),
        ([failure(1, -9, 10)], "rank 1 failed, killed by signal 9"),
        ([failure(1, None, 10)], "rank 1 ended, before its training did"),
        (
            [failure(1, None, 10), failure(0, None, 20)],
            "rank 1 ended first, before its training did; rank 0 (ended before its training did) followed",
        ),
        (
            [failure(0, None, None), failure(1, None, None)],
            "ranks 0–1 ended before their training did",
        ),
        (
            [failure(1, -9, 10), failure(0, 1, 20)],
            "rank 1 failed first, killed by signal 9; rank 0 (exit code 1) followed",
        ),
        (
            [failure(1, 7, 10), failure(0, 1, 20), failure(2, -15, 30)],
            "rank 1 failed first, with exit code 7; rank 0 (exit code 1), rank 2 (ended by torchrun) followed",
        ),
        ([failure(1, -15, 10), failure(0, -15, 20)], "ranks 0–1 were ended by signal 15"),
        ([failure(1, -2, 10), failure(0, -15, 20)], "ranks 0–1 were ended by signals 2 and 15"),
        ([failure(1, -15, 10)], "rank 1 was ended by signal 15"),
        (
            [failure(1, None, 10), failure(0, -15, 20)],
            "rank 1 ended first, before its training did; the others were ended by torchrun",
        ),
    ],
)
def test_each_kind_of_end_has_its_words(failures: list[dict[str, Any]], sentence: str) -> None:
    assert said(*failures) == [sentence]


def test_nothing_is_said_where_nothing_failed() -> None:
    assert said() == []
    assert said({"event": "something", "rank": 1}) == []


def test_an_end_that_was_told_twice_counts_once_and_from_when_it_was_seen(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2, steps=20, exit_code=1)
    node = tmp_path / "node0"
    by_agent = [
        failure(0, 1, 10 * S),
        failure(1, 7, 11 * S),
    ]  # it looks ten times a second, and lists them by rank
    from_outside = [failure(1, 7, 1 * S), failure(0, 1, 2 * S)]
    (node / "agent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in by_agent + from_outside))
    (told,) = (note for note in all_worded(job.join([node]).notes) if "failed" in note)
    assert told == "rank 1 failed first, with exit code 7; rank 0 (exit code 1) followed"


def test_on_several_nodes_the_time_of_day_tells_who_was_first(tmp_path: Path) -> None:
    folders = write_job(tmp_path, ranks=2, nodes=2, steps=20, exit_code=1).folders
    for rank, folder in enumerate(folders):
        begin_ns = json.loads((folder / "run.json").read_text())["begin_ns"]
        line = failure(rank, 1 + rank, begin_ns + (5 - rank) * S)
        (folder / "agent.jsonl").write_text(json.dumps(line) + "\n")
    (told,) = (note for note in all_worded(job.join(folders).notes) if "failed" in note)
    assert told == "rank 1 failed first, with exit code 2; rank 0 (exit code 1) followed"


def test_each_start_of_the_job_is_told_by_itself() -> None:
    told = said(failure(1, 7, 10), failure(0, 9, 50, attempt=1, pid=300), restarted=True)
    assert told == [
        "attempt 0: rank 1 failed, with exit code 7",
        "attempt 1: rank 0 failed, with exit code 9",
    ]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/env/bin/torchrun", "train.py"], "torchrun"),
        (["python", "-m", "torch.distributed.run", "train.py"], "torchrun"),
        (["mpirun", "-n", "2", "python", "train.py"], "mpirun"),
        (["python", "spawn.py"], "the launcher"),
    ],
)
def test_the_launcher_is_called_by_its_name(command: list[str], name: str) -> None:
    assert exits.launcher(command) == name


def test_a_rank_whose_record_has_no_end_is_lost(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=3, steps=5)
    node = tmp_path / "node0"
    assert exits.lost(records.look(node)) == []
    for rank in (0, 1):
        events = node / f"events.rank{rank}.jsonl"
        events.write_text("".join(events.read_text().splitlines(keepends=True)[:-1]))
    assert [(end["rank"], end["t_ns"]) for end in exits.lost(records.look(node))] == [(0, None), (1, None)]
    lines = [{"event": "rank_ended", "pid": 100_000 + rank, "t_ns": 9 - rank} for rank in (0, 1)]
    (node / exits.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [(end["rank"], end["t_ns"]) for end in exits.lost(records.look(node))] == [(1, 8), (0, 9)]


def test_where_an_end_was_told_nobody_is_guessed_to_be_lost(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2, steps=5)
    node = tmp_path / "node0"
    (node / "events.rank0.jsonl").unlink()
    (node / "agent.jsonl").write_text('{"event": "rank_failed", "rank": 1, "pid": 5, "exitcode": 7}\n')
    assert exits.lost(records.look(node)) == []


def test_beside_ranks_that_a_signal_ended_one_without_an_end_is_lost_where_its_end_was_seen(
    tmp_path: Path,
) -> None:
    write_job(tmp_path, ranks=2, steps=5)
    node = tmp_path / "node0"
    (node / "agent.jsonl").write_text('{"event": "rank_failed", "rank": 0, "pid": 100000, "exitcode": -15}\n')
    events = node / "events.rank1.jsonl"
    events.write_text("".join(events.read_text().splitlines(keepends=True)[:-1]))
    assert exits.lost(records.look(node)) == []
    (node / exits.FILE).write_text('{"event": "rank_ended", "pid": 100001, "t_ns": 9}\n')
    assert [(end["rank"], end["t_ns"]) for end in exits.lost(records.look(node))] == [(1, 9)]


def test_what_is_of_another_type_than_a_launcher_tells_was_not_told(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2, steps=20, exit_code=1)
    node = tmp_path / "node0"
    odd: list[Any] = [[1], {"a": 1}, "x", None, 1.5]
    names = ("exitcode", "pid", "host", "attempt", "t_ns", "rank")
    lines = [failure(1, 7, 10) | {name: value} for name in names for value in odd]
    (node / "agent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts = reporting.judge(node, others=()).job
    assert facts is not None
    assert facts.ranks[1].ended == "exit code 7"
    (node / "agent.jsonl").unlink()
    (node / "events.rank0.jsonl").unlink()
    (node / exits.FILE).write_text("".join(json.dumps({"pid": value, "t_ns": value}) + "\n" for value in odd))
    assert [end["rank"] for end in exits.lost(records.look(node))] == [0]


def test_a_report_tells_which_rank_failed_first(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2, steps=20, exit_code=1)
    node = tmp_path / "node0"
    lines = (failure(1, 7, 10, pid=100_001), failure(0, -15, 20, pid=100_000))
    (node / "agent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    facts = reporting.judge(node, others=()).job
    assert facts is not None
    assert [rank.ended for rank in facts.ranks] == ["killed by signal 15", "exit code 7"]
    sentence = "rank 1 failed first, with exit code 7; the others were ended by torchrun"
    assert [note for note in all_worded(facts.notes) if "failed" in note] == [sentence]


def test_tasks_that_each_have_a_folder_are_told_of_together(tmp_path: Path) -> None:
    folders = write_job(tmp_path, ranks=2, steps=20, per_task=True).folders
    for folder, code, end_ns in zip(folders, (1, 7), (3 * S, 2 * S), strict=True):
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(run | {"exit_code": code, "end_ns": end_ns}))
    (told,) = (note for note in all_worded(job.join(folders).notes) if "failed" in note)
    assert told == "rank 1 failed first, with exit code 7; rank 0 (exit code 1) followed"
