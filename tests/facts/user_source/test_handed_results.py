from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.handed_results import is_handed_results
from perfdoctor.facts.user_source.loop_roles import Loop
from perfdoctor.facts.user_source.parse import Listing

BEFORE = """\
for step, (x, y) in enumerate(loader):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    {}"""


@pytest.mark.parametrize(
    ("text", "handed"),
    [
        ("wandb.log({'loss': loss})", True),
        ("total = total + loss.detach()\n    wandb.log({'loss': total})", True),
        ("losses.append(loss)\n    wandb.log({'loss': sum(losses)})", True),
        ("wandb.log({'step': step})", False),
        ("total += loss.item()\n    wandb.log({'loss': total})", False),
        ("loss = loss.item()\n    wandb.log({'loss': loss})", False),
        ("acc = accuracy(out, y)\n    wandb.log({'acc': acc})", False),
    ],
)
def test_names_are_followed_from_the_model_to_the_line(text, handed):
    lines = BEFORE.format(text).split("\n")
    loop = Loop(Listing(lines), (2, 3, 4))
    assert is_handed_results(loop, len(lines), {"accuracy"}) is handed
