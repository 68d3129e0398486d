from __future__ import annotations

import pytest

from perfdoctor.facts.host.freed_batches import TakingLines
from perfdoctor.facts.user_source.frames import parse
from perfdoctor.facts.user_source.parse import Sources
from tests.facts.host.test_stacks import at, wrapper
from tests.support.records import source_of


def frees(text, waits=True):
    """Whether time at the first line of a script, below which the loader is waited for, gives batches back."""
    loop = parse(at(1))
    stacks = [((loop, parse(wrapper("data_wait"))) if waits else (loop,), 5)]
    return TakingLines(stacks, Sources(source_of(train=text))).frees((loop,))


@pytest.mark.parametrize(
    "text",
    [
        "for batch in loader:\n    pass",
        "for i, (x, y) in enumerate(self.loader):\n    pass",
        "for one, other in zip(loader, islice(others, 9)):\n    pass",
        "batch = next(batches)",
    ],
)
def test_a_line_that_takes_batches_and_does_nothing_else_gives_them_back(text):
    assert frees(text)
    assert not frees(text, waits=False)


@pytest.mark.parametrize(
    "text",
    ["for batch in map(torch.stack, loader):\n    pass", "x = torch.stack(next(batches))", ""],
)
def test_a_line_that_may_make_something_of_them_does_not(text):
    assert not frees(text)
