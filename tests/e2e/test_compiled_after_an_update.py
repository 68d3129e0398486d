"""What a script compiles, exports or traces right after an update is what it gets by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.watched import prepared, read

pytest.importorskip("torch")
pytestmark = [pytest.mark.process, pytest.mark.slow]

# After 67 updates a look at the calls of a step has begun.
TRAINED = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(67):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
"""

EXPORTED = """
model.eval()
print(torch.export.export(model, (torch.randn(4, 8),), strict=True).graph)
"""
COMPILED = """
import torch._dynamo.testing
counter = torch._dynamo.testing.CompileCounter()
compiled = torch.compile(lambda x: torch.relu(x @ torch.eye(8)).sum(), backend=counter, fullgraph=True)
print(compiled(torch.ones(2, 8)), counter.frame_count, counter.op_count)
"""
TRACED = """
print(torch.jit.trace(model, torch.randn(4, 8)).graph)
"""


@pytest.mark.shows("guest")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(EXPORTED, id="exported"),
        pytest.param(COMPILED, id="compiled"),
        pytest.param(TRACED, id="traced"),
    ],
)
def test_right_after_an_update(tmp_path: Path, code: str) -> None:
    watching = prepared(tmp_path, TRAINED + code)
    bare, watched = (
        subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        for environment in (dict(os.environ), watching)
    )
    assert (watched.returncode, watched.stdout) == (bare.returncode, bare.stdout), watched.stderr
    assert bare.returncode == 0
    read(tmp_path)
