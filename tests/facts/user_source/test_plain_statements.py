from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.plain_statements import PlainStatements

TEXT = """
import numpy as np
import torch

def spread(a, b):
    table = np.cumsum(a) - b
    table[0] = 0
    return table

def scaled(a):
    a.mul_(2)
    return a

class Hook:
    def __init__(self, given):
        self.given, self.rows, self.count, self.total = given, [], 0, 0.0
    def after(self, state, values):
        local = np.zeros(3)
        {said}
"""


def holds(said: str) -> bool:
    listing = Listing(dedent(TEXT).strip("\n").replace("{said}", said).split("\n"))
    finder = EffectsFinder(listing)
    (function,) = finder.file.functions["after"]
    return PlainStatements(finder, function).holds(function.body[1])


@pytest.mark.parametrize(
    "said",
    [
        "found = spread(values, 3)",
        "self.latest = state.forecast.detach().cpu().numpy().mean(0)",
        "norms = [p.grad.norm().item() for p in state.model.parameters()]",
        "self.rows.append(float(state.loss))",
        "self.count += 1",
        "local[1] = values.max()",
        "first, (second, third) = values",
        "print(f'{values:.2f}', len(values), sep=', ')",
        "text = ', '.join(map(str, sorted(values)))",
        "value = state.logs.get('loss')",
        "writer.add_scalar('loss', values, state.step)",
        "for value in zip(values, self.rows): pass",
        "with torch.no_grad(): pass",
        "entropy = -(values * torch.log(values)).sum()",
    ],
)
def test_what_computes_keeps_and_reports_is_plain(said):
    assert holds(said)


@pytest.mark.parametrize(
    "said",
    [
        "state.latest = values",
        "self.given[0] = values",
        "values[0] = 1",
        "values += 1",
        "self.given *= 2",
        "scaled(values)",
        "values.mul_(2)",
        "values.clip(0, 1, out=values)",
        "state.model.cpu()",
        "self.given.append(values)",
        "self.given.update(values)",
        "unknown(values)",
        "np.random.shuffle(values)",
        "np.add(values, 1, values)",
        "torch.randn(3)",
        "value = next(values)",
        "value = getattr(state, 'x')",
        "value = state.queue.get()",
        "value = (lambda: 1)()",
        "value = self.after",
        "value = state.__dict__",
        "value = state.dataset[0]",
        "self.log('loss', values)",
        "np.save('x.npy', values)",
        "if (n := len(values)) > 3: pass",
        "try: pass\n        finally: pass",
        "def inner(): pass",
    ],
)
def test_what_may_change_something_of_others_is_not(said):
    assert not holds(said)
