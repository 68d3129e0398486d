"""Look-ups with `max_norm` are told with the line of their table; others are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    plain = nn.Embedding(500, 8)
    short = nn.Embedding(500, 8, max_norm=1.0)
    bags = nn.EmbeddingBag(500, 8, max_norm=1.0)
    opt = torch.optim.SGD([plain.weight, short.weight, bags.weight], lr=0.01)
    for step in range(300):
        ids = torch.randint(500, (64, 4))
        {line}
        loss = x.pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINES = LOOP.splitlines()
CALLED = LINES.index("        {line}") + 1


def line_of(name):
    return next(number for number, text in enumerate(LINES, 1) if text.strip().startswith(f"{name} = "))


def tables(tmp_path, line):
    own = watched(tmp_path, LOOP.format(line=line)).ranks[0]
    looks = own.of("renormalisation_look")
    assert [look["look"] for look in looks] == [1, 2, 3]
    told = own.of("renormalised_table")
    for look in looks:
        same = [event for event in told if event["look"] == look["look"]]
        assert sum(event["seconds"] for event in same) == pytest.approx(look["seconds"])
    return {
        (event["at"]["line"], event["called"]["line"], event["calls"], event["lookups"], event["width"])
        for event in told
    }


def test_tables_are_told_by_the_lines_that_construct_them(tmp_path):
    assert tables(tmp_path, "x = plain(ids) + short(ids) + short(ids[:1]) + bags(ids)[:, None]") == {
        (line_of("short"), CALLED, 2, 64 * 4 + 4, 8),
        (line_of("bags"), CALLED, 1, 64 * 4, 8),
    }


def test_a_function_is_told_by_the_line_that_calls_it(tmp_path):
    line = "x = nn.functional.embedding(ids, (plain.weight * 2).detach(), max_norm=1.0) + plain(ids)"
    assert tables(tmp_path, line) == {(CALLED, CALLED, 1, 64 * 4, 8)}


def test_look_ups_as_they_are_are_not_told(tmp_path):
    assert tables(tmp_path, "x = plain(ids)") == set()
