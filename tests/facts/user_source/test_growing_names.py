from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.growing_names import growing_name
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SCRIPT = """\
def fit(model, self):
    losses, seen, bank, count, kept = [], [], None, 0, {}
    for x in data:
        losses.append(model(x).item())
        seen += [x]
        bank = torch.cat([bank, x])
        count += 1
        kept["all"].append(x)
        self.errors.append(x)
        limit = median(losses)
        worst = max(seen)
        near = bank @ x
        rate = base / count
        mean = sum(kept["all"])
        last = sum(self.errors) / len(self.errors)
        other = model(x).sum()
        weight = weight * 0.9
"""
SOURCES = Sources(source_of(train=SCRIPT))


@pytest.mark.parametrize(
    ("line", "name", "adds"),
    [
        (10, "losses", 4),
        (11, "seen", 5),
        (12, "bank", 6),
        (6, "bank", 6),
        (14, "kept", 8),
        (15, "self.errors", 9),
    ],
)
def test_a_line_that_works_on_what_grows_tells_its_name_and_the_line_that_adds_to_it(line, name, adds):
    found, at = growing_name(SOURCES, Location(TRAIN, line, "fit"))
    assert (found, at.line) == (name, adds)
    assert at.text == SCRIPT.splitlines()[adds - 1].strip()


@pytest.mark.parametrize("line", [4, 5, 13, 16, 17, 99])
def test_numbers_and_what_stays_as_long_as_it_is_grow_no_list(line):
    assert growing_name(SOURCES, Location(TRAIN, line, "fit")) is None
