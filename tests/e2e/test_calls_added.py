"""How many calls watching adds to a step: a bound on its cost that no clock and no other work disturbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.watched import prepared

pytest.importorskip("torch")
pytestmark = pytest.mark.process

# Of a step with a loader, one model, one backward and one optimizer. Counted are calls of functions written in
# Python and of those written in C; what the interpreter does by itself, or by a method of a type, is neither.
PYTHON_CALLS, C_CALLS = 21, 22
# Of a policy of one layer that plays: a call without gradients, hundreds of which may lie between two updates.
PYTHON_CALLS_OF_A_MOVE, C_CALLS_OF_A_MOVE = 8, 10

COUNTING = """
    import itertools, json, sys
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    functions, steps = {}, []

    def count(frame, event, arg):
        if event == "call":
            code = frame.f_code
            key = "python", f"{code.co_filename}:{code.co_name}"
        elif event == "c_call":
            key = "c", f"{frame.f_code.co_filename}:{frame.f_code.co_name} calls {arg.__qualname__}"
        else:
            return
        functions[key] = functions.get(key, 0) + 1
"""

SCRIPT = f"""{COUNTING}
    loader = DataLoader(TensorDataset(torch.randn(400, 4), torch.randn(400, 1)), 1)
    batches = iter(loader)
    for number in range(200):
        functions.clear()
        if 140 <= number < 200:  # between looks, which come at 128 and 256
            sys.setprofile(count)
        x, y = next(batches)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        sys.setprofile(None)
        if 140 <= number < 200:
            steps.append([[*key, calls] for key, calls in functions.items()])
    json.dump(steps, sys.stdout)
"""

MOVES = f"""{COUNTING}
    def play(counts):
        for move in range(6):
            functions.clear()
            if counts:
                sys.setprofile(count)
            model(seen)
            sys.setprofile(None)
            if counts and move >= 2:  # those before tell that they are alike
                steps.append([[*key, calls] for key, calls in functions.items()])

    seen, batch = torch.randn(1, 4), torch.randn(6, 4)
    for number in range(40):
        model.train(sys.argv[1] == "train")
        with torch.no_grad():
            play(counts=number >= 35)  # between looks, which come at 32 and 64
        model.train()
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    json.dump(steps, sys.stdout)
"""


def steps_of(folder: Path, environment: dict[str, str], *given: str) -> list[Counter[tuple[str, str]]]:
    """The calls of each step that the script counted."""
    command = [sys.executable, "script.py", *given]
    printed = subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, timeout=120
    )
    return [
        Counter({(kind, function): calls for kind, function, calls in step})
        for step in json.loads(printed.stdout)
    ]


def usual(steps: list[Counter[tuple[str, str]]]) -> Counter[tuple[str, str]]:
    """The step with the fewest calls: in others something is looked at, in more of them on a busy machine."""
    return min(steps, key=lambda step: step.total())


def test_a_usual_step_has_few_more_calls_watched_than_bare(tmp_path: Path) -> None:
    more, told = added(tmp_path, SCRIPT)
    assert 0 < more["python"] <= PYTHON_CALLS, told
    assert 0 < more["c"] <= C_CALLS, told


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_move_of_a_policy_has_few_more_calls_watched_than_bare(tmp_path: Path, mode: str) -> None:
    more, told = added(tmp_path, MOVES, mode)
    assert 0 < more["python"] <= PYTHON_CALLS_OF_A_MOVE, told
    assert 0 < more["c"] <= C_CALLS_OF_A_MOVE, told


def added(folder: Path, script: str, *given: str) -> tuple[dict[str, int], str]:
    """The calls that watching adds to a usual step, by kind, and which these are."""
    watching = prepared(folder, script)
    bare = usual(steps_of(folder, dict(os.environ), *given))
    watched = usual(steps_of(folder, watching, *given))
    more = {kind: _of(watched, kind) - _of(bare, kind) for kind in ("python", "c")}
    told = "\n".join(f"{calls} {kind} {name}" for (kind, name), calls in sorted((watched - bare).items()))
    return more, told


def _of(step: Counter[tuple[str, str]], kind: str) -> int:
    return sum(calls for (found, _), calls in step.items() if found == kind)
