"""Runs the functions of a test module whose names begin with `on_two_ranks_` in two processes that exchange gradients.

    def on_two_ranks_sum():
        value = torch.ones(1)
        distributed.all_reduce(value)
        return value.item()

    @pytest.fixture(scope="module")
    def found():
        return ranks.together(__name__)

    def test_both_are_counted(found):
        assert found["sum"] == 2

Two interpreters for a whole module, since starting them takes longer than what they do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
from torch import distributed

from tests.support.launching import free_port
from tests.support.paths import ROOT

PREFIX = "on_two_ranks_"
STUCK_S = 20  # a rank that waits so long waits for nobody
TIMEOUT_S = 120


def together(module: str) -> dict[str, Any]:
    """What each function returned on rank 0, by its name without the prefix; an error by its text."""
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "tests.support.tweak_ranks", module]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env={**env, "RANK": rank}, stdout=subprocess.PIPE, text=True)
        for rank in "01"
    ]
    try:
        printed = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    return json.loads(printed[0].splitlines()[-1])


def agree(tensor: torch.Tensor | None) -> bool:
    """Whether both ranks have the same bits in `tensor`."""
    assert tensor is not None
    both = [torch.empty_like(tensor) for _ in range(2)]
    distributed.all_gather(both, tensor.contiguous())
    return torch.equal(*both)


def _main(module: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", timeout=timedelta(seconds=STUCK_S))
    found = {}
    for name, function in list(vars(import_module(module)).items()):
        if name.startswith(PREFIX):
            try:
                found[name.removeprefix(PREFIX)] = function()
            except RuntimeError as error:
                found[name.removeprefix(PREFIX)] = f"{type(error).__name__}: {error}"
            distributed.barrier()
    distributed.destroy_process_group()
    time.sleep(
        0.5
    )  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
    print(json.dumps(found))


if __name__ == "__main__":
    _main(sys.argv[1])
