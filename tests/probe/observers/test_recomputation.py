from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.recomputation import RecomputationEvent
from tests.support.watched import seconds, watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from functools import partial
    from torch import nn
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential
    torch.manual_seed(0)
    blocks = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)])
    head = nn.Linear(64, 1)
    optimizer = torch.optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1)
    checkpointed = partial(checkpoint, use_reentrant={reentrant})
    x = torch.randn(512, 64, requires_grad=True)
    for step in range(10):
        hidden = x
        {forward}
        optimizer.zero_grad()
        head(hidden).mean().backward()
        optimizer.step()
"""
EACH = "for block in blocks: hidden = checkpointed(block, hidden)"


def totals(tmp_path, forward=EACH, reentrant=False):
    records = watched(tmp_path, SCRIPT.format(forward=forward, reentrant=reentrant))
    return records, records.ranks[0].of(RecomputationEvent)


@pytest.mark.parametrize("reentrant", [True, False])
def test_each_part_that_runs_again_is_timed_with_the_line_that_ran_it(tmp_path, reentrant):
    records, (*_, last) = totals(tmp_path, reentrant=reentrant)
    assert last.calls == 4 * 10
    assert 0 < last.seconds < seconds(records.ranks[0].steps, "backward")  # the first has a row of its own
    assert last.at["line"] == 14


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_sequence_has_one_recomputation_for_each_segment_but_the_last(tmp_path, reentrant):
    forward = f"hidden = checkpoint_sequential(blocks, 2, hidden, use_reentrant={reentrant})"
    assert totals(tmp_path, forward)[1][-1].calls == 10


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [True, False])
def test_one_within_another_is_timed_as_well(tmp_path, reentrant):
    forward = "hidden = checkpointed(lambda y: checkpointed(blocks[1], blocks[0](y)), hidden)"
    assert totals(tmp_path, forward, reentrant)[1][-1].calls == 2 * 10


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [True, False])
def test_what_does_not_run_again_writes_nothing(tmp_path, reentrant):
    without = "with torch.no_grad(): hidden = checkpointed(blocks, hidden)"
    assert totals(tmp_path, without, reentrant)[1] == []
