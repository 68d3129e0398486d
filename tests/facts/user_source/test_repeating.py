from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.repeating import repeating_line
from perfdoctor.model.measured import Location
from tests.support.records import source_of

TRAIN = "/home/me/train.py"


def repeats(text):
    """The text of the line that repeats what the marked line is given."""
    text = dedent(text).strip("\n")
    line = next(number for number, one in enumerate(text.split("\n"), 1) if "# here" in one)
    found = repeating_line(Sources(source_of(train=text)), Location(TRAIN, line, "forward"))
    return found.text if found is not None else None


@pytest.mark.parametrize(
    "repeated",
    [
        "x.repeat_interleave(5, 0)",
        "x[:, None].expand(-1, 5, -1).flatten(0, 1)",
        "torch.index_select(x, 0, index)",
        "x[index]",
        "x[batch.people]",
    ],
)
def test_the_statement_before_the_call_is_named(repeated):
    text = f"def forward(self, x, y):\n    rows = {repeated}\n    return self.encoder(rows)  # here"
    assert repeats(text) == f"rows = {repeated}"


def test_the_call_itself_may_repeat():
    assert repeats("encoded = encoder(x.repeat(5, 1))  # here") == "encoded = encoder(x.repeat(5, 1))  # here"


def test_names_are_followed():
    text = """
    def forward(self, x):
        rows = x.expand(64, -1)
        rows = self.words(rows)
        given = rows + self.places
        return self.encoder(given, mask=None)  # here
    """
    assert repeats(text) == "rows = x.expand(64, -1)"


def test_a_parameter_is_followed_to_the_functions_caller():
    text = """
    def encode(given):
        return encoder(given)  # here

    def main():
        for x, y in loader:
            rows = x.repeat(4, 1)
            loss = encode(rows)
    """
    assert repeats(text) == "rows = x.repeat(4, 1)"


def test_a_line_that_repeats_nothing_names_none():
    assert repeats("for x, y in loader:\n    loss = model(x)  # here") is None
    assert repeats("def forward(self, x):\n    return self.encoder(x[0], x[:, 1:])  # here") is None
    assert repeats("encoded = # here") is None
