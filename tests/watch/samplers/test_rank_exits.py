"""The ends of processes, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from perfdoctor.runs import exits
from perfdoctor.watch.samplers import rank_exits
from perfdoctor.watch.samplers.processes import ProcessTree
from perfdoctor.watch.samplers.rank_exits import RankExits
from perfdoctor.wire.names import AGENT
from tests.support.processes import wait_for

pytestmark = [pytest.mark.process, pytest.mark.skipif(rank_exits.OPENS is None, reason="only Linux tells")]


class Ranks:
    """Processes that wait to be told how to end; the tree that knows them."""

    def __init__(self, count: int, job: bool = True) -> None:
        code = "import os, sys\nos._exit(int(sys.stdin.readline()))"
        self.processes = [
            subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE) for _ in range(count)
        ]
        self.job = job

    def is_job(self) -> bool:
        return self.job

    def ranks(self, now_s: float) -> dict[str, int]:
        return {f"rank{rank}": process.pid for rank, process in enumerate(self.processes)}

    def look(self, now_s: float) -> list[Any]:
        return [SimpleNamespace(pid=process.pid) for process in self.processes]

    def end(self, rank: int, code: int) -> None:
        stdin = self.processes[rank].stdin
        assert stdin is not None
        stdin.write(b"%d\n" % code)
        stdin.close()

    def reap(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def lines(run: Path) -> list[dict[str, Any]]:
    file = run / AGENT
    return [orjson.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def test_ends_are_written_down_in_their_order_with_their_status(tmp_path: Path) -> None:
    ranks = Ranks(3)
    try:
        watched = RankExits(tmp_path, cast("ProcessTree", ranks))
        watched.tick(0.0)
        ranks.end(2, 7)
        wait_for(lambda: len(lines(tmp_path)) == 1)
        os.kill(ranks.processes[1].pid, signal.SIGKILL)
        wait_for(lambda: len(lines(tmp_path)) == 2)
        ranks.end(0, 0)
        wait_for(lambda: rank_exits.exit_code(ranks.processes[0].pid) == 0)
        watched.close()
    finally:
        ranks.reap()
    found = [(line["rank"], line["exitcode"], line["signal"]) for line in lines(tmp_path)]
    assert found == [(2, 7, None), (1, -9, 9)]  # one that ended well is none that failed
    assert lines(tmp_path)[0]["t_ns"] < lines(tmp_path)[1]["t_ns"]


def test_what_ended_just_before_the_close_is_not_lost(tmp_path: Path) -> None:
    ranks = Ranks(2)
    try:
        watched = RankExits(tmp_path, cast("ProcessTree", ranks))
        watched.tick(0.0)
        ranks.end(1, 3)
        wait_for(lambda: rank_exits.exit_code(ranks.processes[1].pid) == 3)
        watched.close()
    finally:
        ranks.reap()
    assert [line["rank"] for line in lines(tmp_path)] == [1]


def test_a_process_that_its_parent_has_asked_for_tells_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert rank_exits.exit_code(process.pid) is None


def test_a_living_process_has_no_status() -> None:
    assert rank_exits.exit_code(os.getpid()) is None


def test_a_process_alone_is_left_to_its_launcher(tmp_path: Path) -> None:
    ranks = Ranks(1, job=False)
    try:
        watched = RankExits(tmp_path, cast("ProcessTree", ranks))
        watched.tick(0.0)
        ranks.end(0, 5)
        wait_for(lambda: rank_exits.exit_code(ranks.processes[0].pid) == 5)
        watched.close()
    finally:
        ranks.reap()
    assert lines(tmp_path) == []


def test_of_a_rank_whose_parent_was_quicker_only_the_time_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_exits, "exit_code", lambda pid: None)
    ranks = Ranks(2)
    try:
        watched = RankExits(tmp_path, cast("ProcessTree", ranks))
        watched.tick(0.0)
        ranks.end(1, 3)
        wait_for((tmp_path / exits.FILE).exists)
        watched.close()
    finally:
        ranks.reap()
    line = orjson.loads((tmp_path / exits.FILE).read_bytes())
    assert (line["rank"], line["pid"]) == (1, ranks.processes[1].pid)
    assert lines(tmp_path) == []
