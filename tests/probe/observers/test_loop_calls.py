from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.loop_calls import LoopCallsEvent
from perfdoctor.wire.step_rows import DISTURBED
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import random
    import sys
    import torch

    BEFORE = None
    LETTERS = [f"letter {number}" for number in range(40)]

    def encode(letter):
        return [ord(character) for character in letter.ljust(12)]

    def draw(letter):
        return random.random()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(12, 1)

        def forward(self, x):
            scale = encode("in the forward")
            return self.inner(x)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    sys.setprofile(BEFORE)
    for step in range(600):
        chosen = [LETTERS[(4 * step + place) % 12] for place in range(4)]
        x = torch.tensor([encode(letter) for letter in chosen], dtype=torch.float32)
        noise = [draw(letter) for letter in chosen]
        loss = model(x).sum()
        assert sys.getprofile() is BEFORE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


BORN = """
    import os

    def born():
        child = os.fork()
        if not child:
            os._exit(sys.getprofile() is not None)
        return child

    def encode"""


def calls(records):
    event = records.ranks[0].of(LoopCallsEvent)[-1]
    return event.steps, {entry["callee"]: entry for entry in event.calls}


def test_calls_between_the_phases_are_compared(tmp_path):
    steps, seen = calls(watched(tmp_path, SCRIPT))
    assert 4 <= steps <= 8
    encoded = seen["encode"]
    assert (encoded["at"]["line"], encoded["line"], encoded["calls"]) == (29, 9, 4 * steps)
    assert encoded["compared"] == encoded["arguments"] + encoded["repeated"]
    assert encoded["repeated"] > 0
    assert seen["draw"]["differed"] > 0
    assert "forward" not in seen


def test_steps_that_were_looked_at_are_not_timed(tmp_path):
    rows = watched(tmp_path, SCRIPT).ranks[0].steps
    assert rows is not None
    assert sum(rows["flags"] & DISTURBED != 0) >= 4


@pytest.mark.slow
def test_a_profile_function_of_the_scripts_stays_and_nothing_is_looked_at(tmp_path):
    own = SCRIPT.replace("BEFORE = None", "BEFORE = lambda frame, event, arg: None")
    assert watched(tmp_path, own).ranks[0].of(LoopCallsEvent) == []


@pytest.mark.slow
def test_children_that_are_born_in_a_look_are_not_looked_at(tmp_path):
    waits = "    assert os.waitpid(born(), 0)[1] == 0\n        noise ="
    forking = SCRIPT.replace("    noise =", waits).replace("    def encode", BORN, 1)
    assert calls(watched(tmp_path, forking))[0] >= 4
