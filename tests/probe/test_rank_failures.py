from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.watched import prepared

pytestmark = pytest.mark.process


def test_the_rank_that_failed_first_is_written_first_by_the_process_that_started_it(tmp_path):
    pytest.importorskip("torch")
    env = prepared(tmp_path, "import os, torch\nif os.environ['RANK'] == '1': os._exit(7)")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "script.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=120)
    assert ended.returncode == 1
    lines = [json.loads(line) for line in (tmp_path / "run" / "agent.jsonl").read_text().splitlines()]
    failed = lines[0]  # the launcher ends the others, which come next
    assert failed["event"] == "rank_failed"
    assert (failed["local_rank"], failed["exitcode"], failed["signal"]) == (1, 7, None)
    boots = [json.loads(line) for line in (tmp_path / "run" / "boot.jsonl").read_text().splitlines()]
    assert {boot["job"].get("rank") for boot in boots if boot["pid"] == failed["pid"]} == {1}
